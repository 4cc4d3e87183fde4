"""Writes in place inside regions of control flow: `torch.cond` and `while_loop` whose functions write a buffer or an input. torch has no functional form for them.

A tensor that a region writes becomes one that it returns: each region works on a copy, and the last value is copied to its place behind the node. Engines make no copies of it.
"""

from __future__ import annotations

import copy
import operator

import torch

from .overlap import NotFunctional, may_write, of_memory, value_of

Node = torch.fx.Node
_aten = torch.ops.aten
_REGIONS = (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)


def may_be(module: torch.fx.GraphModule) -> bool:
    """Whether a region of the graph writes in place."""
    return any(any(map(may_write, inner.graph.nodes)) or may_be(inner) for node in _controls(module) for inner in _regions(module, node).values())


def settle(module: torch.fx.GraphModule):
    """Does so in a graph of ATen's operators. A loop that writes what it carries stays as it is, for torch."""
    for node in _controls(module):
        regions = {name: torch.fx.GraphModule(inner, copy.deepcopy(inner.graph)) for name, inner in _regions(module, node).items()}
        for inner in regions.values():
            settle(inner)
        operands = _operands(node)
        written = sorted(set().union(*map(_written, regions.values())))
        if written and min(written) >= _carried(node):
            _refuse_shared(operands, written)
            _return_them(module, node, regions, operands, written)
    module.graph.lint()
    module.recompile()


def _controls(module) -> list[Node]:
    return [n for n in module.graph.nodes if n.op == "call_function" and n.target in _REGIONS]


def _regions(module, node) -> dict[str, torch.fx.GraphModule]:
    return {a.target: getattr(module, a.target) for a in node.args if isinstance(a, Node) and a.op == "get_attr"}


def _operands(node) -> list:
    """The operands that are inputs of each region, in order."""
    return [a for given in node.args if isinstance(given, (list, tuple)) for a in given]


def _placeholders(graph) -> list[Node]:
    return [n for n in graph.nodes if n.op == "placeholder"]


def _written(inner) -> set[int]:
    """The inputs that a region writes, by number."""
    memories = {of_memory(value_of(a)) for n in inner.graph.nodes if may_write(n) for a in _targets(n)}
    return {i for i, n in enumerate(_placeholders(inner.graph)) if of_memory(value_of(n)) in memories - {None}}


def _targets(node) -> list[Node]:
    """The operands that an operator writes."""
    arguments = node.target._schema.arguments
    given = [(a, node.args[i] if i < len(node.args) else node.kwargs.get(a.name)) for i, a in enumerate(arguments)]
    return [one for a, value in given if a.alias_info is not None and a.alias_info.is_write for one in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(one, Node)]


def _carried(node) -> int:
    return len(node.args[2]) if node.target is torch.ops.higher_order.while_loop else 0


def _refuse_shared(operands, written):
    """Another operand with the same memory would not show what is written. torch's own functional form does not either."""
    memories = [of_memory(value_of(a)) for a in operands if isinstance(a, Node)]
    if any(memories.count(of_memory(value_of(operands[i]))) > 1 for i in written):
        raise NotFunctional("a region of control flow writes a tensor that it also reads by another view")


def _return_them(module, node, regions, operands, written):
    """The written operands become the last carried ones of a loop, and the last results."""
    loop, carried = node.target is torch.ops.higher_order.while_loop, _carried(node)
    order = [*range(carried), *written, *(i for i in range(carried, len(operands)) if i not in written)] if loop else list(range(len(operands)))
    for name, inner in regions.items():
        inputs = _placeholders(inner.graph)
        for before, after in zip(order, order[1:]):
            inputs[before].append(inputs[after])
        if not (loop and name == node.args[0].target):
            _return_copies(inner.graph, [inputs[i] for i in written], inputs[order[-1]])
        inner.recompile()
        setattr(module, name, inner)
    given = [operands[i] for i in order]
    node.args = (*node.args[:2], tuple(given[: carried + len(written)]), tuple(given[carried + len(written) :])) if loop else (*node.args[:3], tuple(given))
    node.kwargs = {name: value for name, value in node.kwargs.items() if name != "mutated_arg_indices"}
    results = len(value_of(node))
    node.meta["val"] = (*value_of(node), *(value_of(operands[i]) for i in written))
    at = node
    for k, i in enumerate(written):
        for target, arguments in ((operator.getitem, lambda: (node, results + k)), (_aten.copy_.default, lambda: (operands[i], at))):
            with module.graph.inserting_after(at):
                made = module.graph.call_function(target, arguments())
            made.meta = {**node.meta, "val": value_of(operands[i])}
            at = made


def _return_copies(graph, inputs, last):
    """Each input's place is taken by a copy, which is returned too."""
    output, copies = graph.output_node(), []
    for node in inputs:
        with graph.inserting_after(last):
            last = made = graph.call_function(_aten.clone.default, (node,))
        made.meta = dict(node.meta)
        with value_of(node).fake_mode:
            made.meta["val"] = value_of(node).clone()
        node.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)
        copies.append(made)
    output.args = ((*output.args[0], *copies),)
