"""Masks of nn.Transformer and its layers. Unless it is told, torch compares a mask's values with a causal one's, only to choose a quicker kernel. A trace has no values: the mask stays a mask,
which gives the same results."""

from __future__ import annotations

import contextlib

from ...base import debug
from ...torch_internals.modules import asks_whether_causal
from . import inlined


def _as_told(mask, is_causal=None, size=None):
    return is_causal is True


@contextlib.contextmanager
def as_told():
    """While torch exports: nobody asks the values. For one thread at a time (tracing.py)."""
    if debug.is_disabled("asked_masks"):
        yield
        return
    before, asks_whether_causal.__code__ = asks_whether_causal.__code__, _as_told.__code__
    try:
        yield
    finally:
        asks_whether_causal.__code__ = before


def allow():
    """Nor while Dynamo traces for a backend of ingot's."""
    asked = asks_whether_causal.__code__
    inlined.add("asked_masks", lambda code: _as_told.__code__ if code is asked else None)
