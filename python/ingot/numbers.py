"""Python numbers that Dynamo passes as tensors. With dynamic=True the float attributes of modules are inputs of the graph, and its nodes read them by .item()."""

from __future__ import annotations

import logging

import torch

log = logging.getLogger("ingot")


def of(module: torch.fx.GraphModule, examples: list) -> dict[int, float]:
    """The numbers among a graph's inputs: {place: current value}."""
    found = {}
    for i, (node, example) in enumerate(zip((n for n in module.graph.nodes if n.op == "placeholder"), examples)):
        if not getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False):
            continue
        if node.users and all(u.op == "call_method" and u.target == "item" for u in node.users):
            found[i] = float(example)
    return found


def settled(module: torch.fx.GraphModule, numbers: dict[int, float]) -> torch.fx.GraphModule:
    """The graph with these values as constants in place of the numbers, so that engines are built for them."""
    if not numbers:
        return module
    graph, made = torch.fx.Graph(), {}
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    for i, value in numbers.items():
        made |= dict.fromkeys(placeholders[i].users, value)
    for node in module.graph.nodes:
        if node not in made:
            made[node] = graph.node_copy(node, made.__getitem__)
    return torch.fx.GraphModule(module, graph)


def guarded(call, module: torch.fx.GraphModule, numbers: dict[int, float]):
    """`call` while the numbers have the compiled values; otherwise torch runs the graph, which is logged once."""
    if not numbers:
        return call
    places, told = list(numbers.items()), []

    def run(*args):
        for i, value in places:
            now = float(args[i])
            if now != value and (now == now or value == value):
                if not told:
                    told.append(True)
                    log.warning("a number of the model is %r now, and was %r when it was compiled: calls with other numbers run in torch", now, value)
                with torch.no_grad():
                    return module(*args)
        return call(*args)

    return run
