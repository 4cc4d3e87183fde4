"""Operators that may return their operand itself, although their schemas say that they return a new tensor: type_as, lift, detach_, and dropout that drops nothing, in place or not.

torch's functionalisation takes their result for a new tensor and loses writes to it. So the operand replaces the result here."""

from __future__ import annotations

import contextlib

import torch

from ...torch_internals.operators import OpOverload, schema_of
from ..memory import of_memory, value_of
from ..traced import Traced

_DROPOUTS = {"dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}


def wanted(traced: Traced) -> bool:
    return any(_operand(node) is not None for node in traced.graph.nodes)


def apply(traced: Traced):
    graph = traced.editable().graph
    sharing = {}
    found = [node for node in graph.nodes if _operand(node) is not None]
    for node in graph.nodes:
        sharing.setdefault(of_memory(value_of(node)), []).append(node)
    for node in found:
        operand = node.args[0]  # it may have been replaced itself
        _say_memory(node, operand, sharing.get(of_memory(value_of(node)), ()))
        node.replace_all_uses_with(operand)
        graph.erase_node(node)


def _say_memory(node, operand, sharing):
    """Recorded views of the result become views of the operand, if torch recorded the result with its own memory."""
    made, given = value_of(node), value_of(operand)
    if not isinstance(made, torch.Tensor) or made.layout is not torch.strided or of_memory(made) == of_memory(given) or made.stride() != given.stride():
        return
    for other in sharing:
        value, word = value_of(other), "val" if "val" in other.meta else "example_value"
        if isinstance(value, torch.Tensor):
            with getattr(given, "fake_mode", contextlib.nullcontext()):
                offset = value.storage_offset() - made.storage_offset() + given.storage_offset()
                other.meta[word] = given.as_strided(value.shape, value.stride(), offset)


def _operand(node: torch.fx.Node) -> torch.fx.Node | None:
    """The operand, if the operator returns it itself."""
    if node.op not in ("call_function", "call_method") or not node.args or not isinstance(node.args[0], torch.fx.Node):
        return None
    target = node.target
    name = schema_of(target).name.partition("::")[2] if isinstance(target, OpOverload) else target if isinstance(target, str) else getattr(target, "__name__", "")
    given = value_of(node.args[0])
    if name == "lift" or node.target is torch.ops.aten.detach_.default:  # torch.export detaches torch.tensor([...]), which torch refuses of a functional tensor with views
        return node.args[0]
    if name == "type_as" and len(node.args) == 2 and isinstance(node.args[1], torch.fx.Node):
        like = value_of(node.args[1])
        same = isinstance(given, torch.Tensor) and isinstance(like, torch.Tensor) and given.dtype == like.dtype and given.device == like.device
        return node.args[0] if same else None
    if name.removesuffix("_") in _DROPOUTS:
        defaults = (0.5, True)  # of torch.nn.functional; ATen's operators have no defaults
        p, train = (node.args[i] if i < len(node.args) else node.kwargs.get(word, default) for i, word, default in zip((1, 2), ("p", "training"), defaults))
        train = node.kwargs.get("train", train)
        return node.args[0] if not isinstance(p, torch.fx.Node) and (train is False or p == 0) else None
    return None
