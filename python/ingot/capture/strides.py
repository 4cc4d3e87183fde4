"""Corrects recorded strides of results if eager's differ from those of torch's shape functions.

Pointwise operators choose strides by the rule of torch's TensorIterator. The recorded strides differ in two cases: on the CPU operators first convert an operand of another
dtype, which changes its layout, and shape functions written in Python (copysign, xlogy, floor_divide) broadcast first. The shape functions of add and addcmul on the meta device
follow the rule, so they are used here.

Other operators have rules of their own (`_OWN`). A view's axes of size 1 have recorded strides that torch's kernels do not give, which counts where an operator chooses the layout
of its result by all strides, as group_norm does. What follows from a corrected result is corrected too."""

from __future__ import annotations

import operator

import torch

from ..torch_internals.operators import OpOverload, overload_of, schema_of
from ..torch_internals.tensors import suggested_format
from ..torch_internals.trees import pytree
from .memory import hint, value_of

_RULE = {1: torch.neg, 2: torch.add, 3: torch.addcmul}
# Pointwise operators that torch does not tag as such; most are aliases of operators that it tags.
_UNTAGGED = frozenset(
    "__and__ __or__ _to_copy absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh clone divide fix floor_divide greater less multiply negative special_xlog1py special_xlogy special_zeta subtract to true_divide".split()
)


def _like_operand(made, operand, *others):
    return operand.clone().stride()


def _row_major(made, *operands):
    return made.stride()


def _suggested(made, operand, *others):
    """Channels last if the operand is, else row-major."""
    return made.contiguous(memory_format=suggested_format(operand)).stride()


def _of_batch_norm(made, operand, *others):
    """`_suggested` for batch norm: an operand that is dense in channels last counts even if its strides along axes of size 1 do not show it."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if made.dim() in formats and not operand.is_contiguous() and operand.is_contiguous(memory_format=formats[made.dim()]):
        return made.contiguous(memory_format=formats[made.dim()]).stride()
    return _suggested(made, operand)


def _outer_product(made, operand, column, row):
    return torch.addcmul(operand, column.unsqueeze(-1), row).stride()


def _of_ldexp(made, operand, exponent):
    """Eager multiplies the operand by a power of two, which is row-major."""
    return torch.mul(operand, torch.empty(exponent.shape, device="meta")).stride()


# By operator: strides from a row-major tensor of the result's shape and tensors like the operands.
_OWN = {
    "aten::addr": _outer_product,
    "aten::im2col": _row_major,
    "aten::ldexp": _of_ldexp,
    "aten::channel_shuffle": _suggested,
    "aten::native_channel_shuffle": _suggested,
    "aten::isin": _row_major,
    "aten::max_pool1d": _row_major,
    "aten::max_unpool2d": _suggested,
    "roll of axes on the CPU": _suggested,
    "aten::index_fill": _like_operand,
    "aten::clone": _like_operand,
    "aten::hardtanh": _like_operand,
    "aten::relu6": _like_operand,
    "aten::nan_to_num": _like_operand,
    "aten::deg2rad": _like_operand,
    "aten::rad2deg": _like_operand,
    "aten::zero": _like_operand,
    "aten::log_sigmoid": _row_major,
    "aten::masked_fill": _row_major,
    "power of a number": _row_major,
    "aten::group_norm": _suggested,
    "aten::native_group_norm": _suggested,
    "aten::batch_norm": _of_batch_norm,
    "aten::native_batch_norm": _of_batch_norm,
    "aten::_native_batch_norm_legit_no_training": _of_batch_norm,
    "aten::upsample_nearest1d": _suggested,
    "aten::upsample_linear1d": _suggested,
    "aten::reflection_pad3d": _suggested,
    "aten::replication_pad3d": _suggested,
}


def corrected(graph: torch.fx.Graph, written: dict[torch.fx.Node, torch.fx.Node] | None = None) -> dict[torch.fx.Node, tuple[int, ...]]:
    """The results whose strides differ from the recorded ones, with the right strides. Open sizes count as in the example. written: {new value: the tensor in whose place it
    is, which gives its layout}."""
    found: dict[torch.fx.Node, tuple[int, ...]] = {}
    for node in graph.nodes:
        target, made = node.target, value_of(node)
        if node in (written or ()):
            strides = _layout(written[node], found)[1]
            found |= {} if None in strides else {node: strides}
            continue
        if node.op != "call_function" or not isinstance(target, OpOverload):
            continue
        if schema_of(target).is_mutable:  # a written tensor keeps its layout
            if node.args and node.args[0] in found and isinstance(made, torch.Tensor) and schema_of(target).arguments[0].alias_info is not None:
                found[node] = found[node.args[0]]
            continue
        own = _OWN.get(_name(node))
        if _is_view(target) or own is None and torch.Tag.pointwise not in target.tags and target.overloadpacket.__name__ not in _UNTAGGED:
            found |= _of_shape_function(node, made, found)
            continue
        part = next((n for n in node.users if n.args[1:] == (0,)), None) if isinstance(made, (list, tuple)) else node  # the first of several results
        made = made[0] if isinstance(made, (list, tuple)) and made else made
        operands = [n for n in pytree.arg_tree_leaves(*node.args, **node.kwargs) if isinstance(n, torch.fx.Node) and isinstance(value_of(n), torch.Tensor)]
        if not isinstance(made, torch.Tensor) or part is None or node.kwargs.get("memory_format") is not None:
            continue
        if target.overloadpacket is torch.ops.aten.to:  # it uses only the type of the other tensor
            operands = operands[:1]
        layouts = [_layout(n, found) for n in operands] + [([], ())] * _wrapped_numbers(node)
        sizes, recorded = _numbers(made.shape), tuple(_numbers(made.stride()))
        if None in recorded or None in sizes or any(None in numbers for layout in layouts for numbers in layout):
            continue
        if own is not None:
            strides = own(torch.empty(sizes, device="meta"), *(torch.empty_strided(*layout, device="meta") for layout in layouts))
        else:
            strides = _of_iterator(node, made, operands, layouts, found)
        if strides is not None and tuple(strides) != recorded:
            found[part] = tuple(strides)
    return {node: strides for node, strides in found.items() if _differ(strides, value_of(node))}


def _differ(strides, made) -> bool:
    """True if an axis of which the stride matters has another one than recorded."""
    return any(a != b and size != 1 for a, b, size in zip(strides, _numbers(made.stride()), _numbers(made.shape)))


def _name(node) -> str:
    name = schema_of(node.target).name
    if name == "aten::pad" and len(node.args[1]) == 6 and (node.args[2] if len(node.args) > 2 else "constant") in ("reflect", "replicate"):
        return "aten::replication_pad3d"
    if name == "aten::roll" and value_of(node).device.type == "cpu" and _joins_parts(node):
        return "roll of axes on the CPU"
    return "power of a number" if node.target is torch.ops.aten.pow.Scalar else name


def _joins_parts(roll) -> bool:
    """True if eager's roll concatenates two parts along each axis: it keeps channels last unless a part is empty."""
    sizes, shifts, axes = _numbers(value_of(roll).shape), _numbers(roll.args[1]), roll.args[2] if len(roll.args) > 2 else []
    return bool(axes) and all(sizes[axis] and shift is not None and shift % sizes[axis] for shift, axis in zip(shifts, axes))


