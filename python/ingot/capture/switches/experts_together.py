"""Experts of transformers that a model computes one by one, in a loop over those that data chose: torch.export cannot trace it, and Dynamo leaves its graph at each turn. While they trace, experts are
computed together, as transformers does by default (`experts_implementation="grouped_mm"`); the results are the same up to rounding."""

from __future__ import annotations

import contextlib
import functools
import sys

from ...base import debug
from ...torch_internals.dynamo import inline_by
from . import own_traces


def _together(self, experts_implementation, default):
    """In place of ExpertsInterface.get_interface."""
    if experts_implementation is None:
        return default
    return self["grouped_mm" if experts_implementation == "eager" else experts_implementation]


def _interface():
    """None until transformers' experts are imported."""
    return getattr(sys.modules.get("transformers.integrations.moe"), "ExpertsInterface", None)


@contextlib.contextmanager
def together():
    """While torch exports. For one thread at a time (tracing.py)."""
    experts = _interface()
    if experts is None or debug.is_disabled("experts_together"):
        yield
        return
    before, experts.get_interface = experts.get_interface, _together
    try:
        yield
    finally:
        experts.get_interface = before


@functools.cache
def allow():
    """And while Dynamo traces for a backend of ingot's."""

    def code_of(output, function):
        experts = _interface()
        is_asked = experts is not None and function.get_code() is experts.get_interface.__code__
        return _together.__code__ if is_asked and own_traces.is_own(output) and not debug.is_disabled("experts_together") else None

    inline_by(code_of)
