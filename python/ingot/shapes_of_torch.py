"""Shapes of results that torch's tracers need and torch lacks or gets wrong, so that models with these operators can be captured."""

from __future__ import annotations

import functools

import torch


def define():
    """CTC loss: the loss of each sequence [B], and the log-probabilities of the paths [B, T, 2 * longest target + 1], which only a gradient reads."""
    for overload in ("_ctc_loss", "_ctc_loss.Tensor"):
        name = f"aten::{overload}"
        if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "Meta"):
            torch.library.register_fake(name, _ctc_loss)


def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    steps, batch, _ = log_probs.shape
    return log_probs.new_empty([batch]), log_probs.new_empty([batch, steps, 2 * targets.shape[-1] + 1])


@functools.cache
def correct():
    """Torch takes its Python reference of nll_loss for the shapes of open sizes, but the reference has other arguments: reduction="none" gives the shape of a mean. Without it torch asks
    the operator's parts."""
    from torch._decomp import decomposition_table, meta_table

    nll_loss = torch.ops.aten.nll_loss.default
    for table in (decomposition_table, meta_table):
        table.pop(nll_loss, None)
    if nll_loss.py_kernels.pop(torch._C.DispatchKey.Meta, None) is not None:
        nll_loss._dispatch_cache.clear()
