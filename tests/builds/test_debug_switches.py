"""INGOT_LOG, INGOT_DUMP and INGOT_DISABLE: environment variables of a build, each in its own process."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

import ingot
from ingot.engine import _library


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)

    def forward(self, x):
        y = self.up(x)
        return self.down(0.5 * y * (1 + torch.erf(y / 2**0.5)))  # gelu, written out


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "model.pt2"
    torch.export.save(torch.export.export(Model().eval(), (torch.zeros(4, 8),)), path)
    return path


def build(archive, arguments=(), **switches):
    plan = archive.parent / "model.ingot"
    plan.unlink(missing_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("INGOT_LOG", "INGOT_DUMP", "INGOT_DISABLE"))}
    done = subprocess.run([_library.find("ingot"), "compile", archive, "-o", plan, *arguments], env={**clean, **switches}, capture_output=True, text=True)
    assert done.stdout == ""
    return done, plan


def graphs(folder):
    """The dumped graphs in order, without the lines with origins of nodes."""
    return [(f.name[3:-4], "\n".join(line for line in f.read_text().splitlines() if not line.startswith("origin "))) for f in sorted(folder.iterdir())]


def passes(*rooms):
    """Their names in order, from the files that list them: those of lower, then those of compile."""
    files = {"lower": "src/lower/passes.def", "compile": "src/compile/passes/passes.def"}
    texts = [(Path(__file__).resolve().parents[2] / files[room]).read_text() for room in rooms or files]
    return re.findall(r"^(?:PASS|AGAIN|NEEDED)\((\w+),", "\n".join(texts), re.M)


def test_log_times_each_stage(archive):
    quiet, _ = build(archive)
    assert quiet.returncode == 0 and quiet.stderr == ""
    for level, line in (("info", r"ingot: (\w+) +[\d.]+ ms"), ("debug", r"ingot: (\w+) +[\d.]+ ms(?:  \d+ nodes)?")):
        done, _ = build(archive, INGOT_LOG=level)
        lines = done.stderr.splitlines()
        decisions = [text for text in lines if not text.startswith("ingot: ")]
        told = [re.fullmatch(line, text) for text in lines if text.startswith("ingot: ") and text != "ingot: decisions"]
        assert done.returncode == 0 and all(told)
        assert bool(decisions) == (level == "debug")  # stored values with reasons, steps with their offers
        if decisions:
            assert "forward for cpu: storage" in decisions and any(re.fullmatch(r"    \* matmul: cost [\d.]+, B packed, can be timed: blocks", text) for text in decisions)
        assert [m[1] for m in told] == ["expand", *passes(), "compile"]
        assert ("nodes" in done.stderr) == (level == "debug")


def test_dump_writes_the_graph_after_each_pass(archive, tmp_path):
    folder = tmp_path / "made" / "here"
    assert build(archive, INGOT_DUMP=str(folder))[0].returncode == 0
    assert sorted(f.name for f in folder.iterdir()) == [f"{n:02}_{name}.txt" for n, name in enumerate(["captured", "expand", *passes()])]
    texts = [text for _, text in graphs(folder)]
    assert "aten.linear.default" in texts[0] and "aten." not in texts[1] and "erf" in texts[1]
    assert texts[-1] != texts[1]


def test_dump_names_functions_and_targets(archive, tmp_path, monkeypatch):
    """Where there are several. Compile's passes run for each of both."""
    done, _ = build(archive, INGOT_DUMP=str(tmp_path / "two"), arguments=["--set", "target=cpu,reference"])
    assert done.returncode == 0
    expected = ["captured", "expand", *passes("lower"), *(f"{target}_{name}" for target in ("cpu", "reference") for name in passes("compile"))]
    assert [name for name, _ in graphs(tmp_path / "two")] == expected
    monkeypatch.setenv("INGOT_DUMP", str(tmp_path / "parts"))
    ingot.compile(Model().eval(), inputs=[torch.zeros(4, 8)], torch_executed_ops="aten.erf", min_block_size=1)
    segments = ("segment_0", "segment_1")
    expected = ["captured", *(f"{s}_{name}" for s in segments for name in ("expand", *passes("lower"))), *(f"{s}_{name}" for s in segments for name in passes("compile"))]
    assert [name for name, _ in graphs(tmp_path / "parts")] == expected


