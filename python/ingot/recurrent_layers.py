"""nn.LSTM, nn.GRU and nn.RNN in Dynamo's graphs: it makes none of them unless `torch._dynamo.config.allow_rnn` is on. The setting is on while Dynamo meets such a layer for a backend of
ingot's, and only then, so that other backends and the user's own setting stay as they are."""

from __future__ import annotations

import contextlib
import functools

import torch
from torch._dynamo import config
from torch._dynamo.variables.builder import VariableBuilder

from . import composites

_LAYERS = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)
_INSIDE = ("_torchdynamo_orig_backend", "compiler_fn", "__wrapped__", "func")  # what Dynamo, torch.compile, functools.wraps and functools.partial call the function inside
_backends = []
_traces = set()  # those in which layers are kept whole


def captured(backend):
    """Decorates a backend of torch.compile that takes these layers."""
    _backends.append(backend)
    _allow()
    return backend


@functools.cache
def _allow():
    wrap_module = VariableBuilder.wrap_module

    @functools.wraps(wrap_module)
    def wrap(self, value):
        if not isinstance(value, _LAYERS) or not any(_backend_of(self) is backend for backend in _backends):
            return wrap_module(self, value)
        _keep_whole(self.tx.output)
        with config.patch(allow_rnn=True):
            return wrap_module(self, value)

    VariableBuilder.wrap_module = wrap


def _keep_whole(output):
    """Until the trace ends, torch's own code of these layers does not run, which would fix the number of steps."""
    if id(output) not in _traces:
        _traces.add(id(output))
        until_it_ends = contextlib.ExitStack()
        until_it_ends.callback(_traces.discard, id(output))
        until_it_ends.enter_context(composites.recurrent_layers_whole())
        output.add_cleanup_hook(until_it_ends.close)


def _backend_of(builder):
    """The function that will get the graph of a trace, without what is around it."""
    function = builder.tx.output.compiler_fn
    while (inside := next((getattr(function, name) for name in _INSIDE if hasattr(function, name)), None)) is not None:
        function = inside
    return function
