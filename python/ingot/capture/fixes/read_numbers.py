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
_FULL = {_aten.full.default: 0, _aten.new_full.default: 1}  # the place of the sizes; the number is behind them


def wanted(traced: Traced) -> bool:
    return any(map(_is_read, traced.graph.nodes))


def apply(traced: Traced):
    graph = traced.editable().graph
    for read in [n for n in graph.nodes if _is_read(n)]:
        for user in list(read.users):
            with graph.inserting_before(user):
                made = _full(user, read) if user.target in _FULL else _with_tensor(user, read)
            if made is not None:
                user.replace_all_uses_with(made)
                graph.erase_node(user)
        if not read.users:
            graph.erase_node(read)


def _is_read(node: Node) -> bool:
    return node.op == "call_function" and node.target in READS and isinstance(node.meta.get("val"), torch.SymFloat)


def _full(user: Node, read: Node) -> Node | None:
    """The tensor's element, everywhere in memory of its own."""
    place = _FULL[user.target]
    if len(user.args) < place + 2 or user.args[place + 1] is not read:
        return None
    one = _made(user, _aten.expand.default, _cast(user, _element(user, read), user.meta["val"].dtype), user.args[place])
    return _made(user, _aten.clone.default, one, memory_format=torch.contiguous_format)


def _with_tensor(user: Node, read: Node) -> Node | None:
    """The same operator on the tensor, if it has such an overload and its result the same type."""
    if not isinstance(user.target, OpOverload) or user.kwargs or [a for a in user.all_input_nodes if a is read] != [a for a in user.args if a is read]:
        return None
    other = getattr(packet_of(user.target), "Tensor", None)
    of_tensor_and_number = len(user.args) == 2 and isinstance(user.args[0], Node) and user.args[1] is read
    if other is None or not of_tensor_and_number or len(schema_of(other).arguments) < 2 or schema_of(other).is_mutable:
        return None
    given, tensor = user.args[0].meta["val"], read.args[0].meta["val"]
    if given.dtype.is_floating_point and not given.dim() and given.dtype != tensor.dtype:
        return None  # the type of two scalars is the wider one
    element = _element(user, read)
    if not given.dtype.is_floating_point:  # with integers a number of Python has the default type
        element = _cast(user, element, torch.get_default_dtype())
    made = _made(user, other, user.args[0], element)
    if made.meta["val"].dtype == user.meta["val"].dtype:
        return made
    user.graph.erase_node(made)
    return None


def _element(user: Node, read: Node) -> Node:
    tensor = read.args[0]
    return tensor if not tensor.meta["val"].dim() else _made(user, _aten.reshape.default, tensor, [])


def _cast(user: Node, tensor: Node, dtype: torch.dtype) -> Node:
    return tensor if tensor.meta["val"].dtype == dtype else _made(user, _aten._to_copy.default, tensor, dtype=dtype)


def _made(user: Node, target, *args, **kwargs) -> Node:
    node = user.graph.call_function(target, args, kwargs)
    node.meta = dict(user.meta)
    with user.meta["val"].fake_mode:
        node.meta["val"] = target(*torch.fx.map_arg(args, lambda n: n.meta["val"]), **kwargs)
    return node
