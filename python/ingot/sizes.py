"""Sizes as torch writes them, and what the size of an axis says of a symbol."""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch


@dataclass(frozen=True)
class Linear:
    """The size factor * symbol + offset of an axis (2*d, d + 1), which gives the symbol. src/base/sizes.h has the same for plans."""

    symbol: sympy.Symbol
    factor: int = 1
    offset: int = 0

    @property
    def plain(self):
        return self.factor == 1 and self.offset == 0

    def value(self, size):
        """The symbol where the axis has this size, rounded down."""
        return (size - self.offset) // self.factor

    def size(self, value):
        return None if value is None else self.factor * value + self.offset


def linear(size) -> Linear | None:
    """A symbolic size of that form; None for a number and for every other expression."""
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
    """Where each symbol comes from. axes: (place, size) of every axis; of a symbol's axes one that is the symbol itself comes first."""
    found: dict[sympy.Symbol, tuple] = {}
    for place, size in axes:
        if (of := linear(size)) is not None and (of.symbol not in found or of.plain and not found[of.symbol][1].plain):
            found[of.symbol] = (place, of)
    return found
