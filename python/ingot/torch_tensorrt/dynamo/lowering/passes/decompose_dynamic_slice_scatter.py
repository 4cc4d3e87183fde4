"""`decompose_dynamic_slice_scatter`: writes to slices whose ends are sizes of the graph, as a scatter."""

from __future__ import annotations

import operator

import torch

_aten = torch.ops.aten


def decompose_dynamic_slice_scatter(gm: torch.fx.GraphModule, settings=None) -> torch.fx.GraphModule:
    """The graph with aten.scatter for each aten.slice_scatter whose start, end or step is a node; others stay. Builds need it not: they take both."""
    graph = gm.graph
    for node in graph.find_nodes(op="call_function", target=_aten.slice_scatter.default):
        x, source, axis, start, end, step = _arguments(node)
        value = source.meta.get("val")
        if not any(isinstance(n, torch.fx.Node) for n in (start, end, step)) or not isinstance(value, torch.Tensor):
            continue
        axis %= value.dim()
        with graph.inserting_before(node):
            if isinstance(start, int) and start < 0:
                start = graph.call_function(operator.add, (graph.call_function(_aten.sym_size.int, (x, axis)), start))
            places = graph.call_function(_aten.arange.default, (graph.call_function(_aten.sym_size.int, (source, axis)),), {"device": value.device})
            places = graph.call_function(_aten.add.Tensor, (graph.call_function(_aten.mul.Tensor, (places, step)), start))
            places = graph.call_function(_aten.view.default, (places, [-1 if other == axis else 1 for other in range(value.dim())]))
            places = graph.call_function(_aten.expand_as.default, (places, source))
            made = graph.call_function(_aten.scatter.src, (x, axis, places, source))
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)
    gm.recompile()
    return gm


def _arguments(node):
    given = dict(zip(("self", "src", "dim", "start", "end", "step"), node.args)) | dict(node.kwargs)
    return given["self"], given["src"], given.get("dim", 0), given.get("start") or 0, given.get("end"), given.get("step", 1)
