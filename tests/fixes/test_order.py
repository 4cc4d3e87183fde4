"""The list of fixes against its folder and documents, and that every way in runs it."""

import os
import re
from pathlib import Path

import pytest
import torch
from graphs import exported, targets

import ingot
from ingot.base import debug
from ingot.capture import fix
from ingot.capture.fixes import order

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "python/ingot/capture"
NAMES = [f.name for f in order.FIXES]


def test_the_list_has_every_file_and_every_fix_a_test():
    assert len(set(NAMES)) == len(NAMES)
    assert order.ALONE + order.TRACED + order.WRITING + order.FUNCTIONAL == order.FIXES  # in the order of the stages
    assert sorted(NAMES) == sorted(path.stem for path in (HERE / "fixes").glob("*.py") if path.stem not in ("__init__", "order"))
    assert sorted(NAMES) == sorted(path.stem.removeprefix("test_fix_") for path in Path(__file__).parent.glob("test_fix_*.py"))


def test_every_switch_has_a_file_that_asks():
    for name in order.SWITCHES:
        assert f'debug.is_disabled("{name}")' in (HERE / f"switches/{name}.py").read_text()
    assert not set(order.SWITCHES) & set(NAMES)


def test_no_name_is_a_pass_of_the_library():
    passes = "\n".join((ROOT / path).read_text() for path in ("src/lower/passes.def", "src/compile/passes/passes.def"))
    assert not {*NAMES, *order.SWITCHES} & set(re.findall(r"^(?:PASS|AGAIN|NEEDED)\((\w+),", passes, re.M))


class Dropping(torch.nn.Module):
    """It writes to the result of a dropout that drops nothing, which is the operand itself. torch.jit.script takes out the dropout and the write, but not the cast."""

    def __init__(self):
        super().__init__()
        self.linear, self.dropout = torch.nn.Linear(4, 4), torch.nn.Dropout(0.0)

    def forward(self, x):
        y = self.linear(x)
        self.dropout(y).add_(1)
        return y.type_as(x) * 2


X = torch.randn(3, 4)


def of_a_file(model, folder):
    torch.export.save(torch.export.export(model, (X,)), folder / "model.pt2")
    return ingot.compile(torch.export.load(folder / "model.pt2"))


def of_torchscript(model, folder):
    from ingot import torch_tensorrt

    return torch_tensorrt.ts.compile(torch.jit.script(model), inputs=[X])


DOORS = {
    "ingot.compile": lambda model, folder: ingot.compile(model, inputs=[X]),
    "torch.compile": lambda model, folder: torch.compile(model, backend="ingot"),
    "exported program": lambda model, folder: ingot.compile(torch.export.export(model, (X,))),
    "saved program": of_a_file,
    "TorchScript": of_torchscript,
}


@pytest.mark.parametrize("door", DOORS)
def test_every_way_in_runs_the_list(door, tmp_path, monkeypatch, capfd, no_gradients):
    monkeypatch.setenv("INGOT_LOG", "info")
    model = Dropping().eval()
    eager = torch.jit.script(model) if door == "TorchScript" else model
    assert DOORS[door](model, tmp_path)(X).sub(eager(X)).abs().max() < 1e-6
    assert re.search(r"^ingot: identities +[\d.]+ ms$", capfd.readouterr().err, re.M)


@pytest.mark.parametrize("door", DOORS)
def test_a_fix_that_is_left_out(door, tmp_path, monkeypatch, capfd, no_gradients):
    monkeypatch.setenv("INGOT_LOG", "info")
    monkeypatch.setenv("INGOT_DISABLE", "identities,cse")
    DOORS[door](Dropping().eval(), tmp_path)(X)
    told = capfd.readouterr().err
    assert "ingot: identities is left out\n" in told and not re.search(r"^ingot: (identities|cse) +[\d.]", told, re.M)
    assert os.environ["INGOT_DISABLE"] == "identities,cse"


def test_a_plan_without_a_fix_is_not_from_the_cache(tmp_path, monkeypatch, capfd):
    options = {"cache": "readwrite", "cache_dir": str(tmp_path)}
    ingot.compile(Dropping().eval(), inputs=[X], **options)
    monkeypatch.setenv("INGOT_LOG", "info")
    monkeypatch.setenv("INGOT_DISABLE", "own_writes")
    ingot.compile(Dropping().eval(), inputs=[X], **options)
    assert "was built before" not in capfd.readouterr().err


def test_what_cannot_be_left_out(monkeypatch):
    monkeypatch.setenv("INGOT_DISABLE", "effects")
    with pytest.raises(ingot.OptionError, match='names "effects", which cannot be left out: takes out the tokens'):
        ingot.compile(Dropping().eval(), inputs=[X])
    monkeypatch.setenv("INGOT_DISABLE", "identites")
    with pytest.raises(ingot.OptionError, match='names "identites", which is not a pass'):
        ingot.compile(Dropping().eval(), inputs=[X])


def test_switches_are_left_out(monkeypatch):
    class Asserting(torch.nn.Module):
        def forward(self, x):
            assert (x < 9).all()
            return x * 2

    ingot.compile(Asserting(), inputs=[X])
    monkeypatch.setenv("INGOT_DISABLE", "only_raises")
    with pytest.raises(ingot.UnsupportedError, match="branches on a value"):
        ingot.compile(Asserting(), inputs=[X])


def test_dump_writes_the_graph_before_and_after(tmp_path, monkeypatch):
    monkeypatch.setenv("INGOT_DUMP", str(tmp_path / "made"))
    ingot.compile(Dropping().eval(), inputs=[X])
    before, after = ((tmp_path / f"made/fix_identities_{when}.txt").read_text() for when in ("before", "after"))
    assert "aten.dropout.default" in before and "aten.dropout.default" not in after
    assert sorted(p.name for p in (tmp_path / "made").glob("fix_*")) == [f"fix_{n}_{when}.txt" for n in ("identities", "own_writes") for when in ("after", "before")]


def test_the_size_is_told_too(monkeypatch, capfd):
    monkeypatch.setenv("INGOT_LOG", "debug")
    ingot.compile(Dropping().eval(), inputs=[X])
    assert re.search(r"^ingot: own_writes +[\d.]+ ms  \d+ nodes$", capfd.readouterr().err, re.M)


def test_an_invalid_graph_is_an_error():
    traced = exported(lambda x: x.sin().cos(), X)

    def turn(traced):
        first, second = (n for n in traced.editable().graph.nodes if n.op == "call_function")
        second.append(first)

    with pytest.raises(ingot.InternalError, match="the fix turn left an invalid graph"):
        fix.run([fix.Fix(fix.Stage.TRACED, "turn", "", lambda traced: True, turn)], traced)


def test_fixes_run_in_order_and_only_if_wanted():
    traced, seen = exported(lambda x: x.sin().cos(), X), []

    def made(name, wanted):
        return fix.Fix(fix.Stage.TRACED, name, "", lambda traced: wanted, lambda traced: seen.append(name))

    fix.run([made("one", True), made("two", False), made("three", True)], traced)
    assert seen == ["one", "three"] and targets(traced) == ["aten.sin.default", "aten.cos.default"]
    assert fix.any_wanted([made("two", False), made("three", True)], traced) and not fix.any_wanted([made("two", False)], traced)


def test_the_library_sees_its_own_names_only(monkeypatch):
    monkeypatch.setenv("INGOT_DISABLE", "identities")
    with debug.for_library(), debug.for_library():
        assert os.environ["INGOT_DISABLE"] == "," and debug.is_disabled("identities")
    assert os.environ["INGOT_DISABLE"] == "identities"
