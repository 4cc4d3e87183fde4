"""Switches of torch's gradient modes in Dynamo's graphs (torch.no_grad, torch.inference_mode), which change no value. AOTAutograd raises inside a region of inference mode, and the
thread then stays in it: what torch runs next fails.

A graph that computes derivatives (torch.func.grad) needs them: it is right only in the mode in which Dynamo traced it."""

from __future__ import annotations

import torch

from ...torch_internals.operators import OF_DERIVATIVES, enter_inference_mode, exit_inference_mode, set_grad_enabled
from ..traced import Traced

_SWITCHES = {set_grad_enabled, enter_inference_mode, exit_inference_mode}


def wanted(traced: Traced) -> bool:
    if traced.in_aten:
        return False
    return torch.is_grad_enabled() if any(map(_derives, traced.graph.nodes)) else any(node.target in _SWITCHES for node in traced.graph.nodes)


def apply(traced: Traced):
    """Takes the switches out; a graph that computes derivatives switches to its mode itself."""
    graph = traced.editable().graph
    if any(map(_derives, graph.nodes)):
        _switch(graph, next(n for n in graph.nodes if n.op != "placeholder"), True)
        _switch(graph, graph.output_node(), False)
        return
    for node in reversed([node for node in graph.nodes if node.target in _SWITCHES]):
        graph.erase_node(node)


def _derives(node) -> bool:
    if node.op == "call_method":
        return node.target in ("requires_grad_", "backward")
    return node.target not in _SWITCHES and (getattr(node.target, "__module__", None) or "").startswith(OF_DERIVATIVES)


def _switch(graph, before, enabled):
    with graph.inserting_before(before):
        graph.call_function(set_grad_enabled, (enabled,))
