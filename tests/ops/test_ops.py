"""The operator table against eager: torch's own OpInfo samples x dtypes x {static, dynamic} x backends (--backend: reference and cpu, or cuda).

A plain run draws a fixed sample of the combinations; INGOT_TEST_ALL=1 runs them all. Each test is one combination and
compares every sample of it; what is skipped is counted by reason and printed."""

from __future__ import annotations

import os
import re
import zlib

import pytest
import torch
from accuracy import assert_accurate, float64_error
from capture_sample import Call, NotCaptured, run
from conftest import compared, covered, ran, skipped
from ingot.engine import _engine, _library
from ingot.errors import UnsupportedError
from skips import reason
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

ALL = os.environ.get("INGOT_TEST_ALL") == "1"
DTYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.float16, torch.bfloat16)
SAMPLES = 1000 if ALL else 1  # per combination
SHARE = 1 if ALL else 8       # one in so many combinations


TARGETS = {row["name"] for row in _library.ops()}
ROWS = {target.split(".")[1].strip("_") for target in TARGETS}


def in_table(op) -> bool:
    names = (op.name, op.aten_name, *(a.name for a in op.aliases))
    return any(n and n.rpartition(".")[2].strip("_") in ROWS for n in names)


def combinations():
    for op in filter(in_table, op_db):
        for dtype in DTYPES:
            if not op.supports_dtype(dtype, "cpu"):
                continue
            for mode in ("static", "dynamic"):
                name = ".".join(filter(None, (op.name, op.variant_test_name)))
                short = str(dtype).removeprefix("torch.")
                identity = f"{name}-{short}-{mode}"
                if zlib.crc32(identity.encode()) % SHARE == 0:
                    yield pytest.param(op, dtype, mode, id=identity)


def depth_of(op, call):
    """No element's chain of additions is longer than the largest operand; elementwise functions have none."""
    return 1 if isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo)) else max((t.numel() for t in call.tensors), default=1)


# Operators that return indices of elements, with the place of `dim` among their arguments: torch does not define which of equal elements comes first.
TIED = {"sort": 0, "argsort": 0, "topk": 1, "kthvalue": 1, "median": 0, "nanmedian": 0, "mode": 0}


def named(op, sample, results):
    """The elements instead of their positions, none of which may appear twice."""
    place, index = TIED.get(op.name), results[-1]
    if place is None or sample.kwargs.get("stable") or sample.input.ndim == 0 or len(results) == 1 and op.name != "argsort":
        return results
    dim = sample.kwargs.get("dim", sample.args[place] if len(sample.args) > place else -1)
    index = index if index.ndim == sample.input.ndim else index.unsqueeze(dim)
    assert (index.sort(dim).values.diff(dim=dim) > 0).all(), "a position appears twice"
    return [*results[:-1], sample.input.take_along_dim(index, dim)]


LOGS_OF_SUMS = {"logsumexp", "logcumsumexp", "logaddexp", "log_softmax", "nn.functional.log_softmax"}


def why_unsupported(error) -> str:
    """The reason without names of values, so that equal reasons count together."""
    found = re.search(r"aten\.[\w.]+", str(error))
    text = str(error).splitlines()
    if found:
        listed = found.group(0) in TARGETS
        return "refused: " + re.sub(r"[0-9]+", "N", text[1].strip())[:110] if listed else "no row: " + found.group(0)
    return "refused: " + re.sub(r"[0-9]+", "N", text[0])[:110]


def target_of(backend) -> str:
    if backend.startswith("sm_"):
        return f"cuda:{backend}"
    return "cuda:sm_{}{}".format(*torch.cuda.get_device_capability()) if backend == "cuda" else "cpu"


def compile_or_skip(call, dynamic, target, skipped=skipped):
    """A plan. None if the call is listed as refused, or torch itself cannot capture it. Anything else is a failure."""
    try:
        return call.compile(dynamic, target)
    except UnsupportedError as error:
        if "a fault of ingot" in str(error):
            raise
        skipped[why_unsupported(error)] += 1
    except NotCaptured as error:
        skipped[str(error)] += 1
    return None


@pytest.mark.parametrize("op, dtype, mode", list(combinations()))
def test_op(op, dtype, mode, backends, request):
    ran.add(request.node.callspec.id)
    why = reason(op.name, str(dtype).removeprefix("torch."), mode)
    if why:
        skipped[why] += 1
        pytest.skip(why)
    torch.manual_seed(0)
    done, problems = 0, []
    # As a list: an open generator would be closed, and its no_grad recorded, in the middle of a capture.
    for number, sample in enumerate(list(op.sample_inputs("cpu", dtype))[:SAMPLES]):
        call = Call(op, sample)
        on_cpu = call(*call.tensors)
        if any(t.dtype not in DTYPES and t.dtype not in (torch.uint8, torch.int8, torch.int16) for t in (*on_cpu, *call.tensors)):
            skipped["complex or quantised tensors"] += 1
            continue
        plans = {}
        try:
            for target in map(target_of, backends):
                if target not in plans:
                    plans[target] = compile_or_skip(call, mode == "dynamic", target)
        except Exception as error:
            problems.append(f"sample {number}: compile: {type(error).__name__}: {str(error)[:300]}")
            continue
        try:
            exact = call.exact()
        except Exception:
            exact = on_cpu  # an operator without float64
        errors = float64_error(call, call.tensors, on_cpu)
        for backend in backends:
            plan = plans[target_of(backend)]
            if plan is None:
                continue
            try:
                if not backend.startswith("sm_"):
                    compare(op, sample, call, run(_engine.Engine(plan), call.tensors, backend), call.eager(backend, on_cpu), exact, errors)
                compared[f"{backend} {mode}"] += 1
                covered.update((target, str(dtype), mode) for target in call.targets & TARGETS)
                done += 1
            except Exception as error:
                shapes = [tuple(t.shape) for t in call.tensors]
                problems.append(f"sample {number} {shapes} {sample.args} {sample.kwargs} on {backend}: {type(error).__name__}: {str(error)[:300]}"[:700])
    assert not problems, f"{len(problems)} problems\n" + "\n".join(problems[:6])
    if not done:
        pytest.skip("no sample could be compared (see the reasons below)")


def compare(op, sample, call, results, eager, exact, errors):
    assert len(results) == len(eager), f"{len(results)} results, eager has {len(eager)}"
    for y, e, x, error in zip(*(named(op, sample, r) for r in (results, eager, exact)), errors):
        assert_accurate(y, e, x, depth_of(op, call), op.name.removeprefix("masked.") in LOGS_OF_SUMS, error)
