"""Operands of two types are promoted to the common type first, as in torch, so that nothing is computed in the narrower one.

It covers every operator definition with two or more operands, all pairs of dtypes, and of numbers, 0-d tensors and tensors with axes (mixed_types.py). The result has eager's dtype and
values; a call that eager refuses runs in no engine. A plain run draws a fixed sample; INGOT_TEST_ALL=1 takes all."""

from __future__ import annotations

import operator
import os

import pytest
import torch
from accuracy import assert_accurate, float64_error
from capture_sample import run
from ingot.capture.functional import Functional, Slot
from ingot.capture.writer import write
from ingot.engine import _engine, _library
from mixed_types import calls, calls_of_one
from torch._subclasses.fake_tensor import FakeTensorMode

ALL = os.environ.get("INGOT_TEST_ALL") == "1"
MOST = 3000 if ALL else 20  # calls of one operator definition
AT_ONCE = 200               # calls in one graph

LEFT_OUT = {"aten.to.other", "aten._weight_norm.default"}  # may return its operand itself; torch does not check its arguments
ROWS = [row for row in _library.ops() if calls(row, 8) and row["name"] not in LEFT_OUT]


def model_of(cases) -> tuple[_library.Model, list[str]]:
    """One graph of many calls, each with its own operands, and the names of the calls."""
    graph, slots, names, results = torch.fx.Graph(), [], [], []
    for call, made in cases:
        places = []
        for t in call.tensors():
            places.append(graph.placeholder(f"x{len(slots)}"))
            places[-1].meta["val"] = t
            slots.append(Slot(places[-1], "input", places[-1].name))
        node = graph.call_function(call.operator, kwargs=call.with_tensors(places))
        node.meta["val"] = tuple(made) if len(call.operator._schema.returns) > 1 else made[0]
        names.append(node.name)
        if len(call.operator._schema.returns) == 1:
            results.append(node)
            continue
        for i, value in enumerate(made):
            results.append(graph.call_function(operator.getitem, (node, i)))
            results[-1].meta["val"] = value
    graph.output(tuple(results))
    captured = write(Functional(torch.fx.GraphModule(torch.nn.Module(), graph), slots, results, []).complete())
    return _library.Model.from_json(captured.json, captured.weights), names


def refusals(cases) -> list[str]:
    """For each call the reason why it runs in no engine; empty if it runs in one."""
    model, names = model_of(cases)
    why = {node["name"]: node["reason"] for node in model.explain({})["nodes"] if node["segment"] is None}
    return ["" if "it would be in a segment" in why.get(name, "") else why.get(name, "") for name in names]  # a gain that is too small is not a refusal


def by_eager(found):
    """(call, results) of the calls that eager runs, and the calls that eager refuses although torch's shape functions accept them."""
    runs, refused, mode = [], [], FakeTensorMode()
    for call in found:
        try:
            made = call()
            if not {t.data_ptr() for t in made} & {t.data_ptr() for t in call.tensors()}:  # a view computes nothing
                runs.append((call, made))
            continue
        except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
            pass
        try:
            with mode:
                refused.append((call, call(*(mode.from_tensor(t) for t in call.tensors()))))
        except Exception:  # of many kinds: torch cannot capture it either
            pass
    return runs, refused


def chunks(cases):
    return [cases[at : at + AT_ONCE] for at in range(0, len(cases), AT_ONCE)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_row(row):
    problems, reasons, engines = [], {}, 0
    runs, refused = by_eager(calls(row, MOST))
    for some in chunks(refused):
        problems += [f"{call}: eager refuses it, an engine takes it" for (call, _), why in zip(some, refusals(some)) if not why]
    for some in chunks(runs):
        taken = []
        for case, why in zip(some, refusals(some)):
            if why:
                reasons.setdefault(why, str(case[0]))
            else:
                taken.append(case)
        engines += len(taken)
        problems += compare(taken)
    assert not problems, f"{len(problems)} problems\n" + "\n".join(problems[:12])
    print(row["name"], engines, len(runs), len(refused), reasons)


# Torch has kernels of these dtypes on GPUs alone, and an engine of a CPU takes them too.
TAKEN = {
    "aten._upsample_bicubic2d_aa.default": {torch.float16, torch.bfloat16},
    "aten._upsample_bilinear2d_aa.default": {torch.float16, torch.bfloat16},
    "aten.avg_pool3d.default": {torch.float16, torch.bfloat16},
}


@pytest.mark.parametrize("row", [row for row in _library.ops() if calls_of_one(row)], ids=lambda row: row["name"])
def test_types_of_one_operand(row):
    """What eager refuses runs in no engine."""
    _, refused = by_eager(calls_of_one(row))
    problems = [f"{call}: eager refuses it, an engine takes it" for (call, _), why in zip(refused, refusals(refused)) if not why and call.tensors()[0].dtype not in TAKEN.get(row["name"], ())]
    assert not problems, "\n".join(problems)


# How far torch's own float64 values are from the true ones, relative to them (mpmath, 700 points). An engine's are within 1.4e-13.
FAR = dict.fromkeys(("igamma", "igammac", "special_gammainc", "special_gammaincc"), 1.8e-9)


def compare(cases) -> list[str]:
    if not cases:
        return []
    try:
        model, _ = model_of(cases)
        engine = _engine.Engine(model.compile({"fallback": "error", "target": "cpu"}))
        tensors = [t for call, _ in cases for t in call.tensors()]
        made = {backend: iter(run(engine, tensors, backend)) for backend in ("reference", "cpu")}
    except Exception as problem:
        if len(cases) == 1:
            return [f"{cases[0][0]}: {type(problem).__name__}: {str(problem)[:200]}"]
        half = len(cases) // 2
        return compare(cases[:half]) + compare(cases[half:])
    problems = []
    for call, eager in cases:
        try:
            exact = call.exact()
        except (RuntimeError, NotImplementedError):  # an operator without float64
            exact = eager
        errors = float64_error(call, call.tensors(), eager) if any(e.dtype is torch.float64 for e in eager) else [0.0] * len(eager)
        if (far := FAR.get(call.target.split(".")[1])) is not None:
            errors = [max(error, far * e.nan_to_num(0, 0, 0).norm().item()) for error, e in zip(errors, eager)]
        for e, x, error in zip(eager, exact, errors):
            for backend, flat in made.items():
                y = next(flat)
                try:
                    assert_accurate(y, e, x, 64, "logaddexp" in call.target, error)
                except AssertionError as problem:
                    problems.append(f"{call} on {backend}: {problem}: {y.flatten()[:6].tolist()}, eager {e.flatten()[:6].tolist()}")
    return problems
