"""`normalize_negative_slice_stop`: slices whose ends are counted from the back by a number of the graph."""

from __future__ import annotations

import operator

import torch

_aten = torch.ops.aten
_NEGATIONS = (operator.neg, _aten.neg.default)


def normalize_negative_slice_stop(gm: torch.fx.GraphModule, settings=None) -> torch.fx.GraphModule:
    """`x[-n:]` and `x[:-n]` as `x[size - n:]` and `x[:size - n]`, where n is a node. Builds need it not: they compute both."""
    for node in gm.graph.find_nodes(op="call_function", target=_aten.slice.Tensor):
        args = list(node.args)
        ends = [place for place in (2, 3) if place < len(args) and isinstance(args[place], torch.fx.Node) and args[place].target in _NEGATIONS]
        if not ends:
            continue
        axis = args[1] if len(args) > 1 else 0
        if axis < 0:
            rank = _rank(args[0])
            if rank is None:
                continue
            axis += rank
        with gm.graph.inserting_before(node):
            size = gm.graph.call_function(_aten.sym_size.int, (args[0], axis))
            for place in ends:
                args[place] = gm.graph.call_function(operator.sub, (size, args[place].args[0]))
        node.args = (args[0], axis, *args[2:])
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _rank(node):
    value = node.meta.get("val")
    return value.dim() if isinstance(value, torch.Tensor) else None
