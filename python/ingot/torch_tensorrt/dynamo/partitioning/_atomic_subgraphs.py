"""Patterns of operators that belong together, for scripts that cut graphs."""

from __future__ import annotations

import functools

import torch

ATOMIC_SUBGRAPHS: list[tuple[type[torch.nn.Module], tuple, bool]] = []


def register_atomic_subgraph(init_args=(), is_core_aten=False):
    """A decorator for an nn.Module class whose forward is a pattern of operators.

    init_args: arguments of its constructor.
    is_core_aten: True if forward calls operators of the core set, as they are after decompositions; otherwise it is exported to find them.

    `compile` does not use patterns: its segments end where an engine lacks an operator."""

    def register(pattern: type[torch.nn.Module]):
        ATOMIC_SUBGRAPHS.append((pattern, tuple(init_args), is_core_aten))
        return pattern

    return register


@functools.lru_cache(None)
def trace_atomic_graph(pattern: type[torch.nn.Module], init_args=(), is_core_aten=True) -> torch.fx.GraphModule:
    """A pattern as a graph. A pattern that has to be exported gives its inputs by `example_inputs()`."""
    module = pattern(*init_args)
    if is_core_aten:
        return torch.fx.symbolic_trace(module)
    return torch.export.export(module, tuple(module.example_inputs())).run_decompositions().module()
