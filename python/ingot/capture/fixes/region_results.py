"""What a branch of `torch.cond` gives of its inputs, and a result that it gives twice, are copied: `lambda x: x`. torch cannot make a graph functional whose branches give such results."""

from __future__ import annotations

import copy

import torch

from ..memory import of_memory, value_of
from ..traced import Traced

Node = torch.fx.Node


def wanted(traced: Traced) -> bool:
    return any(_shared(region) for _, region in _branches(traced.module))


def apply(traced: Traced):
    module = traced.editable()
    for name, region in list(_branches(module)):
        if _shared(region):
            setattr(module, name, _with_copies(region, torch.ops.aten.clone.default if traced.in_aten else torch.clone))


def _branches(module):
    """The branches of a graph, by name."""
    for node in module.graph.nodes:
        if node.target is torch.ops.higher_order.cond:
            for branch in node.args[1:3]:
                yield branch.target, getattr(module, branch.target)


def _shared(region) -> list[int]:
    """The places of results that share memory with an input of the region or with an earlier result."""
    memories = {of_memory(value_of(n)) for n in region.graph.nodes if n.op in ("placeholder", "get_attr")} - {None}
    found = []
    for i, result in enumerate(_results(region)):
        memory = of_memory(value_of(result)) if isinstance(result, Node) else None
        if memory in memories:
            found.append(i)
        elif memory is not None:
            memories.add(memory)
    return found


def _results(region) -> tuple:
    results = region.graph.output_node().args[0]
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _with_copies(region, clone) -> torch.fx.GraphModule:
    places = _shared(region)
    made = torch.fx.GraphModule(region, copy.deepcopy(region.graph))
    output, results = made.graph.output_node(), list(_results(made))
    for i in places:
        with made.graph.inserting_before(output):
            copied = made.graph.call_function(clone, (results[i],))
        word = "val" if "val" in results[i].meta else "example_value"
        with value_of(results[i]).fake_mode:
            copied.meta = {**results[i].meta, word: value_of(results[i]).clone()}
        results[i] = copied
    output.args = (tuple(results),)
    made.recompile()
    return made
