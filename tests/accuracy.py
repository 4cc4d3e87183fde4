"""The accuracy rule, in one place: an engine's error against float64 is at most twice eager's, plus a term for the length of accumulations.

    max|y - y64| <= 2 max|eager - y64| + k eps max|y64|        k = 1 + sqrt(depth) / 4, depth = longest chain of additions

(rounding errors of a sum of n terms grow like sqrt(n); N. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).

The logarithm of a sum turns the sum's relative error into an absolute one (d log s = ds / s), however small the logarithm is: for
those results max|y64| counts as at least 1.

There is no wider type for a float64 result, so it is compared with eager's. The scale e is the change of eager's result when every input
changes by one rounding (`float64_error`): max|y - eager| <= 3 e + k eps max|eager|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Errors:
    """Errors against float64: an engine's, eager's, the largest value of the float64 result, and the engine's largest allowed error."""

    error: float
    theirs: float
    size: float
    bound: float

    @property
    def held(self) -> bool:
        return self.error <= self.bound


def float64_error(call, tensors, results) -> list[float]:
    """For each of a float64 call's results, the largest change under three random changes of its inputs by one rounding each, at most 64 eps
    of the largest value, so that no step of a discontinuous function counts."""
    generator, eps, changes = torch.Generator().manual_seed(0), torch.finfo(torch.float64).eps, [0.0] * len(results)
    for _ in range(3):
        near = [t * (1 + eps * (2 * torch.randint(2, t.shape, generator=generator).double() - 1)) if t.dtype is torch.float64 else t for t in tensors]
        for i, (moved, result) in enumerate(zip(call(*near), results)):
            if result.dtype is torch.float64 and moved.shape == result.shape:
                change, size = (moved - result).abs(), result.abs()
                largest = [v[torch.isfinite(v)].amax().item() if torch.isfinite(v).any() else 0.0 for v in (change, size)]
                changes[i] = max(changes[i], min(largest[0], 64 * eps * largest[1]))
    return changes


def assert_accurate(result, eager, exact, depth: int = 1, log_of_sum: bool = False, float64_error: float = 0.0):
    found = errors_of(result, eager, exact, depth, log_of_sum, float64_error)
    assert found.held, f"error {found.error:.3e} is over {found.bound:.3e} (eager's {found.theirs:.3e}, largest value {found.size:.3e})"


def errors_of(result, eager, exact, depth: int = 1, log_of_sum: bool = False, float64_error: float = 0.0) -> Errors:
    """The errors of a result. AssertionError where shape, type, integers, NaN or infinities differ from eager's."""
    assert result.shape == eager.shape, f"shape {tuple(result.shape)}, eager's is {tuple(eager.shape)}"
    assert result.dtype == eager.dtype, f"dtype {result.dtype}, eager's is {eager.dtype}"
    if not eager.dtype.is_floating_point:
        assert torch.equal(result, eager), "integers and bools must be equal"
        return Errors(0.0, 0.0, 0.0, 0.0)
    y, e, x = result.double(), eager.double(), exact.double()
    special = ~torch.isfinite(x) | ~torch.isfinite(e)
    assert torch.equal(torch.isnan(y) & special, torch.isnan(e) & special), "NaN where eager has none, or the reverse"
    infinite = special & ~torch.isnan(e)
    assert torch.equal(y[infinite], e[infinite]), "infinities differ from eager's"
    y, e, x = y[~special], e[~special], x[~special]
    if y.numel() == 0:
        return Errors(0.0, 0.0, 0.0, 0.0)
    error, theirs, size = (y - x).abs().max().item(), (e - x).abs().max().item(), max(x.abs().max().item(), 1.0 if log_of_sum else 0.0)
    return Errors(error, theirs, size, 2 * theirs + 3 * float64_error + (1 + math.sqrt(depth) / 4) * torch.finfo(eager.dtype).eps * size)
