"""docs/operator_speed.md is made of the lines of bench/operators.py, whose problems are what they were, and slow ones are excused by a reason."""

import importlib.util
import re
import sys

import pytest
import torch
from blocks import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import operator_problems

# By its path: tests/differential has a module of this name too.
_spec = importlib.util.spec_from_file_location("operators_of_bench", ROOT / "bench" / "operators.py")
operators = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(operators)

PROBLEMS = {p.name: p for p in operator_problems.problems()}


def test_the_page_is_made_of_the_lines():
    assert operators.PAGE.read_text() == operators.page(), "run python bench/operators.py --page"


def test_lines_are_of_problems_that_are_drawn():
    for path in (ROOT / "bench" / "results").glob("operators-*.jsonl"):
        for line in operators.read(path).values():
            assert line["problem"] in PROBLEMS, f"{path.name}: {line['problem']} is drawn no more: take its line away"


def test_excuses_have_reasons_and_problems():
    excused = operators.excused()
    assert len(excused) <= operators.MAX_EXCUSED
    for pattern, reason in excused.items():
        assert len(reason) > 20 and any(re.search(pattern, name) for name in PROBLEMS), f"bench/operators_excused.json: {pattern} fits no problem, or has no reason"


def test_problems_are_as_many_and_as_different_as_said():
    kinds = {p.kind for p in PROBLEMS.values()}
    assert len(PROBLEMS) > 1500 and kinds == {"once", *operator_problems.KINDS}
    for kind in ("pointwise", "reduction", "movement"):
        drawn = {(p.dtype, p.layout, p.elements) for p in PROBLEMS.values() if p.kind == kind}
        assert len(drawn) == len(operator_problems.TYPES) * len(operator_problems.LAYOUTS) * len(operator_problems.DECADES)


@pytest.mark.parametrize("kind", sorted(operator_problems.KINDS))
def test_a_problem_is_the_same_each_time(kind):
    for problem in [p for p in PROBLEMS.values() if p.kind == kind and p.elements <= 1000][::3]:
        (_, first), (_, second) = problem.make(), problem.make()
        assert all(a.stride() == b.stride() and torch.equal(a, b) for a, b in zip(first, second, strict=True)), problem.name


def test_a_slow_and_a_wrong_operator_are_seen(monkeypatch):
    """An operator that eager computes in no time, and one whose results differ."""
    big = torch.randn(300, 300)
    problem = operator_problems.Problem("test: view", "test", "float32", "contiguous", 90000, lambda: ((lambda x: torch.linalg.matrix_power(x, 3)), (big,)))
    line = operators.measured(problem, "cpu", 1, 0.01)
    assert line["ratio"] > 0 and line["slow"] == (line["ratio"] > operators.SLOW_RATIO and line["ingot_ms"] - line["eager_ms"] > operators.SLOW_DIFFERENCE * 1e3)
    assert operators.difference([big + 1], [big]) and not operators.difference([big + 1e-7], [big])
    assert "eager has" in operators.difference([big.double()], [big])
    times = iter([(2e-3, 1e-3), (3e-3, 1e-3)])
    monkeypatch.setattr(operators, "fastest", lambda *_: next(times))
    line = operators.measured(problem, "cpu", 1, 0.01)
    assert line["slow"] and line["ratio"] == 2.0 and "2.00" in operators.said(line) and "1 slow" in operators.summary([line])
