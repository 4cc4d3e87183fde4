"""Crafted `.ingot` files: nothing in them runs or is imported, and each fault is a FormatError that names its place."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import fresh
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from crafted import seal, sections

import ingot
from ingot.engine import _engine, _library

CLI = _library.find("ingot")


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A module that says when it is imported, and a library that says when it is opened."""
    folder = tmp_path / "trap"
    folder.mkdir()
    (folder / "trapped.py").write_text("import pathlib\npathlib.Path(__file__).with_name('sprung').touch()\ndef factory(): pass\n")
    monkeypatch.syspath_prepend(str(folder))
    yield "trapped"
    assert not (folder / "sprung").exists() and "trapped" not in sys.modules


def refused(path, kind=ingot.FormatError):
    with pytest.raises(ingot.Error) as caught:
        ingot.load(path)
    assert type(caught.value) is kind, repr(caught.value)
    return caught.value.message


def of_torch(kind, context, children="[]"):
    return f'[1, {{"type": "builtins.tuple", "context": "null", "children_spec": [{{"type": "{kind}", "context": {json.dumps(context)}, "children_spec": {children}}}]}}]'


LEAF = '[{"type": null, "context": null, "children_spec": []}]'


def test_a_signature_imports_nothing(source, trap, tmp_path):
    enum = json.dumps([{"__enum__": True, "fqn": f"{trap}:x", "name": "y"}])
    texts = [
        json.dumps({"in_spec": of_torch(kind, context, LEAF), "out_spec": of_torch(kind, context, LEAF)})
        for kind, context in [
            ("builtins.dict", enum),
            ("collections.OrderedDict", enum),
            ("torch.fx.immutable_collections.immutable_dict", enum),
            ("collections.defaultdict", {"default_factory_module": trap, "default_factory_name": "factory", "dict_context": ["a"]}),
            ("collections.namedtuple", f"{trap}.Named"),
            (f"{trap}.Node", "null"),
        ]
    ]
    library = json.dumps([{"__enum__": True, "fqn": "ctypes:cdll", "name": "./x.so"}])
    texts.append(json.dumps({"in_spec": of_torch("builtins.dict", library, LEAF), "out_spec": of_torch("builtins.dict", library, LEAF)}))
    for text in texts:
        source.write(tmp_path / "x.ingot", text)
        with pytest.raises((ingot.FormatError, ingot.UnsupportedError)):
            ingot.load(tmp_path / "x.ingot")
    named = {"is": "namedtuple", "name": f"{trap}:Named", "keys": ["a"], "of": ["*"]}
    source.write(tmp_path / "x.ingot", out=named)
    loaded = ingot.load(tmp_path / "x.ingot")
    result = loaded(torch.ones(3, 4))
    assert result._fields == ("a",)  # made of its fields
    with pytest.raises(pickle.PicklingError):  # which imports the module of a class
        pickle.dumps(type(result))
    ingot.save(loaded, tmp_path / "again.ingot")
    assert f"{trap}:Named" in ingot.load_engine(tmp_path / "again.ingot").signature["out"]["name"]
    source.write(tmp_path / "x.ingot", out={"is": "node", "name": f"{trap}:Named", "context": None, "of": ["*"]})
    assert refused(tmp_path / "x.ingot", ingot.UnsupportedError).startswith(f"the model takes or gives a {trap}:Named, which this program has not registered")


class Pickled:
    def __reduce__(self):
        return os.system, ("touch sprung",)


