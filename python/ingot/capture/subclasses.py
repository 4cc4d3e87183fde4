"""Weights that are tensor subclasses (torchao's quantised weights), as the plain tensors inside them.

torch.export keeps such a weight as one input of the graph, and reads what is inside by an operator of its own, `export.access_subclass_inner_tensor`. Here each tensor that is read becomes an
input, with the weight's name and its own: "layers.0.weight.qdata". Its memory stays the model's."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import torch

from ..torch_internals.tensors import is_wrapper
from .traced import Traced


def opened(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with plain tensors in place of the weights that are subclasses; the same one if there are none. A weight of which more than the tensors inside is used stays."""
    tensors = {**program.constants, **program.state_dict}
    if not any(is_wrapper(t) for t in tensors.values()):
        return program
    traced = Traced.of_program(program)
    graph = traced.editable().graph
    nodes, inside = {n.name: n for n in graph.nodes if n.op == "placeholder"}, {}
    for spec in list(traced.inputs):
        tensor = tensors.get(spec.target)
        if is_wrapper(tensor):
            _open(graph, traced.inputs, spec, nodes[spec.arg.name], tensor, inside)
    traced.module.recompile()
    left = {spec.target for spec in traced.inputs}
    kept = lambda named: {name: t for name, t in named.items() if not is_wrapper(t) or name in left}
    return traced.program(state_dict=kept(program.state_dict) | inside, constants=kept(program.constants))


def _open(graph, specs, spec, node, tensor, inside):
    """Inputs for the tensors inside that are read; those inside may be subclasses themselves."""
    from torch.export.graph_signature import InputKind, TensorArgument

    for user in list(node.users):
        if user.target is not torch.ops.export.access_subclass_inner_tensor.default:
            continue
        word = user.args[1]
        inner, name = getattr(tensor, word), f"{spec.target}.{word}"
        if name not in inside:
            with graph.inserting_before(node):
                own = graph.placeholder(f"{node.name}_{word}")
            own.meta = dict(user.meta)
            entry = replace(spec, kind=InputKind.BUFFER, arg=TensorArgument(own.name), target=name, persistent=True)  # it is no parameter of the model
            specs.insert(specs.index(spec), entry)
            inside[name] = inner
        else:
            own = next(n for n in graph.nodes if n.name == next(s for s in specs if s.target == name).arg.name)
        user.replace_all_uses_with(own)
        graph.erase_node(user)
        if is_wrapper(inner):
            del inside[name]
            _open(graph, specs, next(s for s in specs if s.target == name), own, inner, inside)
    if not node.users:
        graph.erase_node(node)
        specs.remove(spec)


class _Rebuild:
    """Makes a tensor of a subclass of the tensors inside it: a node of Dynamo's graph, which torch's tracer runs."""

    def __init__(self, like):
        self._kind, (self._words, self._context) = type(like), like.__tensor_flatten__()
        self._size, self._stride = like.size(), like.stride()
        self.__name__ = f"rebuilt_{self._kind.__name__}"

    def __call__(self, *inside):
        return self._kind.__tensor_unflatten__(dict(zip(self._words, inside)), self._context, self._size, self._stride)


def opened_graph(module: torch.fx.GraphModule, examples):
    """Dynamo's graph with inputs for the tensors inside those that are subclasses, and a function from the arguments of the first graph to those of the second. None if there are no such inputs.
"""
    graph = torch.fx.Graph()
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    words = [_Rebuild(x)._words if is_wrapper(x) and not node.meta.get("grapharg") is None else None for node, x in zip(placeholders, map(_real, placeholders, examples))]
    if not any(words):
        return None
    changed: dict[torch.fx.Node, torch.fx.Node] = {}
    for place, node in enumerate(placeholders):
        if words[place] is None:
            changed[node] = graph.node_copy(node)
            continue
        real, fake, source = _real(node, examples[place]), node.meta.get("example_value"), node.meta["grapharg"].source
        base = source.name() if callable(source.name) else source.name
        inside = []
        for word in words[place]:
            inner = graph.placeholder(f"{node.name}_{word}")
            known = getattr(fake, word) if is_wrapper(fake) else getattr(real, word)
            inner.meta = {"example_value": known, "grapharg": SimpleNamespace(example=getattr(real, word), source=SimpleNamespace(name=f"{base}.{word}"))}
            inside.append(inner)
        changed[node] = inside
    for node in placeholders:
        if isinstance(changed[node], list):
            made = graph.call_function(_Rebuild(_real(node, None)), tuple(changed[node]))
            made.meta = {k: v for k, v in node.meta.items() if k != "grapharg"}
            changed[node] = made
    for node in module.graph.nodes:
        if node.op != "placeholder":
            changed[node] = graph.node_copy(node, changed.__getitem__)

    def inner(*args):
        return [x for arg, names in zip(args, words) for x in ([arg] if names is None else [getattr(arg, name) for name in names])]

    return torch.fx.GraphModule(module, graph), inner


def _real(node, value):
    return getattr(node.meta.get("grapharg"), "example", value)
