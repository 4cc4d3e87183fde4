"""Indices that are integer tensors without axes, `alphas[t]`, `table[:, step]` and `counts[k] += 1`, in Dynamo's graphs. torch reads such an index as a number, which AOTAutograd refuses. The same
elements are taken by `aten.index` and written by `aten.index_put_`. A view of such a place that is written or returned stays a view."""

from __future__ import annotations

import operator

import torch

from ...torch_internals.tensors import FakeTensor
from .. import places
from ..memory import memories_written, of_memory, value_of
from ..traced import Traced

Node = torch.fx.Node


def wanted(traced: Traced) -> bool:
    return not traced.in_aten and any(map(_picks, traced.graph.nodes))


def apply(traced: Traced):
    """False if all of the places are views that are written or returned."""
    graph = traced.editable().graph
    written = memories_written(graph)
    nodes = [n for n in graph.nodes if _picks(n) and (_is_write(n) or _is_updated(n) or of_memory(value_of(n.args[0])) not in written and not _is_returned(n))]
    for node in nodes:
        if _is_write(node):
            node.target = places.write
            continue
        with graph.inserting_before(node):
            node.replace_all_uses_with(_taken(node))
        graph.erase_node(node)
    return bool(nodes)


def _is_write(node: Node) -> bool:
    return node.target is operator.setitem


def _is_updated(node: Node) -> bool:
    """Whether it is the read of `x[i] += y`, which is written back before anything else reads or writes x."""
    change = _only_user(node)
    write = _only_user(change)
    if write is None or change.args[0] is not node or write.target is not operator.setitem or write.args != (*node.args, change):
        return False
    memory, between = of_memory(value_of(node)), node.next
    while between is not write:
        if between is not change and any(of_memory(value_of(i)) == memory for i in between.all_input_nodes):
            return False
        between = between.next
    return True


def _only_user(node: Node | None) -> Node | None:
    return next(iter(node.users)) if node is not None and len(node.users) == 1 else None


def _is_returned(node: Node) -> bool:
    """Whether the caller gets it or a view of it, which shares memory with what it is picked from."""
    memory, views = of_memory(value_of(node)), [node]
    for view in views:
        views += [user for user in view.users if user.op != "output" and of_memory(value_of(user)) == memory]
    return any(user.op == "output" for view in views for user in view.users)


def _picks(node: Node) -> bool:
    if node.op != "call_function" or node.target not in (operator.getitem, operator.setitem) or not isinstance(node.args[0], Node) or not isinstance(value_of(node.args[0]), torch.Tensor):
        return False
    return places.has_number(places.items_of(node.args[1]), _is_number)


def _is_number(item) -> bool:
    """Inside of torch.vmap such a tensor has axes that it does not show: torch itself takes elements there."""
    return isinstance(item, Node) and isinstance(value_of(item), FakeTensor) and places.is_number(value_of(item))


def _taken(node: Node) -> Node:
    """First what the other items take, then the elements along the axes that are left."""
    tensor = node.args[0]
    others, indices = places.split_index(value_of(tensor).dim(), places.items_of(node.args[1]), _is_number)
    if not places.takes_all(others):
        tensor = _made(node, operator.getitem, tensor, others)
    return _made(node, torch.ops.aten.index.Tensor, tensor, indices)


def _made(like: Node, target, *arguments) -> Node:
    made = like.graph.call_function(target, arguments)
    with value_of(like).fake_mode:
        made.meta = {**like.meta, "example_value": target(*torch.fx.map_arg(arguments, value_of))}
    return made
