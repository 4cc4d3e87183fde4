"""Other code for functions that Dynamo inlines in a trace for a backend of ingot's. One wrapper of Dynamo's function asks every switch that has such code, in this order."""

from __future__ import annotations

import functools
import types

from ...base import debug
from ...torch_internals.dynamo import inline_by
from . import own_traces

_switches = {}


def add(switch: str, code_of):
    """code_of(a function's code) gives other code, or None. It is not asked while INGOT_DISABLE names the switch."""
    _switches[switch] = code_of
    _wrap()


@functools.cache
def _wrap():
    inline_by(_code_of)


def _code_of(output, function) -> types.CodeType | None:
    if not own_traces.is_own(output):
        return None
    code = function.get_code()
    return next((other for name, code_of in _switches.items() if not debug.is_disabled(name) and (other := code_of(code)) is not None), None)
