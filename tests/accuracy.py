"""The accuracy rule, in one place: an engine may be at most twice as far from the float64 result as eager is, plus what the
accumulation length allows.

    max|y - y64| <= 2 max|eager - y64| + k eps max|y64|        k = 1 + sqrt(depth) / 4, depth = longest chain of additions

(rounding errors of a sum of n terms grow like sqrt(n); N. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).

The logarithm of a sum turns the sum's relative error into an absolute one (d log s = ds / s), however small the logarithm is: for
those results max|y64| counts as at least 1.
"""

from __future__ import annotations

import math

import torch


def assert_accurate(result, eager, exact, depth: int = 1, log_of_sum: bool = False):
    assert result.shape == eager.shape, f"shape {tuple(result.shape)}, eager's is {tuple(eager.shape)}"
    assert result.dtype == eager.dtype, f"dtype {result.dtype}, eager's is {eager.dtype}"
    if not eager.dtype.is_floating_point:
        assert torch.equal(result, eager), "integers and bools must be equal"
        return
    y, e, x = result.double(), eager.double(), exact.double()
    special = ~torch.isfinite(x) | ~torch.isfinite(e)
    assert torch.equal(torch.isnan(y) & special, torch.isnan(e) & special), "NaN where eager has none, or the reverse"
    infinite = special & ~torch.isnan(e)
    assert torch.equal(y[infinite], e[infinite]), "infinities differ from eager's"
    y, e, x = y[~special], e[~special], x[~special]
    if y.numel() == 0:
        return
    error, theirs, size = (y - x).abs().max().item(), (e - x).abs().max().item(), max(x.abs().max().item(), 1.0 if log_of_sum else 0.0)
    bound = 2 * theirs + (1 + math.sqrt(depth) / 4) * torch.finfo(eager.dtype).eps * size
    assert error <= bound, f"error {error:.3e} is over {bound:.3e} (eager's {theirs:.3e}, largest value {size:.3e})"
