"""`math.sqrt(x.shape[1])` of an open size. Python's function takes a number, so torch.export would fix the size to the example's. While it traces, such a root stays open, as in Dynamo's graphs;
fixes/size_numbers.py makes a tensor of it."""

from __future__ import annotations

import math

import torch

from ...base import debug
from ...torch_internals.patched import patched
from ...torch_internals.sizes import functions, square_root


class SquareRoots:
    """While torch exports. For one thread at a time (tracing.py); others get what Python's function gives."""

    def __init__(self):
        self._stay_open, self._any = not debug.is_disabled("square_roots"), False

    def __enter__(self):
        self._patch = patched(math, "sqrt", lambda plain: lambda x, /: self._root(x) if isinstance(x, (torch.SymInt, torch.SymFloat)) and self._stay_open else plain(x))
        self._patch.__enter__()

    def __exit__(self, *problem):
        self._patch.__exit__(None, None, None)

    def _root(self, size):
        self._any = True
        return square_root(size)

    def give_up(self) -> bool:
        """Whether to trace again with roots that fix sizes: where an operator takes the root as a number or a size, torch fixes the size all the same, and does not name the line."""
        again, self._stay_open = self._stay_open and self._any, False
        return again


def decide(conditions) -> bool:
    """Whether a condition on which the model's code branches, or a size that it fixes, hangs on a root. Plans compute none for a check."""
    return any(condition.has(functions.OpaqueUnaryFn_sqrt) for condition in conditions)
