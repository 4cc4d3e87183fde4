"""Functions whose numbers torch takes as plain ones, given a size that is open: `torch.linspace(0, 1, x.shape[0])`, windows, indices of triangles, one_hot, and pooling over whole axes
(`F.max_pool1d(x, x.shape[2])`). torch would fix the size to the example's. While it traces, each is written with operators that take open sizes. A form that is not written here calls torch's own.
So is the order in which opt_einsum multiplies the operands of torch.einsum: it follows from the example's sizes, and stays."""

from __future__ import annotations

import contextlib
import functools
import math

import torch
import torch.nn.functional as F

from ...base import debug
from ...torch_internals.dynamo import call_functions_by
from ...torch_internals.trees import pytree
from ..memory import hint
from . import own_traces


class _Calls(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.einsum and not kwargs:
            return _einsum(*args)
        written = _WRITTEN.get(function)
        if written is not None and any(isinstance(leaf, (torch.SymInt, torch.SymFloat)) for leaf in pytree.tree_leaves((args, kwargs))):
            return written(*args, **kwargs)
        return function(*args, **kwargs)


def stay_open():
    """While torch exports. For one thread at a time (tracing.py)."""
    return contextlib.nullcontext() if debug.is_disabled("open_numbers") else _Calls()


@functools.cache
def allow():
    """In Dynamo's traces for a backend of ingot's."""
    call_functions_by(lambda output, function: _WRITTEN.get(function) if own_traces.is_own(output) and not debug.is_disabled("open_numbers") else None)


# ---- numbers at equal distances


def _linspace(start, end, steps, *, dtype=None, device=None, **more):
    made = dtype or torch.get_default_dtype()
    if more or isinstance(start, torch.Tensor) or isinstance(end, torch.Tensor) or not made.is_floating_point:
        return torch.linspace(start, end, steps, dtype=dtype, device=device, **more)
    wide = torch.float64 if made is torch.float64 else torch.float32
    first, last = torch.full([], start, dtype=made, device=device).to(wide), torch.full([], end, dtype=made, device=device).to(wide)
    number = torch.arange(steps, device=device)
    step = (last - first) / torch.full([], steps - 1, dtype=wide, device=device).clamp(min=1)
    # From both ends, so that the last one is exact.
    from_start = (number < steps // 2) | (number == 0)
    return torch.where(from_start, first + step * number.to(wide), last - step * (steps - 1 - number).to(wide)).to(made)


def _logspace(start, end, steps, base=10.0, *, dtype=None, device=None, **more):
    made = dtype or torch.get_default_dtype()
    if more or isinstance(start, torch.Tensor) or isinstance(end, torch.Tensor) or made not in (torch.float32, torch.float64):
        return torch.logspace(start, end, steps, base, dtype=dtype, device=device, **more)
    return torch.pow(base, _linspace(start, end, steps, dtype=torch.float64, device=device)).to(made)


# ---- einsum


def _einsum(equation, *operands):
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    optimizer = torch.backends.opt_einsum
    if not isinstance(equation, str) or len(given) < 3 or not optimizer.enabled or not any(isinstance(size, torch.SymInt) for t in given for size in t.shape):
        return torch.einsum(equation, *operands)
    shapes = [[hint(size) for size in t.shape] for t in given]
    path, _ = optimizer.get_opt_einsum().contract_path(equation, *shapes, shapes=True, optimize=optimizer.strategy)
    return torch.ops.aten.einsum.default(equation, list(given), path=[place for pair in path for place in pair])


# ---- windows


def _window(torchs, arguments, formula, dtype=None, device=None, **more):
    """arguments: what torch's function takes. formula: of the place in the window, from 0 at its first element to 1 at its last. All is computed in float64: i0 of a number near 12 has
    seven digits only if the number has eight."""
    (window_length, periodic, *_), made = arguments, dtype or torch.get_default_dtype()
    if more or made not in (torch.float32, torch.float64):
        return torchs(*arguments, dtype=dtype, device=device, **more)
    last = torch.full([], window_length - (0 if periodic else 1), dtype=torch.float64, device=device).clamp(min=1)
    place = torch.arange(window_length, device=device) / last
    return torch.where(torch.full([], window_length, device=device) == 1, 1.0, formula(place)).to(made)


def _bartlett(window_length, periodic=True, **more):
    return _window(torch.bartlett_window, (window_length, periodic), lambda place: 1 - (2 * place - 1).abs(), **more)


def _hann(window_length, periodic=True, **more):
    return _window(torch.hann_window, (window_length, periodic), lambda place: 0.5 - 0.5 * (2 * math.pi * place).cos(), **more)


def _hamming(window_length, periodic=True, alpha=0.54, beta=0.46, **more):
    return _window(torch.hamming_window, (window_length, periodic, alpha, beta), lambda place: alpha - beta * (2 * math.pi * place).cos(), **more)


def _blackman(window_length, periodic=True, **more):
    return _window(torch.blackman_window, (window_length, periodic), lambda place: 0.42 - 0.5 * (2 * math.pi * place).cos() + 0.08 * (4 * math.pi * place).cos(), **more)


def _kaiser(window_length, periodic=True, beta=12.0, **more):
    def formula(place):
        return (beta * (1 - (2 * place - 1).square()).sqrt()).i0() / torch.full_like(place, beta).i0()

    return _window(torch.kaiser_window, (window_length, periodic, beta), formula, **more)


# ---- indices of triangles


def _below(rows, columns):
    """How many elements the first `rows` rows of a lower triangle have: 1, 2, 3, ..., columns, columns, ..."""
    full = torch.sym_min(torch.sym_max(rows, 0), columns)
    return full * (full + 1) // 2 + torch.sym_max(rows - columns, 0) * columns


def _tril_indices(row, col, offset=0, *, dtype=torch.long, device=None, **more):
    if more:
        return torch.tril_indices(row, col, offset, dtype=dtype, device=device, **more)
    ends = (torch.arange(row, device=device) + (1 + offset)).clamp(0, col)
    return in_rows(_below(row + offset, col) - _below(offset, col), torch.zeros_like(ends), ends).to(dtype)


def _triu_indices(row, col, offset=0, *, dtype=torch.long, device=None, **more):
    if more:
        return torch.triu_indices(row, col, offset, dtype=dtype, device=device, **more)
    begins = (torch.arange(row, device=device) + offset).clamp(0, col)
    return in_rows(row * col - _below(row + offset - 1, col) + _below(offset - 1, col), begins, torch.full_like(begins, col)).to(dtype)


def in_rows(count, begins, ends):
    """Row and column of each element, of which each row has those between two columns: [2, count]."""
    number, until = torch.arange(count, device=begins.device), (ends - begins).cumsum(0)
    row = torch.searchsorted(until, number, right=True)
    return torch.stack([row, number - until[row] + ends[row]])


# ---- one_hot, and pooling over whole axes


def _one_hot(tensor, num_classes=-1):
    return (tensor.unsqueeze(-1) == torch.arange(num_classes, device=tensor.device)).long()


def _whole_axes(input, axes, kernel_size, padding) -> tuple | None:
    """The last axes, if one window takes all of them; None otherwise."""
    of_each = lambda number: list(number) if isinstance(number, (tuple, list)) else [number] * axes
    takes_all = input.is_floating_point() and all(k == size for k, size in zip(of_each(kernel_size), input.shape[-axes:], strict=True)) and all(p == 0 for p in of_each(padding))
    return tuple(range(-axes, 0)) if takes_all else None


def _max_pool(torchs, axes):
    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if not return_indices and (whole := _whole_axes(input, axes, kernel_size, padding)) is not None:
            return input.amax(whole, keepdim=True)
        return torchs(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    return pool


def _avg_pool(torchs, axes):
    def pool(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        if divisor_override is None and (whole := _whole_axes(input, axes, kernel_size, padding)) is not None:
            return input.mean(whole, keepdim=True)
        more = [] if divisor_override is None else [divisor_override]
        return torchs(input, kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad, *more)

    return pool


_POOLS = {}
for _axes in (1, 2, 3):
    _max, _avg = getattr(F, f"max_pool{_axes}d"), getattr(F, f"avg_pool{_axes}d")
    _POOLS |= {_max: _max_pool(_max, _axes), getattr(torch, f"max_pool{_axes}d"): _max_pool(_max, _axes), _avg: _avg_pool(_avg, _axes)}

_WRITTEN = {
    torch.linspace: _linspace, torch.logspace: _logspace, torch.bartlett_window: _bartlett, torch.hann_window: _hann, torch.hamming_window: _hamming, torch.blackman_window: _blackman,
    torch.kaiser_window: _kaiser, torch.tril_indices: _tril_indices, torch.triu_indices: _triu_indices, F.one_hot: _one_hot, **_POOLS,
}  # fmt: skip
