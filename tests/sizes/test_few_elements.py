"""Operators of losses, segments, triangles and counts on tensors of no element and of one: eager's values, shapes and dtypes."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from calls import Calls

import ingot

F = torch.nn.functional
NONE = torch.zeros(0, dtype=torch.int64)


def numbers(*shape):
    return torch.linspace(-1.5, 2, torch.Size(shape).numel()).reshape(shape)


CASES = {
    "repeat_interleave of nothing": (lambda x, n: x.repeat_interleave(n, 0), numbers(0, 2), NONE),
    "repeat_interleave to nothing": (lambda x, n: x.repeat_interleave(n, 0, output_size=0), numbers(3, 2), torch.tensor([0, 0, 0])),
    "repeat_interleave of one": (lambda x, n: x.repeat_interleave(n), numbers(1), torch.tensor([4])),
    "tril_indices of nothing": (lambda x: torch.tril_indices(0, 5) + x, torch.tensor([0])),
    "triu_indices of all": (lambda x: torch.triu_indices(3, 4, -7) + x, torch.tensor([0])),
    "triu_indices of none": (lambda x: torch.triu_indices(3, 4, 9) + x, torch.tensor([0])),
    "block_diag": (torch.block_diag, numbers(0, 3), numbers(2, 1)),
    "mode of one": (lambda x: x.mode(0), numbers(1, 3)),
    "mode of no lines": (lambda x: x.mode(1), numbers(0, 3)),
    "renorm of no slices": (lambda x: x.renorm(2, 0, 0.1), numbers(0, 3)),
    "renorm of empty slices": (lambda x: x.renorm(1, 1, 0.1), numbers(3, 0)),
    "nll_loss of nothing": (F.nll_loss, numbers(0, 3), NONE),
    "nll_loss of nothing, each": (lambda x, t: F.nll_loss(x, t, reduction="none"), numbers(0, 3), NONE),
    "mse_loss of nothing": (F.mse_loss, numbers(0), numbers(0)),
    "multi_margin_loss of one": (F.multi_margin_loss, numbers(1, 1), torch.tensor([0])),
    "multi_margin_loss of a row": (F.multi_margin_loss, numbers(4), torch.tensor(2)),
    "multilabel_margin_loss of one": (F.multilabel_margin_loss, numbers(1), torch.tensor([0])),
    "multilabel_margin_loss of ended lists": (F.multilabel_margin_loss, numbers(2, 4), torch.tensor([[3, 0, -1, 1], [-1, 0, 0, 0]])),
    "cross_entropy of one class": (F.cross_entropy, numbers(1, 1), torch.tensor([0])),
    "cross_entropy where all are ignored": (F.cross_entropy, numbers(2, 3), torch.tensor([-100, -100])),
    "binary_cross_entropy at its ends": (F.binary_cross_entropy, torch.tensor([0.0, 1.0, 0.5]), torch.tensor([1.0, 0.0, 0.5])),
    "nonzero_static of nothing": (lambda x: torch.nonzero_static(x, size=3), numbers(0, 2)),
    "nonzero_static without axes": (lambda x: torch.nonzero_static(x, size=1), torch.tensor(1.0)),
    "put of nothing": (lambda x, i, s: x.put(i, s), numbers(2, 2), NONE, numbers(0)),
    "frexp of nothing": (torch.frexp, numbers(0)),
    "frexp at its ends": (torch.frexp, torch.tensor([0.0, -0.0, 1.0, -8.0, float("inf"), float("nan"), 1e-40])),
    "segment_reduce of nothing": (lambda x, n: torch.segment_reduce(x, "max", lengths=n), numbers(0, 2), torch.tensor([0, 0])),
    "bincount": (lambda x: torch.bincount(x, minlength=3), torch.tensor([1, 5, 1])),
    "lcm with 0": (torch.lcm, torch.tensor([0, 4, -6]), torch.tensor([3, 0, 4])),
    "logsumexp of nothing": (lambda x: (x.logsumexp(0), x.logsumexp((0, 1), keepdim=True), x.logsumexp(1)), numbers(0, 3)),
    "ldexp to 0": (torch.ldexp, torch.tensor([1.0, 2.0]), torch.tensor([3, -200])),
    "ldexp at its ends": (torch.ldexp, torch.tensor([2.0**-149, 1e-30, 0.0, -0.0, float("inf"), float("nan"), 1.0, -3.0]), torch.tensor([276, 150, 5000, -9, 3, 4, 128, 127])),
    "ldexp of float64": (torch.ldexp, torch.tensor([2.0**-1074, 1.0, 3.0, 1.5], dtype=torch.float64), torch.tensor([2000, -1000, 1022, 7000])),
    "ldexp of float16": (torch.ldexp, torch.tensor([2.0**-10, 1.0, 3.0]).half(), torch.tensor([20, 17, -2], dtype=torch.int32)),
    "ldexp of bfloat16": (torch.ldexp, torch.tensor([2.0**-100, 1.0]).bfloat16(), torch.tensor([200, -3])),
    "ldexp of integers": (torch.ldexp, torch.tensor([3, -5]), torch.tensor([2, -1])),
    "ldexp by floats": (torch.ldexp, torch.tensor([3.0, -5.0]), torch.tensor([2.5, -1.0])),
}


def listed(results):
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("name", CASES)
def test_few_elements(name):
    function, *inputs = CASES[name]
    compiled = ingot.compile(Calls(function), inputs=[t.clone() for t in inputs], fallback="error")
    for y, e in zip(listed(compiled(*inputs)), listed(function(*inputs)), strict=True):
        torch.testing.assert_close(y, e, equal_nan=True)
