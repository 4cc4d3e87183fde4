"""unbind becomes one select for each part: torch's functionalisation fixes open sizes if a part of unbind is written."""

from __future__ import annotations

import torch

from ..traced import Traced


def wanted(traced: Traced) -> bool:
    return any(n.target is torch.ops.aten.unbind.int for n in traced.graph.nodes)


def apply(traced: Traced):
    graph = traced.editable().graph
    for node in [n for n in graph.nodes if n.target is torch.ops.aten.unbind.int]:
        axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        for part in list(node.users):
            with graph.inserting_before(part):
                chosen = graph.call_function(torch.ops.aten.select.int, (node.args[0], axis, part.args[1]))
            chosen.meta = {**node.meta, **part.meta}
            part.replace_all_uses_with(chosen)
            graph.erase_node(part)
        if not node.users:
            graph.erase_node(node)
