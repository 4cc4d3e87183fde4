"""The operator table against torch's own samples (OpInfo), through the whole pipeline: CPU engine and reference interpreter.

Each sample is traced to ATen calls before dispatch, captured, compiled and run; the result is compared with eager's by the
accuracy rule. Samples that need operators without a row, sizes that depend on data, complex numbers or gradients are counted and skipped.
"""

from __future__ import annotations

import collections
import faulthandler
import sys
import warnings
from pathlib import Path

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot import _engine, _op
from ingot.capture import from_functional

warnings.filterwarnings("ignore")
DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.float16, torch.bfloat16]
TABLE = {row["name"] for row in ingot.ops()}


def tensors_of(value, out):
    if isinstance(value, torch.Tensor):
        out.append(value)
    elif isinstance(value, (list, tuple)):
        for v in value:
            tensors_of(v, out)
    elif isinstance(value, dict):
        for v in value.values():
            tensors_of(v, out)
    return out


def with_tensors(value, replacement):
    if isinstance(value, torch.Tensor):
        return next(replacement)
    if isinstance(value, (list, tuple)):
        made = [with_tensors(v, replacement) for v in value]
        return type(value)(made) if not hasattr(value, "_fields") else type(value)(*made)
    if isinstance(value, dict):
        return {k: with_tensors(v, replacement) for k, v in value.items()}
    return value


class Skip(Exception):
    pass


def capture(function, inputs):
    """The ATen graph of a call on plain tensors, or Skip with the reason."""
    try:
        graph = make_fx(function, pre_dispatch=True, tracing_mode="fake")(*inputs)
    except Exception as problem:
        raise Skip(f"tracing: {type(problem).__name__}") from None
    graph.graph.eliminate_dead_code()
    for node in graph.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            name = str(node.target)
            if name not in TABLE and not name.startswith("aten.sym_"):
                raise Skip(f"no row: {name}")
        elif node.op == "get_attr":
            raise Skip("a constant tensor")
    return graph


def run(function, inputs, reference=False):
    graph = capture(function, inputs)
    names = [f"x{i}" for i in range(len(inputs))]
    output = next(n for n in graph.graph.nodes if n.op == "output")
    if not isinstance(output.args[0], (list, tuple)):
        output.args = ((output.args[0],),)
    captured = from_functional(graph, {}, names)
    model = _engine.Model.from_json(captured.json, captured.weights)
    engine = _engine.Engine(model.compile({}))
    if reference:
        return [torch.from_numpy(a) for a in engine.reference(*[x.numpy() for x in inputs])], graph
    return _op.Runner(engine)(list(inputs)), graph


def samples(dtypes, limit):
    """(op name, dtype, sample number, sample)."""
    for op in op_db:
        for dtype in dtypes:
            if not op.supports_dtype(dtype, "cpu"):
                continue
            try:
                # All at once: the generator switches grad mode, which must not happen while a graph is traced.
                found = list(op.sample_inputs("cpu", dtype, requires_grad=False))[:limit]
            except Exception:
                continue
            for i, sample in enumerate(found):
                yield op, dtype, i, sample


def check(op, dtype, sample, reference):
    """Compares one sample; raises Skip, AssertionError or the engine's error. Returns the overloads used."""
    inputs = tensors_of([sample.input, sample.args, sample.kwargs], [])
    inputs = [x.detach() for x in inputs]
    if not inputs or any(x.is_complex() or x.is_sparse for x in inputs):
        raise Skip("no dense real tensor")

    def call(*values):
        it = iter(values)
        a, args, kwargs = with_tensors([sample.input, list(sample.args), dict(sample.kwargs)], it)
        return op.op(a, *args, **kwargs)

    flat = tensors_of(call(*[x.clone() for x in inputs]), [])
    if not flat or any(y.is_complex() for y in flat):
        raise Skip("no dense real result")
    results, graph = run(call, inputs, reference)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    try:
        exact = tensors_of(call(*wide), [])
    except Exception:
        exact = flat
    if len(results) != len(flat):
        raise Skip("other outputs")
    for y, e, x in zip(results, flat, exact):
        depth = max((i.numel() for i in inputs), default=1)
        assert_accurate(y, e, x, depth=depth)
    return {str(n.target) for n in graph.graph.nodes if n.op == "call_function"}


def sweep(dtypes=DTYPES, limit=3, reference=False, names=None, verbose=True):
    counts, reasons, failures, covered = collections.Counter(), collections.Counter(), [], set()
    torch.manual_seed(0)
    for op, dtype, i, sample in samples(dtypes, limit):
        if names and op.name not in names:
            continue
        try:
            if verbose:
                print("·", op.name, i, file=sys.stderr)
            covered |= check(op, dtype, sample, reference)
            counts["passed"] += 1
        except Skip as skip:
            counts["skipped"] += 1
            reasons[str(skip)] += 1
        except (ingot.UnsupportedError,) as problem:
            counts["skipped"] += 1
            reasons["unsupported: " + problem.message.split("\n")[0][:70]] += 1
        except Exception as problem:
            counts["failed"] += 1
            failures.append((op.name, op.variant_test_name, str(dtype), i, f"{type(problem).__name__}: {str(problem)[:160]}"))
    return counts, reasons, failures, covered


if __name__ == "__main__":
    faulthandler.enable()
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    chosen = [getattr(torch, t) for t in sys.argv[2].split(",")] if len(sys.argv) > 2 else DTYPES
    counts, reasons, failures, covered = sweep(chosen, limit)
    for f in failures[:200]:
        print(*f)
    print(reasons.most_common(25))
    print(dict(counts), len(covered & TABLE), "overloads covered")
