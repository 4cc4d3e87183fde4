"""Copies to a tensor of another type: `self.cache.copy_(x.half())`. Where torch makes a graph functional, the copied tensor takes the place of what is written, in its own type. Here a cast
comes before the copy."""

from __future__ import annotations

import torch

from ..memory import value_of
from ..traced import Traced
from .read_numbers import made

Node = torch.fx.Node


def wanted(traced: Traced) -> bool:
    return any(map(_casts, traced.graph.nodes))


def apply(traced: Traced):
    for node in [n for n in traced.editable().graph.nodes if _casts(n)]:
        target, source, *more = node.args
        with node.graph.inserting_before(node):
            cast = made(node, torch.ops.aten._to_copy.default, source, dtype=value_of(target).dtype)
        node.args = (target, cast, *more)


def _casts(node: Node) -> bool:
    return node.target is torch.ops.aten.copy_.default and value_of(node.args[0]).dtype != value_of(node.args[1]).dtype
