"""Casts of einsum's operands under autocast become nodes. autocast knows only the products that einsum is made of, and torch's functionalisation computes them without the mode."""

from __future__ import annotations

import copy

import torch

from ..memory import value_of
from ..traced import Traced


def wanted(traced: Traced) -> bool:
    return any(_casts_einsum(n) for m in traced.module.modules() if isinstance(m, torch.fx.GraphModule) for n in m.graph.nodes)


def apply(traced: Traced):
    _cast_einsums(traced.editable())


def _casts_einsum(node) -> bool:
    """True if an operand of an einsum is a float of another type than its result."""
    return node.target is torch.ops.aten.einsum.default and any(_differs(node, operand) for operand in node.args[1])


def _differs(node, operand):
    value = value_of(operand)
    return value.is_floating_point() and value.dtype != value_of(node).dtype


def _cast_einsums(module):
    for name, region in list(module.named_children()):
        if isinstance(region, torch.fx.GraphModule):  # of the program: copied too
            setattr(module, name, torch.fx.GraphModule(region, copy.deepcopy(region.graph)))
            _cast_einsums(getattr(module, name))
    for node in filter(_casts_einsum, module.graph.nodes):
        equation, operands, *more = node.args
        with module.graph.inserting_before(node):
            node.args = equation, [_cast(module.graph, operand, node) if _differs(node, operand) else operand for operand in operands], *more
    module.recompile()


def _cast(graph, operand, node):
    dtype = value_of(node).dtype
    made = graph.call_function(torch.ops.aten.to.dtype, (operand, dtype))
    made.meta = {**node.meta, "val": value_of(operand).to(dtype)}
    return made
