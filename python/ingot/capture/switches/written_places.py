"""Writes to places that are known only when the model runs, `self.q[self.n % 4] = x` with n a tensor, while torch.export traces. torch asks for the number; here aten.index_put_ writes there."""

from __future__ import annotations

import contextlib

import torch

from ...base import debug
from ...torch_internals.tensors import is_fake
from .. import places


class _Writes(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.__setitem__ and is_fake(args[0]) and places.has_number(places.items_of(args[1])):
            return places.write(*args)
        return function(*args, **kwargs or {})


def by_an_operator():
    """For one thread at a time (tracing.py)."""
    return contextlib.nullcontext() if debug.is_disabled("written_places") else _Writes()
