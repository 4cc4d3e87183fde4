"""Numbers that an exported program reads of tensors that follow from its constants alone: `torch.arange(int(first[-1]), ...)` with `first = torch.arange(0, 33)[::2]`.

torch.export records a size that nobody knows. ingot.compile of a module knows it while torch traces (switches/known_values.py); a program that arrives exported is mended here. Each number takes the
place of what reads it, and the values that hang on it are recorded anew."""

from __future__ import annotations

import operator

import torch
from torch.export.graph_signature import InputKind

from ...torch_internals.sizes import free_unbacked_symbols
from ..memory import of_memory, value_of
from ..switches.known_values import READS, computed_from, gives_the_same_again, written_memory
from ..traced import Traced
from . import recorded_memory

_aten = torch.ops.aten
_OPEN = (torch.SymInt, torch.SymFloat, torch.SymBool)


def wanted(traced: Traced) -> bool:
    return traced.in_aten and bool(_reads(traced))


def apply(traced: Traced):
    traced.editable()
    found, values = _reads(traced), {}
    for node in list(traced.graph.nodes):
        node.args, node.kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: values.get(n, n))
        if node in found:
            values[node] = found[node]
        elif getattr(node.target, "__module__", None) == operator.add.__module__ and not node.all_input_nodes:
            values[node] = node.target(*node.args)
        elif not (node.target is _aten._assert_scalar.default and node.args[0] is True):
            continue
        if not node.users:
            traced.graph.erase_node(node)
    for node in reversed(list(values)):
        if not node.users and node in traced.graph.nodes:
            traced.graph.erase_node(node)
    recorded_memory.apply(traced)
    for node in traced.graph.nodes:
        if "unbacked_bindings" in node.meta and not free_unbacked_symbols(value_of(node)):
            del node.meta["unbacked_bindings"]  # torch would look for the sizes that are numbers now


def _reads(traced: Traced) -> dict[torch.fx.Node, int | float | bool]:
    """The numbers, by the nodes that read them."""
    reads = [node for node in traced.graph.nodes if node.target in READS and isinstance(value_of(node), _OPEN)]
    if not reads:
        return {}
    names = {spec.arg.name: spec.target for spec in traced.inputs or () if spec.kind is InputKind.CONSTANT_TENSOR}
    written, found = written_memory(traced.graph), {}
    for read in reads:
        nodes = computed_from(read, through_sizes=True)
        if all(_is_known(node, names) and of_memory(value_of(node)) not in written for node in nodes):
            found[read] = _run([node for node in traced.graph.nodes if node in nodes], traced, names)
    return found


def _is_known(node, names) -> bool:
    return node.name in names or node.op == "get_attr" or node.op == "call_function" and gives_the_same_again(node)


def _run(nodes, traced, names):
    values = {}
    for node in nodes:
        if node.op == "call_function":
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.get)
            values[node] = node.target(*args, **kwargs)
        else:
            values[node] = traced.constants[names[node.name]] if node.name in names else getattr(traced.module, node.target)
    return values[nodes[-1]]
