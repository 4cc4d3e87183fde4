"""A functional graph becomes engines and, around them, what stays in torch."""

from __future__ import annotations

import logging
import operator
import os

import sympy
import torch

from . import _engine, _op, capture
from .errors import InputError, UnsupportedError
from .functional import Functional, Node
from .report import Report

log = logging.getLogger("ingot")


class Segment(torch.nn.Module):
    """One function of an engine, as a step of a torch graph: takes and gives a list of tensors."""

    def __init__(self, engine: _engine.Engine, function: int):
        super().__init__()
        self.engine, self.function = engine, function
        self._runner = _op.Runner(engine, function)

    def forward(self, *tensors):  # states after inputs
        return self._runner(list(tensors))

    __call__ = forward  # nobody hooks it: the way through nn.Module would only cost time

    def extra_repr(self):
        return f"{self.engine.functions[self.function]}: {len(self.engine.inspect()['functions'][self.function]['programs'][0]['steps'])} steps"


class Assembled:
    """What runs a model.

    engine: None when everything stays in torch. report: what runs where. run: the flat inputs of a call (slots of kind "input" and
    "number", in order) to the flat results. straight: run is one call of the engine, whose outputs are the results.
    """

    def __init__(self, f: Functional, captured: capture.Captured, engine, report: Report, straight: bool):
        self.functional, self.engine, self.report, self.straight = f, engine, report, straight
        self.captured = captured
        if straight:
            self.graph = None
            self.run = _op.Runner(engine)
        else:
            self.graph = _Shell(f, engine, report).build()
            self._check, self._written = _checker(f), _written_memory(f)
            self._forward = self.graph.forward
            self._checked: set = set()  # kinds of inputs that were found right, the last few
            self.run = self._run

    def _run(self, flat):
        try:
            kind = tuple([(t.dtype, t.shape, t.is_cpu) if isinstance(t, torch.Tensor) else None for t in flat])
        except RuntimeError:  # symbolic sizes, while torch traces
            kind = None
        if kind not in self._checked:
            self._check(flat)
            if len(self._checked) >= 64:
                self._checked.clear()
            self._checked.add(kind)
        if self._written is not None:
            self._written(flat)
        with torch.no_grad():
            return self._forward(*flat)

    def update_weights(self, state_dict, strict):
        """Other values for weights and buffers by state-dict name."""
        slots = {name: s for s in self.functional.slots if s.kind in ("weight", "state") for name in (*s.tied, s.name)}
        state_dict = {name: torch.as_tensor(value) for name, value in state_dict.items()}
        for name, value in state_dict.items():
            if name not in slots:
                if strict:
                    raise InputError(f"the engine has no weight {name!r}")
                continue
            want = slots[name].tensor
            if (value.dtype, value.shape) != (want.dtype, want.shape):
                short = lambda t: f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}"  # noqa: E731
                raise InputError(f"weight {name!r} is {short(value)}, but the engine was built for {short(want)}")
        known = {n: v for n, v in state_dict.items() if n in slots}
        for name, value in known.items():
            if slots[name].kind == "state":
                slots[name].tensor.detach().copy_(value)
        self.replace_weights({slots[n].name: v for n, v in known.items() if slots[n].kind == "weight"})

    def replace_state(self, slot):
        """The slot has another tensor now."""
        setattr(self.graph, self.graph.ingot_weights[slot.name], slot.tensor.detach())

    def replace_weights(self, tensors: dict[str, torch.Tensor]):
        """Other tensors for weights, in the engine and in what torch runs."""
        if self.engine is not None:
            held = {w["name"] for w in self.engine.inspect()["weights"]}
            self.engine.update_weights({n: t.detach() for n, t in tensors.items() if n in held})
        if self.graph is not None:
            for name, tensor in tensors.items():
                if (attribute := self.graph.ingot_weights.get(name)) is not None:
                    setattr(self.graph, attribute, tensor.detach())


