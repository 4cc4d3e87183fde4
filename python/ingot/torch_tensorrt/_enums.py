"""Enumerations: element types, memory formats, devices, platforms."""

from __future__ import annotations

import platform
import sys
from enum import Enum, auto

import torch

from ..errors import InputError


class dtype(Enum):
    """Element types. `_from`, `to`, `try_from` and `try_to` convert between these, torch's and numpy's; complex types have no member."""

    unknown = auto()
    u8 = auto()
    i8 = auto()
    i32 = auto()
    i64 = auto()
    f16 = auto()
    f32 = auto()
    f64 = auto()
    b = auto()
    bf16 = auto()
    f8 = auto()
    f4 = auto()

    uint8 = u8
    int8 = i8
    int32 = i32
    int64 = long = i64
    float16 = half = fp16 = f16
    float32 = float = fp32 = f32
    float64 = double = fp64 = f64
    bool = b
    bfloat16 = bf16
    float8 = fp8 = f8
    float4 = fp4 = f4

    @classmethod
    def try_from(cls, t, use_default=False):
        """The member for a torch.dtype, a numpy type or a member; None if there is none (float32 for None with use_default)."""
        if isinstance(t, cls):
            return t
        if t is None:
            return cls.f32 if use_default else None
        if isinstance(t, torch.dtype):
            return _MEMBERS.get(t)
        try:
            import numpy

            return _MEMBERS.get(getattr(torch, numpy.dtype(t).name, None))
        except (TypeError, ModuleNotFoundError):
            return None

    @classmethod
    def _from(cls, t, use_default=False):
        """The same, or a TypeError."""
        found = cls.try_from(t, use_default)
        if found is None:
            raise TypeError(f"{t!r} is not a type of torch_tensorrt.dtype; complex tensors are given as they are, without an Input")
        return found

    def try_to(self, t, use_default=False):
        """This type as a `t`: torch.dtype, numpy.dtype or torch_tensorrt.dtype; None if `t` has no such type. `unknown` is float32 with use_default."""
        member = dtype.f32 if self is dtype.unknown and use_default else self
        if t is dtype:
            return member
        found = _TORCH.get(member)
        if t is torch.dtype or found is None:
            return found if t is torch.dtype else None
        import numpy

        if t is numpy.dtype:
            try:
                return numpy.dtype(str(found).removeprefix("torch."))
            except TypeError:
                return None
        raise TypeError(f"torch_tensorrt.dtype converts to torch.dtype, numpy.dtype and torch_tensorrt.dtype, not to {t!r}: TensorRT is not used here")

    def to(self, t, use_default=False):
        """The same, or a TypeError."""
        found = self.try_to(t, use_default)
        if found is None:
            raise TypeError(f"{self} has no {t!r}")
        return found

    def __eq__(self, other):
        return self is other or (isinstance(other, torch.dtype) and _TORCH.get(self) is other)

    def __hash__(self):
        return hash(self.name)


_TORCH = {
    dtype.u8: torch.uint8, dtype.i8: torch.int8, dtype.i32: torch.int32, dtype.i64: torch.int64, dtype.f16: torch.float16, dtype.f32: torch.float32,
    dtype.f64: torch.float64, dtype.b: torch.bool, dtype.bf16: torch.bfloat16, dtype.f8: torch.float8_e4m3fn,
}  # fmt: skip
_MEMBERS = {theirs: ours for ours, theirs in _TORCH.items()}


class memory_format(Enum):
    """Memory formats of tensors. `linear`, `hwc` and `dhwc` are torch's contiguous, channels_last and channels_last_3d; the others are TensorRT's own."""

    linear = auto()
    chw2 = auto()
    hwc8 = auto()
    chw4 = auto()
    chw16 = auto()
    chw32 = auto()
    dhwc8 = auto()
    cdhw32 = auto()
    hwc = auto()
    dla_linear = auto()
    dla_hwc4 = auto()
    hwc16 = auto()
    dhwc = auto()

    contiguous = linear
    channels_last = hwc
    channels_last_3d = dhwc

    @classmethod
    def try_from(cls, f):
        return f if isinstance(f, cls) else _FORMATS.get(f)

    @classmethod
    def _from(cls, f):
        """The member for a torch.memory_format or a member, or a TypeError."""
        found = cls.try_from(f)
        if found is None:
            raise TypeError(f"{f!r} is not a memory format: torch.contiguous_format, torch.channels_last, torch.channels_last_3d or a torch_tensorrt.memory_format")
        return found

    def try_to(self, t):
        return self if t is memory_format else next((theirs for theirs, ours in _FORMATS.items() if ours is self), None)

    def to(self, t=torch.memory_format):
        """torch's memory format, or an InputError for one that only TensorRT has."""
        found = self.try_to(t)
        if found is None:
            raise InputError(f"memory format {self.name} is TensorRT's own", remedy="memory_format.linear, .channels_last or .channels_last_3d")
        return found


_FORMATS = {torch.contiguous_format: memory_format.linear, torch.channels_last: memory_format.hwc, torch.channels_last_3d: memory_format.dhwc}


class DeviceType(Enum):
    """The type of a `Device`. CPU is ingot's own member: TensorRT has none."""

    UNKNOWN = auto()
    GPU = auto()
    DLA = auto()
    CPU = auto()

    @classmethod
    def _from(cls, d):
        """The member for a torch.device, its type's name or a member."""
        if isinstance(d, cls):
            return d
        kind = d.type if isinstance(d, torch.device) else str(d).lower().split(":")[0]
        found = {"cuda": cls.GPU, "gpu": cls.GPU, "dla": cls.DLA, "cpu": cls.CPU}.get(kind)
        if found is None:
            raise ValueError(f"{d!r} is not a device of torch_tensorrt: give \"cuda:0\" or \"cpu\"")
        return found


class EngineCapability(Enum):
    """ingot has only STANDARD; the other two are TensorRT's and are refused when set."""

    STANDARD = auto()
    SAFETY = auto()
    DLA_STANDALONE = auto()

    @classmethod
    def _from(cls, c):
        if isinstance(c, cls):
            return c
        try:
            return cls[str(getattr(c, "name", c)).upper()]
        except KeyError:
            raise TypeError(f"{c!r} is not an EngineCapability: {', '.join(m.name for m in cls)}") from None


class Platform(Enum):
    """The platform that an engine runs on."""

    LINUX_X86_64 = "linux_x86_64"
    LINUX_AARCH64 = "linux_aarch64"
    WIN_X86_64 = "win_x86_64"
    WIN_ARM64 = "win_arm64"
    UNKNOWN = "unknown"

    @classmethod
    def current_platform(cls) -> "Platform":
        system = "win" if sys.platform == "win32" else sys.platform
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
        name = f"{system}_{'arm64' if (system, machine) == ('win', 'aarch64') else machine}"
        return next((m for m in cls if m.value == name), cls.UNKNOWN)

    def __str__(self):
        return self.value
