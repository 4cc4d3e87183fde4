"""nn.LSTM, nn.GRU and nn.RNN under torch.autocast: one operator with casts around it, for any number of steps. Torch's own code takes one step after another."""

from __future__ import annotations

import functools

import torch

from ...torch_internals.shapes import decomposition_of
from ...torch_internals.trees import pytree
from .. import autocast

_aten = torch.ops.aten
LAYERS = tuple(getattr(_aten, name).input for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"))


def written_out(op):
    """A function in place of the operator, for torch's tracers: where autocast is on, the operator with its casts. NotImplemented, so the operator itself, where it is off."""
    libraries = {"cuda": torch.backends.cudnn.enabled, "cpu": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled}  # torch.export turns oneDNN off
    return functools.partial(_with_casts, op, decomposition_of(op), libraries)


def _with_casts(op, own_code, libraries, x, states, params, *form):
    kind, given = x.device.type, states if isinstance(states, (list, tuple)) else [states]
    if kind not in autocast.KEYS or not autocast.enabled(kind):
        return NotImplemented
    low = torch.get_autocast_dtype(kind)
    projects = len(given) == 2 and given[0].shape[2] != given[1].shape[2]
    if any(t.dtype == torch.float64 for t in (x, *given, *params)):  # autocast leaves them as they are
        return own_code(x, states, params, *form)
    # cuDNN, and oneDNN an LSTM without projections, take all operands in autocast's type. Elsewhere only products are cast: the state of a GRU, and the cell state of an LSTM, stay wider if they begin so.
    of_library = libraries[kind] and (kind == "cuda" or op is _aten.lstm.input and not projects)
    if of_library or op not in (_aten.lstm.input, _aten.gru.input) or given[-1].dtype == low:
        return _called(op, low, x, states, params, form)
    if isinstance(x.shape[1 if form[-1] else 0], int):
        return own_code(x, states, params, *form)
    # All in the wider type, with the types of the results that eager has.
    results = _called(op, torch.float32, x, states, params, form)
    return (*(t.to(low) for t in results[:2]), results[2]) if projects else results


def _called(op, dtype, x, states, params, form):
    cast = functools.partial(pytree.tree_map, lambda t: t.to(dtype))
    with torch.autocast(x.device.type, enabled=False):
        return op(cast(x), cast(states), cast(params), *form)