def in_torch(graph: torch.fx.Graph, reason: str, options: dict) -> Report:
    """The report of a graph that runs in torch as it is. With fallback="error", the UnsupportedError."""
    if options.get("fallback", "torch") == "error":
        raise UnsupportedError(reason, remedy='compile with fallback="torch"')
    _engine._Options({k: v for k, v in options.items() if k != "dryrun"})  # refuses unknown names
    nodes = [n for n in graph.nodes if n.op in ("call_function", "call_method", "call_module")]
    entries = [{"name": n.name, "target": str(n.target), "segment": None, "reason": reason, "origin": ""} for n in nodes]
    text = f"0 of {len(nodes)} operators in 0 engine segments; the model runs in torch: {reason}\n"
    report = Report({"operators": len(nodes), "in_engine": 0, "whole": False, "segments": [], "missing": [], "nodes": entries, "text": text})
    log.warning("the model runs in torch: %s", reason)
    return report


def assemble(f: Functional, options: dict, prepare=lambda model: None) -> Assembled:
    """Compiles what engines can run. `prepare(model)` may set ranges and the signature before the build."""
    options = dict(options)
    dryrun = options.pop("dryrun", False)
    captured = capture.write(f)
    model = _engine.Model.from_json(captured.json, captured.weights)
    prepare(model)
    report = Report(model.explain(options))
    if dryrun:
        report.write(None if dryrun is True else os.fspath(dryrun))
        report.leave_all_in_torch("dryrun")
    engine = None
    if report.segments or report.operators and options.get("fallback", "torch") == "error" and not dryrun:
        engine = _engine.Engine(model.compile(options), keep=[t for _, t in captured.weights])
        if report.whole or options.get("fallback", "torch") == "error":
            report.all_in_one(engine)
    if report.in_torch:
        log.warning("%s", report.summary())
    results = [r for r in f.results if not isinstance(r, Node) or isinstance(r.meta.get("val"), torch.Tensor)]
    straight = (
        engine is not None and report.whole and not f.writes and not f.views and not f.orders and len(results) == len(f.results)
        and all(isinstance(r, Node) for r in f.results) and f.results == f.wanted and all(s.kind in ("input", "weight") for s in f.slots)
    )  # fmt: skip
    return Assembled(f, captured, engine, report, straight)


