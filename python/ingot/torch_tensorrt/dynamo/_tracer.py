"""The sizes that Inputs leave open, as torch.export takes them."""

from __future__ import annotations

import inspect

import torch

from .._Input import Input
from ._compiler import trace

__all__ = ["get_dynamic_shapes_args", "trace"]


def get_dynamic_shapes_args(mod, inputs) -> dict:
    """{parameter: {axis: Dim}} for inputs by position; an empty dictionary for a parameter whose sizes are fixed. Axes of one shared name are one Dim, and so are those of one
    place and range in inputs of one name (or of none)."""
    dims: dict[tuple, object] = {}

    def of(value):
        if isinstance(value, (list, tuple)):
            return type(value)(map(of, value))
        if not isinstance(value, Input) or value.shape_mode is Input._ShapeMode.STATIC:
            return {}
        found = {}
        for axis, (low, high) in enumerate(zip(value.shape["min_shape"], value.shape["max_shape"])):
            if low != high:
                key = (value.shared_dims.get(axis, f"{value.name}_{axis}"), low, high)
                name = key[0] if all(other[0] != key[0] for other in dims) else f"{key[0]}_{len(dims)}"
                found[axis] = dims.setdefault(key, torch.export.Dim(name if name.isidentifier() else f"axis_{len(dims)}", min=low, max=high))
        return found

    return dict(zip(inspect.signature(mod.forward).parameters, map(of, inputs)))
