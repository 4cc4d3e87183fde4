"""Runs a functional graph in torch, node by node, to measure for autocast's rules and for the bound on the error."""

from __future__ import annotations

import torch

from ..capture.functional import Functional
from ..torch_internals.trees import pytree

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def run(f: Functional, flat, exact: bool = False, before=None, after=None) -> list[torch.Tensor]:
    """The tensors among the results, then the new value of each tensor that the model writes. Nothing is written.

    flat: the inputs of f.
    exact: all floating-point values of lower precision, and all casts to it, are float64.
    before(node, args, kwargs): returns the arguments of a call. after(node, value): returns its value.
    """
    given, env = iter(flat), {}
    for slot in f.slots:
        value = next(given) if slot.kind in ("input", "number") else slot.tensor
        env[slot.node] = _wide(value) if exact else value
    interpreter = _Run(f.module, exact, before, after)
    wanted = [r for r in f.results if isinstance(r, torch.fx.Node)] + [value for _, value in f.writes]
    interpreter.wanted = dict.fromkeys(wanted)
    with torch.no_grad():
        interpreter.run(initial_env=dict(env))
    found = {**env, **interpreter.wanted}
    return [found[node] for node in wanted if isinstance(found[node], torch.Tensor)]


def names(f: Functional) -> list[str]:
    """The names of the tensors that `run` returns: "result 0", or the name of a buffer or input."""
    results = [r for r in f.results if isinstance(r, torch.fx.Node)]
    return [f"result {i}" for i, r in enumerate(results) if isinstance(r.meta.get("val"), torch.Tensor)] + [f"{slot.name!r}, which the model writes," for slot, _ in f.writes]


class _Run(torch.fx.Interpreter):
    def __init__(self, module, exact, before, after):
        super().__init__(module)
        self._exact, self._before, self._after = exact, before, after

    def run_node(self, node):
        value = super().run_node(node)
        if self._after is not None and node.op == "call_function":
            value = self._after(node, value)
        if node in self.wanted:
            self.wanted[node] = value
        return value

    def call_function(self, target, args, kwargs):
        if target is torch.ops.aten._assert_tensor_metadata.default:
            return None
        if self._exact:
            args, kwargs = pytree.tree_map(_wide, (args, kwargs))
        return super().call_function(target, args, kwargs)

    def get_attr(self, target, args, kwargs):
        value = super().get_attr(target, args, kwargs)
        return _wide(value) if self._exact else value

    def fetch_args_kwargs_from_env(self, node):
        args, kwargs = super().fetch_args_kwargs_from_env(node)
        return self._before(node, args, kwargs) if self._before is not None and node.op == "call_function" else (args, kwargs)

    def output(self, target, args, kwargs):
        return None


def _wide(value):
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype in _FLOATS else value
    return torch.float64 if any(value is t for t in _FLOATS) else value
