"""Users' decompositions."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....errors import InputError
from ....torch_internals.operators import OpOverload, OpOverloadPacket, name_of
from . import _rules as rules

torch_trt_decompositions: dict[OpOverload, Callable] = {}


def register_torch_trt_decomposition(aten_op, registry=None):
    """A decorator: the function replaces the operator (an OpOverload, or a packet with all of its overloads) in every later build. It takes the operator's arguments and composes
    torch's operators. Raises InputError if the operator has a decomposition already."""
    overloads = overloads_of(aten_op)

    def register(function):
        target = torch_trt_decompositions if registry is None else registry
        for overload in overloads:
            if overload in target and target[overload] is not function:
                raise InputError(f"{overload} has a decomposition already", remedy="del torch_tensorrt.dynamo.lowering.torch_trt_decompositions[op] first")
            target[overload] = function
        return function

    return register


def overloads_of(key) -> list[OpOverload]:
    """An operator as its overloads."""
    if isinstance(key, OpOverload):
        return [key]
    if isinstance(key, OpOverloadPacket):
        return [getattr(key, name) for name in key.overloads()]
    raise InputError(f"{key!r} is not an operator of torch", remedy="give torch.ops.namespace.name.overload")


# Operators that stay whole: upstream has converters for them, and ingot definitions.
_WHOLE = ("_softmax", "linear", "matmul", "repeat", "index_copy", "slice_scatter", "max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices",
          "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")  # fmt: skip
_ATTENTION = ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")


def get_decompositions(enable_experimental_decompositions=False, decompose_attention=False, use_fp32_acc=False) -> dict:
    """A table for `ExportedProgram.run_decompositions` and AOTAutograd: torch's decompositions to its core operators, without those of operators that stay whole, and the user's.
    Builds need none of these: ingot expands operators by its own table.

    enable_experimental_decompositions: torch's whole table. decompose_attention: attention becomes matrix products and a softmax; with use_fp32_acc in float32.
    """
    table = dict(torch.export.default_decompositions().items())
    if not enable_experimental_decompositions:
        whole = {*_WHOLE, *_ATTENTION}
        table = {overload: rule for overload, rule in table.items() if name_of(overload) not in whole} | rules.RULES
    if decompose_attention:
        table |= rules.attention(in_float32=use_fp32_acc)
    return {**table, **torch_trt_decompositions}
