"""Written constants (tensors of objects that are not modules, such as caches) become buffers, and a tensor with several names, one of them written, gets one name: torch makes a program
functional only in this form."""

from __future__ import annotations

from dataclasses import replace

from torch.export.graph_signature import InputKind

from ..memory import gives_new, may_write, of_memory, value_of
from ..traced import Traced


def wanted(traced: Traced) -> bool:
    kept, again = _changed(traced)
    return bool(again) or any(s is not kept.get(s.arg.name, s) for s in traced.inputs or ())


def apply(traced: Traced):
    kept, again = _changed(traced)
    graph = traced.editable().graph
    nodes = {n.name: n for n in graph.nodes if n.op == "placeholder"}
    for name, spec in again.items():  # the spec comes before: buffers precede constants
        nodes[name].replace_all_uses_with(nodes[spec.arg.name])
        graph.erase_node(nodes[name])
    traced.inputs = [kept.get(s.arg.name, s) for s in traced.inputs if getattr(s.arg, "name", None) not in again]


def _changed(traced: Traced) -> tuple[dict, dict]:
    """By name of the placeholder: what the entry of an input becomes, and the entry whose tensor an input is."""
    own = [s for s in traced.inputs or () if s.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)]
    nodes, values = {n.name: n for n in traced.graph.nodes if n.op == "placeholder"}, traced.constants
    by_memory = {_memory(nodes[s.arg.name]): s for s in own}
    written = {id(values[by_memory[m].target]) for n in traced.graph.nodes if may_write(n) for a in n.all_input_nodes if (m := _memory(a)) in by_memory}
    groups: dict[int, list] = {}
    for s in own:
        groups.setdefault(id(values[s.target]), []).append(s)
    kept, again = {}, {}
    for tensor, specs in groups.items():
        if tensor in written:
            first = min(specs, key=lambda s: s.kind is InputKind.CONSTANT_TENSOR)
            kept[first.arg.name] = replace(first, kind=InputKind.BUFFER, persistent=False) if first.kind is InputKind.CONSTANT_TENSOR else first
            again |= {s.arg.name: first for s in specs if s is not first}
    return kept, again


def _memory(node):
    return None if gives_new(node) else of_memory(value_of(node))
