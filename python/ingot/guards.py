"""The guards of a trace that refuse or narrow the ranges asked for. torch refuses a range as soon as it cannot prove a guard for all of its sizes, and then proposes only sizes
with the example's remainder. Here a guard counts if it fails for a size of the range."""

from __future__ import annotations

import itertools

import sympy
from torch.export import _trace
from torch.fx.experimental.symbolic_shapes import StrictMinMaxConstraint
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

_TRIED = 64  # sizes at each end of a range and around the example


class Guards:
    """While torch exports: leaves torch the guards that fail in the ranges. held: the conditions on which the model's code branches, which are checked with each call."""

    def __init__(self, held):
        self._held = held

    def __enter__(self):
        self._before = _trace.produce_guards_and_solve_constraints
        _trace.produce_guards_and_solve_constraints = self._settled

    def __exit__(self, *problem):
        _trace.produce_guards_and_solve_constraints = self._before

    def _settled(self, fake_mode, **more):
        environment = fake_mode.shape_env
        ranges = _asked(environment)
        given = environment.guards[:]
        conditions = [environment.simplify(c) for c in self._held()]
        environment.guards[:] = [g for g in given if _fails(environment.simplify(g.expr), ranges, environment, conditions)]
        for symbol, (low, high) in ranges.items():  # without what dropped guards made of them
            environment.var_to_range[symbol] = type(environment.var_to_range[symbol])(low, high)
        try:
            return self._before(fake_mode=fake_mode, **more)
        finally:
            environment.guards[:] = given


def _asked(environment) -> dict[sympy.Symbol, tuple[int, int]]:
    """The range that each symbol was given. torch traces sizes from 2 on."""
    found = {}
    for entry in environment.tracked_fakes:
        for size, limit in zip(getattr(entry.fake, "shape", ()), getattr(entry.symbolic_context, "constraint_sizes", None) or ()):
            symbol = getattr(getattr(size, "node", None), "_expr", None)
            if isinstance(limit, StrictMinMaxConstraint) and isinstance(symbol, sympy.Symbol):
                found[symbol] = max(limit.vr.lower, 2), limit.vr.upper
    return found


def _fails(guard, ranges, environment, conditions) -> bool:
    """Whether a guard fails for a size in the range of its symbol, among those that the model's conditions leave. One on several sizes is checked when the model runs, but torch
    makes sizes equal by it."""
    if isinstance(guard, sympy.And):
        return any(_fails(part, ranges, environment, conditions) for part in guard.args)
    if guard.free_symbols.isdisjoint(ranges):
        return True
    if _of_few(guard):
        return False
    if len(guard.free_symbols) != 1:
        return isinstance(guard, sympy.Eq)
    (symbol,) = guard.free_symbols
    own = [c for c in conditions if c.free_symbols == {symbol}]
    example = int(environment.backed_var_to_val[symbol])
    return any(not _holds(guard, symbol, n) for n in _sizes(*ranges[symbol], example) if all(_holds(c, symbol, n) for c in own))


def _of_few(guard) -> bool:
    """Whether a guard says that two sizes differ, or that one is not 0 or 1. torch asks for a quicker way or a layout; where a result's shape hangs on it (squeeze, broadcasting),
    the engine checks it. A computed size that must not be 0 is another matter: a window does not fit the input then."""
    if isinstance(guard, sympy.Ne):
        return True
    if not isinstance(guard, (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)) or not guard.lts.is_Integer:
        return False
    least = guard.lts + isinstance(guard, (sympy.Lt, sympy.Gt))
    given = all(factor.is_Symbol for factor in sympy.Mul.make_args(guard.gts))
    return 0 <= least <= 2 if given else least == 2


def _sizes(low, high, example):
    """The sizes of a range, or some of a long one."""
    parts = (low, low + _TRIED), (example - _TRIED // 2, example + _TRIED // 2), (high - _TRIED, high + 1)
    return sorted({n for begin, end in parts for n in range(int(begin), int(end)) if low <= n <= high}) if high - low > 3 * _TRIED else range(int(low), int(high) + 1)


def _holds(condition, symbol, size) -> bool:
    return bool(sympy_interp(PythonReferenceAnalysis, {symbol: size}, condition))