class _Shell:
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
        self.by_input = {s.name: s.node for s in f.slots if s.kind == "input"}
        self.by_state = {s.name: s.node for s in f.slots if s.kind == "state"}
        # One engine that is the whole model writes in place itself.
        self.in_place = engine is not None and report.whole
        self.segment_of, self.segments = {}, report.segments
        if engine is not None:
            names = {n.name: n for n in f.module.graph.nodes}
            for entry in report.nodes:
                if entry["segment"] is not None and entry["name"] in names:
                    self.segment_of[names[entry["name"]]] = entry["segment"]
        self.order = {n: i for i, n in enumerate(f.module.graph.nodes)}

    def build(self) -> torch.fx.GraphModule:
        f = self.f
        self._inputs()
        for slot in f.inputs:
            self._learn_sizes(slot.node, self.env[slot.node])
        needed = capture._needed(f)
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
                self.env[value] = place  # from here on the new value is what is there
        given |= {result: self._result(result) for result in f.results if isinstance(result, Node) and result in late}
        self._output([given[r] if isinstance(r, Node) else r for r in f.results])
        self.graph.eliminate_dead_code(lambda n: n.op in ("placeholder", "output") or n.target is torch.ops.aten.copy_.default or capture.has_effects(n) or (self.in_place and n.op == "call_module"))
        module = torch.fx.GraphModule(self.root, self.graph, "Ingot")
        module.ingot_weights = self.weights
        return module

    def _inputs(self):
        for slot in self.f.inputs:
            self.env[slot.node] = self.graph.placeholder(slot.node.name)

    def _output(self, results):
        self.graph.output(results)

    def _runs_in_torch(self, node):
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)) or node.target is operator.getitem:
            return False  # made where it is used
        return node.target is not torch.ops.aten._assert_tensor_metadata.default

    def _fresh(self, value: Node):
        """A new value; a copy when it is the memory of something that is written itself."""
        base = value
        while base.op == "call_function" and base not in self.segment_of and base.all_input_nodes and self._same_memory(base, base.all_input_nodes[0]):
            base = base.all_input_nodes[0]
        made = self.get(value)
        if base in self.slots and any(slot.node is base for slot, _ in self.f.writes):
            made = self.graph.call_function(torch.ops.aten.clone.default, (made,))
        return made

    def _same_memory(self, a, b):
        from .functional import _storage

        return _storage(a) is not None and _storage(a) == _storage(b)

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
        return local[view.chain[-1]] if view.chain else local[view.base]

    # -- values

    def get(self, node: Node) -> Node:
        if node in self.env:
            return self.env[node]
        if node in self.slots:
            made = self._weight(self.slots[node])
        elif (first := capture.same_part(node)) is not node:
            made = self.get(first)
        elif node in self.segment_of or (node.target is operator.getitem and node.args[0] in self.segment_of):
            self._call(self.segment_of[node if node in self.segment_of else node.args[0]])
            if node not in self.env:
                raise InputError(f"{node.name} is needed outside its segment, but is no output of it")
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
        # The model's own tensor: what it writes is written there.
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
        segment = self.segments[index]
        names = {n.name: n for n in self.f.module.graph.nodes}
        inputs = [self.get(names[i] if isinstance(i, str) else self.by_state[i["state"]] if "state" in i else self.by_input[i["input"]]) for i in segment["inputs"]]
        self.calls[index] = self._segment(index, inputs)
        for i, (part, name) in enumerate(zip(self.calls[index], segment["outputs"])):
            if name in names:
                node = names[name]
                if order := segment.get("orders", [[]] * (i + 1))[i]:  # torch reads it with the strides it recorded
                    part = self.graph.call_function(torch.ops.aten.permute.default, (part, [order.index(axis) for axis in range(len(order))]))
            else:  # see capture.permuted
                node = names[name.removesuffix("_in_memory_order")]
                order = self.f.orders[node]
                part = self.graph.call_function(torch.ops.aten.permute.default, (part, [order.index(axis) for axis in range(len(order))]))
            self.env[node] = part
            self._learn_sizes(node, part)

    def _segment(self, index: int, inputs: list[Node]) -> list[Node]:
        """The outputs of an engine's function, called where the graph is now."""
        self.root.add_module(f"segment_{index}", Segment(self.engine, index))
        call = self.graph.call_module(f"segment_{index}", tuple(inputs))
        return [self.graph.call_function(operator.getitem, (call, i)) for i in range(len(self.segments[index]["outputs"]))]

    # -- sizes

    def _learn_sizes(self, node: Node, made: Node):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol):
            self.symbols.setdefault(value.node.expr, made)
        elif isinstance(value, torch.Tensor):
            for axis, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol) and size.node.expr not in self.symbols:
                    self.symbols[size.node.expr] = self.graph.call_function(torch.ops.aten.sym_size.int, (made, axis))

    def _size(self, value: torch.SymInt):
        """Arithmetic on sizes that are known by now; None when one is not."""
        expression = value.node.expr
        if not expression.free_symbols <= self.symbols.keys():
            return None
        if isinstance(expression, sympy.Symbol):
            return self.symbols[expression]
        if expression.is_Integer:
            return int(expression)
        return self._arithmetic(expression)

    def _arithmetic(self, e):
        if isinstance(e, sympy.Symbol):
            return self.symbols[e]
        if e.is_Integer:
            return int(e)
        parts = [self._arithmetic(a) for a in e.args]
        if isinstance(e, sympy.Pow) and not isinstance(parts[1], int):
            raise InputError(f"the size {e} cannot be computed")
        name = type(e).__name__
        function = {"Add": operator.add, "Mul": operator.mul, "Pow": operator.pow, "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Mod": operator.mod,
                    "PythonMod": operator.mod, "Max": torch.sym_max, "Min": torch.sym_min}.get(name)  # fmt: skip
        if function is None:
            raise InputError(f"the size {e} cannot be computed")
        made = parts[0]
        for part in parts[1:]:
            made = self.graph.call_function(function, (made, part)) if isinstance(made, Node) or isinstance(part, Node) else function(made, part)
        return made


