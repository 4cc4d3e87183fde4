"""torch's files are opened only if the user says so, and their pickles are read without restriction only if they are trusted as code."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile

import pytest
import torch

import ingot
from ingot.engine import _library
from ingot.saving import torch_archive


@pytest.fixture(scope="module")
def program(source, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "x.pt2"
    ingot.save(source.module, path, format="exported_program")
    return path


sprung = []


class Trap:
    def __reduce__(self):
        return sprung.append, (1,)


def trapped():
    data = io.BytesIO()
    torch.save((Trap(),), data)
    return data.getvalue()


@pytest.fixture(autouse=True)
def nothing_ran(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "sprung", [])
    yield
    assert not sprung


def changed(program, path, change):
    """The archive with its records changed: {name without the folder: bytes or None} -> more or other ones."""
    with zipfile.ZipFile(program) as archive:
        folder = archive.namelist()[0].split("/")[0]
        records = {n.removeprefix(folder + "/"): archive.read(n) for n in archive.namelist()}
    change(records)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in records.items():
            archive.writestr(f"{folder}/{name}", data)
    return path


def told(kind, call):
    with pytest.raises(ingot.Error) as caught:
        call()
    assert type(caught.value) is kind, repr(caught.value)
    return caught.value.message


def test_the_format_is_what_the_first_bytes_say(source, program, tmp_path):
    plan = source.write(tmp_path / "plan.pt2")
    assert ingot.load(plan)(torch.ones(3, 4)).shape == (3, 2)
    assert ingot.load(plan, format="ingot")(torch.ones(3, 4)).shape == (3, 2)
    assert told(ingot.FormatError, lambda: ingot.load(plan, format="exported_program")) == f"{plan} is not an archive of torch's, and the format asked for is 'exported_program'"
    assert told(ingot.FormatError, lambda: ingot.load(program, format="ingot")) == f"{program} is a program of torch's, and the format asked for is 'ingot'"
    assert told(ingot.FormatError, lambda: ingot.load(program, format="aot_inductor")) == f"{program} is a program of torch's, and the format asked for is 'aot_inductor'"
    assert told(ingot.OptionError, lambda: ingot.load(program, format="onnx")) == "format 'onnx' is not known"
    (tmp_path / "x").write_bytes(b"something else" * 100)
    assert told(ingot.FormatError, lambda: ingot.load(tmp_path / "x")) == f"{tmp_path / 'x'}: this is not a plan: it does not start as one"
    (tmp_path / "x").write_bytes(b"")
    assert told(ingot.FormatError, lambda: ingot.load(tmp_path / "x")) == f"{tmp_path / 'x'}: this is not a plan: 0 bytes are too few"
    assert told(ingot.IoError, lambda: ingot.load(tmp_path / "nothing")) == f"cannot open {tmp_path / 'nothing'}: No such file or directory"
    (tmp_path / "x").write_bytes(b"PK\x03\x04 and no more")
    assert told(ingot.FormatError, lambda: ingot.load(tmp_path / "x")).startswith(f"{tmp_path / 'x'} is not a readable .pt2 archive: ")


def test_a_program_is_opened_by_its_name_or_by_trust(source, program, tmp_path):
    x = torch.ones(3, 4)
    want = source.module(x)
    assert torch.equal(ingot.load(program)(x), want) and torch.equal(ingot.load(program, trust="code")(x), want)
    other = tmp_path / "x.ingot"
    other.write_bytes(program.read_bytes())
    for call in (lambda: ingot.load(other), lambda: ingot.load(other, trust="data"), lambda: ingot.load(program, trust="data")):
        assert told(ingot.InputError, call).endswith(" is a program of torch's: loading it may run any code")
    assert torch.equal(ingot.load(other, trust="code")(x), want)


def test_a_package_always_needs_trust(program, tmp_path):
    path = changed(program, tmp_path / "x.pt2", lambda records: records.update({"data/aotinductor/model/x.so": b"no library"}))
    for call in (lambda: ingot.load(path), lambda: ingot.load(path, trust="data")):
        assert told(ingot.InputError, call) == f"{path} is an AOTInductor package: loading it may run any code"
    path = changed(program, tmp_path / "y.pt2", lambda records: records.update({"data/AOTInductor/model/x.so": b"no library"}))
    assert told(ingot.InputError, lambda: ingot.load(path)) == f"{path} is an AOTInductor package: loading it may run any code"


def test_pickles_are_read_with_restriction_and_never_without(program, tmp_path):
    def sample_inputs(records):
        assert "data/sample_inputs/model.pt" in records
        records["data/sample_inputs/model.pt"] = trapped()

    def other_case(records):
        records["data/sample_inputs/MODEL.pt"] = records.pop("data/sample_inputs/model.pt") and trapped()

    def weights(records):
        config = json.loads(records["data/weights/model_weights_config.json"])
        for entry in config["config"].values():
            entry["use_pickle"] = True
            records["data/weights/" + entry["path_name"]] = trapped()
        records["data/weights/model_weights_config.json"] = json.dumps(config)

    def constants(prefix):
        def change(records):
            config = json.loads(records["data/constants/model_constants_config.json"])
            config["config"]["more"] = {**next(iter(config["config"].values())), "path_name": prefix + "0", "use_pickle": True}
            records["data/constants/" + prefix + "0"] = pickle.dumps(Trap())
            records["data/constants/model_constants_config.json"] = json.dumps(config)

        return change

    def older(records):
        records["data/weights/model.pt"] = trapped()

    def oldest(records):  # of torch 2.7: torch.export.load reads these when the rest cannot be read
        records.clear()
        records["version"] = b"8.14"
        for name in ("serialized_exported_program.json", "serialized_state_dict.pt", "serialized_constants.pt", "serialized_example_inputs.pt"):
            records[name] = trapped()

    for change in (sample_inputs, other_case, weights, constants("opaque_obj_"), constants("custom_obj_"), constants("tensor_"), older, oldest):
        path = changed(program, tmp_path / "x.pt2", change)
        assert told(ingot.InputError, lambda: ingot.load(path)).endswith(": loading it may run any code")
        assert told(ingot.InputError, lambda: torch_archive.load_program(path)).endswith(": loading it may run any code")


def test_compiling_a_program_reads_its_pickles_no_other_way(tmp_path):
    class Stays(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvals(x).abs()

    torch.export.save(torch.export.export(Stays(), (torch.eye(3),)), tmp_path / "good.pt2")
    ingot.compile(tmp_path / "good.pt2")
    path = changed(tmp_path / "good.pt2", tmp_path / "x.pt2", lambda records: records.update({"data/sample_inputs/model.pt": trapped()}))
    assert told(ingot.InputError, lambda: ingot.compile(path)).endswith(": loading it may run any code")
    done = subprocess.run([_library.find("ingot"), "compile", path, "-o", tmp_path / "x.ingot"], capture_output=True, text=True)
    assert done.returncode == 12, done.stderr  # it needs torch: nothing of ingot's reads pickles


def test_damaged_archives_are_format_errors(program, tmp_path):
    def replaced(name, data):
        return lambda records: records.update({name: data})

    def without(name):
        return lambda records: records.pop(name)

    for change in (replaced("models/model.json", b"{}"), replaced("models/model.json", b"\xff"), without("models/model.json"), without("data/weights/model_weights_config.json"),
                   replaced("data/weights/model_weights_config.json", b"[1]"), replaced("data/weights/model_weights_config.json", b'{"config": {"a": 1}}'), without("archive_version"),
                   replaced("data/weights/weight_0", b"123")):  # fmt: skip
        path = changed(program, tmp_path / "x.pt2", change)
        assert told(ingot.FormatError, lambda: ingot.load(path)).startswith(f"{path}")
    data = program.read_bytes()
    for n in range(0, len(data), max(1, len(data) // 50)):
        (tmp_path / "cut.pt2").write_bytes(data[:n])
        assert told(ingot.FormatError, lambda: ingot.load(tmp_path / "cut.pt2")).startswith(f"{tmp_path / 'cut.pt2'}")


def test_plans_in_a_program_are_checked_as_plans_are(program, tmp_path):
    def spoil(records):
        for name, data in records.items():
            if b"\x89ingot\r\n" in data:
                at = data.index(b"\x89ingot\r\n")
                records[name] = data[: at + 200] + bytes([data[at + 200] ^ 1]) + data[at + 201 :]

    path = changed(program, tmp_path / "x.pt2", spoil)
    assert told(ingot.FormatError, lambda: ingot.load(path)) == "the plan is damaged: its metadata does not match its checksum"


def damaged(program, path, damage):
    path.write_bytes(damage(program.read_bytes()))
    return path


def repacked(program, path, name=lambda n: n, **how):
    with zipfile.ZipFile(program) as archive, zipfile.ZipFile(path, "w", **how) as other:
        for record in archive.namelist():
            other.writestr(name(record), archive.read(record))
    return path


def flipped(data):
    """A digit of the graph: its checksum in the archive is wrong."""
    at = data.index(b'"schema_version"')
    return data[:at] + b"'" + data[at + 1 :]


@pytest.mark.parametrize("damage", [
    lambda p, t: damaged(p, t, flipped),
    lambda p, t: damaged(p, t, lambda data: data[: len(data) // 2]),
    lambda p, t: damaged(p, t, lambda data: data[:-40] + bytes(40)),
    lambda p, t: repacked(p, t, name=lambda n: n.split("/", 1)[1]),
    lambda p, t: repacked(p, t, name=lambda n: "../" + n if n.endswith("json") else n),
], ids=["checksum", "cut off", "no directory", "no folder", "another folder"])  # fmt: skip
@pytest.mark.parametrize("read", [ingot.load, ingot.compile])
def test_damaged_archives(program, tmp_path, damage, read):
    with pytest.raises((ingot.FormatError, ingot.UnsupportedError)):
        read(damage(program, tmp_path / "y.pt2"))


@pytest.mark.parametrize("read", [ingot.load, ingot.compile])
def test_packed_archives_are_not_unpacked(program, tmp_path, read):
    path = repacked(program, tmp_path / "y.pt2", compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ingot.FormatError, match="the archive is compressed, as torch writes none"):
        read(path)


@pytest.mark.parametrize("use", [ingot.load, lambda path: ingot.compile(path)(torch.ones(3, 4))])
def test_a_damaged_plan_inside_a_program(program, tmp_path, use):
    """torch calls the engine in it: its error is ours all the same."""

    def change(records):
        name = next(n for n, data in records.items() if data[:6] == b"\x89ingot")
        records[name] = records[name][:150] + bytes([records[name][150] ^ 1]) + records[name][151:]

    path = changed(program, tmp_path / "y.pt2", change)
    with pytest.raises(ingot.FormatError, match="the plan is damaged"):
        use(path)
