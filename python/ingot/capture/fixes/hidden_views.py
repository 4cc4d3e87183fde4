"""Hidden views: results that share memory with an operand although no schema says so. Examples are einsum that only permutes or takes a diagonal, sum_to_size of the same size, and
broadcast_tensors; identities.py handles others. torch's functionalisation takes them for new tensors and loses writes to either of the two, so they become views that it knows."""

from __future__ import annotations

import operator

import torch

from ...torch_internals.operators import OpOverload, schema_of
from ...torch_internals.trees import pytree
from ..memory import einsum_of_one, gives_new, may_write, memories_written, name_of_call, of_memory, source_of, value_of
from ..traced import NotFunctional, Traced

# Views that functionalisation knows, by name.
_KNOWN = {
    "alias", "chunk", "contiguous", "detach", "diagonal", "flatten", "getattr", "getitem", "movedim", "moveaxis", "narrow", "permute", "ravel", "reshape",
    "select", "split", "squeeze", "swapaxes", "swapdims", "t", "to", "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as",
}  # fmt: skip
# Operators that return views although their schemas do not say so, and the ones whose schemas do.
_PARTS = {
    torch.ops.aten.unsafe_chunk.default: torch.ops.aten.chunk.default,
    torch.ops.aten.unsafe_split.Tensor: torch.ops.aten.split.Tensor,
    torch.ops.aten.unsafe_split_with_sizes.default: torch.ops.aten.split_with_sizes.default,
}


def wanted(traced: Traced) -> bool:
    """Whether a node hides a view of a tensor that the graph writes; of Dynamo's graph, whether one may."""
    if traced.in_aten:
        return bool(_hidden(traced.graph))
    written = memories_written(traced.graph)
    return any(n.op != "placeholder" and name_of_call(n) not in _KNOWN and not may_write(n) and _shared(n, written) for n in traced.graph.nodes)


def apply(traced: Traced):
    """NotFunctional if no view gives such a result."""
    for node in _hidden(traced.editable().graph):
        if node.target in _PARTS:
            node.target = _PARTS[node.target]
            continue
        if (letters := einsum_of_one(node)) is not None:
            _turn(node, *letters)
            continue
        if node.target is torch.ops.aten.broadcast_tensors.default:
            _expand(node)
            continue
        operand, value = source_of(node, of_memory(value_of(node))), value_of(node)
        order = _order(value, value_of(operand)) if isinstance(value, torch.Tensor) else None
        if order is None:
            raise NotFunctional(f"it writes in place to the result or operand of {schema_of(node.target).name.partition('::')[2]}, which share memory")
        if order == sorted(order):
            node.target, node.args, node.kwargs = torch.ops.aten.alias.default, (operand,), {}
        else:
            node.target, node.args, node.kwargs = torch.ops.aten.permute.default, (operand, order), {}


def _turn(node: torch.fx.Node, letters: str, result: str):
    """Makes an einsum of one operand its diagonals, in the result's order."""
    operand = (node.args[1] if len(node.args) > 1 else node.kwargs["tensors"])[0]
    for letter in result:
        if letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            with node.graph.inserting_before(node):
                diagonal = node.graph.call_function(torch.ops.aten.diagonal.default, (operand, 0, first, second))
            with value_of(operand).fake_mode:
                diagonal.meta = {**node.meta, "val": diagonal.target(value_of(operand), *diagonal.args[1:])}
            operand, letters = diagonal, letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + letter
    node.target, node.args, node.kwargs = torch.ops.aten.permute.default, (operand, [letters.index(letter) for letter in result]), {}


def _expand(node: torch.fx.Node):
    """Makes each result of broadcast_tensors its operand, expanded."""
    operands, graph = node.args[0], node.graph
    for part in list(node.users):
        operand, made = operands[part.args[1]], value_of(part)
        with graph.inserting_before(part):
            part.target, part.args = torch.ops.aten.expand.default, (operand, [_size(graph, made, axis, operands) for axis in range(made.dim())])
    graph.erase_node(node)


def _size(graph, made, axis: int, operands):
    """The size of an axis of what tensors are broadcast to: a number, or one of the tensors' sizes."""
    size = made.shape[axis]
    if isinstance(size, int):
        return size
    places = ((operand, value_of(operand).dim() - made.dim() + axis) for operand in operands)
    operand, own = next((o, own) for o, own in places if own >= 0 and str(value_of(o).shape[own]) == str(size))
    found = graph.call_function(torch.ops.aten.sym_size.int, (operand, own))
    found.meta["val"] = size
    return found


def _hidden(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The ATen operators that hide a view of a written tensor."""
    written = memories_written(graph)
    return [n for n in graph.nodes if isinstance(n.target, OpOverload) and not any(r.alias_info for r in schema_of(n.target).returns) and _shared(n, written)]


def _order(view, tensor):
    """The view's axes as axes of the tensor that begins with the same element. None if the view has others."""
    if view.dim() != tensor.dim() or view.dtype != tensor.dtype or str(view.storage_offset()) != str(tensor.storage_offset()):
        return None
    left, order = [str(axis) for axis in zip(tensor.shape, tensor.stride())], []
    for axis in map(str, zip(view.shape, view.stride())):
        if axis not in left:
            return None
        order.append(left.index(axis))
        left[order[-1]] = ""
    return order


def _shared(node, written):
    if not written or node.target is operator.getitem or gives_new(node):
        return False
    return any((m := of_memory(v)) in written and source_of(node, m) is not None for v in pytree.tree_leaves(value_of(node)))
