"""The setting strip_engine_weights: engines without their weights, until refit_module_weights gives them some."""

from __future__ import annotations

import torch

from .._said import log
from ._settings import Settings
from .runtime._TorchTensorRTModule import TorchTensorRTModule


def strip(compiled: torch.fx.GraphModule):
    """Puts zeros in the place of the floating-point weights that engines read, as a stripped engine of upstream's has. The model's own tensors stay as they are, and so do tables of
    integers, which are structure rather than weights."""
    known = {slot.name: slot.tensor for slot in compiled.ingot_module._kind.runnable.functional.slots if slot.kind == "weight"} if _engines(compiled) else {}
    read = {weight["name"] for engine in _engines(compiled) for weight in engine.engine.inspect()["weights"]}
    zeros = {name: torch.zeros_like(tensor) for name, tensor in known.items() if name in read and tensor.is_floating_point()}
    if zeros:
        compiled.ingot_module.update_weights(zeros)
        log.warning("strip_engine_weights: %d weights are zeros until refit_module_weights gives them values", len(zeros))


def _engines(compiled) -> list[TorchTensorRTModule]:
    return [child for child in compiled.children() if isinstance(child, TorchTensorRTModule)]


def without_stripping(settings: Settings) -> Settings:
    """The settings of a build with other weights, which are there to be used."""
    return Settings({**settings.values, "strip_engine_weights": False})
