"""Special functions against mpmath, on both sides of the places where the formula changes, at poles and at infinity. Eager's Bessel functions in double are off by up to 1e-6 near 5."""

import sys
from pathlib import Path

import mpmath
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate, float64_error
from calls import Calls

import ingot

S = torch.special
POINTS = [0.0, 1e-20, 0.3, 1.0, 1.999, 2.0, 2.001, 3.7, 5.4, 7.999, 8.0, 8.001, 11.0, 30.0, 77.0]
SIGNED = [-x for x in POINTS] + POINTS
POSITIVE = POINTS[1:]
PARTS = [1e-30, 1e-5, 0.01, 0.074, 0.076, 0.3, 0.5, 0.7, 0.924, 0.926, 1 - 2.0**-20]
AT_ENDS = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), -1.0, -2.5, 1.0]


def scaled(function):
    return lambda x: mpmath.exp(-abs(x)) * function(x)


def zeta(s):
    return lambda q: mpmath.zeta(s, q)


FUNCTIONS = {
    "i0": (torch.i0, lambda x: mpmath.besseli(0, x), SIGNED),
    "i0e": (S.i0e, scaled(lambda x: mpmath.besseli(0, x)), SIGNED),
    "i1": (S.i1, lambda x: mpmath.besseli(1, x), SIGNED),
    "i1e": (S.i1e, scaled(lambda x: mpmath.besseli(1, x)), SIGNED),
    "k0": (S.modified_bessel_k0, lambda x: mpmath.besselk(0, x), POSITIVE),
    "k1": (S.modified_bessel_k1, lambda x: mpmath.besselk(1, x), POSITIVE[1:]),
    "scaled k0": (S.scaled_modified_bessel_k0, lambda x: mpmath.exp(x) * mpmath.besselk(0, x), POSITIVE),
    "scaled k1": (S.scaled_modified_bessel_k1, lambda x: mpmath.exp(x) * mpmath.besselk(1, x), POSITIVE[1:]),
    "j0": (S.bessel_j0, lambda x: mpmath.besselj(0, x), SIGNED),
    "j1": (S.bessel_j1, lambda x: mpmath.besselj(1, x), SIGNED),
    "y0": (S.bessel_y0, lambda x: mpmath.bessely(0, x), POSITIVE),
    "y1": (S.bessel_y1, lambda x: mpmath.bessely(1, x), POSITIVE[1:]),
    "spherical j0": (S.spherical_bessel_j0, lambda x: mpmath.sinc(x), SIGNED),
    "erfcx": (S.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [-4.0, -0.5, *POINTS]),
    "log_ndtr": (S.log_ndtr, lambda x: mpmath.log(mpmath.ncdf(x)), SIGNED),
    "ndtri": (S.ndtri, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), PARTS),
    "trigamma": (lambda x: torch.polygamma(1, x), lambda x: mpmath.psi(1, x), [x + 0.25 for x in SIGNED]),
    "polygamma": (lambda x: torch.polygamma(4, x), lambda x: mpmath.psi(4, x), [x + 0.5 for x in POINTS]),
    "zeta": (lambda q: S.zeta(torch.full_like(q, 2.5), q), zeta(2.5), [x + 0.125 for x in POINTS]),
    "zeta below 0": (lambda q: S.zeta(torch.full_like(q, 3.0), q), zeta(3), [-0.25, -1.5, -7.75, -20.125]),
    "multigammaln": (lambda x: torch.mvlgamma(x, 3), lambda x: sum(mpmath.loggamma(x - mpmath.mpf(j) / 2) for j in range(3)) + mpmath.log(mpmath.pi) * 1.5, [x + 1.5 for x in POSITIVE[1:]]),
    "chebyshev t": (lambda x: S.chebyshev_polynomial_t(x, 5), lambda x: mpmath.chebyt(5, x), [x / 80 for x in SIGNED]),
    "chebyshev u": (lambda x: S.chebyshev_polynomial_u(x, 5), lambda x: mpmath.chebyu(5, x), [x / 80 for x in SIGNED]),
    "chebyshev v": (lambda x: S.chebyshev_polynomial_v(x, 5), lambda x: mpmath.chebyu(5, x) - mpmath.chebyu(4, x), [x / 80 for x in SIGNED]),
    "chebyshev w": (lambda x: S.chebyshev_polynomial_w(x, 5), lambda x: mpmath.chebyu(5, x) + mpmath.chebyu(4, x), [x / 80 for x in SIGNED]),
    "shifted chebyshev t": (lambda x: S.shifted_chebyshev_polynomial_t(x, 5), lambda x: mpmath.chebyt(5, 2 * x - 1), [x / 80 for x in POINTS]),
    "hermite h": (lambda x: S.hermite_polynomial_h(x, 5), lambda x: mpmath.hermite(5, x), SIGNED),
    "hermite he": (lambda x: S.hermite_polynomial_he(x, 5), lambda x: mpmath.hermite(5, x / mpmath.sqrt(2)) / mpmath.mpf(2) ** 2.5, SIGNED),
    "laguerre l": (lambda x: S.laguerre_polynomial_l(x, 5), lambda x: mpmath.laguerre(5, 0, x), SIGNED),
    "legendre p": (lambda x: S.legendre_polynomial_p(x, 5), lambda x: mpmath.legendre(5, x), [x / 80 for x in SIGNED]),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.one_in(3)
