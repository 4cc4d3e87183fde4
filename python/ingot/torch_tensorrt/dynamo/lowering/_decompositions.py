"""Decompositions that the user registers."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....errors import InputError

torch_trt_decompositions: dict[torch._ops.OpOverload, Callable] = {}


def register_torch_trt_decomposition(aten_op, registry=None):
    """A decorator: the function stands for the operator (an OpOverload, or a packet: all of its overloads) in every build from now on. It takes the operator's
    arguments and composes torch's operators. An operator that has one already is an InputError."""
    overloads = overloads_of(aten_op)

    def register(function):
        target = torch_trt_decompositions if registry is None else registry
        for overload in overloads:
            if overload in target and target[overload] is not function:
                raise InputError(f"{overload} has a decomposition already", remedy="del torch_tensorrt.dynamo.lowering.torch_trt_decompositions[op] first")
            target[overload] = function
        return function

    return register


def overloads_of(key) -> list[torch._ops.OpOverload]:
    """An operator as its overloads."""
    if isinstance(key, torch._ops.OpOverload):
        return [key]
    if isinstance(key, torch._ops.OpOverloadPacket):
        return [getattr(key, name) for name in key.overloads()]
    raise InputError(f"{key!r} is no operator of torch", remedy="give torch.ops.namespace.name.overload")


def get_decompositions(enable_experimental_decompositions=False, decompose_attention=False, use_fp32_acc=False) -> dict:
    """What `ExportedProgram.run_decompositions` takes: the user's, and with enable_experimental_decompositions torch's core table too. ingot needs none: it expands
    operators by its own table."""
    return {**(torch._decomp.core_aten_decompositions() if enable_experimental_decompositions else {}), **torch_trt_decompositions}
