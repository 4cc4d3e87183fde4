"""Corrects recorded dtypes and ranks if torch's kernels return others than its shape functions say, and records the nodes that read them anew."""

from __future__ import annotations

import torch

from ...torch_internals.operators import schema_of
from ...torch_internals.tensors import FakeTensor, row_major_strides
from ...torch_internals.trees import pytree
from ..traced import Traced

Node = torch.fx.Node
_HALVES = (torch.float16, torch.bfloat16)


def _of_batch_norm(x, weight, bias, mean, variance, training, momentum, eps):
    """Result types of batch norm on the CPU: the batch's statistics have the first parameter's type; the new running statistics are copies of the given ones."""
    first = next(t.dtype for t in (weight, bias, mean) if t is not None)
    own = x.dtype if x.device.type == "cpu" and x.dtype in _HALVES and first is x.dtype else torch.promote_types(x.dtype, torch.float32)
    return [x.dtype, own, own, mean.dtype, variance.dtype]


def _of_attention(query, *rest):
    return [query.dtype, torch.promote_types(query.dtype, torch.float32)]


def _of_power(x, exponent):
    return [x.dtype if x.dtype is torch.bool and isinstance(exponent, bool) else torch.result_type(x, exponent)]


def _of_unique(x, *rest):
    """torch 2.11 records the tensor's own type for positions and counts."""
    return [x.dtype, torch.int64, torch.int64]


def _shape_of_norm(x, order, axes, keepdim, *rest):
    """The shape of a norm in torch 2.11, which keeps axes of size 1 that are given as negative numbers."""
    axes = {axis % x.dim() for axis in axes or range(x.dim())} if x.dim() else set()
    return [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdim or axis not in axes]


def _states_of_lstm(recorded, states):
    """The results of an LSTM whose last states have the shapes of the first ones. torch 2.10 and 2.11 record one axis more."""
    made = [t if t.dim() == state.dim() else _empty(t, state.shape, row_major_strides(state.shape), t.dtype) for t, state in zip(recorded[1:], states)]
    return (recorded[0], *made)


_LSTM = torch.ops.aten.lstm.input
_NORMS = {torch.ops.aten.linalg_vector_norm.default, torch.ops.aten.norm.ScalarOpt_dim}
# By operator: the type of each result, from the arguments.
_OWN = {
    torch.ops.aten._native_batch_norm_legit_functional.default: _of_batch_norm,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default: _of_attention,
    torch.ops.aten.pow.Tensor_Scalar: _of_power,
    **dict.fromkeys((torch.ops.aten._unique2.default, torch.ops.aten.unique_dim.default, torch.ops.aten.unique_consecutive.default, torch.ops.aten.unique_dim_consecutive.default), _of_unique),
}


def is_right(graph: torch.fx.Graph) -> bool:
    """True if torch recorded the types that its kernels return, for the operators whose types are known here."""
    return all(_types(_with_own_types(node, *_given(node))) == _types(node.meta.get("val")) for node in graph.nodes if node.op == "call_function" and node.target in _OWN)


def _with_own_types(node, args, kwargs):
    """What is recorded of a node, with the types of its kernel."""
    recorded = node.meta.get("val")
    several = isinstance(recorded, (list, tuple))
    types = _OWN[node.target](*_in_order(node.target, args, kwargs))
    made = tuple(t if t.dtype is dtype else _empty(t, t.shape, t.stride(), dtype) for t, dtype in zip(recorded if several else (recorded,), types))
    return made if several else made[0]


def _given(node):
    """What is recorded of a node's arguments."""
    return torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))


def wanted(traced: Traced) -> bool:
    return any(_types(_by_rule(node, *_given(node))) != _types(node.meta.get("val")) for node in traced.graph.nodes if _has_rule(node))


def apply(traced: Traced):
    changed: set[Node] = set()
    for node in traced.editable().graph.nodes:
        follows = not changed.isdisjoint(node.all_input_nodes)
        if node.op != "call_function" or not (follows or _has_rule(node)):
            continue
        args, kwargs = _given(node)
        if _has_rule(node) and not (follows and node.target in _NORMS):
            made = _by_rule(node, args, kwargs)
        else:
            with _mode(args, kwargs):
                made = node.target(*args, **kwargs)
        if _types(made) != _types(node.meta.get("val")):
            node.meta["val"] = made
            changed.add(node)


def _has_rule(node) -> bool:
    return node.op == "call_function" and (node.target in _OWN or node.target in _NORMS or node.target is _LSTM)


def _by_rule(node, args, kwargs):
    recorded = node.meta.get("val")
    if node.target in _OWN:
        return _with_own_types(node, args, kwargs)
    if node.target is _LSTM:
        return _states_of_lstm(recorded, args[1])
    shape = _shape_of_norm(*_in_order(node.target, args, kwargs))
    return recorded if len(shape) == recorded.dim() else _empty(recorded, shape, row_major_strides(shape), recorded.dtype)


def _in_order(target, args, kwargs):
    """All arguments, in the order of the schema."""
    rest = schema_of(target).arguments[len(args) :]
    return [*args, *(kwargs.get(a.name, a.default_value) for a in rest)]


def _empty(t, shape, strides, dtype):
    with t.fake_mode:
        return torch.empty_strided(shape, strides, dtype=dtype, device=t.device)


def _mode(*arguments):
    return next(t.fake_mode for t in pytree.tree_leaves(arguments) if isinstance(t, FakeTensor))


def _types(value):
    return [(t.dtype, t.dim()) for t in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(t, torch.Tensor)]
