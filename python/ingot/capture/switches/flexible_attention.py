"""flex_attention: attention whose scores a function of the model changes, and a function masks. While torch traces for an engine, it is written out as products, these functions and a softmax.

Formula: math_attention next to torch's operator, which eager runs.
"""

from __future__ import annotations

import contextlib
import math

import torch

from ...base import debug
from ...torch_internals.flexible import flex_attention
from ...torch_internals.operators import DispatchKey, below_autograd, replaced, safe_softmax
from ...torch_internals.tracing import ProxyTorchDispatchMode

OPERATOR = flex_attention


@contextlib.contextmanager
def written_out():
    """While torch traces: each flex_attention is written out, and has no derivative."""
    if debug.is_disabled("flexible_attention"):
        yield
        return
    with replaced(OPERATOR, [(OPERATOR.python_key_table, ProxyTorchDispatchMode, _traced), (OPERATOR.py_kernels, DispatchKey.Autograd, _below_autograd)]):
        yield


def _traced(mode, *args, **kwargs):
    with mode:
        return _attention(*args, **kwargs)


def _below_autograd(*args, **kwargs):
    with below_autograd():
        return OPERATOR(*args, **kwargs)


def _attention(query, key, value, score_mod, block_mask, scale, kernel_options, score_buffers=(), mask_buffers=()):
    """query [B, Hq, L, E], key [B, H, S, E] and value [B, H, S, Ev] or of batch 1, Hq a multiple of H. Gives the result [B, Hq, L, Ev], and the logarithms of the sums and the greatest
    scores of the rows [B, Hq, L], both by log(2).

    The model's functions take the score and the indices of batch, head, query and key as numbers. Here they take all at once, as tensors that broadcast to [B, Hq, L, S].
    """
    key, value = (_of_heads(x, query.shape[0], query.shape[1]) for x in (key, value))
    working = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = query.to(working) @ key.to(working).transpose(-2, -1) * scale
    places = [torch.arange(size, device=query.device).view([-1 if i == axis else 1 for i in range(4)]) for axis, size in enumerate(scores.shape)]
    scores = torch.where(block_mask[-1](*places, *mask_buffers), score_mod(scores, *places, *score_buffers), -math.inf)
    masked = (scores == -math.inf).all(-1)
    sums = torch.where(masked, -math.inf, scores.logsumexp(-1))
    weights = safe_softmax(scores, -1)
    return weights.to(query.dtype) @ value, sums / math.log(2), scores.amax(-1) / math.log(2)


def _of_heads(x, batch, heads):
    """x of so many batches and heads, each of its heads for several neighbours."""
    each = heads // x.shape[1]
    return x.unsqueeze(2).expand(batch, x.shape[1], each, *x.shape[2:]).reshape(batch, heads, *x.shape[2:]) if each > 1 else x.expand(batch, *x.shape[1:])
