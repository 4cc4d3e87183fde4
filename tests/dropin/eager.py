"""Compares a compiled model with eager, by tests/accuracy.py."""

import copy
import sys
from pathlib import Path

import torch
import torch.utils._pytree as pytree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate
from calls import Calls  # noqa: F401  (for the tests beside this)


def wide(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def same(result, model, *args, depth=256, **kwargs):
    """Whether a call's result is as accurate as eager's, in the structure of eager's."""
    with torch.no_grad():
        eager, exact = model(*args, **kwargs), copy.deepcopy(model).double()(*pytree.tree_map(wide, args), **pytree.tree_map(wide, kwargs))
    (ours, spec), (theirs, their_spec), (right, _) = map(pytree.tree_flatten, (result, eager, exact))
    assert spec == their_spec
    for a, b, c in zip(ours, theirs, right):
        assert_accurate(a, b, c, depth) if isinstance(b, torch.Tensor) else None
        assert isinstance(b, torch.Tensor) or a == b


class Small(torch.nn.Module):
    """Two layers with a sine between them, which a test can keep in torch."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 4)
        self.eval()

    def forward(self, x, k=None):
        y = torch.nn.functional.gelu(self.first(x))
        return self.second(torch.sin(y if k is None else y + k))
