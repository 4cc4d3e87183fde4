"""docs/models.md is made of the ledger's lines, and no model has operators in torch by one door that another door takes, unless bench/doors_known.txt says why."""

import argparse
import json
import re
import sys

import pytest
from blocks import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import doors
from architectures import ARCHITECTURES
from doors import Cell

LINES = doors.all_lines()


def line(cell, **found):
    return {"package": "timm", "torch": {}, "segments": 1, "graphs": 1, "date": "2026-11-28", "commit": "abc", **vars(cell), **found}


def test_the_page_is_made_of_the_lines():
    assert doors.PAGE.read_text() == doors.page(), "run python bench/doors.py --page"


def test_every_model_has_lines():
    assert {cell.model for cell in LINES} == set(ARCHITECTURES)
    assert set(doors.DOOR_TEXTS) == set(doors.DOOR_NAMES)


def test_no_door_leaves_what_another_takes():
    known = doors.known()
    for cell, operators in doors.uneven(LINES).items():
        assert any(doors.is_known(cell, patterns) for patterns, _ in known), f"{cell} has {operators} in torch, and another door takes the model: mend it, or list it in bench/doors_known.txt with the reason"
    for patterns, reason in known:
        assert reason and any(doors.is_known(cell, patterns) for cell in doors.uneven(LINES)), f"bench/doors_known.txt: {' '.join(patterns)} fits no cell: take it away"


def test_doors_that_differ_are_found():
    whole, cut, never, empty = Cell("a", "compile"), Cell("a", "pt2"), Cell("b", "compile"), Cell("a", "torch.compile")
    lines = {
        whole: line(whole, in_torch=0), cut: line(cut, in_torch=2, torch={"aten.x": {"count": 2, "reason": "no row"}}), never: line(never, in_torch=1, torch={"aten.y": {"count": 1, "reason": ""}}),
        empty: line(empty, in_torch=0, graphs=0), Cell("a", "saved"): line(Cell("a", "saved"), not_run="absent"), Cell("a", "exported"): line(Cell("a", "exported"), refused="an error"),
    }  # fmt: skip
    assert doors.uneven(lines) == {cut: "aten.x", empty: "no graph"}
    assert doors.is_known(cut, ["*", "pt2", "no_grad", "float*", "cpu"]) and not doors.is_known(cut, ["*", "pt2", "grad", "*", "*"])


@pytest.mark.parametrize(
    "found, mark",
    [
        ({"in_torch": 0, "operators": 5}, "whole"), ({"in_torch": 2, "operators": 5, "graphs": 3}, "2 in torch, 3 graphs"), ({"in_torch": 0, "operators": 0, "graphs": 0}, "no graph"),
        ({"refused": "why"}, "refused"), ({"failed": "why"}, "failed"), ({"in_torch": 0, "operators": 5, "failed": "why"}, "whole, failed"), ({"not_run": "why"}, "–"),
    ],
)  # fmt: skip
def test_marks(found, mark):
    assert doors.mark(line(Cell("a", "compile"), **found)) == mark and doors.mark(None) == "–"


def test_lines_replace_older_ones(tmp_path):
    """One line a cell, the last; of several machines the newest. The page says what stays in torch, and why."""
    cell, path = Cell("a", "compile"), doors.file_of("here", tmp_path)
    cut = line(cell, operators=3, in_torch=1, torch={"aten.x.default": {"count": 1, "reason": "the operator table has no definition of it"}})
    path.write_text("".join(json.dumps(one) + "\n" for one in (line(cell, operators=3, in_torch=0), cut)))
    doors.sort_lines(path)
    assert doors.read(path) == {cell: cut} and len(path.read_text().splitlines()) == 1
    there = doors.file_of("there", tmp_path)
    there.write_text(json.dumps(line(cell, refused="an error", date="2026-11-27")) + "\n")
    text = doors.page(tmp_path)
    assert "| a | timm | 1 in torch |" in text and "- `aten.x.default`: the operator table has no definition of it. a (compile)" in text
    there.write_text(json.dumps(line(cell, refused="an error", date="2026-11-29")) + "\n")
    assert "| a | timm | refused |" in doors.page(tmp_path)


WORKER = """
import json, os, signal, sys, time
for text in sys.stdin:
    task = json.loads(text)
    model = task["model"]
    if task["control"] and model != "hangs in torch":
        print(json.dumps({"failed": "no"} if model == "fails in torch" else {"seconds": 0.5}), flush=True)
        continue
    if model == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if model.startswith("hangs") or model == "fails in torch":
        time.sleep(60)
    print(json.dumps({"in_torch": 0}), flush=True)
"""


def test_a_crash_is_a_line(monkeypatch):
    """A process that dies or hangs costs its cell alone, and the time limit leaves the others."""
    monkeypatch.setattr(doors, "worker_command", lambda arguments: [sys.executable, "-c", WORKER])
    found, arguments = {}, argparse.Namespace(jobs=2, threads=1, cell_seconds=2, seconds=None)
    todo = [(Cell(model, "compile"), False) for model in ("a", "dies", "b", "hangs", "c")]
    assert doors.run(arguments, todo, lambda cell, line: found.update({cell.model: line})) == []
    assert [found[model] for model in "abc"] == [{"in_torch": 0}] * 3
    assert found["dies"] == {"failed": "the process ended by SIGKILL"} and found["hangs"] == {"failed": "not done after 2 s"}
    assert doors.run(argparse.Namespace(jobs=1, threads=1, cell_seconds=2, seconds=1e-9), todo, None) == todo


def test_time_that_torch_takes_alone(monkeypatch):
    """A cell of torch.compile that is not done in time says whether Dynamo alone would be."""
    monkeypatch.setattr(doors, "worker_command", lambda arguments: [sys.executable, "-c", WORKER])
    found, arguments = {}, argparse.Namespace(jobs=2, threads=1, cell_seconds=2, seconds=None)
    todo = [(Cell(model, "torch.compile-dynamic"), False) for model in ("a", "hangs", "hangs in torch", "fails in torch", "c")]
    assert doors.run(arguments, todo, lambda cell, line: found.update({cell.model: line})) == []
    assert found == {
        "a": {"in_torch": 0}, "c": {"in_torch": 0}, "hangs": {"failed": "not done after 2 s; torch's own trace takes 0.5 s"},
        "hangs in torch": {"not_run": "torch's own trace takes over 2 s"}, "fails in torch": {"not_run": "torch's own trace fails: no"},
    }  # fmt: skip


def test_readme_counts_the_models():
    """README.md says how many models run wholly, float32 on a CPU, by the two ways that most people take."""
    text = (ROOT / "README.md").read_text()
    for door in ("compile", "torch.compile"):
        marks = [doors.mark(found) for cell, found in LINES.items() if (cell.door, cell.mode, cell.dtype, cell.device) == (door, "no_grad", "float32", "cpu")]
        whole = f"{sum(mark.split(',')[0] == 'whole' for mark in marks)} of {len(marks)}"  # in several graphs too
        assert re.search(rf"\b{whole} [\w ]*by `[\w.]*{door}`", text), f"{door}: {whole}"
