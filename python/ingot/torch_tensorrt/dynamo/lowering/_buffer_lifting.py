"""Buffers that a graph writes, as inputs of it and back."""

from __future__ import annotations

import operator

import torch

_copy_ = torch.ops.aten.copy_.default


def lift_mutated_buffers(gm: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, list[tuple[str, str, torch.Tensor]]]:
    """The graph with an input `buf_<name>` for each buffer that it writes at its end (as ExportedProgram.module() does), without the write; and for each (input, buffer, tensor).

    The caller gives the values, and gets no new ones: see with_lifted_buffers for inputs that are written. A graph that writes none is given back as it is.
    """
    written = _written(gm)
    if not written:
        return gm, []
    lifted = _placeholders(gm, written)
    for node in list(gm.graph.nodes):
        if node.target is _copy_ and node.args[0].op == "placeholder":
            gm.graph.erase_node(node)
    return _plain(gm), lifted


def with_lifted_buffers(program: torch.export.ExportedProgram):
    """The program's graph with an input for each buffer that it writes, which it writes in place, after the others; and for each (input, buffer, tensor)."""
    gm = program.run_decompositions({}).module(check_guards=False)  # in functional form, where all writes stand at the end
    lifted = _placeholders(gm, _written(gm))
    return _plain(gm), lifted


def inline_lifted_buffers_into_gm(gm: torch.fx.GraphModule, lifted_buffers) -> torch.fx.GraphModule:
    """The graph that reads the tensors of lift_mutated_buffers as buffers of its own again."""
    if not lifted_buffers:
        return gm
    inputs = {node.target: node for node in gm.graph.find_nodes(op="placeholder")}
    for place, name, tensor in lifted_buffers:
        _owner(gm, name).register_buffer(name.rpartition(".")[2], tensor)
        with gm.graph.inserting_before(_behind_inputs(gm.graph)):
            read = gm.graph.get_attr(name)
        read.meta = dict(inputs[place].meta)
        inputs[place].replace_all_uses_with(read)
        gm.graph.erase_node(inputs[place])
    return _plain(gm)


def _written(gm) -> list[str]:
    """The buffers that a graph writes, in the order in which it reads them."""
    targets = {node.args[0].target for node in gm.graph.find_nodes(op="call_function", target=_copy_) if node.args[0].op == "get_attr"}
    return list(dict.fromkeys(node.target for node in gm.graph.find_nodes(op="get_attr") if node.target in targets))


def _placeholders(gm, names):
    """Puts an input in the place of each buffer."""
    lifted = []
    for name in names:
        reads = [node for node in gm.graph.find_nodes(op="get_attr") if node.target == name]
        with gm.graph.inserting_before(_behind_inputs(gm.graph)):
            place = gm.graph.placeholder("buf_" + name.replace(".", "_"))
        place.meta = dict(reads[0].meta)
        for node in reads:
            node.replace_all_uses_with(place)
            gm.graph.erase_node(node)
        lifted.append((place.target, name, operator.attrgetter(name)(gm)))
    return lifted


def _plain(gm):
    """The graph with one parameter for each input."""
    for node in [n for n in gm.graph.nodes if n.op == "call_module" and n.target == "_guards_fn" and not n.users]:
        gm.graph.erase_node(node)
    gm.graph.set_codegen(torch.fx.graph.CodeGen())
    gm.graph.lint()
    return torch.fx.GraphModule(gm, gm.graph)  # without torch.export's hook, which checks the inputs of before


def _behind_inputs(graph):
    """The place after the last input: reads of buffers may come before it."""
    return graph.find_nodes(op="placeholder")[-1].next if graph.find_nodes(op="placeholder") else next(iter(graph.nodes))


def _owner(gm, name) -> torch.nn.Module:
    """The module that holds a buffer, made where it is missing."""
    module = gm
    for part in name.split(".")[:-1]:
        if not hasattr(module, part):
            module.add_module(part, torch.nn.Module())
        module = getattr(module, part)
    return module
