"""Shapes of results that torch's tracers need and torch lacks, so that models with these operators can be captured."""

from __future__ import annotations

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
