"""Strides of what is computed element by element, as eager has them.

Torch's shape functions record other strides than its operators give: on the CPU the operators convert an operand of another dtype first, and with it
its layout; shape functions written in Python (copysign, xlogy, floor_divide) broadcast first. The operators all choose by one rule, that of torch's
TensorIterator, and the shape functions of add and addcmul on the meta device follow it."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from .overlap import hint

_RULE = {1: torch.neg, 2: torch.add, 3: torch.addcmul}
_UNTAGGED = (torch.ops.aten.floor_divide.default,)  # pointwise all the same


def corrected(graph: torch.fx.Graph) -> dict[torch.fx.Node, tuple[int, ...]]:
    """Results of the graph's operators whose strides are others than the recorded ones. Sizes that are open count as in the example."""
    found: dict[torch.fx.Node, tuple[int, ...]] = {}
    for node in graph.nodes:
        target, made = node.target, node.meta.get("val")
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or not isinstance(made, torch.Tensor):
            continue
        if torch.Tag.pointwise not in target.tags and target not in _UNTAGGED:
            continue
        operands = [n for n in pytree.arg_tree_leaves(*node.args, **node.kwargs) if isinstance(n, torch.fx.Node) and isinstance(n.meta.get("val"), torch.Tensor)]
        if len(operands) not in _RULE or len(operands) == 1 and operands[0] not in found or node.kwargs.get("memory_format") is not None:
            continue
        layouts = [(_numbers(n.meta["val"].shape), tuple(found.get(n) or _numbers(n.meta["val"].stride()))) for n in operands]
        recorded = tuple(_numbers(made.stride()))
        if None in recorded or any(None in sizes or None in strides for sizes, strides in layouts):
            continue
        dtypes = [n.meta["val"].dtype for n in operands]
        if len(operands) > 1 and all(layout == layouts[0] for layout in layouts) and all(dtype == made.dtype for dtype in dtypes):
            continue
        common = made.dtype
        if common is torch.bool and len(operands) == 2:  # of a comparison
            common = torch.result_type(*(torch.empty([1] * len(sizes), dtype=dtype, device="meta") for (sizes, _), dtype in zip(layouts, dtypes)))
        converts = len(operands) > 1 and made.device.type == "cpu"
        metas = []
        for (sizes, strides), dtype in zip(layouts, dtypes):
            meta = torch.empty_strided(sizes, strides, device="meta")
            condition = dtype is torch.bool and target._schema.name == "aten::where"
            metas.append(torch.empty_like(meta) if converts and dtype != common and not condition else meta)
        try:
            strides = _RULE[len(metas)](*metas).stride()
        except RuntimeError:
            continue  # operands with parts of their own, such as prelu's weight
        if any(a != b and size != 1 for a, b, size in zip(strides, recorded, _numbers(made.shape))):
            found[node] = strides
    return found


def _numbers(sizes) -> list:
    return [hint(s) for s in sizes]