def test_a_plan_with_something_behind_its_end(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    archive = io.BytesIO()
    torch.save(Pickled(), archive)
    with zipfile.ZipFile(archive, "a") as more:
        more.writestr("archive/models/model.json", "{}")
    good = source.plan()
    for tail in (archive.getvalue(), b"\0", bytes(4096)):
        Path("x.ingot").write_bytes(good + tail)
        message = f"x.ingot: there is something after the end of the plan: it ends at byte {len(good)}, the file has {len(good) + len(tail)}"
        assert refused("x.ingot") == message
        for call in (lambda: ingot.load("x.ingot", trust="code"), lambda: ingot.load("x.ingot", mmap=False), lambda: ingot.load_engine("x.ingot"), lambda: _engine.load_engine(good + tail)):
            with pytest.raises(ingot.FormatError, match="there is something after the end of the plan"):
                call()
        for verb in ("run", "verify", "inspect", "bench"):
            done = subprocess.run([CLI, verb, "x.ingot"], capture_output=True, text=True)
            assert done.returncode == 15 and message in done.stderr
    with pytest.raises((ingot.InputError, ingot.FormatError)):  # the archive alone is not a program either
        Path("x.pt2").write_bytes(archive.getvalue())
        ingot.load("x.pt2")
    assert not Path("sprung").exists()


def deep(n):
    found = "*"
    for _ in range(n):
        found = {"is": "list", "of": [found]}
    return found


def size(text="s", axes=None):
    return {"outputs": [{"size": {"text": text, "axes": {"s": [0, 0]} if axes is None else axes}}]}


CALL = {"is": "tuple", "of": [{"is": "tuple", "of": ["*"]}, {"is": "dict", "keys": [], "of": []}]}
FAULTS = {
    "signature.ingot is 2, and 1 is known": {"ingot": 2},
    "signature.ingot is a list, and 1 is known": {"ingot": [1]},
    "signature.ingot is True, and 1 is known": {"ingot": True},
    "signature.inputs is not a list of objects with one key each": {"inputs": None},
    "signature.outputs is not a list of objects with one key each": {"outputs": [{"tensor": 0, "size": 1}]},
    "signature.inputs[0].tensor is 1, and 0 comes next": {"inputs": [{"tensor": 1}]},
    "signature.inputs[0].tensor is '0', and 0 comes next": {"inputs": [{"tensor": "0"}]},
    "signature.inputs has 0 tensors, and the engine 1": {"inputs": [{"constant": 0}]},
    "signature.inputs[1].constant is a list, which is not a constant": {"inputs": [{"tensor": 0}, {"constant": []}]},
    "signature.inputs[1].constant is a int, which is not a constant": {"inputs": [{"tensor": 0}, {"constant": 10**4000}]},
    "signature.inputs[1] is of the unknown kind 'number'": {"inputs": [{"tensor": 0}, {"number": "x"}]},
    "signature.outputs[0].tensor is 1, and the engine has 1": {"outputs": [{"tensor": 1}]},
    "signature.outputs[0].tensor is -1, not the number of an output": {"outputs": [{"tensor": -1}]},
    "signature.outputs[0].tensor is 0.0, not the number of an output": {"outputs": [{"tensor": 0.0}]},
    "signature.outputs[0].tensor is True, not the number of an output": {"outputs": [{"tensor": True}]},
    "signature.outputs[0].size is not an object with text and axes": {"outputs": [{"size": {"text": "1"}}]},
    "signature.outputs[0].size.text is '9**9**9**9', which is not an expression over sizes: an operand is missing before '*'": size("9**9**9**9"),
    "signature.outputs[0].size.text is '__import__(0)', which is not an expression over sizes: '__import__' is unknown": size("__import__(0)"),
    "signature.outputs[0].size.text is 's.x', which is not an expression over sizes: '.x' is unknown": size("s.x"),
    "signature.outputs[0].size.axes.s is a list, not [input, axis] or [input, axis, factor, offset]": size(axes={"s": [0, -1]}),
    "signature.outputs[0].size.axes.two is a list, not [input, axis] or [input, axis, factor, offset]": size(axes={"two": [0, 0, 2]}),
    "signature.outputs[0].size.axes.zero is a list, not [input, axis] or [input, axis, factor, offset]": size(axes={"zero": [0, 0, 0, 1]}),
    "signature.outputs[0].size.axes.half is a list, not [input, axis] or [input, axis, factor, offset]": size(axes={"half": [0, 0, 0.5, 1]}),
    "signature.outputs[0].size.axes.large is a list, not [input, axis] or [input, axis, factor, offset]": size(axes={"large": [0, 0, 1, 2**64]}),
    "signature.outputs[0].size.axes.s is axis 2 of input 0, which has 2": size(axes={"s": [0, 2]}),
    "signature.tied is not an object of names": {"tied": []},
    "signature.unused is not a list of names": {"unused": [1]},
    "signature.lies is a list, not an object": {"lies": []},
    "signature.lies.x is neither an order of axes nor strides, with axes of size 1 or without": {"lies": {"x": {"order": [0, 0]}}},
    "signature.lies.y is neither an order of axes nor strides, with axes of size 1 or without": {"lies": {"y": {"strides": [0.5], "ones": []}}},
    "signature.lies.z is neither an order of axes nor strides, with axes of size 1 or without": {"lies": {"z": {}}},
    "signature.lies.w is neither an order of axes nor strides, with axes of size 1 or without": {"lies": {"w": {"order": [0], "offset": []}}},
    "signature.lies.nobody is not an input of that many axes": {"lies": {"nobody": {"order": [1, 0]}}},
    "signature.parameters is a dict, not a list": {"parameters": {}},
    "signature.parameters[0] is not an object with name and kind": {"parameters": [{"name": "x"}]},
    "signature.parameters[0].name is 3, which is not a name of its own": {"parameters": [{"name": 3, "kind": "either"}]},
    "signature.parameters[1].name is 'x', which is not a name of its own": {"parameters": [{"name": "x", "kind": "either"}] * 2},
    "signature.parameters[0].kind is a list, which is unknown": {"parameters": [{"name": "x", "kind": []}]},
    "signature.parameters[0].default is a dict, which is not a constant": {"parameters": [{"name": "x", "kind": "either", "default": {}}]},
    'signature.in: a structure is "*" or an object with "is" and "of"': {"in": None},
    "signature.in: it is not a tuple of arguments and a dict of keywords": {"in": "*"},
    "signature.out: the structure is of the unknown kind 'set'": {"out": {"is": "set", "of": [], "name": ""}},
    "signature.out has 2 leaves, and there are 1 outputs": {"out": {"is": "list", "of": ["*", "*"]}},
    "signature.in has 0 leaves, and there are 1 inputs": {"in": {"is": "tuple", "of": [{"is": "tuple", "of": []}, {"is": "dict", "keys": [], "of": []}]}},
    "signature.out: its keys are not 1 of str, int, bool": {"out": {"is": "dict", "keys": [None], "of": ["*"]}},
    "signature.out: a key stands there twice": {"out": {"is": "dict", "keys": [1, True], "of": ["*", "*"]}},
    "signature.out: a field of a namedtuple begins with _": {"out": {"is": "namedtuple", "name": "a:B", "keys": ["_x"], "of": ["*"]}},
    "signature.out: 'class' is not a name in Python": {"out": {"is": "namedtuple", "name": "a:B", "keys": ["class"], "of": ["*"]}},
    "signature.out: 'x=print(1)' is not a name in Python": {"out": {"is": "namedtuple", "name": "a:B", "keys": ["x=print(1)"], "of": ["*"]}},
    "signature.out: torch has no return type 'nothing' of 1 values": {"out": {"is": "return_type", "name": "nothing", "of": ["*"]}},
    "signature.out: torch has no return type 'topk' of 1 values": {"out": {"is": "return_type", "name": "topk", "of": ["*"]}},
    f"signature.out{'.of[0]' * 50}: it is nested more than 50 deep": {"out": deep(60)},
}


@pytest.mark.parametrize("message", FAULTS, ids=lambda m: m[:60])
def test_a_fault_of_the_signature_has_its_place(source, tmp_path, message):
    assert refused(source.write(tmp_path / "x.ingot", **FAULTS[message])) == message


def test_results_that_are_left_out_or_come_twice(source, tmp_path):
    x = torch.ones(3, 4)
    want = source.module(x)
    for outputs, out, count in (([], {"is": "list", "of": []}, 0), ([{"tensor": 0}] * 2, {"is": "list", "of": ["*", "*"]}, 2)):
        got = ingot.load(source.write(tmp_path / "x.ingot", outputs=outputs, out=out))(x)
        assert len(got) == count and all(torch.equal(one, want) for one in got)


def test_texts_that_are_no_signature(source, tmp_path):
    """A text of another program is accepted as no signature; a text that is almost a signature is an error."""
    for text in ("", "null", "hello", "[" * 100000, '{"of": "another"}', "[]", "{}", "NaN"):
        loaded = ingot.load(source.write(tmp_path / "x.ingot", text))
        assert loaded(torch.ones(3, 4)).shape == (3, 2)
    for text in ('{"ingot": 1', '{"ingot": 1, "inputs": ' + "[" * 100000, '{"ingot": ' + "9" * 5000 + "}"):
        assert refused(source.write(tmp_path / "x.ingot", text)) == "the plan's signature is not JSON"
    for spec in ("", "null", "[1]", "[2, {}]", "[1, null]", "[" * 100000, '[1, {"type": "builtins.tuple"}]', of_torch("builtins.dict", "[")):
        assert refused(source.write(tmp_path / "x.ingot", json.dumps({"in_spec": spec, "out_spec": spec}))).startswith("signature.in_spec: ")
    half = json.dumps({**source.signature, "unused": ["\ud800"]})
    assert "\\ud800" in half and refused(source.write(tmp_path / "x.ingot", half)) == "signature.unused is not a list of names"


def test_sizes_take_no_longer_than_their_text(source, tmp_path):
    start = time.monotonic()
    for text in ("9**9**9**9", "s*" * 100000 + "s", "(" * 100000 + "s", "max(" * 100000 + "s", "-" * 100000 + "s", "9" * 1000000, "floordiv(s, 0)", "mod(1, s-s)", "s*" * 500 + "s"):
        try:
            ingot.load(source.write(tmp_path / "x.ingot", **size(text)))(torch.ones(3, 4))
        except ingot.Error as problem:
            assert type(problem) in (ingot.FormatError, ingot.InputError)
    assert time.monotonic() - start < 20


def test_texts_that_are_no_utf8(source, tmp_path):
    good = source.plan()
    (begin, end), _ = sections(good)
    for word in (b"forward", b"float32", b"0.weight", b'"outputs"', b"addmm"):
        at = good.find(word, begin, end)
        if at < 0:
            continue
        bad = seal(good[: at + 1] + b"\xff" + good[at + 2 :])
        (tmp_path / "x.ingot").write_bytes(bad)
        assert " is not UTF-8 text at its byte " in refused(tmp_path / "x.ingot")
        for verb in ("run", "verify", "inspect", "bench"):
            done = subprocess.run([CLI, verb, tmp_path / "x.ingot"], capture_output=True, text=True)
            assert done.returncode == 15 and " is not UTF-8 text at its byte " in done.stderr
    assert seal(good) == good


FOLLOWED = """
import os, sys, torch, ingot
torch.set_grad_enabled(False)
module = ingot.load(sys.argv[1], mmap=False)
x = torch.ones(3, 64)
want = module(x)
os.truncate(sys.argv[1], 100)
assert torch.equal(module(x), want)
ingot.save(module, sys.argv[1])
assert torch.equal(ingot.load(sys.argv[1])(x), want)
print("well")
"""


def test_a_file_that_is_cut_off_while_it_is_loaded(tmp_path):
    torch.manual_seed(0)
    big = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).eval()
    module = ingot.compile(big, inputs=[torch.ones(3, 64)])
    ingot.save(module, tmp_path / "x.ingot")
    done = fresh.run(FOLLOWED, tmp_path / "x.ingot")
    assert done.stdout == "well\n", done.stderr
    # If ingot.save replaces a mapped file, the processes that mapped it see no change.
    loaded, x = ingot.load(tmp_path / "x.ingot"), torch.ones(3, 64)
    want = loaded(x)
    module.update_weights({n: torch.zeros_like(t) for n, t in big.state_dict().items()})
    ingot.save(module, tmp_path / "x.ingot")
    ingot.save(loaded, tmp_path / "y.ingot")
    assert torch.equal(loaded(x), want) and torch.equal(ingot.load(tmp_path / "y.ingot")(x), want)


