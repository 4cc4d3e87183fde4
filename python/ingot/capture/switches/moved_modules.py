"""`self.experts[0].to(x.device)` in a model's code, of a module that is there already and of that type: nothing changes. torch's own code of it gives each parameter anew, which torch.export refuses and
engines cannot follow. A module that would change does what torch's code does."""

from __future__ import annotations

import contextlib
import types

import torch

from ...base import debug
from ...torch_internals.modules import place_of_move
from . import inlined

_move = torch.nn.Module.to
_torchs_code = _move.__code__
moved = types.FunctionType(_torchs_code.replace(co_name="moved"), _move.__globals__, "moved")  # torch's own


def is_there(module, device, dtype) -> bool:
    """Whether all tensors of a module are on a device and of a type; None stands for any."""
    for tensor in [*module.parameters(), *module.buffers()]:
        if device is not None and (tensor.device.type != device.type or device.index is not None and tensor.device.index != device.index):
            return False
        if dtype is not None and tensor.dtype != dtype and (tensor.is_floating_point() or tensor.is_complex()):
            return False
    return True


def _to(self, *args, **kwargs):
    """In place of torch's code, whose module it has for its names."""
    from ingot.capture.switches.moved_modules import is_there, moved, place_of_move

    device, dtype, _, layout = place_of_move(*args, **kwargs)
    return self if layout is None and is_there(self, device, dtype) else moved(self, *args, **kwargs)


@contextlib.contextmanager
def as_they_are():
    """While torch exports. For one thread at a time (tracing.py)."""
    if debug.is_disabled("moved_modules"):
        yield
        return
    _move.__code__ = _to.__code__
    try:
        yield
    finally:
        _move.__code__ = _torchs_code


def allow():
    """And while Dynamo traces for a backend of ingot's."""
    inlined.add("moved_modules", lambda code: _to.__code__ if code is _torchs_code else None)
