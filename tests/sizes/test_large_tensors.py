"""Tensors of more than 2^31 elements on a GPU: indices of 64 bits in every kind of kernel, beside eager."""

import gc
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from calls import Calls

import ingot

LARGE = (1 << 31) + 4096
ROWS, COLUMNS = 1 << 16, (1 << 15) + 8
PART = 1 << 28  # elements compared at a time
LEAST_MEMORY = 60 << 30  # bytes: operands, eager's result and ingot's

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_properties(0).total_memory < LEAST_MEMORY, reason="needs a GPU with 60 GB"
)


def half(*shape):
    return torch.empty(*shape, device="cuda", dtype=torch.float16).uniform_(-1, 1)


def ones(*shape, dtype):
    return torch.ones(*shape, device="cuda", dtype=dtype)


def last(count):
    return torch.arange(LARGE - count, LARGE, device="cuda")


functional = torch.nn.functional
# name: the function, its operands, and the bound on the error in units of the result's largest value; 0 where nothing is rounded otherwise than in eager
CASES = {
    "elementwise": (lambda x: (x * 2 + 1).relu(), lambda: (half(LARGE),), 0),
    "broadcast": (lambda x, y: x + y, lambda: (half(ROWS, COLUMNS), half(COLUMNS)), 0),
    "sum of rows": (lambda x: x.float().sum(1), lambda: (half(ROWS, COLUMNS),), 1e-6),
    "sum of columns": (lambda x: x.float().sum(0), lambda: (half(ROWS, COLUMNS),), 1e-6),
    "sum of all": (lambda x: x.sum(), lambda: (ones(LARGE, dtype=torch.int8),), 0),
    "far gather": (lambda x, i: x[i], lambda: (half(LARGE), last(1000)), 0),
    "rows gathered": (lambda x, i: x[i], lambda: (half(1 << 21, 1040), torch.arange((1 << 21) - 100, 1 << 21, device="cuda")), 0),
    "far write": (lambda x, i, v: x.index_put((i,), v), lambda: (half(LARGE), last(1000), half(1000)), 0),
    "scatter": (lambda x, i, v: x.scatter(0, i, v), lambda: (half(LARGE), last(1000), half(1000)), 0),
    "cat": (lambda x, y: torch.cat([x, y, x]), lambda: (half((1 << 30) + 8), half(4096)), 0),
    "transpose": (lambda x: x.t().contiguous(), lambda: (half(ROWS, COLUMNS),), 0),
    "permute": (lambda x: x.permute(2, 0, 1).contiguous(), lambda: (half(64, ROWS, 520),), 0),
    "pad": (lambda x: functional.pad(x, (3, 5)), lambda: (half(ROWS, COLUMNS),), 0),
    "softmax": (lambda x: x.softmax(-1), lambda: (half(ROWS, COLUMNS),), 2e-3),
    "layer norm": (lambda x: functional.layer_norm(x, (x.shape[-1],)), lambda: (half(ROWS, COLUMNS),), 2e-3),
    "product of 2^26 rows": (lambda x, w: x @ w, lambda: (half(1 << 26, 40), half(40, 40)), 2e-3),
    "linear and gelu of 2^26 rows": (lambda x, w, b: functional.gelu(functional.linear(x, w, b)), lambda: (half(1 << 26, 40), half(40, 40), half(40)), 2e-3),
    "convolution": (lambda x, w: functional.conv2d(x, w, padding=1), lambda: (half(40, 8, 2600, 2600), half(8, 8, 3, 3)), 2e-3),
    "max pool": (lambda x: functional.max_pool2d(x, 2), lambda: (half(40, 8, 2600, 2604),), 0),
    "cumsum": (lambda x: x.cumsum(1), lambda: (ones(ROWS, COLUMNS, dtype=torch.bool),), 0),
    "argmax": (lambda x: x.argmax(1), lambda: (half(ROWS, COLUMNS),), 0),
}


@pytest.fixture(autouse=True)
def memory():
    yield
    gc.collect()
    torch.cuda.empty_cache()


@pytest.mark.parametrize("name", CASES)
def test_large(name):
    function, operands, bound = CASES[name]
    torch.manual_seed(0)
    with torch.no_grad():
        given = operands()
        made, eager = ingot.compile(Calls(function), inputs=list(given), fallback="error")(*given), function(*given)
    assert (made.shape, made.dtype) == (eager.shape, eager.dtype)
    parts = list(zip(made.flatten().split(PART), eager.flatten().split(PART)))
    largest = max(theirs.abs().max().item() for _, theirs in parts)
    worst = max((ours.double() - theirs.double()).abs().max().item() for ours, theirs in parts)
    assert worst <= bound * largest
