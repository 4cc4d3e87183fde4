"""Indices that are integer tensors without axes: `q[n % 4] = x`. torch reads such an index as a number, which its tracers refuse. The same elements are written by `aten.index_put_`."""

from __future__ import annotations

import torch

from .memory import of_memory

_ALL = slice(None)
_WHOLE_NUMBERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def is_number(item) -> bool:
    return isinstance(item, torch.Tensor) and not item.dim() and item.dtype in _WHOLE_NUMBERS


def items_of(index) -> tuple:
    return index if isinstance(index, tuple) else (index,)


def has_number(items, is_number=is_number) -> bool:
    """Whether one of them is such an index, and torch takes a view by the others."""
    others = [item for item in items if not is_number(item)]
    return len(others) < len(items) and all(item is None or item is ... or isinstance(item, (slice, int)) and not isinstance(item, bool) for item in others)


def split_index(axes: int, items, is_number=is_number) -> tuple[tuple, list]:
    """Splits an index of a tensor of so many axes in two: the items that take a view, with `:` in place of the numbers, and then the indices along the axes of that view."""
    open_axes = axes - sum(item is not None and item is not ... for item in items)
    indices: list = []
    for item in items:
        indices += [item] if is_number(item) else [None] * (open_axes if item is ... else 0 if isinstance(item, int) else 1)
    return tuple(_ALL if is_number(item) else item for item in items), indices


def takes_all(items) -> bool:
    return all(item is ... or item == _ALL for item in items)


def read(tensor: torch.Tensor, index, is_number=is_number) -> torch.Tensor:
    """tensor[index]."""
    others, indices = split_index(tensor.dim(), items_of(index), is_number)
    return torch.ops.aten.index.Tensor(tensor if takes_all(others) else tensor[others], indices)


def write(tensor: torch.Tensor, index, value) -> torch.Tensor:
    """tensor[index] = value."""
    others, indices = split_index(tensor.dim(), items_of(index))
    view = tensor if takes_all(others) else tensor[others]
    axes = view.dim() - sum(i is not None for i in indices)
    value = value.to(tensor.device, tensor.dtype) if isinstance(value, torch.Tensor) else torch.full((), value, dtype=tensor.dtype, device=tensor.device)
    value = value.reshape(value.shape[max(value.dim() - axes, 0) :])  # torch drops ones in front; other sizes there are an error of reshape's
    value = value.clone() if of_memory(value) == of_memory(tensor) else value  # the operator refuses what it writes
    torch.ops.aten.index_put_.default(view, indices, value)
    return tensor
