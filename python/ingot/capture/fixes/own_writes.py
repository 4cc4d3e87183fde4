"""In-place writes to values that the graph makes itself: `y = conv(x); y += z; y.relu_()`. They become new values here.

torch's functionalisation does it too, but traces the whole graph again: twice the time and the memory of the export.
"""

from __future__ import annotations

import torch

from ...torch_internals.operators import OpOverload, overload_of, schema_of
from ..memory import may_write, of_memory
from ..traced import Traced

Node = torch.fx.Node


def wanted(traced: Traced) -> bool:
    """Whether all writes are pointwise operators that write a value of the graph's own before it has a view. Under autocast torch's functionalisation is needed anyway."""
    writes = [n for n in traced.graph.nodes if may_write(n)] if traced.in_aten and not traced.casts else []
    return bool(writes) and all(_functional(n.target) for n in writes) and _versions(traced.graph) is not None


def apply(traced: Traced) -> bool:
    """False, and the graph stays, if the new values would lie otherwise in memory."""
    module = traced.copy()
    if not _replace_writes(module.graph, _versions(module.graph)):
        return False
    traced.take(module)
    return True


_UNTAGGED = {"hardswish"}  # pointwise operators that torch does not call so


def _functional(target):
    """The pointwise operator whose new value is what `target` writes to its first operand; None if there is none."""
    if not isinstance(target, OpOverload):
        return None
    schema = schema_of(target)
    name = schema.name.partition("::")[2]
    written = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
    packet = getattr(torch.ops.aten, name[:-1], None) if target.namespace == "aten" and name.endswith("_") and written[0] and sum(written) == 1 else None
    made = getattr(packet, overload_of(target), None)
    return made if made is not None and (torch.Tag.pointwise in made.tags or name[:-1] in _UNTAGGED) and not schema_of(made).is_mutable else None


_ALIASES = {torch.ops.aten.alias.default, torch.ops.aten.slice.Tensor, torch.ops.aten.detach.default}  # views that may be of everything


def _versions(graph: torch.fx.Graph) -> dict[Node, list[Node]] | None:
    """For each value that is written: itself, the writes in their order, and the views of them, under each of these nodes. A view of everything, such as `x[:, :n]` of n columns, is a version
    like the others. None if the graph does anything else to such a value."""
    sharing: dict[int, list[Node]] = {}
    for node in graph.nodes:
        memory = of_memory(node.meta.get("val"))
        if memory is not None:
            sharing.setdefault(memory, []).append(node)
    found = {}
    for node in graph.nodes:
        if not may_write(node) or node in found:
            continue
        nodes = sharing.get(of_memory(node.meta.get("val")), [])
        if not nodes or nodes[0].op != "call_function" or not all(isinstance(n.meta["val"], torch.Tensor) for n in nodes):
            return None
        last = max(i for i, n in enumerate(nodes) if may_write(n))
        if may_write(nodes[0]) or any(not (may_write(n) or n.target in _ALIASES) or _layout(n) != _layout(nodes[0]) or n.args[0] not in nodes for n in nodes[1 : last + 1]):
            return None
        found |= dict.fromkeys(nodes, nodes)
    return found


def _layout(node):
    value = node.meta["val"]
    return value.dtype, *map(str, (*value.shape, *value.stride(), value.storage_offset()))


def _replace_writes(graph, versions) -> bool:
    """Makes the writes new values. False if these would lie otherwise."""
    now: dict[Node, Node] = {}
    for node in graph.nodes:
        read = lambda n: now.get(n, n)  # noqa: E731
        node.args, node.kwargs = torch.fx.map_arg(node.args, read), torch.fx.map_arg(node.kwargs, read)
        if not may_write(node):
            continue
        before = _layout(node)
        node.target = _functional(node.target)
        if not _computed(node) or _layout(node) != before:
            return False
        for other in versions[node]:
            if other is node:
                break
            now[other] = node
        if not any(map(may_write, versions[node][versions[node].index(node) + 1 :])):
            _move_views(node, versions[node])
    return True


def _computed(node) -> bool:
    """Records the node's value, in memory of its own."""
    value = lambda n: n.meta["val"]  # noqa: E731
    try:
        with node.meta["val"].fake_mode:
            node.meta["val"] = node.target(*torch.fx.map_arg(node.args, value), **torch.fx.map_arg(node.kwargs, value))
    except Exception:  # of many kinds; torch's own functionalisation says what is wrong
        return False
    return True


def _move_views(node, versions):
    """The views of the last written value are views of the new value."""
    made = node.meta["val"]
    for view in versions[versions.index(node) + 1 :]:
        value = view.meta["val"]
        with made.fake_mode:
            view.meta["val"] = made.as_strided(value.shape, value.stride(), value.storage_offset())
