"""Experts of transformers that a model computes one by one, in a loop over those that data chose: torch.export cannot trace it, and Dynamo leaves its graph at each turn. While they trace, experts are
computed together, as transformers does by default (`experts_implementation="grouped_mm"`); the results are the same up to rounding."""

from __future__ import annotations

import contextlib
import sys

from ...base import debug
from . import inlined


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


def allow():
    """And while Dynamo traces for a backend of ingot's."""

    def code_of(code):
        experts = _interface()
        return _together.__code__ if experts is not None and code is experts.get_interface.__code__ else None

    inlined.add("experts_together", code_of)
