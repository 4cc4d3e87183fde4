"""Floats that a model computes from open sizes: `x * n ** -0.5`, `x / math.sqrt(n)`, `torch.full((3,), n / 2)`. No engine takes them as numbers. Each becomes a tensor of float64, of the same
arithmetic, for the operators that have a form for a tensor."""

from __future__ import annotations

import operator

import torch

from ...torch_internals.operators import OpOverload
from ...torch_internals.sizes import square_root
from ..size_tensors import is_computed, tensor_of
from ..traced import Traced
from .read_numbers import READS, made, take_tensors

Node = torch.fx.Node
_aten = torch.ops.aten
_OPERATORS = {
    operator.add: _aten.add.Tensor, operator.sub: _aten.sub.Tensor, operator.mul: _aten.mul.Tensor, operator.truediv: _aten.div.Tensor, operator.pow: _aten.pow.Tensor_Tensor,
    operator.neg: _aten.neg.default, square_root: _aten.sqrt.default, torch.sym_float: None,
}  # fmt: skip


def wanted(traced: Traced) -> bool:
    return any(map(_is_taken, traced.graph.nodes))


def apply(traced: Traced):
    """False if nothing was to be changed."""
    numbers = [n for n in traced.editable().graph.nodes if _is_taken(n) and is_computed(n, _OPERATORS)]
    for number in numbers:
        take_tensors(number, lambda user, number=number: _with_scalar(user, tensor_of(user, number, _OPERATORS, lambda _: {"dtype": torch.float64, "device": user.meta["val"].device})))
    return bool(numbers)


def _is_taken(node: Node) -> bool:
    """Whether an operator takes a float that no tensor holds."""
    return isinstance(node.meta.get("val"), torch.SymFloat) and node.target not in READS and any(isinstance(user.target, OpOverload) for user in node.users)


def _with_scalar(user: Node, number: Node) -> Node:
    """Together with a scalar of float32 the number is rounded to that type, as eager does; the type of two tensors without axes would be the wider one."""
    given = user.args[0].meta["val"] if isinstance(user.args[0], Node) else None
    scalar = isinstance(given, torch.Tensor) and not given.dim() and given.dtype is torch.float32
    return made(user, _aten._to_copy.default, number, dtype=torch.float32) if scalar else number
