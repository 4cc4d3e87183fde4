"""Profiles, traces, drawn graphs, progress of builds, Ctrl-C."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as xml

import pytest
import torch

import ingot
from ingot.base import progress
from ingot.engine import _library


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.second(torch.nn.functional.gelu(self.first(x))).softmax(-1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    compiled = ingot.compile(Small().eval(), inputs=[ingot.Input(min_shape=(1, 16), opt_shape=(4, 16), max_shape=(8, 16), name="x")])
    ingot.save(compiled, folder / "m.ingot")
    return compiled, folder / "m.ingot"


def command(*arguments):
    return subprocess.run([_library.find("ingot"), *map(str, arguments)], capture_output=True, text=True)


def events_of(path):
    document = json.loads(path.read_text())
    return [e for e in document["traceEvents"] if e["ph"] == "X"], {(e["pid"], e.get("tid")): e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"}


def judge(path, labels):
    events, names = events_of(path)
    assert names == {(0, None): "CPU", (0, 0): "calls", (0, 1): "steps"}
    calls, steps = ([e for e in events if e["tid"] == lane] for lane in (0, 1))
    assert [e["name"] for e in calls] == ["forward"] and [e["name"] for e in steps] == labels
    assert all(e["dur"] > 0 and e["args"]["bytes"] > 0 for e in steps)
    for one, next_one in zip(steps, steps[1:]):
        assert next_one["ts"] == pytest.approx(one["ts"] + one["dur"], abs=2e-3)
    assert steps[-1]["ts"] + steps[-1]["dur"] <= calls[0]["dur"]  # they are inside the call


def test_a_profile_and_its_trace(saved, tmp_path):
    compiled, path = saved
    profile = compiled.profile(torch.randn(4, 16), runs=3)
    assert isinstance(profile, ingot.Profile) and profile.runs == 3 and [s["kernel"] for s in profile] == ["matmul", "matmul", "fused"]
    assert profile.call_nanoseconds >= max(s["nanoseconds"] for s in profile)
    line = next(i for i, text in enumerate(open(__file__), 1) if "self.second(torch" in text)
    assert profile[2]["origin"].startswith(f"{__file__}:{line}")
    assert profile[0]["origin"].endswith(" in first") and profile[1]["origin"].endswith(" in second")
    text = str(profile)
    assert text.startswith("3 steps, ") and "matmul + add + gelu" in text and f"{__file__}:{line}" in text
    profile.trace(tmp_path / "t.json")
    judge(tmp_path / "t.json", [s["label"] for s in profile])
    with pytest.raises(ingot.InputError, match="a profile of 0 runs"):
        compiled.profile(torch.randn(4, 16), runs=0)
    for verb in (["run", path], ["bench", path, "--seconds", "0.01"]):
        done = command(*verb, "--trace", tmp_path / f"{verb[0]}.json")
        assert done.returncode == 0, done.stderr
        judge(tmp_path / f"{verb[0]}.json", [s["label"] for s in profile])
    refused = command("run", path, "--trace", tmp_path / "missing" / "t.json")
    assert refused.returncode == 21 and "missing" in refused.stderr


def test_a_graph_drawn(saved, tmp_path):
    _, path = saved
    assert command("inspect", path, "--graph").stdout == command("inspect", path, "--graph", "-").stdout != ""
    assert command("inspect", path, "--graph", tmp_path / "g.svg").returncode == 0
    root, space = xml.parse(tmp_path / "g.svg").getroot(), "{http://www.w3.org/2000/svg}"
    texts = [t.text for t in root.iter(space + "text")]
    assert {"input x", "f32[B, 16]" if "f32[B, 16]" in texts else texts[1], "gelu"} <= set(texts) and texts.count("matmul") == 2
    boxes = [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in root.iter(space + "rect")]
    for i, (x, y, w, h) in enumerate(boxes):  # none lies over another, all are in the picture
        assert x >= 0 and y >= 0 and x + w <= float(root.get("width")) and y + h <= float(root.get("height"))
        assert all(x + w <= a or a + c <= x or y + h <= b or b + d <= y for a, b, c, d in boxes[:i])
    assert any("second" in t.text for t in root.iter(space + "title") if t.text)
    refused = command("inspect", path, "--graph", tmp_path / "g.png")
    assert refused.returncode == 2 and "--graph takes a path that ends in .svg, .dot or .onnx, or -" in refused.stderr and not (tmp_path / "g.png").exists()


def test_a_graph_for_graphviz(saved, tmp_path):
    """The boxes and arrows of the drawing; each line is a statement, and quotes and backslashes in names end none."""
    _, path = saved
    assert command("inspect", path, "--graph", tmp_path / "g.dot").returncode == 0
    first, style, *lines, last = (tmp_path / "g.dot").read_text().splitlines()
    assert (first, last) == ("digraph graph_of_ingot {", "}") and style.startswith("node [")
    text = r'"((?:[^"\\]|\\.)*)"'
    boxes = {m[1]: m[2].removesuffix("\\l").split("\\l") for line in lines if (m := re.fullmatch(rf"(b\d+) \[label={text}, tooltip={text}(?:, fillcolor={text})?\];", line))}
    arrows = [m.groups() for line in lines if (m := re.fullmatch(r"(b\d+) -> (b\d+);", line))]
    assert len(boxes) + len(arrows) == len(lines) and {end for arrow in arrows for end in arrow} == set(boxes)
    names = [box[0] for box in boxes.values()]
    assert "input x" in names and "gelu" in names and names.count("matmul") == 2
    root, space = xml.fromstring(_library.drawn(ingot.load_engine(path).graph, "svg")), "{http://www.w3.org/2000/svg}"
    assert len(list(root.iter(space + "rect"))) == len(boxes) and len([p for p in root.iter(space + "path")]) == len(arrows)
    odd = 'ingot-graph 1\n%0 = input() {name="a\\"b\\\\"} : f32[2]\noutput %0 "y" []\n'
    assert '[label="input a\\"b\\\\\\l' in _library.drawn(odd, "dot").decode()


def fields(data):
    """A protobuf message as a list of (field, value)."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if not data[at - 1] & 0x80:
                return value, at

    found, at = [], 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        elif key & 7 == 2:
            size, at = varint(at)
            value, at = data[at : at + size], at + size
            assert len(value) == size
        else:
            assert key & 7 == 5
            value, at = data[at : at + 4], at + 4
        found.append((key >> 3, value))
    return found


