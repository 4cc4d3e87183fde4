"""nn.LSTM, nn.GRU and nn.RNN in Dynamo's graphs: it makes none of them unless `torch._dynamo.config.allow_rnn` is on. The setting is on while Dynamo meets such a layer for a backend of
ingot's, and only then, so that other backends and the user's own setting stay as they are."""

from __future__ import annotations

import functools

import torch
from torch._dynamo import config
from torch._dynamo.variables.builder import VariableBuilder

_LAYERS = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)
_INSIDE = ("_torchdynamo_orig_backend", "compiler_fn", "__wrapped__", "func")  # what Dynamo, torch.compile, functools.wraps and functools.partial call the function inside
_backends = set()


def captured(backend):
    """Decorates a backend of torch.compile that takes these layers."""
    _backends.add(backend)
    _allow()
    return backend


@functools.cache
def _allow():
    wrap_module = VariableBuilder.wrap_module

    @functools.wraps(wrap_module)
    def wrap(self, value):
        if not isinstance(value, _LAYERS) or _backend_of(self) not in _backends:
            return wrap_module(self, value)
        with config.patch(allow_rnn=True):
            return wrap_module(self, value)

    VariableBuilder.wrap_module = wrap


def _backend_of(builder):
    """The function that will get the graph of a trace, without what is around it."""
    function = builder.tx.output.compiler_fn
    while (inside := next((getattr(function, name) for name in _INSIDE if hasattr(function, name)), None)) is not None:
        function = inside
    return function
