"""The guards of a trace that refuse or narrow the ranges asked for. torch refuses a range as soon as it cannot prove a guard for all of its sizes, and then proposes only sizes
with the example's remainder. Here a guard counts if it fails for a size of the range."""

from __future__ import annotations

import sympy

from ..torch_internals.sizes import PythonReferenceAnalysis, ShapeGuard, StrictMinMaxConstraint, symbol_of, sympy_interp
from ..torch_internals.tracing import guards_produced_by

_TRIED = 64  # sizes at each end of a range and around the example


class Guards:
    """While torch exports: leaves torch the guards that fail in the ranges. held: the conditions on which the model's code branches, which are checked with each call.
    hang_on_example: true if a trace took a size for 1 because it follows from the examples' sizes as 1."""

    def __init__(self, held):
        self._held = held
        self.hang_on_example = False

    def __enter__(self):
        self._patch = guards_produced_by(self._settling)
        self._patch.__enter__()

    def __exit__(self, *problem):
        self._patch.__exit__(None, None, None)

    def _settling(self, produce):
        self._before = produce
        return self._decided

    def _decided(self, fake_mode, **more):
        environment = fake_mode.shape_env
        ranges = _asked(environment)
        given = environment.guards[:]
        conditions = [environment.simplify(c) for c in self._held()]
        parts = [ShapeGuard(part, g.sloc, size_oblivious=g.size_oblivious) for g in given for part in sympy.And.make_args(environment.simplify(g.expr))]
        environment.guards[:] = [
            ShapeGuard(limit, g.sloc, size_oblivious=g.size_oblivious) for g in parts for limit in _limits(g.expr, ranges, environment, conditions)
        ]
        self.hang_on_example |= any(isinstance(g.expr, sympy.Eq) and 1 in g.expr.args for g in given)
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
            symbol = symbol_of(size)
            if isinstance(limit, StrictMinMaxConstraint) and isinstance(symbol, sympy.Symbol):
                found[symbol] = max(limit.vr.lower, 2), limit.vr.upper
    return found


def _limits(guard, ranges, environment, conditions) -> list[sympy.Basic]:
    """What a guard leaves of the range of its symbol, among the sizes for which the model's conditions hold: nothing to say where it holds for all, bounds where it holds between two
    sizes, else the guard. One on several sizes is checked when the model runs, but torch makes sizes equal by it."""
    if guard.free_symbols.isdisjoint(ranges):
        return [guard]
    if isinstance(guard, sympy.Ne):
        return []  # torch asks for a quicker way or a layout; where a result's shape hangs on it (squeeze, broadcasting), the engine checks it
    if len(guard.free_symbols) != 1:
        return [guard] if isinstance(guard, sympy.Eq) else []
    (symbol,) = guard.free_symbols
    own = [c for c in conditions if c.free_symbols == {symbol}]
    sizes = [n for n in _sizes(*ranges[symbol], int(environment.backed_var_to_val[symbol])) if all(_holds(c, symbol, n) for c in own)]
    held = [n for n in sizes if _holds(guard, symbol, n) or _is_of_one(guard, symbol, n)]
    if not held or isinstance(guard, sympy.Eq) and len(held) < len(sizes) or [n for n in sizes if held[0] <= n <= held[-1]] != held:
        return [guard]
    return [sympy.Ge(symbol, held[0])] * (held[0] > sizes[0]) + [sympy.Le(symbol, held[-1])] * (held[-1] < sizes[-1])


def _is_of_one(guard, symbol, size) -> bool:
    """Whether the guard fails because something has 1 element, not 2 or more: torch asks for a layout then too."""
    if not isinstance(guard, (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)) or not guard.lts.is_Integer:
        return False
    return guard.gts.xreplace({symbol: sympy.Integer(size)}) == 1


def _sizes(low, high, example):
    """The sizes of a range, or some of a long one."""
    parts = (low, low + _TRIED), (example - _TRIED // 2, example + _TRIED // 2), (high - _TRIED, high + 1)
    return sorted({n for begin, end in parts for n in range(int(begin), int(end)) if low <= n <= high}) if high - low > 3 * _TRIED else range(int(low), int(high) + 1)


def _holds(condition, symbol, size) -> bool:
    return bool(sympy_interp(PythonReferenceAnalysis, {symbol: size}, condition))