def test_values(name, dtype):
    function, exact, points = FUNCTIONS[name]
    x = torch.tensor(points, dtype=dtype)
    with mpmath.workdps(40):
        right = torch.tensor([float(exact(mpmath.mpf(v.item()))) for v in x], dtype=torch.float64)
    compiled = ingot.compile(Calls(function), inputs=[x], fallback="error")
    assert_accurate(compiled(x), function(x), right, float64_error=float64_error(lambda v: [function(v)], [x], [function(x)])[0])


GAMMAS = {
    "gammainc": (S.gammainc, lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)),
    "gammaincc": (S.gammaincc, lambda a, x: mpmath.gammainc(a, x, regularized=True)),
    "igamma": (torch.igamma, lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)),
    "igammac": (torch.igammac, lambda a, x: mpmath.gammainc(a, x, regularized=True)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", GAMMAS)
@pytest.mark.one_in(3)
def test_incomplete_gamma(name, dtype):
    """On both sides of each place where the formula changes, beside what one rounding of the operands makes of the exact result: eager's are off by up to 2e-9 in double."""
    function, exact = GAMMAS[name]
    orders = [1e-6, 0.009, 0.3, 0.499, 0.501, 1.0, 4.5, 9.99, 10.01, 39.9, 40.1, 100.0, 3000.0]
    factors = [0.01, 0.49, 0.51, 0.699, 0.701, 0.97, 1.0, 1.02, 1.299, 1.301, 3.0]
    pairs = torch.cartesian_prod(torch.tensor(orders, dtype=dtype), torch.tensor(factors, dtype=dtype))
    fixed = torch.cartesian_prod(torch.tensor(orders, dtype=dtype), torch.tensor([0.4, 1.49, 1.51], dtype=dtype))
    a, x = torch.cat([pairs[:, 0], fixed[:, 0]]), torch.cat([pairs.prod(1), fixed[:, 1]])

    def right(*operands):
        with mpmath.workdps(40):
            return [torch.tensor([float(exact(mpmath.mpf(p), mpmath.mpf(q))) for p, q in zip(*(t.tolist() for t in operands))], dtype=torch.float64)]

    (values,) = right(a, x)
    one_rounding = float64_error(right, [a, x], [values])[0]
    result = ingot.compile(Calls(function), inputs=[a, x], fallback="error")(a, x)
    assert_accurate(result, values.to(dtype), values, float64_error=one_rounding)
    seen = values > torch.finfo(dtype).tiny  # and relative to each result
    logs = values[seen].log()
    assert_accurate(result[seen].log(), logs.to(dtype), logs, float64_error=float64_error(lambda *o: [right(*o)[0].log()], [a[seen], x[seen]], [logs])[0])


def test_ends_of_incomplete_gamma():
    points = [0.0, 1.0, float("inf"), float("nan"), -1.0, 1e-300, 50.0]
    a, x = (t.reshape(-1) for t in torch.meshgrid(torch.tensor(points), torch.tensor(points), indexing="ij"))
    for function, _ in GAMMAS.values():
        torch.testing.assert_close(ingot.compile(Calls(function), inputs=[a, x], fallback="error")(a, x), function(a, x), equal_nan=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ends(name):
    """nan and infinity are where eager has them."""
    function, x = FUNCTIONS[name][0], torch.tensor(AT_ENDS)
    result, eager = ingot.compile(Calls(function), inputs=[x], fallback="error")(x), function(x)
    assert torch.equal(result.isnan(), eager.isnan()), f"{result.tolist()}, eager {eager.tolist()}"
    assert torch.equal(result[result.isinf()], eager[eager.isinf()]), f"{result.tolist()}, eager {eager.tolist()}"
