"""Floats that a model reads from its own tensors: `torch.full((n, 1), stride)` and `x * scale.item()` of tensors with one element.

torch records them as numbers that are known only when the model runs, which no engine takes. An operator that has a form for a tensor reads the tensor here, so nothing is read.
"""

from __future__ import annotations

import torch

from ...torch_internals.operators import OpOverload, packet_of, schema_of
from ..traced import Traced

Node = torch.fx.Node
_aten = torch.ops.aten
READS = (_aten.item.default, _aten._local_scalar_dense.default)  # an integer that is read becomes a size
_FULL = {_aten.full.default: 0, _aten.new_full.default: 1}  # the place of the sizes; the number follows them


def wanted(traced: Traced) -> bool:
    return any(map(_is_read, traced.graph.nodes))


def apply(traced: Traced):
    graph = traced.editable().graph
    for read in [n for n in graph.nodes if _is_read(n)]:
        take_tensors(read, lambda user, tensor=read.args[0]: tensor if not tensor.meta["val"].dim() else made(user, _aten.reshape.default, tensor, []))
        if not read.users:
            graph.erase_node(read)


def take_tensors(number: Node, element):
    """The users of a number read a tensor without axes in its place, which element(user) gives, if they can."""
    for user in list(number.users):
        if not isinstance(user.target, OpOverload) or user.kwargs.keys() & {"out"}:
            continue
        with user.graph.inserting_before(user):
            taken = _full(user, number, element) if user.target in _FULL else _with_tensor(user, number, element)
        if taken is not None:
            user.replace_all_uses_with(taken)
            user.graph.erase_node(user)


def _is_read(node: Node) -> bool:
    return node.op == "call_function" and node.target in READS and isinstance(node.meta.get("val"), torch.SymFloat)


def _full(user: Node, number: Node, element) -> Node | None:
    """The tensor's element, everywhere in memory of its own."""
    place = _FULL[user.target]
    if len(user.args) < place + 2 or user.args[place + 1] is not number:
        return None
    one = made(user, _aten.expand.default, _cast(user, element(user), user.meta["val"].dtype), user.args[place])
    return made(user, _aten.clone.default, one, memory_format=torch.contiguous_format)


def _with_tensor(user: Node, number: Node, element) -> Node | None:
    """The same operator on the tensor, if it has such an overload and its result the same type."""
    if user.kwargs or [a for a in user.all_input_nodes if a is number] != [a for a in user.args if a is number]:
        return None
    other = getattr(packet_of(user.target), "Tensor", None) or getattr(packet_of(user.target), "Tensor_Tensor", None)
    of_tensor_and_number = len(user.args) == 2 and isinstance(user.args[0], Node) and user.args[1] is number
    if other is None or not of_tensor_and_number or len(schema_of(other).arguments) < 2 or schema_of(other).is_mutable:
        return None
    given, tensor = user.args[0].meta["val"], element(user)
    if given.dtype.is_floating_point and not given.dim() and given.dtype != tensor.meta["val"].dtype:
        return None  # the type of two scalars is the wider one
    if not given.dtype.is_floating_point:  # with integers a number of Python has the default type
        tensor = _cast(user, tensor, torch.get_default_dtype())
    taken = made(user, other, user.args[0], tensor)
    if taken.meta["val"].dtype == user.meta["val"].dtype:
        return taken
    user.graph.erase_node(taken)
    return None


def _cast(user: Node, tensor: Node, dtype: torch.dtype) -> Node:
    return tensor if tensor.meta["val"].dtype == dtype else made(user, _aten._to_copy.default, tensor, dtype=dtype)


def made(user: Node, target, *args, **kwargs) -> Node:
    """A call of an operator in front of the user, with its value and the user's line."""
    node = user.graph.call_function(target, args, kwargs)
    node.meta = dict(user.meta)
    value = user.meta["val"]
    with (value[0] if isinstance(value, (list, tuple)) else value).fake_mode:
        node.meta["val"] = target(*torch.fx.map_arg(args, lambda n: n.meta["val"]), **kwargs)
    return node
