"""Writes in place inside regions of control flow: `torch.cond` and `while_loop` whose functions write a buffer, an input or what a loop carries. torch has no functional form for them.

A tensor that a region writes becomes one that it returns: each region works on a copy, and the last value is copied to its place after the node. Engines make no copies of it.

A turn of a loop that writes what the loop carries writes a copy. In eager the first turn has the caller's own tensor: where that is seen later, the loop also writes it, as a tensor that it does not carry.
"""

from __future__ import annotations

import copy
import operator

import torch

from ..memory import may_write, of_memory, value_of, written_operands
from ..traced import NotFunctional, Traced

Node = torch.fx.Node
_aten = torch.ops.aten
_REGIONS = (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)


def wanted(traced: Traced) -> bool:
    return _may_be(traced.module)


def apply(traced: Traced):
    _replace_writes(traced.editable())


def _may_be(module) -> bool:
    """Whether a region of the graph writes in place."""
    return any(any(map(may_write, inner.graph.nodes)) or _may_be(inner) for node in _controls(module) for inner in _regions(module, node).values())


def _replace_writes(module):
    """Does so in a graph of ATen's operators, and in its regions."""
    for node in _controls(module):
        regions = {name: torch.fx.GraphModule(inner, copy.deepcopy(inner.graph)) for name, inner in _regions(module, node).items()}
        for name, inner in regions.items():
            _replace_writes(inner)
            setattr(module, name, inner)
        if written := _written_in(regions):
            _refuse_shared(_operands(node), written)
            if written[0] < _carried(node):
                written = _copy_carried(node, regions, written)
            if written:
                _return_them(module, node, regions, _operands(node), written)
            for inner in regions.values():
                inner.graph.lint()
                inner.recompile()


def _controls(module) -> list[Node]:
    return [n for n in module.graph.nodes if n.op == "call_function" and n.target in _REGIONS]


def _regions(module, node) -> dict[str, torch.fx.GraphModule]:
    return {a.target: getattr(module, a.target) for a in node.args if isinstance(a, Node) and a.op == "get_attr"}


def _operands(node) -> list:
    """The operands that are inputs of each region, in order."""
    return [a for given in node.args if isinstance(given, (list, tuple)) for a in given]


def _placeholders(graph) -> list[Node]:
    return [n for n in graph.nodes if n.op == "placeholder"]


def _written_in(regions) -> list[int]:
    return sorted(set().union(*map(_written, regions.values())))


def _written(inner) -> set[int]:
    """The inputs that a region writes, by number."""
    memories = {of_memory(value_of(a)) for n in inner.graph.nodes if may_write(n) for a in written_operands(n)}
    return {i for i, n in enumerate(_placeholders(inner.graph)) if of_memory(value_of(n)) in memories - {None}}


def _carried(node) -> int:
    return len(node.args[2]) if node.target is torch.ops.higher_order.while_loop else 0


def _refuse_shared(operands, written):
    """Another operand with the same memory would not show what is written. torch's own functional form does not either."""
    memories = [of_memory(value_of(a)) for a in operands if isinstance(a, Node)]
    if any(memories.count(of_memory(value_of(operands[i]))) > 1 for i in written):
        raise NotFunctional("a region of control flow writes a tensor that it also reads by another view")


def _copy_carried(node, regions, written) -> list[int]:
    """Turns write copies of what the loop carries, and the first one also what is still seen. Returns the inputs that are written then, none of which the loop carries."""
    condition, body = (regions[a.target] for a in node.args[:2])
    own, others = ([i for i in written if (i < _carried(node)) is carried] for carried in (True, False))
    if _written(condition).intersection(own):
        raise NotFunctional("the condition of a loop writes what the loop carries")
    inputs, operands = _placeholders(body.graph), _operands(node)
    copies = dict(zip(own, _copied(body.graph, [inputs[i] for i in own], inputs[-1])))
    if not (seen := [i for i in own if _is_seen(operands[i], node)]):
        return others
    with node.graph.inserting_before(node):
        begins = {i: _made(node.graph, _aten.clone.default, operands[i]) for i in seen}
        is_first = _made(node.graph, _aten.full.default, [], True, dtype=torch.bool, device=value_of(operands[seen[0]]).device, like=operands[seen[0]])
    carried = [begins.get(i, a) for i, a in enumerate(node.args[2])]
    for inner in (condition, body):
        inputs = _placeholders(inner.graph)
        first = _input_behind(inputs[len(carried) - 1], is_first)
        last = inputs[-1] if len(inputs) > len(carried) else first
        given = {i: (last := _input_behind(last, operands[i])) for i in seen}
    node.args = (*node.args[:2], (*carried, is_first), (*node.args[3], *(operands[i] for i in seen)))
    node.meta["val"] = (*value_of(node), value_of(is_first))
    output = body.graph.output_node()
    with body.graph.inserting_before(output):
        for i, own in given.items():
            _made(body.graph, _aten.copy_.default, own, _made(body.graph, _aten.where.self, first, copies[i], own))
        output.args = ((*output.args[0], _made(body.graph, _aten.zeros_like.default, first)),)
    return [*(i + 1 for i in others), *range(len(operands) + 1, len(operands) + 1 + len(seen))]


def _is_seen(operand, loop) -> bool:
    """Whether somebody else has the memory of an operand: the caller of the graph, or a node after the loop."""
    memory, behind = of_memory(value_of(operand)), False
    for node in loop.graph.nodes:
        if node.op in ("placeholder", "get_attr") and of_memory(value_of(node)) == memory or behind and any(of_memory(value_of(a)) == memory for a in node.all_input_nodes):
            return True
        behind |= node is loop
    return False


def _input_behind(before, operand) -> Node:
    """Another input of a region, after one that it has."""
    with before.graph.inserting_after(before):
        made = before.graph.placeholder(operand.name)
    made.target = made.name  # its own where the region has one of that name
    made.meta = {**operand.meta, "val": value_of(operand)}
    return made


def _made(graph, target, *arguments, like=None, **keywords) -> Node:
    """A call of an operator, with its value. like: the node whose line it gets, of the first argument if none is given."""
    made, like = graph.call_function(target, arguments, keywords), like or arguments[0]
    with value_of(like).fake_mode:
        made.meta = {**like.meta, "val": target(*torch.fx.map_arg(arguments, value_of), **keywords)}
    return made


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
    """The region works on copies of these inputs, and returns them too."""
    output = graph.output_node()
    output.args = ((*output.args[0], *_copied(graph, inputs, last)),)


def _copied(graph, inputs, last) -> list[Node]:
    """Copies that take the inputs' places, after the last input."""
    copies = []
    for node in inputs:
        with graph.inserting_after(last):
            last = made = _made(graph, _aten.clone.default, node)
        node.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)
        copies.append(made)
    return copies
