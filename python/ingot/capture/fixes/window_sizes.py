"""Sizes of windows that Dynamo has open: the kernel of a convolution, its groups, strides and paddings, and those of pools. Engines take them as known numbers. With dynamic=True a model that makes
them of a tensor's axes (`F.conv2d(x, w, groups=x.shape[1])`) has them open. Each becomes the example's number: torch checks it in each call, and compiles anew for another."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..memory import value_of
from ..traced import Traced

_CONVOLUTIONS = {getattr(F, f"conv{transposed}{axes}d") for transposed in ("", "_transpose") for axes in (1, 2, 3)}
_POOLS = {getattr(F, f"{kind}_pool{axes}d") for kind in ("avg", "max", "lp") for axes in (1, 2, 3) if hasattr(F, f"{kind}_pool{axes}d")} | {getattr(torch, f"max_pool{axes}d") for axes in (1, 2, 3)}


def wanted(traced: Traced) -> bool:
    return not traced.in_aten and any(node.target in _CONVOLUTIONS | _POOLS and list(_open(node)) for node in traced.graph.nodes)


def apply(traced: Traced):
    for node in traced.editable().graph.nodes:
        if node.target not in _CONVOLUTIONS | _POOLS:
            continue
        for size in _open(node):
            int(size)  # torch notes the check
        node.args, node.kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda given: int(value_of(given)) if isinstance(value_of(given), torch.SymInt) else given)


def _open(node: torch.fx.Node):
    """The sizes among a node's arguments that are open."""
    numbers = [value_of(given) for given in node.all_input_nodes if isinstance(value_of(given), torch.SymInt)]
    weight = (node.args[1] if len(node.args) > 1 else node.kwargs.get("weight")) if node.target in _CONVOLUTIONS else None
    kernel = value_of(weight).shape[2:] if isinstance(weight, torch.fx.Node) else ()
    return (size for size in (*numbers, *kernel) if isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None)
