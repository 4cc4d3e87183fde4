"""torch.vmap while torch.export traces: torch takes a mapped index i of `a[i]` for a number to read, and loses results that are mapped along another axis than the first."""

from __future__ import annotations

import contextlib

import torch

from ...base import debug
from ...torch_internals.tensors import is_wrapped_by_functorch
from ...torch_internals.tracing import functions_replaced_by, mapped_along_first_axis
from .. import places


def _reading(original):
    def other(self, function, args, kwargs):
        if function is torch.Tensor.__getitem__ and places.has_number(places.items_of(args[1]), _is_mapped):
            return places.read, (*args, _is_mapped), {}
        return original(self, function, args, kwargs)

    return other


def _is_mapped(item) -> bool:
    return places.is_number(item) and is_wrapped_by_functorch(item)


@contextlib.contextmanager
def by_operators():
    """For one thread at a time (tracing.py)."""
    if debug.is_disabled("mapped"):
        yield
        return
    with functions_replaced_by(_reading), mapped_along_first_axis():
        yield
