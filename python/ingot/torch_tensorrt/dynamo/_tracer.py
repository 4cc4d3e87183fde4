"""The sizes that Inputs leave open, as torch.export takes them."""

from __future__ import annotations

import inspect

import torch

from .._Input import Input
from .._said import log
from ._compiler import trace

__all__ = ["build_dim_registry", "get_dynamic_shapes_args", "get_dynamic_shapes_kwargs", "trace"]


def build_dim_registry(args, kwargs) -> dict[str, torch.export.Dim]:
    """{name: Dim} for the shared dimensions of Inputs. Logs which axes share one. Raises ValueError if their ranges differ."""
    places: dict[str, list] = {}
    for where, value in [*((f"args[{i}]", v) for i, v in enumerate(args)), *kwargs.items()]:
        for leaf in _inputs(value):
            for axis, name in leaf.shared_dims.items():
                span = leaf.shape["min_shape"][axis], leaf.shape["max_shape"][axis]
                places.setdefault(name, []).append((f"{leaf.name or where}[{axis}]", span))
    for name, axes in places.items():
        if len({span for _, span in axes}) > 1:
            raise ValueError(f"shared dimension {name!r} has different ranges: " + ", ".join(f"{place} from {low} to {high}" for place, (low, high) in axes))
        log.getChild("dynamo._tracer").info("shared dimension %r: %s", name, ", ".join(place for place, _ in axes))
    return {name: torch.export.Dim(name, min=axes[0][1][0], max=axes[0][1][1]) for name, axes in places.items()}


def _inputs(value) -> list[Input]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [value] if isinstance(value, Input) else [leaf for v in inner for leaf in _inputs(v)]


class _Dims:
    """Dims for axes. Axes with the same shared name have one Dim. So have axes of the same place and range in inputs of the same name (or without a name)."""

    def __init__(self, registry=None):
        self._registry, self._made = registry or {}, {}

    def of(self, value):
        """{axis: Dim} of an Input, in the nesting of the inputs; an empty dictionary for fixed inputs."""
        if isinstance(value, dict):
            return {name: self.of(v) for name, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.of, value))
        if not isinstance(value, Input) or value.shape_mode is Input._ShapeMode.STATIC:
            return {}
        ends = enumerate(zip(value.shape["min_shape"], value.shape["max_shape"]))
        return {axis: self._dim(value, axis, low, high) for axis, (low, high) in ends if low != high}

    def _dim(self, value, axis, low, high):
        if (shared := value.shared_dims.get(axis)) in self._registry:
            return self._registry[shared]
        key = (shared or f"{value.name}_{axis}", low, high)
        name = key[0] if all(other[0] != key[0] for other in self._made) else f"{key[0]}_{len(self._made)}"
        if key not in self._made:
            self._made[key] = torch.export.Dim(name if name.isidentifier() else f"axis_{len(self._made)}", min=low, max=high)
        return self._made[key]


def get_dynamic_shapes_args(mod, inputs, registry=None) -> dict:
    """{parameter: {axis: Dim}} for inputs by position. registry: of build_dim_registry."""
    return dict(zip(inspect.signature(mod.forward).parameters, map(_Dims(registry).of, inputs)))


def get_dynamic_shapes_kwargs(inputs, registry=None):
    """`get_dynamic_shapes_args` for inputs by name, or for one input."""
    return _Dims(registry).of(inputs)
