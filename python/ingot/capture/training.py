"""Models in training mode: what they compute then that inference does not."""

from __future__ import annotations

import logging

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from ..errors import UnsupportedError

log = logging.getLogger("ingot")
_MOST_NAMES = 3  # of modules in a message


def _active(module: torch.nn.Module) -> str | None:
    """What a module does in training mode alone."""
    if not module.training:
        return None
    if isinstance(module, _DropoutNd) and module.p > 0 or isinstance(module, torch.nn.RNNBase) and module.dropout > 0 or isinstance(module, torch.nn.MultiheadAttention) and module.dropout > 0:
        return "dropout"
    if isinstance(module, _NormBase) and module.track_running_stats:
        return "batch norm"
    return None


def warn(model: torch.nn.Module, options):
    """Warns of a model whose results are random or whose statistics change with each call; with fallback "error" it is refused."""
    found: dict[str, list[str]] = {}
    for name, module in model.named_modules():
        if (what := _active(module)) is not None:
            found.setdefault(what, []).append(name or type(module).__name__)
    if not found:
        return
    named = "; ".join(f"{what} in {', '.join(names[:_MOST_NAMES])}{' ...' if len(names) > _MOST_NAMES else ''}" for what, names in found.items())
    message = f"the model is in training mode, where these are active: {named}"
    if options.get("fallback") == "error":
        raise UnsupportedError(message, remedy="model.eval() before it is compiled")
    log.warning("%s. Inference wants model.eval() before the model is compiled", message)
