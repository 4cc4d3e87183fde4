"""`ingot.Input`: the shape, dtype and name of one input of a model, and the dimensions that inputs share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import InputError

if TYPE_CHECKING:
    import torch

_DTYPES = {  # a user's name -> torch's name
    "fp16": "float16", "fp32": "float32", "fp64": "float64", "f16": "float16", "half": "float16", "float16": "float16", "bf16": "bfloat16", "bfloat16": "bfloat16",
    "f32": "float32", "float": "float32", "float32": "float32", "f64": "float64", "double": "float64", "float64": "float64",
    "i8": "int8", "int8": "int8", "u8": "uint8", "uint8": "uint8", "i16": "int16", "short": "int16", "int16": "int16",
    "i32": "int32", "int": "int32", "int32": "int32", "i64": "int64", "long": "int64", "int64": "int64",
    "b8": "bool", "bool": "bool",
    **{name: name for name in ("complex64", "complex128", "uint16", "uint32", "uint64")},
    # Operators that read these types run in torch.
    **{name: name for name in ("complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")},
}  # fmt: skip


class Input:
    """Describes one tensor input.

    Give either `shape` (every size fixed) or `min_shape`, `opt_shape` and `max_shape` (sizes may vary from the first to the last; the compiler optimises for
    `opt_shape`; a missing opt_shape is max_shape, a missing min_shape is opt_shape).

    Arguments:
        shape: sizes, e.g. (1, 3, 224, 224).
        min_shape, opt_shape, max_shape: sizes of equal rank with min <= opt <= max on every axis.
        dtype: torch.dtype, numpy dtype or a name ("float32", "f32", ...). None means float32.
        device: the device of the tensor; None: that of the model's tensors.
        name: used in messages and for the engine's binding; None takes the parameter's name.
        shared_dims: {axis: name}: axes of the same name have one size, across all inputs, positional and keyword.
        value: a constant (int, float, bool, None), for an argument that is not a tensor.
        memory_format: torch.channels_last (four axes) or torch.channels_last_3d (five), for tensors of this layout; they are read without a copy.

    Raises InputError when ranks differ, a size is negative, or min <= opt <= max is broken.
    """

    def __init__(
        self,
        shape: Sequence[int] | None = None,
        *,
        min_shape: Sequence[int] | None = None,
        opt_shape: Sequence[int] | None = None,
        max_shape: Sequence[int] | None = None,
        dtype: Any = None,
        name: str | None = None,
        shared_dims: Mapping[int, str] | None = None,
        device: str | torch.device | None = None,
        value: int | float | bool | None = None,
        memory_format: torch.memory_format | None = None,
    ) -> None:
        self.name, self.device, self.value = name, device, value
        label = f"input {name!r}" if name else "an input"
        ranged = [s for s in (min_shape, opt_shape, max_shape) if s is not None]
        if shape is not None and ranged:
            raise InputError(f"{label}: give either shape or min_shape/opt_shape/max_shape, not both")
        if shape is None and not ranged:
            raise InputError(f"{label}: a shape is needed", remedy="Input((1, 3, 224, 224)) or Input(min_shape=..., opt_shape=..., max_shape=...)")
        if shape is not None:
            min_shape = opt_shape = max_shape = shape
        else:
            if max_shape is None:
                raise InputError(f"{label}: max_shape is missing")
            opt_shape = max_shape if opt_shape is None else opt_shape
            min_shape = opt_shape if min_shape is None else min_shape
        self.min_shape, self.opt_shape, self.max_shape = (self._sizes(s, label) for s in (min_shape, opt_shape, max_shape))
        ranks = {len(self.min_shape), len(self.opt_shape), len(self.max_shape)}
        if len(ranks) > 1:
            raise InputError(
                f"{label}: min_shape {self.min_shape}, opt_shape {self.opt_shape} and max_shape {self.max_shape} have different ranks"
            )
        for axis, (low, opt, high) in enumerate(zip(self.min_shape, self.opt_shape, self.max_shape)):
            if not low <= opt <= high:
                raise InputError(f"{label}: axis {axis} has min {low}, opt {opt}, max {high}; min <= opt <= max must hold")
        if math.prod(max(size, 1) for size in self.opt_shape) >= 2**59:  # an example has this shape
            raise InputError(f"{label}: shape {self.opt_shape} has more elements than memory has room for")
        self.dtype = _dtype_name(dtype, label)
        self.memory_format = _memory_format(memory_format, len(self.min_shape), label)
        self.shared_dims = {}
        for axis, shared in dict(shared_dims or {}).items():
            rank = len(self.min_shape)
            if not isinstance(axis, int) or not -rank <= axis < rank:
                raise InputError(f"{label}: shared_dims names axis {axis!r}, but the input has rank {rank}")
            if not isinstance(shared, str) or not shared.isidentifier():
                raise InputError(f"{label}: shared_dims[{axis}] is {shared!r}; a dimension's name must be an identifier such as \"B\"")
            self.shared_dims[axis % rank] = shared

    @staticmethod
    def _sizes(shape, label):
        if not isinstance(shape, Sequence) or isinstance(shape, str):
            raise InputError(f"{label}: a shape is a sequence of sizes, not {shape!r}")
        sizes = []
        for size in shape:
            if isinstance(size, bool) or not hasattr(size, "__index__"):
                raise InputError(f"{label}: size {size!r} in shape {tuple(shape)} is not an integer")
            if size.__index__() < 0:
                raise InputError(f"{label}: size {size} in shape {tuple(shape)} is negative")
            sizes.append(size.__index__())
        return tuple(sizes)

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, *, name: str | None = None) -> Input:
        """An Input with the tensor's shape, dtype and memory format."""
        import torch

        known = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
        has_format = known is not None and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=known)
        return cls(tuple(tensor.shape), dtype=tensor.dtype, name=name, memory_format=known if has_format else None)

    @property
    def dynamic_axes(self) -> list[int]:
        """Axes that vary or are shared."""
        return [axis for axis in range(len(self.min_shape)) if self.varies(axis) or axis in self.shared_dims]

    def varies(self, axis: int) -> bool:
        return self.min_shape[axis] != self.max_shape[axis]

    def range_of(self, axis: int) -> tuple[int, int, int]:
        """The (min, opt, max) sizes of an axis."""
        return self.min_shape[axis], self.opt_shape[axis], self.max_shape[axis]

    def example(self, which: str = "opt") -> torch.Tensor:
        """A torch tensor of the min, opt or max shape: zeros for integers and bools, random normal for floats."""
        import torch

        shape = {"min": self.min_shape, "opt": self.opt_shape, "max": self.max_shape}[which]
        dtype = getattr(torch, self.dtype)
        made = torch.randn(shape).to(dtype) if dtype.is_floating_point or dtype.is_complex else torch.zeros(shape, dtype=dtype)
        return made.contiguous(memory_format=self.memory_format or torch.contiguous_format)

    def __repr__(self):
        shape = f"{self.opt_shape}" if self.min_shape == self.max_shape else f"{self.min_shape}..{self.opt_shape}..{self.max_shape}"
        format = f", memory_format={self.memory_format}" if self.memory_format else ""
        return f"Input({shape}, {self.dtype}{f', name={self.name!r}' if self.name else ''}{format})"


def _dtype_name(dtype, label):
    if dtype is None:
        return "float32"
    text = str(dtype).removeprefix("torch.")
    if isinstance(dtype, type):
        text = dtype.__name__
    text = text.rstrip("_")
    if text not in _DTYPES:
        raise InputError(f"{label}: dtype {dtype!r} is not known", remedy="one of " + ", ".join(sorted(set(_DTYPES.values()))))
    return _DTYPES[text]


def _memory_format(given, rank, label):
    if given is None or str(given) == "torch.contiguous_format":
        return None
    needed = {"torch.channels_last": 4, "torch.channels_last_3d": 5}.get(str(given))
    if needed is None:
        raise InputError(f"{label}: memory_format {given!r} is not known", remedy="torch.contiguous_format, torch.channels_last or torch.channels_last_3d")
    if needed != rank:
        raise InputError(f"{label}: {given} is for tensors of {needed} axes, and the input has rank {rank}")
    return given
