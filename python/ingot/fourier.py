"""Discrete Fourier transforms of real numbers and of pairs (re, im), by ingot's own operators along one axis: `ingot::fourier`, `fourier_of_real` and `fourier_to_real`.

Engines have them for every length, open ones too. Where one stays in torch, torch's own transform computes it.
"""

from __future__ import annotations

import math

import torch

# Each operator's schema, and torch's transform that it is, without the factor.
_OPERATORS = {
    "fourier": (
        "(Tensor re, Tensor im, bool forward, int normalization, SymInt count) -> (Tensor, Tensor)",
        lambda re, im, forward: torch.fft.fft(torch.complex(re, im)) if forward else torch.fft.ifft(torch.complex(re, im), norm="forward"),
    ),
    "fourier_of_real": ("(Tensor self, bool onesided, int normalization, SymInt count) -> (Tensor, Tensor)", lambda x, onesided: (torch.fft.rfft if onesided else torch.fft.fft)(x)),
    "fourier_to_real": (
        "(Tensor re, Tensor im, SymInt length, int normalization, SymInt count) -> Tensor",
        lambda re, im, length: torch.fft.irfft(torch.complex(re, im), n=length, norm="forward"),
    ),
}
_library: torch.library.Library | None = None


def define():
    """Defines the operators. normalization: 0 for no factor, 1 for one by the root of `count`, 2 by `count`."""
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("ingot", "FRAGMENT")
    for name, (schema, transform) in _OPERATORS.items():
        _library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        _library.impl(name, _kernel(transform), "CompositeExplicitAutograd")
        torch.library.register_fake(f"ingot::{name}", _shapes(name), lib=_library)


def _kernel(transform):
    def kernel(*args):
        *given, normalization, count = args
        made = transform(*given) * (1.0, 1 / math.sqrt(count), 1 / count)[normalization]
        return (made.real.contiguous(), made.imag.contiguous()) if made.is_complex() else made

    return kernel


def _shapes(name):
    def shapes(x, *args):
        if name == "fourier_to_real":
            return x.new_empty((*x.shape[:-1], args[1]))
        last = x.shape[-1] // 2 + 1 if name == "fourier_of_real" and args[0] else x.shape[-1]
        return tuple(x.new_empty((*x.shape[:-1], last)) for _ in range(2))

    return shapes


def of_real(x, dims, normalization, onesided):
    """`_fft_r2c`: the pair of the transforms along dims, of the last one only the first half if onesided."""
    count = math.prod(x.shape[dim] for dim in dims)
    re, im = _along(dims[-1], torch.ops.ingot.fourier_of_real, x, onesided, *_settled(normalization, count))
    for dim in dims[:-1]:
        re, im = _along(dim, torch.ops.ingot.fourier, re, im, True, 0, 1)
    return re, im


def of_pair(re, im, dims, normalization, forward):
    """`_fft_c2c`: the pair of the transforms along dims."""
    count = math.prod(re.shape[dim] for dim in dims)
    for dim in dims:
        re, im = _along(dim, torch.ops.ingot.fourier, re, im, forward, *_settled(normalization, count))
        normalization = 0
    return re, im


def to_real(re, im, dims, normalization, length):
    """`_fft_c2r`: the real inverse transform of a half, `length` elements along the last of dims."""
    count = math.prod(re.shape[dim] for dim in dims[:-1]) * length
    for dim in dims[:-1]:
        re, im = _along(dim, torch.ops.ingot.fourier, re, im, False, 0, 1)
    re, im = (x.narrow(dims[-1], 0, length // 2 + 1) for x in (re, im))
    return _along(dims[-1], torch.ops.ingot.fourier_to_real, re, im, length, *_settled(normalization, count))[0]


def _settled(normalization, count):
    return (normalization, count) if normalization else (0, 1)


def _along(dim, operator, *args):
    tensors = [a.movedim(dim, -1) if isinstance(a, torch.Tensor) else a for a in args]
    made = operator(*tensors)
    return tuple(x.movedim(-1, dim) for x in (made if isinstance(made, (tuple, list)) else (made,)))
