"""Builds engines from a functional graph, and around them a torch graph with what stays in torch."""

from __future__ import annotations

import logging
import math
import operator
import types
import os

import sympy
import torch

from .. import autocast_options
from ..capture import devices, writer
from ..capture.fixes.read_numbers import READS
from ..capture.functional import Functional, Node, trace_view
from ..capture.schema import same_part
from ..capture.sizes import places
from ..engine import _engine, _library, _values
from ..errors import InputError, UnsupportedError
from ..precision import low_precision
from .report import Report
from .runnable import Runnable
from .runners import OneCall, Segment, TorchGraph, of_engine
from .weight_changes import Followed

log = logging.getLogger("ingot")
_SIZE_CHECKS = (torch.ops.aten._assert_scalar.default, torch.ops.aten.sym_constrain_range.default, torch.ops.aten.sym_constrain_range_for_size.default)

# Arithmetic on sizes, by the name of sympy's class.
_ARITHMETIC = {
    "Add": operator.add, "Mul": operator.mul, "Pow": operator.pow, "PowByNatural": operator.pow, "FloatPow": operator.pow, "Abs": operator.abs,
    "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "IntTrueDiv": operator.truediv, "FloatTrueDiv": operator.truediv, "Mod": operator.mod, "PythonMod": operator.mod,
    "Max": torch.sym_max, "Min": torch.sym_min, "ToFloat": torch.sym_float, "TruncToInt": math.trunc, "FloorToInt": math.floor, "CeilToInt": math.ceil,
}  # fmt: skip


def _is_arithmetic(e: sympy.Basic) -> bool:
    if isinstance(e, sympy.Pow) and not e.exp.is_Integer:
        return False
    return isinstance(e, sympy.Symbol) or e.is_Integer or e.is_Float or type(e).__name__ in _ARITHMETIC


class Assembled(Runnable):
    """A compiled model. engine: None if everything stays in torch. report: what runs where. options: those that a plan of the whole model would have too."""

    def __init__(self, f: Functional, engine, report: Report, straight: bool, options: dict, followed):
        super().__init__(f.slots, [engine] if engine is not None else [], _way(f, engine, report, straight, followed), straight, followed)
        self.functional, self.engine, self.report, self.options = f, engine, report, options
        self.shown = [s for s in f.slots if s.kind == "state"]  # buffers that calls write are part of the module's state dict

    def with_engine(self, f: Functional, engine) -> "Assembled":
        """The same with another engine of the same plan, and the graph with its tensors."""
        return Assembled(f, engine, self.report, self.straight, self.options, None)


def _way(f, engine, report, straight, followed):
    if straight or engine is not None and engine.device is None:
        return of_engine(engine)
    if engine is not None and report.whole and _is_one_call_but_for_order(f):
        return OneCall(engine, [axes_of(f.orders.get(result)) for result in f.results])
    return TorchGraph(Shell(f, engine, report).build(), f.inputs, f.ranges, [slot for slot, _ in f.writes], followed)


def _name(target) -> str:
    return target.__name__ if isinstance(target, types.FunctionType) else str(target)


def in_torch(graph: torch.fx.Graph, reason: str, options: dict) -> Report:
    """The report of a graph that runs in torch as a whole. Raises UnsupportedError with fallback="error"."""
    if options.get("fallback", "torch") == "error":
        raise UnsupportedError(reason, remedy='compile with fallback="torch"')
    dryrun, options = split_dryrun(autocast_options.plain(options))
    _library.Options(options)  # refuses unknown names
    nodes = [n for n in graph.nodes if n.op in ("call_function", "call_method", "call_module")]
    entries = [{"name": n.name, "target": _name(n.target), "segment": None, "reason": reason, "origin": ""} for n in nodes]
    text = f"0 of {len(nodes)} operators in 0 engine segments; the model runs in torch: {reason}\n"
    report = Report({"operators": len(nodes), "in_engine": 0, "whole": False, "segments": [], "missing": [], "nodes": entries, "text": text})
    if dryrun is not None:
        report.write(dryrun)
    log.warning("the model runs in torch: %s", reason)
    return report


