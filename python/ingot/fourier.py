"""Discrete Fourier transforms of real numbers and of pairs (re, im): products with constant matrices.

A short transform is one product with the matrix of its roots of unity. A longer one of length n1 * n2 is two small products with a multiplication by roots of unity between them (Cooley and Tukey). The
matrices are computed in double from exponents reduced modulo the length, and depend on no input, so that they are computed once.
"""

from __future__ import annotations

import math

import torch

from .errors import UnsupportedError

MAX_LENGTH = 4096  # of a transform
MAX_FACTOR = 1024  # rows of a matrix: what a length with a large prime factor would need takes more memory than it saves time
MAX_ONE_PRODUCT = 64  # above it two products take less arithmetic and round less, where the length has factors


def of_real(x, dims, normalization, onesided):
    """`_fft_r2c`: the pair of the transforms along dims, of the last one only the first half if onesided."""
    length, scale = _length(x, dims[-1]), _scale(x, dims, normalization)
    kept = length // 2 + 1 if onesided else length
    re, im = _along(dims[-1], x, None, length, kept, -1, scale)
    for dim in dims[:-1]:
        re, im = _along(dim, re, im, _length(re, dim), re.shape[dim], -1)
    return re, im


def of_pair(re, im, dims, normalization, forward):
    """`_fft_c2c`: the pair of the transforms along dims."""
    scale = _scale(re, dims, normalization)
    for dim in dims:
        re, im = _along(dim, re, im, _length(re, dim), re.shape[dim], -1 if forward else 1, scale)
        scale = 1.0
    return re, im


def to_real(re, im, dims, normalization, length):
    """`_fft_c2r`: the real inverse transform of a half, `length` elements along the last of dims."""
    _checked(length)
    scale = _scale(re, dims, normalization, length)
    for dim in dims[:-1]:
        re, im = _along(dim, re, im, _length(re, dim), re.shape[dim], 1)
    last, half = dims[-1], length // 2 + 1
    re, im = (x.narrow(last, 0, half).movedim(last, -1) for x in (re, im))
    # The other half has the conjugates, so what has one counts twice. What has none is real.
    place = torch.arange(half, device=re.device)
    paired = (place > 0) & (2 * place != length)
    re, im = torch.where(paired, 2 * re, re), torch.where(paired, 2 * im, 0)
    return _transformed(re, im, length, length, 1, scale, real=True).movedim(-1, last)


def _along(dim, re, im, length, kept, sign, scale=1.0):
    re, im = (None if x is None else x.movedim(dim, -1) for x in (re, im))
    return tuple(x.movedim(-1, dim) for x in _transformed(re, im, length, kept, sign, scale))


def _length(x, dim):
    return _checked(x.shape[dim])


def _checked(length):
    if not isinstance(length, int):
        raise UnsupportedError("the length of a Fourier transform is open", remedy="fix this size")
    if length > MAX_LENGTH:
        raise UnsupportedError(f"a Fourier transform has length {length}; engines have those up to {MAX_LENGTH}")
    if length > MAX_ONE_PRODUCT and max(_factors(length)) > MAX_FACTOR:
        raise UnsupportedError(f"a Fourier transform has length {length}, which has a prime factor over {MAX_FACTOR // 2}" if _factors(length)[0] > 1 else
                               f"a Fourier transform has length {length}, a prime number; engines have prime lengths up to {MAX_FACTOR}")
    return length


def _scale(x, dims, normalization, last=None):
    """The factor of a normalisation: 0 none, 1 by the root of the number of elements, 2 by the number."""
    count = math.prod(x.shape[dim] for dim in dims[:-1]) * (x.shape[dims[-1]] if last is None else last)
    return (1.0, 1 / math.sqrt(count), 1 / count)[normalization]


def _factors(length):
    """The two factors that are nearest to one another, the smaller one first."""
    small = next(n for n in range(math.isqrt(length), 0, -1) if length % n == 0)
    return small, length // small


def _transformed(re, im, length, kept, sign, scale, real=False):
    """The first `kept` elements of the transform along the last axis, as if this had zeros up to `length`; their real part only if `real`. im is None for real numbers."""
    given = re.shape[-1]
    n1, n2 = _factors(length)
    if length <= MAX_ONE_PRODUCT or n1 == 1:
        return _product(re, im, _roots(given, kept, length, sign, scale, re), real)
    # Element n2 * a + b gives to element c + n1 * d: exp(ac / n1) * exp(bc / length) * exp(bd / n2).
    rows, columns = -(-given // n2), -(-kept // n1)
    grid = [None if x is None else _with_zeros(x, rows * n2 - given).reshape(*x.shape[:-1], rows, n2).transpose(-1, -2) for x in (re, im)]
    re, im = _product(*grid, _roots(rows, n1, n1, sign, 1.0, re))
    cos, sin = _roots(n2, n1, length, sign, 1.0, re)
    re, im = re * cos - im * sin, re * sin + im * cos
    made = _product(re.transpose(-1, -2), im.transpose(-1, -2), _roots(n2, columns, n2, sign, scale, re), real)
    made = [x.transpose(-1, -2).reshape(*x.shape[:-2], columns * n1).narrow(-1, 0, kept) for x in ((made,) if real else made)]
    return made[0] if real else tuple(made)


def _with_zeros(x, count):
    return torch.nn.functional.pad(x, (0, count)) if count else x


def _roots(rows, columns, length, sign, scale, like):
    """scale * exp(sign * 2 pi i * row * column / length), as a pair."""
    exponents = torch.arange(rows, device=like.device).unsqueeze(1) * torch.arange(columns, device=like.device) % length
    angles = exponents.to(torch.float64) * (sign * 2 * math.pi / length)
    return (torch.cos(angles) * scale).to(like.dtype), (torch.sin(angles) * scale).to(like.dtype)


def _product(re, im, matrix, real=False):
    """The product with a complex matrix, as one product of real numbers; its real part only if `real`."""
    cos, sin = matrix
    columns = cos.shape[1]
    if im is None:
        x, matrix = re, torch.cat([cos, sin], 1)
    else:
        x, matrix = torch.cat([re, im], -1), torch.cat([cos, -sin], 0)
        if real:
            return _times(x, matrix)
        matrix = torch.cat([matrix, torch.cat([sin, cos], 0)], 1)
    made = _times(x, matrix)
    return made.narrow(-1, 0, columns), made.narrow(-1, columns, columns)


def _times(x, matrix):
    return (x.reshape(-1, matrix.shape[0]) @ matrix).reshape(*x.shape[:-1], matrix.shape[1])
