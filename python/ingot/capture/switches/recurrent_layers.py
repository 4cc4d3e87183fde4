"""nn.LSTM, nn.GRU and nn.RNN in Dynamo's graphs: it makes none of them unless its setting `allow_rnn` is on. The setting is on while Dynamo meets such a layer for a backend of
ingot's, and only then, so that other backends and the user's own setting stay as they are. A layer on packed sequences runs in torch, between two graphs: how many sequences a
step has is data, and torch's traces of such a layer fail (torch 2.11: "its data is not allocated yet")."""

from __future__ import annotations

import contextlib
import functools

import torch

from ...base import debug
from ...torch_internals.dynamo import allowing_recurrent_layers, broken_code, wrap_modules_by
from ...torch_internals.modules import codes_of_packed_sequences
from .. import composites
from . import inlined, own_traces

_LAYERS = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)
_traces = set()  # those in which layers are kept whole


@functools.cache
def allow():
    """Dynamo's graphs for a backend of ingot's may have these layers."""
    wrap_modules_by(_wrapping)
    inlined.add("recurrent_layers", lambda code: broken_code() if code in codes_of_packed_sequences() else None)


def _wrapping(wrap_module):
    def wrap(self, value):
        if not isinstance(value, _LAYERS) or not own_traces.is_own(self.tx.output) or debug.is_disabled("recurrent_layers"):
            return wrap_module(self, value)
        _keep_whole(self.tx.output)
        with allowing_recurrent_layers():
            return wrap_module(self, value)

    return wrap


def _keep_whole(output):
    """Until the trace ends, torch's own code of these layers does not run, which would fix the number of steps."""
    if id(output) not in _traces:
        _traces.add(id(output))
        until_it_ends = contextlib.ExitStack()
        until_it_ends.callback(_traces.discard, id(output))
        until_it_ends.enter_context(composites.recurrent_layers_whole())
        output.add_cleanup_hook(until_it_ends.close)

