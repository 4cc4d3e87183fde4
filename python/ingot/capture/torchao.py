"""torchao's operator that dequantises weights in groups, in a form that says how many bits the integers need. torchao's own decomposition, which torch takes otherwise, drops their range."""

from __future__ import annotations

import torch


def composites() -> dict:
    """How each is written here, by operator: none where torchao is not imported."""
    op = getattr(torch.ops.torchao, "dequantize_affine", None)
    return {} if op is None else {op.default: dequantize_affine}


def dequantize_affine(input, block_size, scale, zero_point, input_dtype, quant_min=None, quant_max=None, output_dtype=torch.float32):
    """(input - zero_point) * scale, where each has one scale and zero_point for block_size[i] elements along axis i. The operator asks for integers from quant_min to quant_max: others are clamped.

    A matrix of int8 with blocks along its last axis; torch's own decomposition for anything else."""
    along_rows = input.dim() == 2 and len(block_size) == 2 and block_size[0] == 1
    if not along_rows or input.dtype != torch.int8 or quant_min is None or quant_max is None or input.shape[1] % block_size[1] != 0:
        return NotImplemented
    group = block_size[1]
    rows, groups = input.shape[0], input.shape[1] // group
    if scale.numel() != rows * groups or zero_point is not None and zero_point.numel() != rows * groups:
        return NotImplemented
    numbers = input if quant_min <= -128 and quant_max >= 127 else input.clamp(quant_min, quant_max)
    values = numbers.reshape(rows, groups, group).to(output_dtype)
    if zero_point is not None:
        values = values - zero_point.reshape(rows, groups, 1).to(output_dtype)
    return (values * scale.reshape(rows, groups, 1)).reshape(rows, input.shape[1]).to(output_dtype)
