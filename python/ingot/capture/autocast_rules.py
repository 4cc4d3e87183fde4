"""Option autocast by nodes: the nodes that patterns name, the nodes inside regions of torch.autocast, and the results of the low type."""

from __future__ import annotations

import operator
import re
from dataclasses import replace

import torch

Node = torch.fx.Node


def origins(f, program=None) -> dict[Node, Node]:
    """For each call of a functional graph the node of the exported program that it comes from: an operator that torch wrote out in others, or a region of torch.autocast."""
    calls = [n for n in f.module.graph.nodes if n.op == "call_function"]
    if program is None or program.graph is f.module.graph:
        return {n: n for n in calls}
    given = {n.name: n for n in program.graph.nodes}

    def origin(node):
        sources = node.meta.get("from_node") or ()
        while sources:
            if sources[-1].graph_id == id(program.graph) or not sources[-1].from_node:
                return given.get(sources[-1].name, node)
            sources = sources[-1].from_node
        return given.get(node.name, node)

    return {n: origin(n) for n in calls}


def in_regions(origin_of: dict[Node, Node]) -> list[Node]:
    """The nodes with float32 operands in regions of torch.autocast, which say themselves what is cast."""
    return [n for n, origin in origin_of.items() if n.users and origin.target is torch.ops.higher_order.wrap_with_autocast and any(map(_is_float32, n.all_input_nodes))]


def matches(pattern: str, node: Node, target) -> bool:
    """Whether a pattern of autocast_exclude names a node, if `target` is its operator. As src/lower/autocast.cpp reads patterns."""
    kind, text = ("", pattern) if not pattern.startswith(("node:", "module:")) else pattern.split(":", 1)
    modules = node.meta.get("nn_module_stack", {}).values()
    names = [node.name] if kind != "module" else []
    if kind != "node":
        names += [path for path, *_ in modules]
    if kind == "":
        classes = [str(of) for _, of, *_ in modules]
        operators = [str(target), str(target).rpartition(".")[0]]
        names += [*classes, *(of.rpartition(".")[2] for of in classes), *operators, operators[1].partition(".")[2]]
    return any(name and re.fullmatch(text, name) for name in names)


def with_low_results(f, low: torch.dtype, kept: set[Node]):
    """The graph with float32 results cast to `low`, except those that no operator computes and those of the nodes in `kept`."""
    graph, cast, results, before = f.module.graph, {}, [], []
    for result, lay in zip(f.results, f.before or [None] * len(f.results)):
        computed = isinstance(result, Node) and result.op == "call_function" and _is_float32(result)
        producer = result.args[0] if computed and result.target is operator.getitem else result
        if not computed or result in kept or producer in kept:
            results.append(result)
            before.append(lay)
            continue
        if result not in cast:
            with graph.inserting_before(graph.output_node()), result.meta["val"].fake_mode:
                cast[result] = graph.call_function(torch.ops.aten._to_copy.default, (result,), {"dtype": low})
                cast[result].meta = {**result.meta, "val": torch.ops.aten._to_copy.default(result.meta["val"], dtype=low)}
        results.append(cast[result])
        before.append(None)
    return replace(f, results=results, before=before, views={}, wanted=[], orders={})


def _is_float32(node) -> bool:
    value = node.meta.get("val")
    return any(isinstance(v, torch.Tensor) and v.dtype is torch.float32 for v in (value if isinstance(value, (tuple, list)) else (value,)))