def _checker(f: Functional):
    """A function that refuses inputs of another dtype, rank or size than the graph was made for."""
    wanted = []
    for position, slot in enumerate(f.inputs):
        value = slot.node.meta.get("val")
        if isinstance(value, torch.Tensor):
            wanted.append((position, slot.name, value.dtype, [s if isinstance(s, int) else None for s in value.shape], value.device.type))
    ranges = {}
    for position, slot in enumerate(f.inputs):
        value = slot.node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        for axis, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol):
                limits = f.ranges(size.node.expr)
                low, high = (capture._bound(limits.lower) or 0, capture._bound(limits.upper)) if limits is not None else (0, None)
                ranges.setdefault(size.node.expr, (low, high, []))[2].append((position, axis, slot.name))

    def check(flat):
        if len(flat) != len(f.inputs):
            raise InputError(f"the model takes {_op.count(len(f.inputs), 'input')}, but {_op.given(flat)}")
        for position, name, dtype, shape, device in wanted:
            tensor = flat[position]
            if not isinstance(tensor, torch.Tensor):
                raise InputError(f"input {name!r} is of type {type(tensor).__name__}, but the engine takes a tensor there")
            if tensor.device.type != device:
                raise InputError(f"input {name!r} is on {tensor.device}, but the model was compiled for {device}", remedy=f"give {name}.to({device!r})")
            if tensor.dtype is not dtype:
                short = str(dtype).removeprefix("torch.")
                raise InputError(f"input {name!r} is {str(tensor.dtype).removeprefix('torch.')}, but the engine takes {short}", remedy=f"convert it to {short}")
            if tensor.dim() != len(shape):
                raise InputError(f"input {name!r} has rank {tensor.dim()}, but the engine takes rank {len(shape)}")
            for axis, size in enumerate(shape):
                if size is not None and tensor.shape[axis] != size:
                    raise InputError(
                        f"axis {axis} of input {name!r} (shape {list(tensor.shape)}) has size {tensor.shape[axis]}, but the plan was built for {size} there",
                        remedy="give this size, or compile with a range for this axis",
                    )
        for low, high, places in ranges.values():
            first = None
            for position, axis, name in places:
                size = flat[position].shape[axis]
                if size < low or (high is not None and size > high):
                    raise InputError(
                        f"axis {axis} of input {name!r} has size {size}, outside the range {low}..{high} the plan was built for",
                        remedy="compile with a wider range for this axis",
                    )
                if first is None:
                    first = size
                elif size != first:
                    raise InputError(
                        f"axis {axis} of input {name!r} (shape {list(flat[position].shape)}) has size {size}, but the sizes of the other inputs make it {first}",
                        remedy="give inputs whose sizes agree",
                    )

    return check


def _written_memory(f: Functional):
    """A function that refuses inputs that share memory with what the graph writes; None when it writes nothing."""
    written = [i for i, slot in enumerate(f.inputs) if any(slot is s for s, _ in f.writes)]
    states = [s for s, _ in f.writes if s.kind == "state"]
    if not written and not states:
        return None

    def check(flat):
        tensors = [(f"input {slot.name!r}", t) for slot, t in zip(f.inputs, flat) if isinstance(t, torch.Tensor)]
        tensors += [(f"buffer {s.name!r}", s.tensor) for s in states]
        spans = [(*_memory(t), name, t) for name, t in tensors]
        own = {id(flat[i]) for i in written} | {id(s.tensor) for s in states}
        for n, (begin, end, name, t) in enumerate(spans):
            for other_begin, other_end, other, u in spans[n + 1 :]:
                if begin < other_end and other_begin < end and (id(t) in own or id(u) in own):
                    raise InputError(
                        f"{name} and {other} share memory, and the model writes to one of them; it was captured with memory of their own for each",
                        remedy="give a clone() of one of them, or compile with inputs that share memory in the same way",
                    )

    return check


def _memory(tensor):
    """First and one past the last byte that a tensor's elements lie in."""
    if tensor.numel() == 0:
        return 0, 0
    begin = tensor.data_ptr()
    return begin, begin + (sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1) * tensor.element_size()
