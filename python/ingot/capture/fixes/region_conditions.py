"""torch.cond whose condition is about open sizes: `torch.cond(x.shape[0] > 4, ..)`. A region is chosen by a tensor, so the condition becomes one, of the same comparisons of integers."""

from __future__ import annotations

import operator

import torch

from ..size_tensors import is_computed, tensor_of
from ..traced import Traced

Node = torch.fx.Node
_aten = torch.ops.aten
_OPERATORS = {
    operator.gt: _aten.gt.Tensor, operator.ge: _aten.ge.Tensor, operator.lt: _aten.lt.Tensor, operator.le: _aten.le.Tensor, operator.eq: _aten.eq.Tensor, operator.ne: _aten.ne.Tensor,
    operator.and_: _aten.logical_and.default, operator.or_: _aten.logical_or.default, torch.sym_not: _aten.logical_not.default,
}  # fmt: skip


def wanted(traced: Traced) -> bool:
    return any(map(_is_chosen_by_size, traced.graph.nodes))


def apply(traced: Traced):
    """False if nothing was to be changed."""
    chosen = [n for n in traced.editable().graph.nodes if _is_chosen_by_size(n) and is_computed(n.args[0], _OPERATORS, (int,))]
    for node in chosen:
        device = next((v.meta["val"].device for v in node.args[3] if isinstance(v, Node) and isinstance(v.meta.get("val"), torch.Tensor)), torch.device("cpu"))
        with traced.graph.inserting_before(node):
            node.update_arg(0, tensor_of(node, node.args[0], _OPERATORS, lambda given, device=device: {"dtype": _type_of(given), "device": device}))
    return bool(chosen)


def _is_chosen_by_size(node: Node) -> bool:
    return node.target is torch.ops.higher_order.cond and isinstance(node.args[0], Node) and isinstance(node.args[0].meta.get("val"), torch.SymBool)


def _type_of(given) -> torch.dtype:
    return torch.bool if isinstance(given, bool) else torch.int64
