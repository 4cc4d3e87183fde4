"""Indices that are integer tensors without axes, `alphas[t]` and `table[:, step]`, in Dynamo's graphs. torch reads such an index as a number, which AOTAutograd refuses. The same elements are taken
by `aten.index`. A place that is written or returned stays a view."""

from __future__ import annotations

import operator

import torch

from ..memory import memories_written, of_memory, value_of
from ..traced import Traced

Node = torch.fx.Node
_ALL = slice(None)


def wanted(traced: Traced) -> bool:
    return not traced.in_aten and any(map(_picks, traced.graph.nodes))


def apply(traced: Traced):
    """False if all of the places are written or returned."""
    graph = traced.editable().graph
    written = memories_written(graph)
    nodes = [n for n in graph.nodes if _picks(n) and of_memory(value_of(n.args[0])) not in written and not _is_returned(n)]
    for node in nodes:
        with graph.inserting_before(node):
            node.replace_all_uses_with(_taken(node))
        graph.erase_node(node)
    return bool(nodes)


def _is_returned(node: Node) -> bool:
    """Whether the caller gets it or a view of it, which shares memory with what it is picked from."""
    memory, views = of_memory(value_of(node)), [node]
    for view in views:
        views += [user for user in view.users if user.op != "output" and of_memory(value_of(user)) == memory]
    return any(user.op == "output" for view in views for user in view.users)


def _items(node: Node) -> tuple:
    return node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)


def _picks(node: Node) -> bool:
    if node.op != "call_function" or node.target is not operator.getitem or not isinstance(node.args[0], Node) or not isinstance(value_of(node.args[0]), torch.Tensor):
        return False
    others = [item for item in _items(node) if not _is_number(item)]
    return len(others) < len(_items(node)) and all(item is None or item is ... or isinstance(item, (slice, int)) and not isinstance(item, bool) for item in others)


def _is_number(item) -> bool:
    value = value_of(item) if isinstance(item, Node) else None
    return isinstance(value, torch.Tensor) and not value.dim() and value.dtype in (torch.int8, torch.int16, torch.int32, torch.int64)


def _taken(node: Node) -> Node:
    """First what the other items take, then the elements along the axes that are left."""
    tensor, items = node.args[0], _items(node)
    open_axes = value_of(tensor).dim() - sum(item is not None and item is not ... for item in items)
    indices: list[Node | None] = []
    for item in items:
        axes = open_axes if item is ... else 0 if isinstance(item, int) else 1
        indices += [item] if _is_number(item) else [None] * axes
    others = tuple(_ALL if _is_number(item) else item for item in items)
    if any(item is not ... and item != _ALL for item in others):
        tensor = _made(node, operator.getitem, tensor, others)
    return _made(node, torch.ops.aten.index.Tensor, tensor, indices)


def _made(like: Node, target, *arguments) -> Node:
    made = like.graph.call_function(target, arguments)
    with value_of(like).fake_mode:
        made.meta = {**like.meta, "example_value": target(*torch.fx.map_arg(arguments, value_of))}
    return made
