"""Plain tensors: tensors whose elements are in memory, at the places that their strides give. Engines read only these."""

from __future__ import annotations

import numpy
import torch

from ..errors import InputError
from ..torch_internals.tensors import FakeTensor, is_zero_tensor, no_torch_function

_MEMORY_ONLY = (torch.Tensor.__torch_function__.__func__, no_torch_function)


def not_one(value, name: str) -> InputError:
    """The refusal of a value that is no tensor where an engine takes one."""
    remedy = f"give torch.from_numpy({name}); ingot.load_engine(path).session() takes arrays" if isinstance(value, numpy.ndarray) else ""
    return InputError(f"input {name!r} is of type {type(value).__name__}, but the engine takes a tensor there", remedy=remedy)


def why_not(tensor: torch.Tensor, name: str) -> tuple[str, str] | None:
    """None for a plain tensor. Otherwise what it is ("is on the meta device ..."), and what to pass instead."""
    if tensor.is_nested:
        return "is a nested tensor, and engines take plain ones", "give torch.nested.to_padded_tensor(...) and a mask, or one tensor a call"
    if _own_operators(type(tensor)):
        return f"is of type {type(tensor).__name__}, a tensor subclass that engines do not know", "give a plain tensor"
    if tensor.layout is not torch.strided:
        return f"has layout {str(tensor.layout).removeprefix('torch.')}, but the engine takes strided tensors", f"give {name}.to_dense()"
    if tensor.is_meta:
        return "is on the meta device, which holds no values", "give one with values"
    if tensor.numel() > 0 and _is_nowhere(tensor):
        return "has no memory", "give one with values"
    return None


def _is_nowhere(tensor):
    if is_zero_tensor(tensor):
        return True
    try:
        return tensor.data_ptr() == 0
    except RuntimeError:  # a torch transform wraps the tensor
        return False


def _own_operators(kind: type) -> bool:
    """True if the class computes torch.Tensor's operators in its own way."""
    function = kind.__torch_function__
    return kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or getattr(function, "__func__", function) not in _MEMORY_ONLY


def inputs(flat, names) -> list:
    """The inputs of a call. A subclass of torch.Tensor without operators of its own becomes a plain torch.Tensor; one with its own operators is an error."""
    return [_input(value, name) for value, name in zip(flat, names)]


def _input(value, name):
    if type(value) is torch.Tensor or not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor) or value.is_nested:
        return value
    if _own_operators(type(value)):
        why, remedy = why_not(value, name)
        raise InputError(f"input {name!r} {why}", remedy=remedy)
    return value.as_subclass(torch.Tensor)
