"""Operands of two types: each is brought to the common one first, as torch does it, so that nothing is computed in the narrower."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot

FUNCTIONS = [torch.xlogy, torch.atan2, torch.hypot, torch.logaddexp, torch.pow, torch.remainder, torch.div]


class Both(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, a, b):
        return self.function(a, b), self.function(b, a)


@pytest.mark.parametrize("narrow", [torch.float16, torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_float64_with_another_type(function, narrow):
    torch.manual_seed(0)
    model, a, b = Both(function), torch.rand(3, 7, dtype=torch.float64) + 1, (torch.rand(7) * 3 + 1).to(narrow)
    with torch.no_grad():
        eager = model(a, b)
        for got, expected in zip(ingot.compile(model, inputs=[a, b], fallback="error")(a, b), eager):
            assert_accurate(got, expected, expected, depth=64)
