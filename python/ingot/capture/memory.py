"""What a captured graph does to memory, read from its recorded (fake) values: which values share memory, which nodes write, and what new values cannot express."""

from __future__ import annotations

import operator
from collections import Counter

import torch

from ..torch_internals.operators import DispatchKey, OpOverload, schema_of
from ..torch_internals.tensors import address_of, is_contiguous_or_false
from ..torch_internals.trees import pytree
from .traced import NotFunctional

Node = torch.fx.Node

_IN_PLACE = {operator.setitem, operator.iadd, operator.isub, operator.imul, operator.imatmul, operator.itruediv, operator.ifloordiv, operator.imod,
             operator.ipow, operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift}  # fmt: skip
_IN_PLACE_METHODS = {f"__{f.__name__}__" for f in _IN_PLACE}
# Operators that change the axes of the tensor itself.
_TURN = {"t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_", "resize_", "resize_as_", "set_"}
# Operators that may return their operand.
_SAME = {"real", "conj", "conj_physical", "resolve_conj", "resolve_neg", "positive", "contiguous", "to", "flatten", "atleast_1d", "atleast_2d", "atleast_3d"}


def value_of(node):
    return node.meta.get("val", node.meta.get("example_value"))


def hint(size):
    if isinstance(size, int):
        return size
    try:
        return int(size.node.hint)
    except (TypeError, AttributeError, ValueError):
        return None


def of_memory(value):
    """Identity of the memory behind a (fake) value; None when it has none."""
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
        value = value[0]
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    try:
        return address_of(value.untyped_storage())
    except NotImplementedError:  # the operand of torch.vmap shows none
        return None


def gives_new(node) -> bool:
    """True if torch's function for the shape of the node's operator gives a view of an operand, but the operator itself gives a new tensor: its schema shares no
    memory, and it has a kernel of its own."""
    target = node.target
    if not isinstance(target, OpOverload) or any(r.alias_info for r in schema_of(target).returns):
        return False
    memory = of_memory(node.meta.get("val"))
    of_operand = memory is not None and any(of_memory(i.meta.get("val")) == memory for i in node.all_input_nodes)
    return of_operand and target.has_kernel_for_dispatch_key(DispatchKey.CPU)


def source_of(node, memory):
    """The operand that owns the memory; for a list of tensors, one of them."""
    def has(value):
        return any(map(has, value)) if isinstance(value, (list, tuple)) else of_memory(value) == memory

    return next((a for a in node.all_input_nodes if memory is not None and has(value_of(a))), None)


def einsum_of_one(node) -> tuple[str, str] | None:
    """The letters of an einsum's operand and result, if it only turns one operand's axes and takes diagonals: in torch that is a view, although the schema does not say so."""
    if node.target is not torch.ops.aten.einsum.default:
        return None
    given = dict(zip(("equation", "tensors"), node.args)) | node.kwargs
    if len(given["tensors"]) != 1:
        return None
    letters, arrow, result = given["equation"].replace(" ", "").partition("->")
    result = result if arrow else "".join(sorted(letters))
    return (letters, result) if "." not in letters and sorted(set(letters)) == sorted(result) else None


def may_write(node):
    if isinstance(node.target, OpOverload):
        return schema_of(node.target).is_mutable
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__") or name.startswith("_foreach_") or name in _IN_PLACE_METHODS
    return in_place or node.target in _IN_PLACE or node.kwargs.get("out") is not None or node.kwargs.get("inplace") is True


def written_operands(node) -> list[Node]:
    """The operands that a call of ATen's operator writes."""
    arguments = schema_of(node.target).arguments
    given = [(a, node.args[i] if i < len(node.args) else node.kwargs.get(a.name)) for i, a in enumerate(arguments)]
    return [one for a, value in given if a.alias_info is not None and a.alias_info.is_write for one in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(one, Node)]


def memories_written(graph) -> set:
    """Identities of all memory that the graph may write."""
    return set(_writes_of_each(graph))


def _writes_of_each(graph) -> Counter:
    """By memory: how many nodes may write it."""
    return Counter(memory for node in graph.nodes if may_write(node) for memory in _memories_of_write(node))


def _memories_of_write(node) -> set:
    return {memory for operand in _perhaps_written(node) for value in pytree.tree_leaves(value_of(operand)) if (memory := of_memory(value)) is not None}


def _perhaps_written(node) -> list[Node]:
    """Python's operators write their left operand alone."""
    return [node.args[0]] if node.target in _IN_PLACE and isinstance(node.args[0], Node) else node.all_input_nodes


def refuse_unexpressible(graph: torch.fx.Graph):
    """Raises NotFunctional if new values cannot express what the graph does to memory.

    as_strided counts from the start of the memory, and a new value has other memory, without the gaps: what it reads may be written before it, if it is the graph's own and has none. t_ and
    the like change the layout of a caller's tensor, even if its sizes stay."""
    written = memories_written(graph)
    owners, still = {}, _writes_of_each(graph)
    for node in graph.nodes:
        memory = of_memory(value_of(node))
        owner = owners.setdefault(memory, node)
        if may_write(node):
            still.subtract(_memories_of_write(node))
        if called(node) == "as_strided" and memory in written and (still[memory] or not _is_dense(owner)):
            raise NotFunctional("it writes in place to the result or operand of as_strided, whose memory a new value does not have")
        if called(node) in _TURN and (given := _itself(node.args[0])).op == "placeholder":
            raise NotFunctional(f"it changes the axes of {given.name} in place")


def _is_dense(node) -> bool:
    """Whether it computes a row-major tensor, which has its memory for itself."""
    value = value_of(node)
    return node.op not in ("placeholder", "get_attr") and isinstance(value, torch.Tensor) and is_contiguous_or_false(value)


def _itself(node):
    """The tensor behind operators that return their operand: those that write in place, and those that change nothing."""
    while (may_write(node) or called(node) in _SAME) and (below := source_of(node, of_memory(value_of(node)))) is not None:
        node = below
    return node


def called(node) -> str:
    """The same for both forms of a graph; an operator of ATen by its name without the overload."""
    return schema_of(node.target).name.partition("::")[2] if isinstance(node.target, OpOverload) else name_of_call(node)


def name_of_call(node) -> str:
    """What a node of Dynamo's graph calls: a method or a Python function."""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
