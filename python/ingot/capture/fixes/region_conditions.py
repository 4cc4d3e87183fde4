"""torch.cond whose condition is about open sizes: `torch.cond(x.shape[0] > 4, ..)`. A region is chosen by a tensor, so the condition becomes one, of the same comparisons of integers."""

from __future__ import annotations

import operator

import torch

from ..traced import Traced
from .read_numbers import made

Node = torch.fx.Node
_aten = torch.ops.aten
_COMPARISONS = {operator.gt: _aten.gt.Tensor, operator.ge: _aten.ge.Tensor, operator.lt: _aten.lt.Tensor, operator.le: _aten.le.Tensor, operator.eq: _aten.eq.Tensor, operator.ne: _aten.ne.Tensor}
_LOGIC = {operator.and_: _aten.logical_and.default, operator.or_: _aten.logical_or.default, torch.sym_not: _aten.logical_not.default}


def wanted(traced: Traced) -> bool:
    return any(map(_is_chosen_by_size, traced.graph.nodes))


def apply(traced: Traced):
    """False if nothing was to be changed."""
    chosen = [n for n in traced.editable().graph.nodes if _is_chosen_by_size(n) and _has_form(n.args[0])]
    for node in chosen:
        device = next((v.meta["val"].device for v in node.args[3] if isinstance(v, Node) and isinstance(v.meta.get("val"), torch.Tensor)), torch.device("cpu"))
        with traced.graph.inserting_before(node):
            node.update_arg(0, _tensor(node, node.args[0], device))
    return bool(chosen)


def _is_chosen_by_size(node: Node) -> bool:
    return node.target is torch.ops.higher_order.cond and isinstance(node.args[0], Node) and isinstance(node.args[0].meta.get("val"), torch.SymBool)


def _has_form(value) -> bool:
    """Whether it is made of comparisons of sizes."""
    if not isinstance(value, Node) or not isinstance(value.meta.get("val"), torch.SymBool):
        return isinstance(value, bool)
    if value.target in _LOGIC:
        return all(map(_has_form, value.args))
    return value.target in _COMPARISONS and all(isinstance(a, int) or isinstance(a, Node) and isinstance(a.meta.get("val"), (int, torch.SymInt)) for a in value.args)


def _tensor(user: Node, value, device) -> Node:
    form = (_COMPARISONS | _LOGIC).get(value.target) if isinstance(value, Node) else None
    if form is not None:
        return made(user, form, *(_tensor(user, a, device) for a in value.args))
    return made(user, _aten.full.default, [], value, dtype=torch.bool if isinstance(value, bool) else torch.int64, device=device)
