"""Symbolic sizes of torch, and the symbol's value that follows from the size of an axis."""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch


@dataclass(frozen=True)
class Linear:
    """A size factor * symbol + offset (2*d, d + 1), from which the symbol's value follows. src/base/sizes.h has the same for plans."""

    symbol: sympy.Symbol
    factor: int = 1
    offset: int = 0

    @property
    def plain(self):
        return self.factor == 1 and self.offset == 0

    def value(self, size):
        """The symbol's value for an axis of this size, rounded down."""
        return (size - self.offset) // self.factor

    def size(self, value):
        return None if value is None else self.factor * value + self.offset


def linear(size) -> Linear | None:
    """A symbolic size as a Linear; None for a number and for any other expression."""
    if not isinstance(size, torch.SymInt):
        return None
    e = size.node.expr
    if isinstance(e, sympy.Symbol):
        return Linear(e)
    if len(e.free_symbols) != 1:
        return None
    (symbol,) = e.free_symbols
    factor = e.coeff(symbol, 1)
    offset = e - factor * symbol
    if not (factor.is_Integer and offset.is_Integer and factor > 0):
        return None
    return Linear(symbol, int(factor), int(offset))


def places(axes) -> dict:
    """The place that gives each symbol. axes: (place, size) of every axis. An axis whose size is the symbol itself is preferred."""
    found: dict[sympy.Symbol, tuple] = {}
    for place, size in axes:
        if (of := linear(size)) is not None and (of.symbol not in found or of.plain and not found[of.symbol][1].plain):
            found[of.symbol] = (place, of)
    return found
