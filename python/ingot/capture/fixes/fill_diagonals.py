"""fill_diagonal_ becomes a write to the diagonal: torch's functional graph has as_strided for it."""

from __future__ import annotations

import torch

from ..memory import value_of
from ..reshapes import is_diagonal
from ..traced import Traced


def wanted(traced: Traced) -> bool:
    return bool(_found(traced.graph)) or not traced.in_aten and any(n.op == "call_method" and n.target == "fill_diagonal_" for n in traced.graph.nodes)


def apply(traced: Traced):
    graph = traced.editable().graph
    for node in _found(graph):
        itself, number = node.args[0], node.args[1] if len(node.args) > 1 else node.kwargs["fill_value"]
        with graph.inserting_before(node), value_of(itself).fake_mode:
            diagonal = graph.call_function(torch.ops.aten.diagonal.default, (itself,))
            diagonal.meta = {**node.meta, "val": torch.ops.aten.diagonal.default(value_of(itself))}
            filled = graph.call_function(torch.ops.aten.fill_.Scalar, (diagonal, number))
            filled.meta = dict(diagonal.meta)
        node.replace_all_uses_with(itself)
        graph.erase_node(node)


def _found(graph) -> list[torch.fx.Node]:
    return [n for n in graph.nodes if n.target is torch.ops.aten.fill_diagonal_.default and is_diagonal(n)]
