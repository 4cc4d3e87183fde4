"""Hidden views: results that share memory with an operand although no schema says so. Examples are einsum that only permutes, sum_to_size of the same size, and
broadcast_tensors; identities.py handles others. torch's functionalisation takes them for new tensors and loses writes to either of the two."""

from __future__ import annotations

import operator

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from .overlap import NotFunctional, constants_allowed, copied, gives_new, may_write, of_memory, source_of, value_of

# Views that functionalisation knows, by name.
_KNOWN = {
    "alias", "chunk", "contiguous", "detach", "diagonal", "flatten", "getattr", "getitem", "movedim", "moveaxis", "narrow", "permute", "ravel", "reshape",
    "select", "split", "squeeze", "swapaxes", "swapdims", "t", "to", "transpose", "unbind", "unflatten", "unsqueeze", "view", "view_as",
}  # fmt: skip
# Operators that change the axes of the tensor itself.
_TURN = {"t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_", "resize_", "resize_as_", "set_"}
# Operators that may return their operand.
_SAME = {"real", "conj", "conj_physical", "resolve_conj", "resolve_neg", "positive", "contiguous", "to", "flatten", "atleast_1d", "atleast_2d", "atleast_3d"}

# Parts of a tensor whose schema hides that they are views, and the operator whose schema says so.
_PARTS = {
    torch.ops.aten.unsafe_chunk.default: torch.ops.aten.chunk.default,
    torch.ops.aten.unsafe_split.Tensor: torch.ops.aten.split.Tensor,
    torch.ops.aten.unsafe_split_with_sizes.default: torch.ops.aten.split_with_sizes.default,
}


def may_be(graph: torch.fx.Graph) -> bool:
    """True if Dynamo's graph writes a tensor of which a node may be a hidden view."""
    written = memories_written(graph)
    return any(n.op != "placeholder" and _name(n) not in _KNOWN and not may_write(n) and _shared(n, written) for n in graph.nodes)


def _name(node):
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def of(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The ATen operators that hide a view of a written tensor."""
    written = memories_written(graph)
    return [n for n in graph.nodes if isinstance(n.target, torch._ops.OpOverload) and not any(r.alias_info for r in n.target._schema.returns) and _shared(n, written)]


def show(module: torch.fx.GraphModule):
    """Replaces hidden views by explicit views in a graph of ATen's operators. NotFunctional if there is no such view."""
    for node in of(module.graph):
        if node.target in _PARTS:
            node.target = _PARTS[node.target]
            continue
        operand, value = source_of(node, of_memory(value_of(node))), value_of(node)
        order = _order(value, value_of(operand)) if isinstance(value, torch.Tensor) else None
        if order is None:
            raise NotFunctional(f"it writes in place to the result or operand of {node.target._schema.name.partition('::')[2]}, which share memory")
        if order == sorted(order):
            node.target, node.args, node.kwargs = torch.ops.aten.alias.default, (operand,), {}
        else:
            node.target, node.args, node.kwargs = torch.ops.aten.permute.default, (operand, order), {}
    module.recompile()


def refuse(graph: torch.fx.Graph):
    """Raises NotFunctional if new values cannot express what the graph does to memory.

    as_strided counts from the start of the memory, and a new value has other memory, without the gaps. t_ and the like change the layout of a caller's tensor,
    even if its sizes stay."""
    written = memories_written(graph)
    for node in graph.nodes:
        if _called(node) == "as_strided" and of_memory(value_of(node)) in written:
            raise NotFunctional("it writes in place to the result or operand of as_strided, whose memory a new value does not have")
        if _called(node) in _TURN and (given := _itself(node.args[0])).op == "placeholder":
            raise NotFunctional(f"it changes the axes of {given.name} in place")


def _itself(node):
    """The tensor behind operators that return their operand: those that write in place, and those that change nothing."""
    while (may_write(node) or _called(node) in _SAME) and (below := source_of(node, of_memory(value_of(node)))) is not None:
        node = below
    return node


def _called(node):
    return node.target._schema.name.partition("::")[2] if isinstance(node.target, torch._ops.OpOverload) else _name(node)


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


def memories_written(graph) -> set:
    """Identities of all memory that the graph may write."""
    return {m for n in graph.nodes if may_write(n) for a in n.all_input_nodes for v in pytree.tree_leaves(value_of(a)) if (m := of_memory(v)) is not None}


def _shared(node, written):
    if not written or node.target is operator.getitem or gives_new(node):
        return False
    return any((m := of_memory(v)) in written and source_of(node, m) is not None for v in pytree.tree_leaves(value_of(node)))


def with_memory(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with recorded values whose memory can be compared. In a program from a file each value has its own memory, even a tensor that an operator writes
    and returns."""
    if not any(_gives_what_it_writes(n) and source_of(n, of_memory(value_of(n))) is None for n in program.graph.nodes):
        return program
    module = copied(program)
    placeholders = [value_of(n) for n in module.graph.nodes if n.op == "placeholder"]
    mode = next((v.fake_mode for v in placeholders if isinstance(v, FakeTensor)), None) or FakeTensorMode(allow_non_fake_inputs=True)

    def fake(value):
        if not isinstance(value, torch.Tensor):
            return value
        made = torch.ops.aten.alias.default(value if isinstance(value, FakeTensor) else mode.from_tensor(value))  # a separate shape, which the graph may change
        made.constant = None  # torch would write to the model's tensor
        return made

    try:
        with torch.no_grad(), mode, constants_allowed(mode):
            _Keep(module).run(*map(fake, placeholders))
    except Exception as problem:  # of many kinds
        raise NotFunctional(f"torch cannot tell which values share memory: {type(problem).__name__}") from problem
    return program._update(module, program.graph_signature)


def _gives_what_it_writes(node):
    if not isinstance(node.target, torch._ops.OpOverload) or not isinstance(value_of(node), torch.Tensor):
        return False
    return any(r.alias_info is not None and r.alias_info.is_write for r in node.target._schema.returns)


class _Keep(torch.fx.Interpreter):
    def run_node(self, node):
        made = super().run_node(node)
        if node.op in ("placeholder", "call_function"):
            node.meta["val"] = made
        return made
