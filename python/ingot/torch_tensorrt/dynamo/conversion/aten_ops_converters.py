"""Validators of nodes, for `dynamo_tensorrt_converter(capability_validator=...)` of scripts. Upstream's converters in this module build layers of TensorRT, and are not here."""

from __future__ import annotations

import torch


def cross_validator(node: torch.fx.Node, settings=None) -> bool:
    """Whether the axis of a cross product is known to have three elements in both operands."""
    axis = _argument(node, "dim", 2, -1)
    return all(shape is not None and -len(shape) <= axis < len(shape) and isinstance(shape[axis], int) and shape[axis] == 3 for shape in map(_shape, node.args[:2]))


def sort_validator(node: torch.fx.Node, settings=None) -> bool:
    """Whether a sort has an axis to sort along, which a tensor of rank 0 has not."""
    shape, axis = _shape(node.args[0]), _argument(node, "dim", 1, -1)
    return shape is not None and -len(shape) <= axis < len(shape)


def index_has_bool_indices(node: torch.fx.Node, settings=None) -> bool:
    """Whether one of the indices of `aten.index` is a mask, so that the size of the result comes from data."""
    return any(_value(index).dtype is torch.bool for index in node.args[1] if index is not None and _value(index) is not None)


def index_nonbool_validator(node: torch.fx.Node, settings=None) -> bool:
    """True: engines take masks as indices too."""
    return True


def _argument(node, name, place, otherwise):
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, otherwise)


def _value(node):
    """What is recorded of a node: an example, or metadata with its shape."""
    found = node.meta.get("val")
    return found if found is not None else node.meta.get("tensor_meta")


def _shape(node):
    value = _value(node)
    return None if value is None else tuple(value.shape)
