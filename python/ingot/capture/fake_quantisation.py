"""ModelOpt's two fake-quantisation operators, so that programs that it exported load and compile without ModelOpt. They round floats to fewer distinct values.

They are composed of torch's operators. torch expands them while it traces; ingot expands them in a program that still has them.
"""

from __future__ import annotations

import importlib.util

import torch

from ..errors import UnsupportedError

_SCHEMAS = {
    "quantize_op": "(Tensor input, Tensor amax, int num_bits=8, int exponent_bits=0, bool unsigned=False, bool narrow_range=True) -> Tensor",
    "dynamic_block_quantize_op": "(Tensor input, int block_size, Tensor amax, int num_bits, int exponent_bits, int scale_num_bits, int scale_exponent_bits) -> Tensor",
}
_library: torch.library.Library | None = None


def define():
    """Defines tensorrt::quantize_op and tensorrt::dynamic_block_quantize_op, unless ModelOpt is installed and does."""
    global _library
    if _library is not None or importlib.util.find_spec("modelopt") is not None or hasattr(torch.ops.tensorrt, "quantize_op"):
        return
    _library = torch.library.Library("tensorrt", "FRAGMENT")
    for name, function in (("quantize_op", quantize), ("dynamic_block_quantize_op", dynamic_block_quantize)):
        _library.define(name + _SCHEMAS[name])
        _library.impl(name, function, "CompositeImplicitAutograd")


def quantize(input, amax, num_bits=8, exponent_bits=0, unsigned=False, narrow_range=True):
    """input rounded to whole multiples of amax / (2**(num_bits - 1) - 1), or with exponent_bits=4 and num_bits=8 to the e4m3 numbers times amax / 448. amax: one number, or of a shape that
    broadcasts; 0 gives 0. Computed in float32."""
    x, largest = input.float(), amax.float()
    if exponent_bits == 0:
        top = 2 ** (num_bits - (0 if unsigned else 1)) - 1
        bottom = 0 if unsigned else -top if narrow_range else -top - 1
        scale = _factor(top, largest)
        return (torch.clamp(torch.round(x * scale), bottom, top) / _no_zero(scale)).to(input.dtype)
    if (num_bits, exponent_bits) != (8, 4):
        raise UnsupportedError(f"tensorrt::quantize_op of {num_bits} bits with {exponent_bits} of the exponent is not known", remedy="integers (exponent_bits=0) and e4m3 (8, 4) are")
    scale = _factor(448.0, largest)
    return (_e4m3(x * scale) / _no_zero(scale)).to(input.dtype)


def dynamic_block_quantize(input, block_size, amax, num_bits, exponent_bits, scale_num_bits, scale_exponent_bits):
    """input rounded to e2m1 numbers times a scale for each block_size of its last axis, which is an e4m3 number times amax / (6 * 448): NVFP4. Computed in float32."""
    if (num_bits, exponent_bits, scale_num_bits, scale_exponent_bits) != (4, 2, 8, 4):
        raise UnsupportedError(
            f"tensorrt::dynamic_block_quantize_op of ({num_bits}, {exponent_bits}) with scales of ({scale_num_bits}, {scale_exponent_bits}) is not known", remedy="NVFP4, (4, 2) with (8, 4), is"
        )
    if input.shape[-1] % block_size != 0:
        raise UnsupportedError(f"tensorrt::dynamic_block_quantize_op: the last axis has {input.shape[-1]} elements, no multiple of {block_size}", remedy="pad it")
    x = input.float().unflatten(-1, (-1, block_size))
    whole = amax.float() / (6.0 * 448.0)
    scale = _e4m3(x.abs().amax(-1, keepdim=True) / 6.0 / _no_zero(whole)) * whole
    safe = _no_zero(scale)
    return torch.where(scale == 0, 0.0, _rounded(x / safe, 1, 0, 6.0) * safe).flatten(-2).to(input.dtype)


def _factor(top, largest):
    """top / most, and 0 where that is not a positive number."""
    return torch.where(largest <= 0, 0.0, top / _no_zero(largest))


def _no_zero(x):
    return torch.where(x == 0, 1.0, x)


def _e4m3(x):
    return _rounded(x, 3, -6, 448.0)


def _rounded(x, mantissa: int, lowest: int, largest: float):
    """Rounds to floats with this many mantissa bits, lowest exponent and largest number: to nearest even, clamped at the largest."""
    size = torch.clamp(x.abs(), min=2.0**lowest)
    step = torch.exp2(torch.floor(torch.log2(size)) - mantissa)
    return torch.clamp(torch.round(x / step) * step, -largest, largest)
