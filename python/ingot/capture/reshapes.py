"""Finds what depends on an input's strides: reshapes that are views or copies depending on the operand's strides, where a write shows the difference, and as_strided. The graph
is right only for the example's layout, so each such input must have it."""

from __future__ import annotations

import torch

from ..errors import InputError
from ..torch_internals.operators import OpOverload, schema_of
from .memory import hint, may_write, memories_written, of_memory, source_of, value_of, written_operands

Node = torch.fx.Node

STRIDED = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default)
_EITHER = {f"aten::{name}" for name in ("reshape", "reshape_as", "flatten", "ravel", "contiguous", "to")}
# Operators whose results lie alike, however their operands lie.
_FIXED = {f"aten::{name}" for name in ("topk", "mm", "bmm", "addmm", "baddbmm", "embedding", "nonzero", "one_hot")}
_NOTED = "ingot_contiguous"


class Contiguous(torch.overrides.TorchFunctionMode):
    """Notes tensors whose `contiguous()` returned the tensor itself, because a traced graph has no node for that."""

    def __init__(self):
        super().__init__()
        self.found: list[torch.Tensor] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function is torch.Tensor.contiguous and made is args[0]:
            self.found.append(made)
        return made

    def leave_in(self, graph: torch.fx.Graph):
        """Marks each placeholder that owns the memory of such a tensor."""
        memories = set(map(of_memory, self.found))
        for node in graph.nodes:
            if node.op == "placeholder" and of_memory(value_of(node)) in memories:
                node.meta[_NOTED] = True


def hang_on(graph: torch.fx.Graph) -> dict[str, dict]:
    """The placeholders on whose strides the graph's reads or writes depend: {name: layout in the example}."""
    found, with_gaps = _hang_on(graph)
    by_address = {owner for node in graph.nodes if _counts_from_start(node) for owner in _given(node.args[0], graph.nodes)}
    return {n.name: _layout_of(value_of(n), n in with_gaps) | ({"offset": [hint(value_of(n).storage_offset())]} if n in by_address else {}) for n in found}


def _counts_from_start(node) -> bool:
    """True for as_strided with an offset, which counts from the start of the memory. Without one it begins at the operand's first element."""
    return node.target in STRIDED and (node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")) is not None


def _hang_on(graph):
    """The placeholders of `hang_on`, and those of which a slice or a permuted view is reshaped: there sizes of 1 matter too."""
    written = memories_written(graph)
    nodes = list(graph.nodes)
    found = {n for n in nodes if n.op == "placeholder" and n.meta.get(_NOTED) and of_memory(value_of(n)) in written}
    with_gaps: set[Node] = set()
    for i, node in enumerate(nodes):
        if node.target in STRIDED:  # it depends on the strides
            found |= _above(node.args[0], nodes)
        if node.target is torch.ops.aten.fill_diagonal_.default and not is_diagonal(node):
            found |= _above(node.args[0], nodes)
        if isinstance(node.target, OpOverload) and schema_of(node.target).name in _EITHER and isinstance(value_of(node), torch.Tensor) and not _is_decided(node):
            memories = {of_memory(value_of(node)), of_memory(value_of(node.args[0]))}
            if memories & written and _shows_difference(node, memories, nodes, i):
                found |= _above(node.args[0], nodes)
                if not value_of(node.args[0]).is_contiguous():
                    with_gaps |= _above(node.args[0], nodes)
    return found, with_gaps


def _is_decided(node) -> bool:
    """True for a cast to another type or device, which always copies, and for one to the same, which never does: only a wanted memory format asks for strides."""
    formats = (node.kwargs.get("memory_format"), *(a for a in node.args if isinstance(a, torch.memory_format)))
    return schema_of(node.target).name == "aten::to" and all(f in (None, torch.preserve_format) for f in formats)


def _shows_difference(node, memories, nodes, at):
    """True if the node's result is written while its operand is still read, or the other way round."""
    place = {n: i for i, n in enumerate(nodes)}
    mine, others = {node}, set()
    for n in nodes:
        if (memory := of_memory(value_of(n))) in memories and n is not node:
            (mine if source_of(n, memory) in mine else others).add(n)

    def read(side, after):
        return any(n.op == "placeholder" or any(place[user] > after for user in n.users) for n in side)

    for i, n in enumerate(nodes[at + 1 :], at + 1):
        if may_write(n):
            targets = set(written_operands(n))
            if targets & mine and read(others, i) or targets & others and read(mine, i):
                return True
    return False


def _above(node, nodes):
    """The placeholders on whose strides a tensor's strides may depend."""
    if given := _given(node, nodes):
        return given
    found, todo, seen = set(), [node], set()
    while todo:
        if (n := todo.pop()) not in seen and of_memory(value_of(n)) is not None:
            seen.add(n)
            if not isinstance(n.target, OpOverload) or schema_of(n.target).name not in _FIXED:
                todo += n.all_input_nodes
            if n.op == "placeholder":
                found.add(n)
    return found


def _given(node, nodes):
    """The placeholder that owns the memory, if one does."""
    memory = of_memory(value_of(node))
    return {n for n in nodes if n.op == "placeholder" and of_memory(value_of(n)) == memory}


def is_diagonal(node) -> bool:
    """True if fill_diagonal_ fills exactly the elements of `diagonal`, for all strides. torch's functional graph has as_strided for it."""
    wraps = node.args[2] if len(node.args) > 2 else node.kwargs.get("wrap", False)
    return value_of(node).dim() == 2 and not wraps


def _layout_of(tensor, ones) -> dict:
    """A tensor's layout as a plan's signature keeps it: the order of its axes, outermost first, or its strides if it has gaps; with `ones` also its axes of size 1."""
    shape, strides = [hint(s) for s in tensor.shape], [hint(s) for s in tensor.stride()]
    example = torch.empty_strided(shape, strides, device="meta")
    order = list(range(len(shape))) if example.is_contiguous() else sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    layout = {"order": order} if example.permute(order).is_contiguous() else {"strides": strides}
    return {**layout, "ones": [axis for axis, size in enumerate(shape) if size == 1]} if ones else layout


def rank_of(layout: dict) -> int:
    return len(layout.get("order", layout.get("strides")))


def check_layout(name: str, tensor: torch.Tensor, layout: dict):
    if tensor.dim() != rank_of(layout) or tensor.numel() == 0:
        return  # another rank: the engine raises
    if "strides" in layout:
        same = all(size == 1 or a == b for size, a, b in zip(tensor.shape, tensor.stride(), layout["strides"]))
    else:
        order = layout["order"]
        same = tensor.is_contiguous() if order == sorted(order) else tensor.permute(order).is_contiguous() and not tensor.is_contiguous()
    same = same and tensor.storage_offset() == layout.get("offset", [tensor.storage_offset()])[0]
    if not same or "ones" in layout and layout["ones"] != [axis for axis, size in enumerate(tensor.shape) if size == 1]:
        raise InputError(
            f"input {name!r} (sizes {list(tensor.shape)}, strides {list(tensor.stride())}, offset {tensor.storage_offset()}) has another layout in memory than the example that the model was captured with; "
            "the layout decides what as_strided reads, or whether a reshape next to a write in the model is a view or a copy",
            remedy="give a tensor of the example's layout, or compile with an example of this layout",
        )
