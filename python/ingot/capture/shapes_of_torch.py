"""Shapes of results that torch's tracers need and torch lacks or gets wrong, so that models with these operators can be captured."""

from __future__ import annotations

import functools

import torch

from ..torch_internals.operators import has_kernel
from ..torch_internals.shapes import set_rule, set_shape_rule, with_parts, without_shapes_of_reference
from ..torch_internals.tensors import without_modes
from .switches import recurrent_casts


def define():
    """Rules for operators that have none, or too narrow a one: CTC loss, what a GRU cell is on a GPU, products of groups in float32 and float16, and a pooling of volumes whose batch is open."""
    for name, rule in _RULES.items():
        if not has_kernel(f"aten::{name}", "Meta"):
            torch.library.register_fake(f"aten::{name}", rule)
    set_rule(torch.ops.aten._grouped_mm.default, _grouped_mm)
    set_rule(torch.ops.aten.fractional_max_pool3d.default, _fractional_max_pool)


def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    """The loss of each sequence [B], and the log-probabilities of the paths [B, T, 2 * longest target + 1], which only a gradient reads."""
    steps, batch, _ = log_probs.shape
    return log_probs.new_empty([batch]), log_probs.new_empty([batch, steps, 2 * targets.shape[-1] + 1])


def _gru_cell(input_gates, hidden_gates, hidden, input_bias=None, hidden_bias=None):
    """The hidden state [B, H], and what a gradient reads [B, 5 * H]."""
    batch, size = hidden.shape
    return torch.empty_like(hidden), hidden.new_empty([batch, 5 * size])


def _recurrent_layers(mode, x, states, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    """The output and the last states, which have the shapes of the first ones. Torch has no rule: it takes one step after another, and so fixes their number."""
    states = states if isinstance(states, (list, tuple)) else [states]
    with mode:
        steps, batch = x.shape[:2] if not batch_first else (x.shape[1], x.shape[0])
        output = x.new_empty([steps, batch, states[0].shape[2] * (2 if bidirectional else 1)])
        return (output.transpose(0, 1) if batch_first else output, *(state.new_empty(state.shape) for state in states))


def _cdist(mode, a, b, p=2.0, compute_mode=None):
    """The distances of each pair. Torch's own code asks whether there are more than 25 vectors, of which it computes otherwise."""
    with mode:
        return a.new_empty([*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-2]])


def _norm(composite, mode, x, *args, **kwargs):
    """Some axes of the operand, maybe of size 1. Torch's own code asks whether they are empty, which fixes them: it is asked about a tensor whose sizes tell the axes apart."""
    with without_modes():
        told = composite(torch.empty([2 + axis for axis in range(x.dim())], dtype=x.dtype, device="meta"), *args, **kwargs)
    with mode:
        return x.new_empty([1 if size == 1 else x.shape[size - 2] for size in told.shape], dtype=told.dtype)


def _grouped_mm(mode, operator, a, b, offs=None, bias=None, out_dtype=None):
    """A product for each group of rows, of columns, or of the inner axis, or for each matrix."""
    groups = offs.shape[:1] if a.dim() == b.dim() == 2 else a.shape[:1] if a.dim() == b.dim() == 3 else ()
    with mode:
        return a.new_empty([*groups, a.shape[-2], b.shape[-1]], dtype=out_dtype)


def _fractional_max_pool(mode, operator, x, kernel_size, output_size, random_samples):
    """The pooled tensor, and where its elements were. Torch's own rule fixes all sizes."""
    shape = [*x.shape[: -len(output_size)], *output_size]
    with mode:
        return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


_RULES = {"_ctc_loss": _ctc_loss, "_ctc_loss.Tensor": _ctc_loss, "_thnn_fused_gru_cell": _gru_cell}
_WITH_OTHER_ARGUMENTS = (
    torch.ops.aten.nll_loss.default, torch.ops.aten.std.default, torch.ops.aten.var.default, torch.ops.aten.std_mean.default, torch.ops.aten.var_mean.default, torch.ops.aten.std_mean.dim,
)  # fmt: skip
_NORMS = (torch.ops.aten.linalg_norm.default, torch.ops.aten.linalg_matrix_norm.default)
_COMPOSITES = {torch.ops.aten.cdist.default: _cdist, **{op: functools.partial(_norm, op) for op in _NORMS}, **dict.fromkeys(recurrent_casts.LAYERS, _recurrent_layers)}
ASKING_ABOUT_SIZES = tuple(_COMPOSITES)


@functools.cache
def correct():
    """Torch takes its Python references of nll_loss, std and the like for the shapes of open sizes, but some have other arguments: reduction="none" gives the shape of a mean, and std(False), which
    means all axes, one axis. Without them torch asks the operator's parts. Composites whose own code asks about sizes have rules of their own where a tracer keeps them whole. Torch 2.11's parts of an LSTM give its last states
    an axis too many."""
    for op in _WITH_OTHER_ARGUMENTS:
        without_shapes_of_reference(op)
    for composite, rule in _COMPOSITES.items():
        set_shape_rule(composite, rule)
    with_parts(torch.ops.aten.lstm.input, _with_states_of_their_shapes)


def _with_states_of_their_shapes(parts):
    @functools.wraps(parts)
    def lstm(x, states, *more):
        output, *last = parts(x, states, *more)
        return (output, *(state if state.dim() == first.dim() else state.reshape(first.shape) for state, first in zip(last, states)))

    return lstm
