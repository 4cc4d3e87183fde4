"""Models in training mode: what they compute then that inference does not."""

from __future__ import annotations

import logging

import torch

from ..errors import UnsupportedError

log = logging.getLogger("ingot")
_MAX_NAMES = 3  # of modules in a message
_nn = torch.nn
_DROPOUTS = (_nn.Dropout, _nn.Dropout1d, _nn.Dropout2d, _nn.Dropout3d, _nn.AlphaDropout, _nn.FeatureAlphaDropout)
_NORMS = (_nn.BatchNorm1d, _nn.BatchNorm2d, _nn.BatchNorm3d, _nn.SyncBatchNorm, _nn.InstanceNorm1d, _nn.InstanceNorm2d, _nn.InstanceNorm3d)


def _active(module: torch.nn.Module) -> str | None:
    """What a module does in training mode alone."""
    if not module.training:
        return None
    if isinstance(module, _DROPOUTS) and module.p > 0 or isinstance(module, (_nn.RNNBase, _nn.MultiheadAttention)) and module.dropout > 0:
        return "dropout"
    if isinstance(module, _NORMS) and module.track_running_stats:
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
    named = "; ".join(f"{what} in {', '.join(names[:_MAX_NAMES])}{' ...' if len(names) > _MAX_NAMES else ''}" for what, names in found.items())
    message = f"the model is in training mode, where these are active: {named}"
    if options.get("fallback") == "error":
        raise UnsupportedError(message, remedy="model.eval() before it is compiled")
    log.warning("%s. Inference wants model.eval() before the model is compiled", message)
