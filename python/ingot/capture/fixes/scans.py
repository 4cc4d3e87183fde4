"""torch's scan and associative_scan become a loop, which engines run. The first step stands before the loop: its results have the sizes and types of all steps. Each turn of the loop takes the next
elements and writes its row of the results."""

from __future__ import annotations

import copy
import operator

import torch

from ...torch_internals.operators import HigherOrderOperator
from ..memory import may_write
from ..traced import Traced

Node = torch.fx.Node
_aten = torch.ops.aten


def wanted(traced: Traced) -> bool:
    return _has_some(traced.module)


def apply(traced: Traced):
    _write_out(traced.editable())


def _has_some(module) -> bool:
    return any(_is_scan(module, node) for node in module.graph.nodes) or any(map(_has_some, _regions(module).values()))


def _regions(module) -> dict[str, torch.fx.GraphModule]:
    """The regions of a graph, by name."""
    named = {n.target: getattr(module, n.target, None) for n in module.graph.nodes if n.op == "get_attr"}
    return {name: region for name, region in named.items() if isinstance(region, torch.fx.GraphModule)}


def _is_scan(module, node) -> bool:
    """Whether a node is a scan whose step gives tensors and writes nothing."""
    if not isinstance(node.target, HigherOrderOperator) or node.target.name() not in ("scan", "associative_scan"):
        return False
    step = getattr(module, node.args[0].target).graph
    return all(isinstance(v, Node) for v in step.output_node().args[0]) and not any(map(may_write, step.nodes))


def _write_out(module):
    """Does so in a graph, and in its regions first."""
    for name, region in _regions(module).items():
        if _has_some(region):
            region = torch.fx.GraphModule(region, copy.deepcopy(region.graph))
            _write_out(region)
            setattr(module, name, region)
    for node in [n for n in module.graph.nodes if _is_scan(module, n)]:
        with module.graph.inserting_before(node):
            loop, first_result = _loop(_Writer(module, node), *node.args)
        for part in list(node.users):
            part.args = (loop, part.args[1] + first_result)
        for unused in (node, node.args[0]):
            if not unused.users:
                module.graph.erase_node(unused)
    module.recompile()


def _loop(before: _Writer, region: Node, *given):
    """The loop, and the place of the scan's first result among the loop's. given: of scan the carried values at the beginning, the elements and what each step reads; of associative_scan all
    but the first, because it begins with the first elements."""
    step, (*begin, elements, more) = getattr(before.module, region.target), given
    carried = rows = [before.call(_aten.select.int, x, 0, 0) for x in elements]
    if begin:
        carried, rows = before.step(step, [*begin[0], *rows, *more], len(begin[0]))
    results = [before.call(_aten.expand.default, row, [before.length(elements[0]), *[-1] * row.meta["val"].dim()]) for row in rows]
    number = before.call(_aten.full.default, [], 1, dtype=torch.int64, device=elements[0].meta["val"].device)
    inputs = [number, *carried, *results, *elements, *more]

    def goes_on(inside: _Writer, number, *others):
        return inside.call(_aten.lt.Scalar, number, inside.length(others[len(carried) + len(results)]))

    def turn(inside: _Writer, number, *others):
        at = inside.call(_aten.reshape.default, number, [1])
        place = iter(others)
        former, stacks, whole = ([next(place) for _ in values] for values in (carried, results, elements))
        now = [inside.call(_aten.squeeze.dim, inside.call(_aten.index_select.default, x, 0, at), 0) for x in whole]
        new, rows = inside.step(step, [*former, *now, *place], len(begin and carried))
        stacks = [inside.call(_aten.index_copy.default, s, 0, at, inside.call(_aten.unsqueeze.default, row, 0)) for s, row in zip(stacks, rows)]
        return (inside.call(_aten.add.Tensor, number, 1), *(new or rows), *stacks)

    changing = 1 + len(carried) + len(results)
    regions = [before.region(name, inputs, write) for name, write in (("goes_on", goes_on), ("turn", turn))]
    loop = before.call(torch.ops.higher_order.while_loop, *regions, tuple(inputs[:changing]), tuple(inputs[changing:]), value=tuple(v.meta["val"] for v in inputs[:changing]))
    return loop, 1 if begin else 1 + len(carried)


class _Writer:
    """Writes the calls that stand for a scan into a graph, with the scan's line."""

    def __init__(self, module: torch.fx.GraphModule, scan: Node):
        self.module, self._scan = module, scan

    def call(self, target, *args, value=None, **kwargs) -> Node:
        """A call of an operator. value: what it gives, where the operator cannot say."""
        made = self.module.graph.call_function(target, args, kwargs)
        if value is None:
            with self._scan.meta["val"][0].fake_mode:
                value = target(*torch.fx.map_arg(args, lambda n: n.meta["val"]), **kwargs)
        made.meta = {**self._scan.meta, "val": value}
        return made

    def length(self, elements: Node):
        """The number of steps."""
        known = elements.meta["val"].shape[0]
        return known if isinstance(known, int) else self.call(_aten.sym_size.int, elements, 0)

    def step(self, step: torch.fx.GraphModule, given: list, carries: int) -> tuple[list[Node], list[Node]]:
        """The calls of one step: what it carries on, and its other results."""
        copies = dict(zip((n for n in step.graph.nodes if n.op == "placeholder"), given, strict=True))
        results = self.module.graph.graph_copy(step.graph, copies)
        for node in step.graph.nodes:
            if node.op == "get_attr":
                copies[node].target = f"{self._scan.name}_{node.target}"
                setattr(self.module, copies[node].target, getattr(step, node.target))
        return list(results[:carries]), list(results[carries:])

    def region(self, name: str, operands: list, write) -> Node:
        """A region of the loop with an input for each operand. write: what writes it into a graph and gives its results."""
        region = torch.fx.GraphModule({}, torch.fx.Graph())
        inputs = []
        for i, operand in enumerate(operands):
            inputs.append(region.graph.placeholder(f"given_{i}"))
            inputs[-1].meta = {"val": operand.meta["val"] if isinstance(operand, Node) else operand}
        region.graph.output(write(_Writer(region, self._scan), *inputs))
        region.recompile()
        name = f"{self._scan.name}_{name}"
        setattr(self.module, name, region)
        return self.module.graph.get_attr(name)