def split_dryrun(options: dict):
    """Where the option dryrun wants the report ("" for standard output, a path, a function that takes it, or None), and the other options."""
    rest = {name: value for name, value in options.items() if name != "dryrun"}
    asked = options.get("dryrun", False)
    if callable(asked):
        return asked, rest
    _library.Options({"dryrun": asked})  # refuses invalid values
    if asked in (False, "false"):
        return None, rest
    return "" if asked in (True, "true") else os.fspath(asked), rest


def assemble(f: Functional, options: dict, prepare=lambda model: None, for_file: bool = False, follow: bool = False) -> Assembled:
    """Compiles what engines can run.

    prepare(model): may set ranges and the signature before the build.
    for_file: see devices.placed.
    follow: look for changes of the weights' tensors before each run; otherwise the caller does."""
    dryrun, options = split_dryrun(low_precision.resolved(options, f)[0])
    options = devices.placed(options, f.device, for_file)
    f.wanted += _carriers(f)
    needed = writer.needed_nodes(f)
    followed = Followed(f.slots, [s for s in f.slots if s.node in needed]) if follow else None  # before anything reads the values
    f.called = f.output_names if _as_one_call(f) else ()  # a whole engine has the user's names of results
    captured, model, report = _captured(f, prepare, options)
    if f.called and not report.whole and options.get("fallback", "torch") != "error":
        f.called = ()
        captured, model, report = _captured(f, prepare, options)
    low_precision.tell_unused(report)
    if dryrun is not None:
        report.write(dryrun)
        report.leave_all_in_torch("dryrun")
    engine = None
    if report.segments or report.operators and options.get("fallback", "torch") == "error" and dryrun is None:
        engine = _engine.Engine(model.compile(options), values=dict(captured.weights), here=devices.runs(options["target"], f.device))
        engine.watch = followed
        if report.whole or options.get("fallback", "torch") == "error":
            report.all_in_one(engine)
    if report.in_torch and dryrun is None:
        log.warning("%s", report.summary())
    straight = engine is not None and report.whole and _as_one_call(f)
    return Assembled(f, engine, report, straight, of_a_plan(options), followed)


def _captured(f: Functional, prepare, options):
    captured = writer.write(f, options["target"])
    model = _library.Model.from_json(captured.json, captured.weights)
    prepare(model)
    return captured, model, Report(model.explain(options))


def _as_one_call(f: Functional) -> bool:
    """Whether an engine with the whole graph takes and gives just what the model does."""
    return not f.orders and _is_one_call_but_for_order(f)


def axes_of(order: list[int] | None) -> list[int] | None:
    """The axes of a result in the order of memory that give the result."""
    return None if order is None else [order.index(axis) for axis in range(len(order))]


def _is_one_call_but_for_order(f: Functional) -> bool:
    """The same up to the order of the results' axes."""
    results = [r for r in f.results if not isinstance(r, Node) or isinstance(r.meta.get("val"), torch.Tensor)]
    gives_all = len(results) == len(f.results) and all(isinstance(r, Node) for r in f.results) and f.results == f.wanted
    if f.writes or f.views or not gives_all or not all(s.kind in ("input", "weight") for s in f.slots):
        return False
    here = all(s.node.meta["val"].device.type == f.device.type and s.layout is None for s in f.inputs)
    return here and not any(_values.held_otherwise(n.meta["val"].dtype) for n in [*f.results, *(s.node for s in f.inputs)])


def _carriers(f: Functional) -> list[Node]:
    """The tensors from which torch reads the sizes that come from data among the results, and in views of results."""
    def symbols(value):
        return value.node.expr.free_symbols if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)) else set()

    def axes(node):
        value = node.meta.get("val")
        return set().union(*map(symbols, value.shape)) if isinstance(value, torch.Tensor) else set()

    read = [r for r in f.results if isinstance(r, Node)] + [n for view in f.views.values() for node in view.chain for n in node.all_input_nodes]
    missing = set().union(*(symbols(n.meta.get("val")) for n in read)) - set().union(*map(axes, [*(s.node for s in f.inputs), *f.wanted]))
    found = []
    for node in f.module.graph.nodes if missing else ():
        if node.op != "call_function" or not missing & (axes(node) | symbols(node.meta.get("val"))):
            continue
        carrier = node.args[0] if node.target in READS else same_part(node) if axes(node) & missing else None
        if isinstance(carrier, Node):
            missing -= axes(node) | symbols(node.meta.get("val"))
            if carrier.op == "call_function" and carrier not in found:
                found.append(carrier)
    return found