def test_a_graph_for_netron(saved, tmp_path):
    _, path = saved
    assert command("inspect", path, "--graph", tmp_path / "g.onnx").returncode == 0
    model = dict(fields((tmp_path / "g.onnx").read_bytes()))
    assert model[1] == 8 and model[2] == b"ingot" and fields(model[8]) == [(1, b"ingot"), (2, 1)]
    graph = fields(model[7])
    nodes = [fields(value) for field, value in graph if field == 1]
    types = [dict(n)[4] for n in nodes]
    assert types.count(b"matmul") == 2 and b"gelu" in types and types[-1] == b"output"
    assert all({1, 2, 8} >= {part for part, _ in fields(value)} for field, value in graph if field == 5)  # no tensor says that its data is in another file
    made = {value for n in nodes for field, value in n if field == 2}
    given = {dict(fields(value))[8] for field, value in graph if field == 5} | {dict(fields(value))[1] for field, value in graph if field == 11}
    assert {value for n in nodes for field, value in n if field == 1} <= made | given  # nothing dangles
    assert {name.split()[-1] for name in given} == {b"x", b"first.weight", b"first.bias", b"second.weight", b"second.bias"}
    for format in ("png", ""):
        with pytest.raises(ingot.InputError, match="a graph cannot be drawn as"):
            _library.drawn("ingot-graph 1\n", format)
    with pytest.raises(ingot.Error):
        _library.drawn("no graph", "svg")


# ---- how far a build is


class Terminal(io.StringIO):
    def isatty(self):
        return True


def built_with(stream, monkeypatch, after):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "AFTER", after)
    ingot.compile(Small().eval(), inputs=[torch.randn(2, 16)])
    return stream.getvalue()


def test_a_bar_on_a_terminal_alone(monkeypatch):
    assert built_with(io.StringIO(), monkeypatch, 0) == ""
    assert built_with(Terminal(), monkeypatch, 100) == ""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "rich.console", None)  # not installed
        text = built_with(Terminal(), patch, 0)
    shares = [int(part.split("%")[0]) for part in text.split("ingot:")[1:] if "%" in part]
    assert shares == sorted(shares) and shares[-1] == 100 and len(set(shares)) > 5 and "s left" in text
    assert text.endswith("\r") and text.split("\r")[-2].isspace()  # nothing stays
    if (rich := pytest.importorskip("rich", reason="rich is not installed")) is not None:
        assert "ingot: " in built_with(Terminal(), monkeypatch, 0)