def test_checksums_of_weights(source, tmp_path):
    good = source.plan()
    _, (begin, end) = sections(good)
    bad = bytearray(good)
    bad[begin + 5] ^= 1
    (tmp_path / "x.ingot").write_bytes(bad)
    path = tmp_path / "x.ingot"
    ingot.load(path)  # the weights are not read
    message = f"{path}: the plan is damaged: its weights do not match their checksum"
    for options in ({"mmap": False}, {"trust": "data"}):
        for load in (ingot.load, ingot.load_engine):
            with pytest.raises(ingot.FormatError) as caught:
                load(path, **options)
            assert caught.value.message == message
    for arguments in (["verify", path], ["run", path, "--no-mmap"], ["run", path, "--trust", "data"], ["bench", path, "--trust", "data"]):
        done = subprocess.run([CLI, *arguments], capture_output=True, text=True)
        assert done.returncode == 15 and message in done.stderr
    assert subprocess.run([CLI, "run", path], capture_output=True).returncode == 0


def test_levels_of_trust(source, tmp_path):
    path, x = source.write(tmp_path / "x.ingot"), torch.ones(3, 4)
    want = source.module(x)
    for trust in ("auto", "data", "code"):
        assert torch.equal(ingot.load(path, trust=trust)(x), want)
        assert subprocess.run([CLI, "run", path, "--trust", trust], capture_output=True).returncode == 0
    for call in (lambda: ingot.load(path, trust="all"), lambda: ingot.load_engine(path, trust=None)):
        with pytest.raises(ingot.OptionError, match="is not known"):
            call()
    assert subprocess.run([CLI, "run", path, "--trust", "all"], capture_output=True).returncode == 2