def test_disable_leaves_passes_out(archive, tmp_path):
    with_all, without = tmp_path / "with", tmp_path / "without"
    build(archive, INGOT_DUMP=str(with_all))
    assert "gelu" in graphs(with_all)[-1][1]
    done, plan = build(archive, INGOT_DUMP=str(without), INGOT_DISABLE="match_activations,horizontal_fusion")
    assert done.returncode == 0
    assert [name for name, _ in graphs(without)] == ["captured", "expand", *(p for p in passes() if p not in ("match_activations", "horizontal_fusion"))]
    assert "gelu" not in graphs(without)[-1][1] and "erf" in graphs(without)[-1][1]
    x, model = torch.randn(4, 8), torch.export.load(archive).module()
    assert torch.allclose(ingot.load(plan)(x), model(x), atol=1e-6)


def test_disable_leaves_passes_of_compile_out(archive, tmp_path):
    """Of a build, and where a plan is compiled again from its graph, as `ingot verify` does."""
    int8 = ["--set", "weight_dtype=int8"]
    build(archive, INGOT_DUMP=str(tmp_path / "with"), arguments=int8)
    assert "i8[" in graphs(tmp_path / "with")[-1][1]
    done, plan = build(archive, INGOT_DUMP=str(tmp_path / "without"), INGOT_DISABLE="encode_weights", arguments=int8)
    assert done.returncode == 0 and [name for name, _ in graphs(tmp_path / "without")] == ["captured", "expand", *(p for p in passes() if p != "encode_weights")]
    assert "i8[" not in graphs(tmp_path / "without")[-1][1]
    x, model = torch.randn(4, 8), torch.export.load(archive).module()
    assert torch.allclose(ingot.load(plan)(x), model(x), atol=1e-6)

    def verified(**switches):
        return subprocess.run([_library.find("ingot"), "verify", plan], env={**os.environ, **switches}, capture_output=True, text=True)

    assert verified(INGOT_DISABLE="encode_weights").returncode == 0
    assert "is not what this ingot compiles from its graph" in verified().stderr


@pytest.mark.parametrize("switch, code, text", [
    ({"INGOT_DISABLE": "simplify,match_atention"}, 14, 'ingot: INGOT_DISABLE names "match_atention", which is not a pass\n  remedy: did you mean "match_attention"?\n'),
    ({"INGOT_DISABLE": "encode_weight"}, 14, 'ingot: INGOT_DISABLE names "encode_weight", which is not a pass\n  remedy: did you mean "encode_weights"?\n'),
    ({"INGOT_DISABLE": "cse,expand_attention"}, 14, 'ingot: INGOT_DISABLE names "expand_attention", which cannot be left out: writes attention in primitives if the backend has no kernel for it\n'
     "  remedy: leave this name out of INGOT_DISABLE\n"),
    ({"INGOT_LOG": "loud"}, 14, 'ingot: INGOT_LOG is "loud"; "info" or "debug" is needed\n  remedy: unset it to hear nothing\n'),
    ({"INGOT_DUMP": "/dev/null/folder"}, 21, "ingot: INGOT_DUMP: cannot write /dev/null/folder/00_captured.txt: Not a directory\n  remedy: name a folder that can be written, or unset INGOT_DUMP\n"),
])  # fmt: skip
def test_what_a_switch_cannot_do_is_an_error(archive, switch, code, text):
    done, plan = build(archive, **switch)
    assert (done.returncode, done.stderr) == (code, text) and not plan.exists()