def test_a_capture_shows_the_seconds_that_pass(monkeypatch):
    """Of a model whose code takes long while it is traced; then comes the build."""

    class Slow(torch.nn.Module):
        def forward(self, x):
            time.sleep(0.5)
            return x.sin()

    monkeypatch.setattr(progress, "EACH", 0.05)
    for patched in ({"rich.console": None}, {}):
        with monkeypatch.context() as patch:
            for name, module in patched.items():
                patch.setitem(sys.modules, name, module)
            stream = Terminal()
            patch.setattr(sys, "stderr", stream)
            patch.setattr(progress, "AFTER", 0.05)
            made = ingot.compile(Slow(), inputs=[torch.randn(2, 4)], min_block_size=1)
        text = stream.getvalue()
        assert made.report.whole and "ingot: capturing the model, 0 s" in text
        if patched:
            assert text.count("capturing") > 4 and 0 < text.rindex("capturing") < text.index("%"), text
            assert text.endswith("\r") and text.split("\r")[-2].isspace()
    assert not [t for t in threading.enumerate() if t.name == "ingot-progress"]


def test_no_bar_is_left_where_a_capture_fails(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "AFTER", 0)
    with pytest.raises(ingot.InputError):
        ingot.compile(Small().eval(), inputs=[torch.randn(2, 5)])
    assert getattr(progress._here, "bar", None) is None and not [t for t in threading.enumerate() if t.name == "ingot-progress"]


def test_a_terminal_that_is_gone_ends_no_build(monkeypatch):
    class Gone(Terminal):
        def write(self, text):
            raise OSError("gone")

    monkeypatch.setitem(sys.modules, "rich.console", None)
    built_with(Gone(), monkeypatch, 0)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A program whose build takes some seconds."""
    path = tmp_path_factory.mktemp("large") / "m.pt2"
    layers = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 24).eval()
    torch.export.save(torch.export.export(layers, (torch.randn(1, 8, 32),)), path)
    return path


def test_control_c_on_the_command_line(large, tmp_path):
    """At the next stage, with nothing left behind."""
    process = subprocess.Popen([_library.find("ingot"), "compile", large, "-o", tmp_path / "m.ingot", "--progress", "json"], stderr=subprocess.PIPE, text=True)
    first = json.loads(process.stderr.readline())
    assert 0 <= first["fraction"] < 0.5
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait() == 130 and rest.endswith("ingot: interrupted; nothing is written\n") and '"done"' not in rest
    assert list(tmp_path.iterdir()) == []


def test_stages_in_order_and_a_bar_in_a_terminal(large, tmp_path):
    done = command("compile", large, "-o", tmp_path / "m.ingot", "--progress", "json")
    shares = [json.loads(line)["fraction"] for line in done.stderr.splitlines()]
    assert done.returncode == 0 and shares == sorted(shares) and shares[-1] == 1.0 and len(shares) > 20
    parent, child = pty.openpty()  # a build of less than two seconds shows nothing, of more a line that goes away
    process = subprocess.run([_library.find("ingot"), "compile", large, "-o", tmp_path / "n.ingot"], stderr=child)
    os.close(child)
    shown = b""
    try:
        while part := os.read(parent, 4096):
            shown += part
    except OSError:
        pass
    os.close(parent)
    assert process.returncode == 0 and (shown == b"" or shown.endswith(b"\r\x1b[K"))


class Counting(torch.nn.Module):
    """Writes a buffer and its second input."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x, y):
        self.calls.add_(1)
        y.mul_(2)
        return self.linear(x) + self.calls + y


def test_a_profile_of_a_module_that_writes():
    model, x, y = Counting().eval(), torch.randn(2, 4), torch.ones(4)
    module = ingot.compile(model, inputs=[x, y], min_block_size=1)
    assert module.report.whole
    profile = module.profile(x, y)
    assert any("matmul" in step["label"] for step in profile) and profile.runs == 10
    assert not model.calls.any() and torch.equal(y, torch.ones(4))


def test_no_profile_of_parts():
    module = ingot.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 4)).eval(), inputs=[torch.randn(2, 4)], min_block_size=1, torch_executed_ops=["gelu"])
    with pytest.raises(ingot.UnsupportedError, match="parts of this module run in torch"):
        module.profile(torch.randn(2, 4))
