"""Numbers that Dynamo passes as tensors. With dynamic=True the float attributes of modules are inputs of the graph, and its nodes read them by .item(). So are numbers of
numpy, which may stand in lists of sizes: kernel_size=(np.int64(2), 3)."""

from __future__ import annotations

import logging

import torch

from ..traced import Traced

log = logging.getLogger("ingot")


def wanted(traced: Traced) -> bool:
    return bool(_found(traced.graph))


def apply(traced: Traced):
    """The current values become constants of a new graph, so that engines are built for them. The graph itself stays, for other values."""
    traced.numbers = {place: node.meta["grapharg"].example.item() for place, node in _found(traced.graph).items()}
    traced.take(_with_constants(traced.module, traced.numbers))


def _found(graph: torch.fx.Graph) -> dict[int, torch.fx.Node]:
    """The numbers among a graph's inputs, by place."""
    found = {}
    for place, node in enumerate(n for n in graph.nodes if n.op == "placeholder"):
        if getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False) and node.users and all(_reads(u) or _among_integers(u, node) for u in node.users):
            found[place] = node
    return found


def _reads(user: torch.fx.Node) -> bool:
    return user.op == "call_method" and user.target == "item"


def _among_integers(user: torch.fx.Node, node: torch.fx.Node) -> bool:
    """Whether the node stands only in lists beside integers, so that it is none of several tensors."""
    lists = [a for a in (*user.args, *user.kwargs.values()) if isinstance(a, (list, tuple)) and node in a]
    return bool(lists) and node not in (*user.args, *user.kwargs.values()) and all(any(isinstance(a, int) for a in values) for values in lists)


def _with_constants(module: torch.fx.GraphModule, numbers: dict[int, float | int]) -> torch.fx.GraphModule:
    graph, made = torch.fx.Graph(), {}
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    values = {placeholders[i]: value for i, value in numbers.items()}
    for placeholder, value in values.items():
        made |= dict.fromkeys(filter(_reads, placeholder.users), value)
    for node in module.graph.nodes:
        if node not in made:
            made[node] = graph.node_copy(node, lambda n: values.get(n, made[n]))
    return torch.fx.GraphModule(module, graph)


def guarded(call, module: torch.fx.GraphModule, numbers: dict[int, float | int]):
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
