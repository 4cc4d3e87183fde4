"""The conditions on sizes on which the model's Python code branches (switches/branches.py) become checks before the graph's first call, unless the sizes' ranges imply them: the graph has one
branch only, and is right only where they hold."""

from __future__ import annotations

import linecache
import operator

import sympy
import torch
from torch.export.graph_signature import InputKind

from ... import errors
from ...base.log import log
from ...torch_internals.sizes import PythonPrinter, PythonReferenceAnalysis, ValueRanges, sympy_interp
from ..memory import value_of
from ..switches.branches import from_zero, is_implied, place_of
from ..traced import NotFunctional, Traced

CONDITION = "ingot_condition"  # in a node's meta: what it computes, over symbols that may be 0
_INPUT_ERROR = errors.code_of(errors.InputError(""))
REMEDY = "give sizes for which this holds, or compile the model for an example of these sizes"  # as src/runtime/program.cpp


def wanted(traced: Traced) -> bool:
    return bool(traced.conditions)


def apply(traced: Traced):
    """NotFunctional if a condition does not follow from the inputs' sizes."""
    module = traced.editable()
    nodes = {n.name: n for n in module.graph.nodes if n.op == "placeholder"}
    leaves = [nodes[s.arg.name] for s in traced.inputs if s.kind is InputKind.USER_INPUT]
    with module.graph.inserting_before(next(n for n in module.graph.nodes if n.op != "placeholder")):
        for branch in traced.conditions:
            places = {symbol: place_of(symbol) for symbol in branch.condition.free_symbols}
            if None in places.values():
                raise NotFunctional(f"the model's code branches on {branch.condition}, which does not follow from the inputs' sizes")
            recorded = {s: _recorded(leaves, *place) for s, place in places.items()}
            symbols = {s for size in recorded.values() for s in size.free_symbols}
            condition = branch.condition.xreplace({s: size.xreplace({f: from_zero(f) for f in symbols}) for s, size in recorded.items()})
            if is_implied(condition, {from_zero(s): traced.ranges.get(s, ValueRanges.unknown_int()) for s in symbols}):
                continue
            tracer = _Values(module.graph, branch.line)
            known = {s: _read(leaves[index], axis, tracer) for s, (index, axis) in places.items()}
            words = {s: sympy.Symbol(_words(leaves[index].name, axis, traced.names), integer=True) for s, (index, axis) in places.items()}
            held = PythonPrinter().doprint(branch.condition.xreplace(words))
            if len(places) == 1:  # it narrows the range of one axis
                log.warning("the model's code branches on a size%s: the compiled module takes only sizes with %s", f" at {branch.line}" if branch.line else "", held)
            said = f"[ingot:{_INPUT_ERROR}] these input sizes do not fit the model: it was captured for {held}"
            said += f"\n  at {branch.line}" if branch.line else ""
            holds = sympy_interp(_Compute, known, branch.condition)
            holds.node.meta[CONDITION] = condition
            tracer.create_proxy("call_function", torch.ops.aten._assert_scalar.default, (holds, f"{said}\n  remedy: {REMEDY}"), {})


def _words(name, axis, names):
    return names.get(name, name) if axis is None else f"{names.get(name, name)}.shape[{axis}]"


def _recorded(leaves, index, axis):
    value = value_of(leaves[index]) if axis is None else value_of(leaves[index]).shape[axis]
    return value.node.expr if isinstance(value, torch.SymInt) else sympy.Integer(value)


def _read(leaf, axis, tracer):
    return torch.fx.Proxy(leaf, tracer) if axis is None else tracer.create_proxy("call_function", torch.ops.aten.sym_size.int, (torch.fx.Proxy(leaf, tracer), axis), {})


class _Compute(PythonReferenceAnalysis):
    """With what torch's own lacks for nodes."""

    int_truediv = truediv = staticmethod(operator.truediv)

    @staticmethod
    def trunc_to_int(x, dtype):
        return torch.sym_int(x)


class _Values(torch.fx.proxy.GraphAppendingTracer):
    """Appends nodes with their values and the model's line."""

    def __init__(self, graph, line):
        super().__init__(graph)
        file, _, number = line.rpartition(":")
        self._trace = f'  File "{file}", line {number}, in forward\n    {linecache.getline(file, int(number)).strip()}\n' if line else None

    def create_node(self, kind, target, args, kwargs, *more, **named):
        node = super().create_node(kind, target, args, kwargs, *more, **named)
        if self._trace:
            node.meta["stack_trace"] = self._trace
        node.meta["val"] = target(*torch.fx.map_arg(args, value_of)) if target is not torch.ops.aten._assert_scalar.default else None
        return node
