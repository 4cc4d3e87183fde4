"""Numbers in tensors without axes that a model computes from open sizes: `torch.ceil((x.shape[-1] - self.kernel) / self.stride).long()`, `torch.arange(x.shape[1])[::2][-1]`. They follow from the sizes
alone, exactly, as whole numbers and fractions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import torch

from ...torch_internals.sizes import statically_known_true
from ...torch_internals.tracing import outside_of_traces
from ..memory import value_of

_aten = torch.ops.aten


@dataclass
class Ratio:
    """over / under. over: an int or SymInt; under: an int above 0."""

    over: int | torch.SymInt
    under: int = 1

    @classmethod
    def of(cls, number) -> Ratio | None:
        if isinstance(number, Ratio | None):
            return number
        if isinstance(number, torch.SymInt):
            return cls(number)
        try:
            whole = Fraction(number)
        except (TypeError, ValueError, OverflowError):  # no number, or not a finite one
            return None
        return cls(whole.numerator, whole.denominator)


@dataclass
class Line:
    """A tensor of one axis: its length, and the number at a place from 0 on (None where it has no form)."""

    length: int | torch.SymInt
    at: Callable[[int | torch.SymInt], Ratio | None]


def _sum(a, b, alpha=1):
    times = Ratio.of(alpha)
    b = None if times is None else _product(b, times)
    return b and Ratio(a.over * b.under + b.over * a.under, a.under * b.under)


def _difference(a, b, alpha=1):
    return _sum(a, Ratio(-b.over, b.under), alpha)


def _product(a, b):
    return Ratio(a.over * b.over, a.under * b.under)


def _quotient(a, b, rounding_mode=None):
    if not isinstance(b.over, int) or b.over == 0 or rounding_mode not in (None, "floor"):
        return None
    sign = 1 if b.over > 0 else -1
    made = Ratio(a.over * b.under * sign, a.under * abs(b.over))
    return made if rounding_mode is None else _floor(made)


def _floor(a):
    return a if a.under == 1 else Ratio(a.over // a.under)


def _ceil(a):
    return a if a.under == 1 else Ratio(-(-a.over // a.under))


def _same(a, *more, **how):
    return a


def _as_type(a, *more, **how):
    """A whole number in another type; to cut off a fraction is another question."""
    return a if a.under == 1 else None


def _chosen(choose):
    return lambda a, b: Ratio(choose(a.over * b.under, b.over * a.under), a.under * b.under)


def _compared(relation):
    return lambda a, b: relation(a.over * b.under, b.over * a.under)


_OF = {
    "add": _sum, "sub": _difference, "rsub": lambda a, b, alpha=1: _difference(b, a) if alpha == 1 else None, "mul": _product, "neg": lambda a: Ratio(-a.over, a.under),
    "div": _quotient, "true_divide": _quotient, "floor_divide": lambda a, b: _quotient(a, b, "floor"), "ceil": _ceil, "floor": _floor, "maximum": _chosen(torch.sym_max), "minimum": _chosen(torch.sym_min),
    "clone": _same, "detach": _same, "alias": _same, "lift_fresh": _same, "lift_fresh_copy": _same, "detach_": _same, "scalar_tensor": _same, "to": _as_type, "_to_copy": _as_type,
    **{name: _compared(getattr(operator, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}  # fmt: skip


def _range(length, read, start, end=None, step=1, **how):
    if end is None:
        start = 0
    first, step = Ratio.of(read(start)), Ratio.of(read(step))
    return first and step and Line(length, lambda i: _sum(first, _product(Ratio(i), step)))


def _part(length, read, line, axis=0, start=None, end=None, step=1):
    line, start = _line(read(line)), read(start) or 0
    if line is None:
        return None
    first = line.length + start if isinstance(start, int) and start < 0 else start
    return Line(length, lambda i: line.at(first + i * step))


def _lines_in_turn(length, read, lines, axis=0):
    lines = [_line(read(line)) for line in lines]
    if None in lines:
        return None

    def at(i):
        for line in lines:
            if statically_known_true(i < line.length):
                return line.at(i)
            if not statically_known_true(i >= line.length):
                return None
            i = i - line.length
        return None

    return Line(length, at)


def _line(value) -> Line | None:
    if not isinstance(value, torch.Tensor):
        return value if isinstance(value, Line) else None

    def at(i):
        with outside_of_traces():
            return Ratio.of(value[i].item()) if isinstance(i, int) else None

    return Line(value.numel(), at)


_LINES = {"arange": _range, "slice": _part, "cat": _lines_in_turn}


def computed(node: torch.fx.Node, values: dict) -> Ratio | Line | torch.SymBool | bool | None:
    """What a node computes, given the numbers or tensors of its operands; None if it has no form here."""
    made = value_of(node)
    read = lambda operand: values[operand] if isinstance(operand, torch.fx.Node) else operand  # noqa: E731
    if isinstance(made, torch.Tensor) and made.dim() == 1 and (how := _LINES.get(node.target.overloadpacket.__name__)) is not None:
        return how(made.shape[0], read, *node.args)
    if node.target is _aten.select.int and made.dim() == 0:
        line, place = _line(read(node.args[0])), read(node.args[2])
        return line and line.at(line.length + place if isinstance(place, int) and place < 0 else place)
    if node.target is _aten.ne.Scalar and isinstance(values.get(node.args[0]), torch.SymBool) and node.args[1] == 0:  # what bool() asks
        return values[node.args[0]]
    how = _OF.get(node.target.overloadpacket.__name__)
    if how is None or not isinstance(made, torch.Tensor) or made.dim():
        return None
    operands = [operand for operand in node.args if isinstance(operand, (torch.fx.Node, int, float)) and not isinstance(operand, bool)]
    numbers = [Ratio.of(_number(read(operand))) for operand in (node.args[:1] if how in (_same, _as_type) else operands)]
    more = {name: value for name, value in node.kwargs.items() if name in ("alpha", "rounding_mode")}
    if None in numbers or any(isinstance(value, torch.fx.Node) for value in more.values()):
        return None
    return how(*numbers, **more)


def _number(value):
    if not isinstance(value, torch.Tensor):
        return value
    with outside_of_traces():
        return value.item() if value.numel() == 1 else None
