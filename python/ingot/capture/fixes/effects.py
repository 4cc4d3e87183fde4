"""Effects, such as the check after linalg.inv. Torch orders them by tokens: inputs and results of the graph that are not tensors. A check needs no order, so the tokens go."""

from __future__ import annotations

import operator

import torch

from ...torch_internals.aot import with_effects
from ..traced import NotFunctional, Traced

_CHECKS = {torch.ops.aten._linalg_check_errors.default}
for _check in _CHECKS:
    torch.fx.node.has_side_effect(_check)  # releases without tokens take a node without results for dead


def wanted(traced: Traced) -> bool:
    return bool(traced.tokens[0])


def apply(traced: Traced):
    """Removes the tokens. NotFunctional if an effect is more than a check."""
    graph, (inputs, results) = traced.editable().graph, traced.tokens
    for node in [n for n in graph.nodes if n.target is with_effects]:
        _, check, *arguments = node.args
        if check not in _CHECKS:
            raise NotFunctional("it has effects whose order torch keeps")
        with graph.inserting_before(node):
            plain = graph.call_function(check, tuple(arguments), node.kwargs)
        plain.meta = {**node.meta, "val": None}
    output = graph.output_node()
    output.args = (tuple(v for v in output.args[0] if getattr(v, "name", None) not in results),)
    for node in reversed(list(graph.nodes)):
        passes_a_token = node.target is with_effects or node.target is operator.getitem and node.args[0].target is with_effects
        if passes_a_token or node.op == "placeholder" and node.name in inputs:
            graph.erase_node(node)
    if traced.inputs is not None:
        traced.inputs, traced.outputs = ([s for s in specs if s.kind.name != "TOKEN"] for specs in (traced.inputs, traced.outputs))
    traced.tokens = ((), ())
