"""Python's functions of which a model gives sizes: `range(0, x.shape[-1], step)`, `len(x)`, `int(x.shape[1] / 2)`, `x.shape.numel()`. They take or give plain numbers, so torch.export would fix the
sizes to the example's. The forms of both_sides.py call these in their places where a model's code asked for such a number: the numbers stay open. How often a loop runs is fixed, which is a branch on
sizes."""

from __future__ import annotations

import ast
import math
import operator

import torch

from ...base import debug
from ...torch_internals.tensors import is_fake


def steps(*bounds):
    """range(*bounds), but sizes stay open."""
    if not any(isinstance(bound, torch.SymInt) for bound in bounds) or not all(isinstance(bound, int | torch.SymInt) for bound in bounds):
        return range(*bounds)
    begin, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    count = (end - begin + step - 1) // step if step > 0 else (begin - end - step - 1) // -step
    return [begin + i * step if i else begin for i in range(operator.index(torch.sym_max(count, 0)))]


def length(value):
    """len(value), but the size of a tensor's first axis stays open."""
    return value.shape[0] if is_fake(value) and value.dim() else len(value)


def whole(number=0, *base):
    """int(number), but a size stays one."""
    if isinstance(number, torch.SymInt | torch.SymFloat) and not base:
        return number if isinstance(number, torch.SymInt) else math.trunc(number)
    return int(number, *base)


def called(function, *arguments):
    """function(*arguments)"""
    return next((in_place for plain, in_place in _OPEN.items() if plain is function), function)(*arguments)


def elements(sizes):
    """sizes.numel()"""
    return math.prod(sizes) if isinstance(sizes, torch.Size) else sizes.numel()


def stay_open() -> bool:
    """False if INGOT_DISABLE names the switch."""
    return not debug.is_disabled("open_calls")


_OPEN = {range: steps, len: length, int: whole}
_NAMES = tuple(function.__name__ for function in _OPEN)


def in_place_of(call: ast.Call) -> ast.Call | None:
    """A call in the form that keeps sizes open; None if it has none."""
    match call:
        case ast.Call(ast.Name(name) as function, [_, *_] as arguments, []) if name in _NAMES and not any(isinstance(argument, ast.Starred) for argument in arguments):
            return ast.copy_location(ast.Call(ast.Name("_ingot_called", ast.Load()), [function, *arguments], []), call)
        case ast.Call(ast.Attribute(sizes, "numel"), [], []):
            return ast.copy_location(ast.Call(ast.Name("_ingot_elements", ast.Load()), [sizes], []), call)
    return None
