"""The layout of what nn.MultiheadAttention returns. In eager, its kernel for inference gives contiguous results; without that kernel a batch-first layer gives a transposed view. torch.export's own
tracing keeps the layer from the kernel, and the program would have the view's strides."""

from __future__ import annotations

import contextlib

from ...base import debug
from ...torch_internals.modules import attention_traced_as_in_eager


def as_in_eager():
    """While torch exports. For one thread at a time (tracing.py)."""
    return contextlib.nullcontext() if debug.is_disabled("attention_layouts") else attention_traced_as_in_eager()
