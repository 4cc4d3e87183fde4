"""Numbers that Dynamo passes as tensors. With dynamic=True the float attributes of modules are inputs of the graph, and its nodes read them by .item(), also those in branches and loops. So are
numbers of numpy, which may stand in lists of sizes: kernel_size=(np.int64(2), 3)."""

from __future__ import annotations

import logging

import torch

from ...torch_internals.operators import HigherOrderOperator
from ..traced import Traced

log = logging.getLogger("ingot")


def wanted(traced: Traced) -> bool:
    return bool(_found(traced.module))


def apply(traced: Traced):
    """The current values become constants of a new graph, so that engines are built for them. The graph itself stays, for other values."""
    found = _found(traced.module)
    traced.numbers = {place: node.meta["grapharg"].example.item() for place, node in found.items()}
    traced.take(_with_constants(traced.module, {node: traced.numbers[place] for place, node in found.items()}))


def _found(module: torch.fx.GraphModule) -> dict[int, torch.fx.Node]:
    """The numbers among a graph's inputs, by place."""
    placeholders = enumerate(n for n in module.graph.nodes if n.op == "placeholder")
    return {place: node for place, node in placeholders if getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False) and node.users and _is_read(module, node)}


def _is_read(module, node: torch.fx.Node) -> bool:
    """Whether everything takes the node for a number."""
    return all(_reads(user) or _among_integers(user, node) or _in_regions(module, user, node) for user in node.users)


def _in_regions(module, user: torch.fx.Node, node: torch.fx.Node) -> bool:
    """Whether the user has regions, and each of them takes the node for a number."""
    regions, places = _regions(module, user), [i for i, operand in enumerate(_operands(user)) if operand is node]
    return bool(regions) and bool(places) and all(_is_read(region, _inputs(region)[i]) for region in regions.values() for i in places)


def _regions(module, node: torch.fx.Node) -> dict[str, torch.fx.GraphModule]:
    if not isinstance(node.target, HigherOrderOperator) or node.target.name() not in ("cond", "while_loop", "scan"):
        return {}
    return {a.target: getattr(module, a.target) for a in node.args if isinstance(a, torch.fx.Node) and a.op == "get_attr"}


def _operands(node: torch.fx.Node) -> list:
    """The operands that are inputs of each region, in order."""
    return [a for given in node.args if isinstance(given, (list, tuple)) for a in given]


def _inputs(region: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [n for n in region.graph.nodes if n.op == "placeholder"]


def _reads(user: torch.fx.Node) -> bool:
    return user.op == "call_method" and user.target == "item"


def _among_integers(user: torch.fx.Node, node: torch.fx.Node) -> bool:
    """True if the node is only in lists together with integers, so it is not one of several tensors."""
    lists = [a for a in (*user.args, *user.kwargs.values()) if isinstance(a, (list, tuple)) and node in a]
    return bool(lists) and node not in (*user.args, *user.kwargs.values()) and all(any(isinstance(a, int) for a in values) for values in lists)


def _with_constants(module: torch.fx.GraphModule, values: dict[torch.fx.Node, float | int], inside=False) -> torch.fx.GraphModule:
    """A copy of the graph in which these inputs are numbers. inside: it is a region, which loses the inputs."""
    graph, made, regions = torch.fx.Graph(), {}, {}
    for placeholder, value in values.items():
        made |= dict.fromkeys(filter(_reads, placeholder.users), value)
    for node in module.graph.nodes:
        if node in made or inside and node in values:
            continue
        operands = _operands(node)
        if (inner := _regions(module, node)) and not values.keys().isdisjoint(operands):
            places = {i: values[operand] for i, operand in enumerate(operands) if operand in values}
            regions |= {name: _with_constants(region, {_inputs(region)[i]: value for i, value in places.items()}, inside=True) for name, region in inner.items()}
            kept = tuple(type(given)(a for a in given if a not in values) if isinstance(given, (list, tuple)) else given for given in node.args)
            made[node] = graph.create_node(node.op, node.target, torch.fx.map_arg(kept, made.__getitem__), node.kwargs, node.name)
            made[node].meta = dict(node.meta)
        else:
            made[node] = graph.node_copy(node, lambda n: values[n] if n in values else made[n])
    result = torch.fx.GraphModule(module, graph)
    for name, region in regions.items():
        setattr(result, name, region)
    return result


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
