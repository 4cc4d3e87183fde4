"""Recorded values whose memory can be compared. In a program from a file each value has its own memory, even a tensor that an operator writes and returns, so the values are recorded anew."""

from __future__ import annotations

import torch

from ...torch_internals.operators import OpOverload, schema_of
from ...torch_internals.tensors import FakeTensor, FakeTensorMode
from ..memory import of_memory, source_of, value_of
from ..traced import NotFunctional, Traced, constants_allowed


def wanted(traced: Traced) -> bool:
    return traced.in_aten and any(_gives_what_it_writes(n) and source_of(n, of_memory(value_of(n))) is None for n in traced.graph.nodes)


def apply(traced: Traced):
    """NotFunctional if torch cannot run the graph on fake values."""
    module = traced.editable()
    placeholders = [value_of(n) for n in module.graph.nodes if n.op == "placeholder"]
    mode = next((v.fake_mode for v in placeholders if isinstance(v, FakeTensor)), None) or FakeTensorMode(allow_non_fake_inputs=True)

    def fake(value):
        if not isinstance(value, torch.Tensor):
            return value
        made = torch.ops.aten.alias.default(value if isinstance(value, FakeTensor) else mode.from_tensor(value))  # a separate shape, which the graph may change
        made.constant = None  # torch would write to the model's tensor
        return made

    try:
        with torch.no_grad(), mode, constants_allowed(mode):
            _Keep(module).run(*map(fake, placeholders))
    except Exception as problem:  # of many kinds
        raise NotFunctional(f"torch cannot tell which values share memory: {type(problem).__name__}") from problem


def _gives_what_it_writes(node):
    if not isinstance(node.target, OpOverload) or not isinstance(value_of(node), torch.Tensor):
        return False
    return any(r.alias_info is not None and r.alias_info.is_write for r in schema_of(node.target).returns)


class _Keep(torch.fx.Interpreter):
    def run_node(self, node):
        made = super().run_node(node)
        if node.op in ("placeholder", "call_function"):
            node.meta["val"] = made
        return made