def of_a_plan(options):
    """The options without those that decide what runs in torch."""
    partition = {o["name"] for o in _library.options() if o["kind"] == "partition"}
    return {name: value for name, value in options.items() if name not in partition}


class Shell:
    """Builds the torch graph around the engine's functions."""

    def __init__(self, f: Functional, engine, report: Report):
        self.f, self.engine, self.report = f, engine, report
        self.graph = torch.fx.Graph()
        self.root = torch.nn.Module()
        self.env: dict[Node, Node] = {}
        self.calls: dict[int, list[Node]] = {}  # outputs of segments
        self.weights: dict[str, str] = {}     # state-dict name -> attribute of the root
        self.symbols: dict[sympy.Symbol, Node] = {}
        self.slots = {s.node: s for s in f.slots}
        self.numbers = writer.numbers_as_sizes(f)
        self.by_input = {s.name: s.node for s in f.slots if s.kind == "input" or s.node in self.numbers}
        self.by_state = {s.name: s.node for s in f.slots if s.kind == "state"}
        # An engine that is the whole model writes in place itself.
        self.in_place = engine is not None and report.whole
        self.segment_of, self.segments = {}, report.segments
        self.named = {n.name: n for n in f.module.graph.nodes}
        if engine is not None:
            for entry in report.nodes:
                if entry["segment"] is not None and entry["name"] in self.named:
                    self.segment_of[self.named[entry["name"]]] = entry["segment"]
        self.order = {n: i for i, n in enumerate(f.module.graph.nodes)}

    def build(self) -> torch.fx.GraphModule:
        f = self.f
        self._inputs()
        for slot in f.inputs:
            self._learn_sizes(slot.node, self.env[slot.node])
        needed = writer.needed_nodes(f)
        for node in f.module.graph.nodes:  # in the program's order, so that effects keep theirs
            if node.op == "call_function" and node in needed and node not in self.segment_of and self._runs_in_torch(node):
                self.get(node)
        # Everything is computed before anything is written.
        late = {result for result, view in f.views.items() if any(view.base is value or view.base is slot.node for slot, value in f.writes)}
        given = {result: self._result(result) for result in f.results if isinstance(result, Node) and result not in late}
        if self.in_place:
            self._call(0)
            for slot, value in f.writes:
                self.env[value] = self.get(slot.node)
        else:
            new = [(slot, value, self._fresh(value)) for slot, value in f.writes]
            for slot, value, made in new:
                place = self.get(slot.node)
                self.graph.call_function(torch.ops.aten.copy_.default, (place, made))
                self.env[value] = place  # from here on the place holds the new value
        given |= {result: self._result(result) for result in f.results if isinstance(result, Node) and result in late}
        self._output([given[r] if isinstance(r, Node) else r for r in f.results])
        self.graph.eliminate_dead_code(lambda n: n.op in ("placeholder", "output") or n.target is torch.ops.aten.copy_.default or writer.has_effects(n) or (self.in_place and n.op == "call_module"))
        module = torch.fx.GraphModule(self.root, self.graph, "Ingot")
        read = {n.target for n in self.graph.nodes if n.op == "get_attr"}  # torch drops the others from the module
        module.ingot_weights = {name: attribute for name, attribute in self.weights.items() if attribute in read}
        return module

    def _inputs(self):
        for slot in self.f.inputs:
            self.env[slot.node] = self.graph.placeholder(slot.node.name)

    def _output(self, results):
        self.graph.output(results)

    def _runs_in_torch(self, node):
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)) or node.target is operator.getitem:
            return False  # computed at its use
        if self.in_place and node.target in _SIZE_CHECKS:
            return not self._reads(node)  # the engine itself checks sizes that it reads from data
        if writer.is_assertion(node):
            return not self.in_place and writer.has_effects(node)
        return node.target is not torch.ops.aten._assert_tensor_metadata.default

    def _reads(self, node):
        """Whether a size, or a condition on sizes, depends on a symbol that no input's axis gives."""
        values = [n.meta.get("val") for n in node.all_input_nodes]
        return any(isinstance(v, (torch.SymInt, torch.SymBool)) and not v.node.expr.free_symbols <= self.symbols.keys() for v in values)

    def _segment_with(self, node: Node):
        """The segment that computes the node's value, or the list that the value is a part of; None if torch computes it."""
        return self.segment_of.get(node.args[0] if node.target is operator.getitem else node)

    def _fresh(self, value: Node):
        """The new value, or a copy of it if it shares memory with a place that is written."""
        base, _ = trace_view(value, lambda node: node in self.slots or self._segment_with(node) is not None)
        made = self.get(value)
        if base in self.slots and any(slot.node is base for slot, _ in self.f.writes):
            made = self.graph.call_function(torch.ops.aten.clone.default, (made,))
        return made

    def _result(self, result: Node) -> Node:
        value = result.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return self.get(result)
        if result not in self.f.views:
            return self.get(result)
        view = self.f.views[result]
        local = {view.base: self.get(view.base)}
        for node in view.chain:
            local[node] = self._copy(node, lambda n: local[n] if n in local else self.get(n))
            if local[node].target is torch.ops.aten.view.default:  # torch's functional graph has it for reshape too, which takes operands that lie otherwise
                local[node].target = torch.ops.aten.reshape.default
        return local[view.chain[-1]] if view.chain else local[view.base]

    # -- values

    def get(self, node: Node) -> Node:
        if node in self.env:
            return self.env[node]
        if node in self.slots:
            made = self._weight(self.slots[node])
        elif (first := same_part(node)) is not node:
            made = self.get(first)
        elif (index := self._segment_with(node)) is not None:
            self._call(index)
            if node not in self.env:
                raise InputError(f"{node.name} is needed outside its segment, but is not an output of it")
            return self.env[node]
        elif isinstance(node.meta.get("val"), torch.SymInt) and (made := self._size(node.meta["val"])) is not None:
            pass
        elif node.op == "get_attr":
            made = self._attribute(node)
        else:
            made = self._copy(node, self.get)
            self._learn_sizes(node, made)
        self.env[node] = made
        return made

    def _copy(self, node: Node, get) -> Node:
        made = self.graph.node_copy(node, get)
        made.meta = dict(node.meta)
        return made

    def _weight(self, slot) -> Node:
        name = "w_" + "".join(c if c.isalnum() else "_" for c in slot.name)
        while hasattr(self.root, name):
            name += "_"
        # The model's own tensor, so that writes reach the model.
        self.root.register_buffer(name, slot.tensor.detach(), persistent=False)
        self.weights[slot.name] = name
        return self.graph.get_attr(name)

    def _attribute(self, node: Node) -> Node:
        value = self.f.module
        for part in node.target.split("."):
            value = getattr(value, part)
        name = node.target.replace(".", "_")
        if not hasattr(self.root, name):
            if isinstance(value, torch.nn.Module):
                self.root.add_module(name, value)
            else:
                setattr(self.root, name, value)
        return self.graph.get_attr(name)

    def _call(self, index: int):
        if index in self.calls:
            return
        segment, names = self.segments[index], self.named
        inputs = [names[i] if isinstance(i, str) else self.by_state[i["state"]] if "state" in i else self.by_input[i["input"]] for i in segment["inputs"]]
        self.calls[index] = self._segment(index, [self._moved(self.get(node), node, self.f.device) for node in inputs])
        for i, (part, name) in enumerate(zip(self.calls[index], segment["outputs"])):
            node = names[name if name in names else name.removesuffix("_in_memory_order")]
            part = self._as_given(part, node.meta["val"].dtype)
            if name in names:
                if order := segment.get("orders", [[]] * (i + 1))[i]:  # torch reads it with the strides it recorded
                    part = self.graph.call_function(torch.ops.aten.permute.default, (part, axes_of(order)))
            else:  # see writer.permuted
                order = self.f.orders[node]
                part = self.graph.call_function(torch.ops.aten.permute.default, (part, axes_of(order)))
            if (value := node.meta.get("val")).device.type != self.f.device.type:  # made from constants: torch expects it on its recorded device
                part = self.graph.call_function(torch.ops.aten._to_copy.default, (part,), {"device": value.device})
            self.env[node] = part
            self._learn_sizes(node, part)

    def _moved(self, made: Node, node: Node, device: torch.device) -> Node:
        """The value on the engine's device; a number as the sizes of a tensor (see writer.py)."""
        if node in self.numbers:
            sizes = [made]
            if self.numbers[node]:
                below = self.graph.call_function(operator.neg, (made,))
                sizes = [self.graph.call_function(torch.sym_max, (n, 0)) for n in (made, below)]
            return self.graph.call_function(torch.ops.aten.empty.memory_format, ([*sizes, 0],), {"dtype": torch.uint8, "device": device})
        made = self._as_held(made, node.meta["val"].dtype)
        if node.meta["val"].device.type == device.type:
            return made
        return self.graph.call_function(torch.ops.aten._to_copy.default, (made,), {"device": device})

    def _as_held(self, made: Node, dtype: torch.dtype) -> Node:
        """A tensor of this type as plans have it, see _values.held."""
        if dtype.is_complex:
            made = self.graph.call_function(torch.ops.aten.resolve_conj.default, (made,))  # the caller's tensor may be a lazy conjugate
            return self.graph.call_function(torch.ops.aten.view_as_real.default, (made,))
        signed = _values.SIGNED.get(_values.name_of(dtype))
        return made if signed is None else self.graph.call_function(torch.ops.aten.view.dtype, (made, getattr(torch, signed)))

    def _as_given(self, made: Node, dtype: torch.dtype) -> Node:
        """The reverse, of an engine's result."""
        if dtype.is_complex:
            return self.graph.call_function(torch.ops.aten.view_as_complex.default, (made,))
        return self.graph.call_function(torch.ops.aten.view.dtype, (made, dtype)) if _values.name_of(dtype) in _values.SIGNED else made

    def _segment(self, index: int, inputs: list[Node]) -> list[Node]:
        """Adds a call of an engine's function at this point of the graph; returns its outputs."""
        self.root.add_module(f"segment_{index}", Segment(self.engine, index))
        call = self.graph.call_module(f"segment_{index}", tuple(inputs))
        return [self.graph.call_function(operator.getitem, (call, i)) for i in range(len(self.segments[index]["outputs"]))]

    # -- sizes

    def _learn_sizes(self, node: Node, made: Node):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            found = places((axis, size) for axis, size in enumerate(value.shape))
        else:
            found = places([(None, value)])
        for symbol, (axis, of) in found.items():
            if symbol not in self.symbols:
                size = made if axis is None else self.graph.call_function(torch.ops.aten.sym_size.int, (made, axis))
                size = self.graph.call_function(operator.sub, (size, of.offset)) if of.offset else size
                self.symbols[symbol] = self.graph.call_function(operator.floordiv, (size, of.factor)) if of.factor != 1 else size

    def _size(self, value: torch.SymInt):
        """A size as nodes of arithmetic on sizes that are known at this point; None if one is not, or the arithmetic is none of these."""
        expression = value.node.expr
        if not expression.free_symbols <= self.symbols.keys():
            return None
        if isinstance(expression, sympy.Symbol):
            return self.symbols[expression]
        if expression.is_Integer:
            return int(expression)
        if not all(map(_is_arithmetic, sympy.preorder_traversal(expression))):
            return None
        return self._arithmetic(expression)

    def _arithmetic(self, e):
        if isinstance(e, sympy.Symbol):
            return self.symbols[e]
        if e.is_Integer or e.is_Float:
            return int(e) if e.is_Integer else float(e)
        parts = [self._arithmetic(a) for a in e.args]
        function = _ARITHMETIC[type(e).__name__]
        if len(parts) == 1:
            return self.graph.call_function(function, (parts[0],)) if isinstance(parts[0], Node) else function(parts[0])
        made = parts[0]
        for part in parts[1:]:
            made = self.graph.call_function(function, (made, part)) if isinstance(made, Node) or isinstance(part, Node) else function(made, part)
        return made
