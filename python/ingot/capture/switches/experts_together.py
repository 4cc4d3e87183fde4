"""Experts of transformers that a model computes one by one, in a loop over those that data chose: torch.export cannot trace it. While it traces, they are computed together, as transformers does
by default (`experts_implementation="grouped_mm"`); the results are the same up to rounding."""

from __future__ import annotations

import contextlib
import sys

from ...base import debug


@contextlib.contextmanager
def together():
    """While torch exports. For one thread at a time (tracing.py)."""
    experts = getattr(sys.modules.get("transformers.integrations.moe"), "ExpertsInterface", None)
    if experts is None or debug.is_disabled("experts_together"):
        yield
        return
    chosen = experts.get_interface

    def get_interface(self, experts_implementation, default):
        return chosen(self, "grouped_mm" if experts_implementation == "eager" else experts_implementation, default)

    experts.get_interface = get_interface
    try:
        yield
    finally:
        experts.get_interface = chosen