def _of_iterator(node, made, operands, layouts, found):
    """The strides that TensorIterator gives; None if the recorded ones are right."""
    dtypes = [value_of(n).dtype for n in operands]
    if len(layouts) not in _RULE or len(layouts) == 1 and operands[0] not in found:
        return None
    if len(operands) == 1 and operands[0] not in found and 1 not in layouts[0][0]:  # with a number: it moves nothing but strides along axes of size 1
        return None
    if len(operands) > 1 and found.keys().isdisjoint(operands) and all(layout == layouts[0] for layout in layouts) and all(dtype == made.dtype for dtype in dtypes):
        return None
    common = made.dtype
    if common is torch.bool and len(operands) == 2:  # a comparison
        common = torch.result_type(*(torch.empty([1] * len(sizes), dtype=dtype, device="meta") for (sizes, _), dtype in zip(layouts, dtypes)))
    converts = len(operands) > 1 and made.device.type == "cpu"
    metas = []
    for (sizes, strides), dtype in zip(layouts, dtypes + [common] * (len(layouts) - len(dtypes))):
        meta = torch.empty_strided(sizes, strides, device="meta")
        condition = dtype is torch.bool and schema_of(node.target).name == "aten::where"
        metas.append(torch.empty_like(meta) if converts and dtype != common and not condition else meta)
    try:
        return _RULE[len(metas)](*metas).stride()
    except RuntimeError:
        return None  # operands with other roles, such as prelu's weight


def _wrapped_numbers(node) -> int:
    """How many operands are numbers that eager makes tensors without axes of, as add and lt do and clamp does not. The rule for several operands then gives the strides."""
    with_numbers = overload_of(node.target).lower() in ("scalar", "n_scalar", "x_scalar", "other_scalar", "self_scalar", "scalar_other", "scalar_self")
    formal = [str(a.type) == "Tensor" or with_numbers and a.name != "alpha" for a in schema_of(node.target).arguments]
    return sum(wrapped and _is_number(value) for value, wrapped in zip(node.args, formal))


def _is_number(value) -> bool:
    return isinstance(value_of(value) if isinstance(value, torch.fx.Node) else value, (bool, int, float, torch.SymBool, torch.SymInt, torch.SymFloat))


def _is_view(target) -> bool:
    return any(r.alias_info is not None for r in schema_of(target).returns)


def _of_shape_function(node, made, found):
    """The strides of a result, or of each of several, by torch's shape function, if an operand's strides are corrected or the result is a view with an axis of size 1."""
    view_of_one = _is_view(node.target) and isinstance(made, torch.Tensor) and 1 in _numbers(made.shape)
    if node.target.namespace != "aten" or not view_of_one and not any(n in found for n in node.all_input_nodes):
        return {}
    read = lambda n: torch.empty_strided(*_layout(n, found), dtype=value_of(n).dtype, device="meta") if isinstance(value_of(n), torch.Tensor) else hint(value_of(n))
    try:
        keywords = torch.fx.map_arg(node.kwargs, read)
        again = node.target(*torch.fx.map_arg(node.args, read), **keywords | ({"device": "meta"} if keywords.get("device") else {}))
    except (RuntimeError, TypeError, NotImplementedError):
        return {}  # the sizes are only known at run time
    if isinstance(again, torch.Tensor):
        return {node: again.stride()}
    return {part: again[part.args[1]].stride() for part in node.users if part.target is operator.getitem and isinstance(again[part.args[1]], torch.Tensor)}


def _layout(node, found):
    return _numbers(value_of(node).shape), tuple(found.get(node) or _numbers(value_of(node).stride()))


def _numbers(sizes) -> list:
    return [hint(s) for s in sizes]
