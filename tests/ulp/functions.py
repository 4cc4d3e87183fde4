"""Measures functions of one float32 over their inputs: the errors of ingot's kernels of each instruction set, and of given results.

The reference is computed in double by libingot_ulp (reference.cpp). An error is in units of the last place of float32 at the exact result
(2^-149 for subnormal ones, so a flushed one counts in full).
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]

FUNCTIONS = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfinv": torch.erfinv,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "softplus": torch.nn.functional.softplus,
}


class _Report(ctypes.Structure):
    _fields_ = [("error", ctypes.c_double), ("at", ctypes.c_float), ("special_at", ctypes.c_float), ("specials", ctypes.c_int64)]


@dataclass
class Result:
    error: float  # the largest, in ulp
    at: float  # where
    specials: int  # results of another kind (NaN, the sign of zero) than the first given ones
    special_at: float


def _library() -> ctypes.CDLL:
    build = os.environ.get("INGOT_BUILD", "build/release")
    library = ctypes.CDLL(str(ROOT / build / "libingot_ulp.so"))
    library.ulp_way.restype = ctypes.c_char_p
    library.ulp_walk.restype = ctypes.c_bool
    library.ulp_compute.restype = ctypes.c_bool
    return library


class Walk:
    """The errors of one function, over the inputs that are added."""

    def __init__(self, name: str):
        self.name, self._library = name, _library()
        count = self._library.ulp_ways()
        self.ways = [self._library.ulp_way(k).decode() for k in range(count)]
        self._of_ways, self._given = (_Report * count)(), (_Report * 4)()

    def add(self, x: torch.Tensor, *given: torch.Tensor, kernels: bool = True):
        """given: other results to measure too. The NaN and signed zeros of the first one are the expected ones."""
        given = [g.contiguous() for g in given]
        pointers = (ctypes.c_void_p * max(len(given), 1))(*[g.data_ptr() for g in given])
        first = 0 if kernels else len(self.ways)
        good = self._library.ulp_walk(
            self.name.encode(), ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(x.numel()), pointers, len(given), self._given, first, self._of_ways
        )
        assert good, f"{self.name} is not a function of one float"

    def of_ways(self) -> dict[str, Result]:
        """By instruction set."""
        return {way: _result(self._of_ways[k]) for k, way in enumerate(self.ways)}

    def given(self, k: int) -> Result:
        return _result(self._given[k])


def _result(r: _Report) -> Result:
    return Result(r.error, r.at, r.specials, r.special_at)


def inputs(first: int, count: int, step: int = 1) -> torch.Tensor:
    """Float32 numbers by their bit patterns: first, first + step, ..."""
    bits = np.arange(first, first + count * step, step, dtype=np.uint64).astype(np.uint32)
    return torch.from_numpy(bits.view(np.float32))


def blocks(step: int, size: int = 1 << 22):
    """All float32 numbers, or every step-th, in blocks."""
    total = ((1 << 32) + step - 1) // step
    for start in range(0, total, size):
        yield inputs(start * step, min(size, total - start), step)


def special_inputs() -> torch.Tensor:
    """Zeros, subnormals, infinities, NaN, and the numbers around every power of two, integer and half up to 200."""
    tiny = np.array([0, 1, 2, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000], dtype=np.uint32)
    powers = np.arange(0, 255, dtype=np.uint32) << 23
    halves = (np.arange(1, 401, dtype=np.float32) / 2).view(np.uint32)
    near = np.concatenate([p + np.uint32(d) - np.uint32(3) for p in (powers[1:], halves) for d in range(7)])
    bits = np.concatenate([tiny, near])
    return torch.from_numpy(np.concatenate([bits, bits | np.uint32(0x80000000)]).view(np.float32))
