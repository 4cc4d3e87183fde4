"""How the result of nn.MultiheadAttention lies in memory. Eager's quick attention gives it row-major, and torch.export copies the slow one's result to lie so too, unless a mode of torch's
functions is on. While torch exports, one always is: nn.MultiheadAttention is told of its tensors alone."""

from __future__ import annotations

import contextlib
import sys

import torch

from ...base import debug
from ...torch_internals.modules import functions_asked_by
from ...torch_internals.tensors import no_torch_function

_ASKING = torch.nn.MultiheadAttention.forward


def _of_tensors(original):
    def has_functions(tensors):
        if sys._getframe(1).f_code is not _ASKING.__code__ or any(t is None for t in tensors):  # without a bias eager is not quick
            return original(tensors)
        return any(type(t) is not torch.Tensor and type(t).__torch_function__ is not no_torch_function for t in tensors)

    return has_functions


@contextlib.contextmanager
def as_eager():
    """While torch exports. For one thread at a time (tracing.py)."""
    if debug.is_disabled("attention_layout"):
        yield
        return
    with functions_asked_by(_of_tensors):
        yield
