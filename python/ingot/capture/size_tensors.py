"""What torch computes from open sizes and no engine takes, as tensors: floats, and conditions. Each fix has the operators that it knows, by Python's function: the one for tensors, or None for a
function that changes the type alone."""

from __future__ import annotations

import torch

from .fixes.read_numbers import made

Node = torch.fx.Node
_full = torch.ops.aten.full.default


def is_computed(value, operators, constants=(int, float)) -> bool:
    """Whether it is a size or a constant, or follows from them by these operators."""
    if _is_given(value):
        return isinstance(value, (*constants, Node))
    return value.op == "call_function" and value.target in operators and all(is_computed(a, operators, constants) for a in value.args)


def tensor_of(user: Node, value, operators, of_given) -> Node:
    """It as a tensor without axes, in front of the user. of_given: what to give aten.full for a size or a constant."""
    if _is_given(value):
        return made(user, _full, [], value, **of_given(value))
    operands = [tensor_of(user, a, operators, of_given) for a in value.args]
    operator = operators[value.target]
    return operands[0] if operator is None else made(user, operator, *operands)


def _is_given(value) -> bool:
    return not isinstance(value, Node) or isinstance(value.meta.get("val"), (int, torch.SymInt))
