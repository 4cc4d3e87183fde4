"""A model as one functional torch graph, from torch.export or from torch.compile. Partition and engines are made from it.

A functional graph writes nothing in place. For each buffer and input that the model writes, its new value is listed after the results and copied to its place after
the run. Fake tensors record which values share memory, so that results that are views in eager are views here too.
"""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Callable

import torch

from ..errors import InputError, UnsupportedError
from ..torch_internals.operators import OF_VMAP, DispatchKey, HigherOrderOperator, OpOverload, schema_of
from ..torch_internals.sizes import ValueRanges, free_symbols
from ..torch_internals.tensors import FakeTensor, address_of, is_contiguous_or_false, is_wrapped_by_functorch
from . import autocast, composites, devices, fix, reshapes, subclasses
from .fixes import order, result_types
from .memory import einsum_of_one, gives_new, hint, of_memory, refuse_unexpressible
from .strides import corrected
from .switches.branches import branches_of
from .traced import NotFunctional, Traced, needs_values

Node = torch.fx.Node


def computed_from(nodes) -> set[Node]:
    """The nodes and all that they are computed from."""
    found, left = set(), list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.all_input_nodes
    return found


@dataclass
class Slot:
    """A placeholder of the graph.

    kind: "weight" (constant while nothing replaces it), "input" (given with each call), "state" (a buffer that the model writes),
    "number" (an int, float, bool, str or None given with each call).
    """

    node: Node
    kind: str
    name: str                                 # the user's name of an input, the state-dict name of a weight or buffer
    tensor: torch.Tensor | None = None        # for a weight or buffer
    source: str = "parameter"                 # kind of weight: "parameter", "buffer" or "constant"
    tied: tuple[str, ...] = ()                # other state-dict names of the same tensor
    layout: dict | None = None                # the layout of an input that must have its example's layout (see reshapes.py)


@dataclass
class View:
    """A result that is a view: `chain` applied to `base` (a placeholder, a new value, or another result)."""

    base: Node
    chain: list[Node]


@dataclass
class Lay:
    """A result before torch made the graph functional: its shape, type and strides, and the index of the input whose memory it is part of."""

    shape: list
    dtype: torch.dtype | None  # None: any
    strides: list
    owner: int | None


@dataclass
class Functional:
    module: torch.fx.GraphModule
    slots: list[Slot]
    results: list[Any]                        # flat results of the user: nodes or constants
    writes: list[tuple[Slot, Node]]           # a slot and its new value
    ranges: Callable = lambda symbol: None    # a symbol's value range
    views: dict[Node, View] = field(default_factory=dict)
    wanted: list[Node] = field(default_factory=list)  # values to compute besides the written ones, in order
    orders: dict[Node, list[int]] = field(default_factory=dict)  # for wanted results that are not row-major: axes from outermost to innermost in memory
    before: list | None = None                # a `Lay` (or None) of each result, from the graph before torch made it functional, which may lose the layout
    program: torch.export.ExportedProgram | None = None  # the program with this graph
    output_names: tuple[str, ...] = ()        # the user's names of the results that are tensors, for an engine without torch
    called: tuple[str | None, ...] = ()       # the names that `wanted` get, where they are the user's

    def __post_init__(self):
        self._verify()
        self._copy_shared_values()
        self._split_views()

    @property
    def inputs(self) -> list[Slot]:
        return [s for s in self.slots if s.kind in ("input", "number")]

    @cached_property
    def device(self) -> torch.device:
        """The device of its engine: that of its weights and inputs; if none is a tensor, that of the tensors that it makes."""
        given = [s for s in self.slots if s.tensor is not None or isinstance(s.node.meta.get("val"), torch.Tensor)]
        return devices.of_slots(given or [Slot(n, "value", n.name) for n in self.module.graph.nodes if n.op == "call_function"])

    def with_tensors(self, tensors: dict[Node, torch.Tensor]) -> "Functional":
        """The graph with other tensors for weights and buffers, by placeholder. They are slots of its own."""
        new = {slot.node: replace(slot, tensor=tensors.get(slot.node, slot.tensor)) for slot in self.slots}
        made = copy.copy(self)  # not dataclasses.replace, which would split the views again
        made.slots, made.writes = list(new.values()), [(new[slot.node], value) for slot, value in self.writes]
        return made

    def complete(self) -> "Functional":
        """The graph with every result as a separate row-major tensor, for an engine without torch."""
        whole = replace(self)
        whole.views, whole.orders = {}, {}
        whole.wanted = self._tensors()
        whole.called = self.output_names
        return whole

    def _tensors(self) -> list[Node]:
        return [r for r in self.results if isinstance(r, Node) and isinstance(r.meta.get("val"), torch.Tensor)]

    def named(self, names) -> "Functional":
        """The same with the user's names of the results that are tensors. InputError for names that do not fit."""
        names, count = tuple(names), len(self._tensors())
        if len(names) != count:
            raise InputError(f"{len(names)} output names are given, but the model has {count} results that are tensors")
        inputs = {s.name for s in self.inputs}
        for name in names:
            if not isinstance(name, str) or not name:
                raise InputError(f"{name!r} is not a name of an output", remedy="give strings")
            if names.count(name) > 1 or name in inputs:
                raise InputError(f"an output is named {name!r}, as {'an input' if name in inputs else 'another one'} is", remedy="give it another name")
        self.output_names = names
        return self

    def _verify(self):
        """Checks that the functional graph returns and writes the same types and shapes. squeeze_ of an input changes the caller's tensor, which no new value shows,
        and some of torch's decompositions are wrong (copy.out)."""
        for slot, value in self.writes:
            new, old = value.meta["val"], slot.node.meta["val"]
            if new.dtype != old.dtype or not same_sizes(new.shape, old.shape):
                raise NotFunctional(f"it changes the shape or type of {slot.name!r} in place")
        for lay, result in zip(self.before or (), self.results):
            made = _strided(result)
            if lay is not None and made is not None and (lay.dtype not in (None, made.dtype) or not same_sizes(made.shape, lay.shape)):
                raise NotFunctional(f"torch's functional graph gives {list(made.shape)} ({made.dtype}) where the model gives {lay.shape} ({lay.dtype})")

    def _copy_shared_values(self):
        """Gives each written value its own node that is not an input: `w.copy_(x)` writes x itself. Such a value is copied, also for results that are w."""
        seen, places = {s.node for s in self.slots}, {slot.node: i for i, slot in enumerate(self.slots)}
        writes = []
        for slot, value in self.writes:
            if value in seen:
                copy = self._copy_of(value)
                for i, (lay, result) in enumerate(zip(self.before or (), self.results)):
                    if lay is not None and lay.owner == places[slot.node] and isinstance(result, Node):
                        self.results[i] = self._view_of(copy, value, result)
                value = copy
            seen.add(value)
            writes.append((slot, value))
        self.writes = writes

    def _copy_of(self, node: Node) -> Node:
        """Adds a dense row-major copy at the end of the graph."""
        graph, value = self.module.graph, node.meta["val"]
        with graph.inserting_before(graph.output_node()), value.fake_mode:
            copy = graph.call_function(torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
            copy.meta = {**node.meta, "val": value.clone(memory_format=torch.contiguous_format)}
        return copy

    def _view_of(self, other: Node, base: Node, result: Node) -> Node:
        """The result as a view of `base`; the result itself if it is none."""
        end, chain = trace_view(result, lambda node: node is base)
        made = {base: other}
        for node in chain if end is base else ():
            graph, read = self.module.graph, lambda n: n.meta["val"]
            with graph.inserting_before(graph.output_node()), read(other).fake_mode:
                made[node] = graph.node_copy(node, lambda n: made.get(n, n))
                made[node].meta["val"] = node.target(*torch.fx.map_arg(made[node].args, read), **torch.fx.map_arg(made[node].kwargs, read))
        return made.get(result, result)

    def _split_views(self):
        self._seen = set(self.wanted)
        slots = {s.node for s in self.slots}
        written = {value: slot for slot, value in self.writes}
        given = slots | written.keys()
        self._keep_copies(given)
        before = {r: lay for r, lay in zip(self.results, self.before or ()) if lay is not None and isinstance(r, Node) and len(lay.strides) == r.meta["val"].dim()}
        strides = corrected(self.module.graph, {value: slot.node for slot, value in self.writes})
        lost = {}
        for r, lay in before.items():
            shape, recorded = r.meta["val"].shape, r.meta["val"].stride()
            # Dynamo's earlier graph also has recorded strides; an exported graph has corrected ones and keeps the in-place operators.
            if _differ(shape, lay.strides, strides.get(r, recorded)) and (self.program is not None or _differ(shape, lay.strides, recorded)):
                lost[r] = lay.strides
        strides |= lost
        traced = {}
        for result in self.results:
            if isinstance(result, Node) and isinstance(result.meta.get("val"), torch.Tensor) and result not in traced:
                base, chain = trace_view(result, given.__contains__)
                # A view of a given tensor's memory has the strides of that memory; otherwise the earlier strides count.
                traced[result] = (result, []) if result in lost and base not in given else (base, chain)
        shared: dict[Node, int] = {}
        for base, _ in traced.values():
            shared[base] = shared.get(base, 0) + 1
        for result, (base, chain) in traced.items():
            if base in given or (chain and (shared[base] > 1 or base in strides or not _is_whole(result, base))):
                self.views[result] = View(base, chain)
                for other in (n for node in chain for n in node.all_input_nodes if n not in (base, *chain)):  # reshape_as reads another tensor's shape
                    if isinstance(other.meta.get("val"), torch.Tensor):
                        self._want(other, slots)
        for result in self.results:
            if not isinstance(result, Node) or not isinstance(result.meta.get("val"), torch.Tensor):
                continue
            base = self.views[result].base if result in self.views else result
            if base not in written and self._want(base, slots):
                value = base.meta["val"]
                if (order := order_in_memory(value.shape, strides.get(base, value.stride()))) is not None:
                    self.orders[base] = order

    def _keep_copies(self, given):
        """Restores copies. A copy of given memory (contiguous() of a strided input that is written) may have become a view of the new value, which is dense."""
        for i, lay in enumerate(self.before or ()):
            result = self.results[i]
            if lay is not None and lay.owner is None and isinstance(result, Node) and trace_view(result, given.__contains__)[0] in given:
                self.results[i] = self._copy_of(result)

    def _want(self, node, slots):
        if node in slots or node in self._seen:
            return False
        self._seen.add(node)
        self.wanted.append(node)
        return True


def _storage(node: Node):
    return None if gives_new(node) else of_memory(node.meta.get("val"))


def trace_view(node: Node, stop: Callable[[Node], bool]):
    """The tensor whose memory `node` is a view of, or the first node on the way for which `stop` is true; and the nodes from there to `node`."""
    chain = []
    while not stop(node) and node.op == "call_function":
        # A part of a list (split, unbind) is a view if the list is a list of views.
        maker = node.args[0] if node.target is operator.getitem else node
        memory = _storage(node)
        below = next((a for a in _operands(maker, node) if memory is not None and _storage(a) == memory), None) if maker.op == "call_function" else None
        if below is None and (is_view(maker.target) or einsum_of_one(maker) is not None):  # the value recorded before the graph was functional may have other memory
            below = maker.all_input_nodes[0]
        if below is None:
            break
        chain += [node] if maker is node else [node, maker]
        node = below
    return node, chain[::-1]


def _operands(maker: Node, result: Node) -> list[Node]:
    """What the result may be a view of. Of as many operands as results (meshgrid, broadcast_tensors) it is the one in its place."""
    given = maker.args[0] if maker.args else None
    if maker is not result and isinstance(given, (list, tuple)) and len(given) == len(maker.meta.get("val", ())) and isinstance(given[result.args[1]], Node):
        return [given[result.args[1]]]
    return maker.all_input_nodes


def is_view(target) -> bool:
    """True if the operator always returns a view. Operators that torch composes of others (reshape, contiguous) may copy."""
    return isinstance(target, OpOverload) and target.is_view and not target.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)


def _is_whole(node: Node, base: Node):
    """True if the view covers all of its base, in any order of the axes, so it cannot be distinguished from a separate tensor."""
    value, whole = node.meta["val"], base.meta.get("val")
    if not isinstance(whole, torch.Tensor) or not _zero(value.storage_offset()) or str(_numbers(value)) != str(_numbers(whole)):
        return False
    return is_contiguous_or_false(value) or order_in_memory(value.shape, value.stride()) is not None


def _numbers(tensor):
    """How many real numbers a tensor holds."""
    return tensor.numel() * 2 if tensor.is_complex() else tensor.numel()


def _zero(size):
    return isinstance(size, int) and size == 0


def order_in_memory(shape, strides):
    """Axes from outermost to innermost if a tensor is dense but not row-major; None if it is row-major or has gaps."""
    strides, sizes = _hints(strides), _hints(shape)
    if None in strides or None in sizes:
        return None
    order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis))
    if order == list(range(len(sizes))):
        return None
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= sizes[axis]
    return order


def _hints(sizes):
    return [hint(s) for s in sizes]


def _differ(shape, strides, others):
    """True if the strides place elements differently; strides of axes of size 1 do not count."""
    return any(size != 1 and a != b for size, a, b in zip(_hints(shape), _hints(strides), _hints(others)))


def same_sizes(some, others):
    """Sizes that depend on data count as equal to any size."""
    return len(some) == len(others) and all(a == b or None in (a, b) for a, b in zip(_hints(some), _hints(others)))


# ---- the two ways in


def from_exported(program: torch.export.ExportedProgram, chosen: dict[str, str] | None = None) -> Functional:
    """The graph of an ExportedProgram, made functional if it writes in place. `chosen`: the user's names of inputs."""
    from torch.export.graph_signature import InputKind, OutputKind

    _refuse_lost_tensors(program)
    program = subclasses.opened(program)
    layouts, conditions = reshapes.hang_on(program.graph), branches_of(program)
    before, casts = None, autocast.reaches(program.graph_module) or autocast.recorded(program.graph) or composites.cast_in_regions(program.graph_module)
    traced = Traced.of_program(program, casts=casts)
    fix.run(order.TRACED, traced)
    program = traced.program()
    if casts or _writes_in_place(program.graph) or composites.in_graph(program.graph_module):
        values = next(n for n in program.graph.nodes if n.op == "output").args[0]
        kinds = [s.kind is OutputKind.USER_OUTPUT for s in program.graph_signature.output_specs]
        before = lays([v for v, user in zip(values, kinds) if user], [n for n in program.graph.nodes if n.op == "placeholder"], typed=not casts and result_types.is_right(program.graph))
        fix.run(order.WRITING, traced)
        refuse_unexpressible(traced.graph)
        program = _functionalised(traced.program(), casts)
    traced = Traced.of_program(program, conditions=conditions, names=chosen or {})
    fix.run(order.FUNCTIONAL, traced)
    program = traced.program()
    signature = program.graph_signature
    kinds = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    by_target: dict[str, Slot] = {}
    slots = []
    tied_to: dict[int, list[str]] = {}  # the state-dict names of each tensor
    for name, tensor in program.state_dict.items():
        tied_to.setdefault(id(tensor), []).append(name)
    for spec in signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind is InputKind.USER_INPUT:
            kind = "input" if isinstance(node.meta.get("val"), torch.Tensor) else "number"
            slot = Slot(node, kind, (chosen or {}).get(node.name, node.name), layout=layouts.get(node.name))
            by_target[node.name] = slot
        elif spec.kind in kinds:
            tensor = program.state_dict.get(spec.target, program.constants.get(spec.target))
            tied = tuple(n for n in tied_to.get(id(tensor), ()) if n != spec.target)
            slot = Slot(node, "weight", spec.target, _checked(spec.target, tensor), kinds[spec.kind], tied)
            by_target[spec.target] = slot
        else:
            raise UnsupportedError(f"an input of kind {spec.kind.name} ({spec.arg.name}) is not supported")
        slots.append(slot)
    slots += _constants(program.graph_module)
    values = next(n for n in program.graph.nodes if n.op == "output").args[0]
    results, writes = [], []
    for spec, value in zip(signature.output_specs, values):
        if spec.kind is OutputKind.USER_OUTPUT:
            results.append(value)
        elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION) or spec.kind.name == "PARAMETER_MUTATION":
            slot = by_target[spec.target]
            if slot.kind == "weight":
                slot.kind = "state"
            if value is not slot.node:
                writes.append((slot, value))
        else:
            raise UnsupportedError(f"an output of kind {spec.kind.name} ({spec.target}) is not supported")
    return Functional(program.graph_module, slots, results, writes, _as_replayed(program.range_constraints), before=before, program=program)


def _as_replayed(limits):
    """The range of each symbol as torch's own replay of a program takes it: from 1 where tracing began at 2 (torch traces no size of 0 or 1, and checks no least size of 2)."""

    def range_of(symbol):
        limit = limits.get(symbol)
        return ValueRanges(1, limit.upper) if limit is not None and limit.lower == 2 else limit

    return range_of


def _refuse_lost_tensors(program):
    """Refuses a program with a constant that is a tensor of the trace: torch.export lost the operators that compute it."""
    lost = lambda value: isinstance(value, FakeTensor) or isinstance(value, torch.Tensor) and is_wrapped_by_functorch(value)
    if any(map(lost, program.constants.values())):
        raise UnsupportedError(
            "torch.export does not take the model: it loses the operators of torch.func.grad, vjp or jacrev",
            remedy='compile just in time: torch.compile(model, backend="ingot")',
        )


def lays(values, placeholders, typed=True) -> list[Lay | None]:
    """The layout of each result of a graph that writes in place. `typed`: whether it has the recorded type, which autocast may change."""
    memory = {address_of(m.untyped_storage()): i for i, n in enumerate(placeholders) if (m := _strided(n)) is not None}
    right = corrected(placeholders[0].graph) if placeholders else {}
    metas = [(v, _strided(v)) for v in values]

    def owner(v, m):
        return None if gives_new(trace_view(v, gives_new)[0]) else memory.get(address_of(m.untyped_storage()))

    return [m if m is None else Lay(_hints(m.shape), m.dtype if typed else None, list(right.get(v) or _hints(m.stride())), owner(v, m)) for v, m in metas]


def _strided(value) -> torch.Tensor | None:
    meta = value.meta.get("val", value.meta.get("example_value")) if isinstance(value, Node) else None
    return meta if isinstance(meta, torch.Tensor) and meta.layout is torch.strided else None


def _functionalised(program, casts):
    open_axes = _open_axes(program.graph)
    # torch traces sizes from 2 on: a size of 1..2 would become the constant 2.
    limits = {symbol: limit for symbol, limit in program.range_constraints.items() if limit.lower < 2 and limit.upper == 2}
    program.range_constraints.update({symbol: ValueRanges(limit.lower, 3) for symbol, limit in limits.items()})
    try:
        functional = composites.decomposed(program, casts)
    except Exception as problem:  # of many kinds, most of them assertions
        raise not_functional(problem) from problem
    finally:
        program.range_constraints.update(limits)
    functional.range_constraints.update({symbol: limit for symbol, limit in limits.items() if symbol in functional.range_constraints})
    if _open_axes(functional.graph) != open_axes:
        raise NotFunctional("torch's functional graph is valid for one size of an input only")
    return functional


def _open_axes(graph):
    """The open sizes of each input."""
    axes = ([bool(free_symbols(s)) for s in _strided(n).shape] for n in graph.nodes if n.op == "placeholder" and _strided(n) is not None)
    return [flags for flags in axes if any(flags)]


def not_functional(problem) -> NotFunctional:
    """Of an exception of torch while it makes a graph functional."""
    reason = _first_line(problem)
    return NotFunctional(needs_values(problem, reason) or f"torch cannot express its writes in place as new values: {reason}")


def _first_line(problem):
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)


def _writes_in_place(graph: torch.fx.Graph) -> bool:
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) and schema_of(node.target).is_mutable:
            return True
        if isinstance(node.target, HigherOrderOperator):
            return True  # its regions may write
        if getattr(node.target, "__module__", "") == OF_VMAP:
            return True  # vmap: the mapped function writes with tensors that only torch's own trace has
    return False


def _checked(name, tensor):
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise UnsupportedError(f"weight {name} is of type {type(tensor).__name__}, a tensor subclass", remedy="convert it to a plain tensor before compiling; of torchao's weights those of IntxWeightOnlyConfig and the Int8 configs need none")
    return tensor


def _constants(module: torch.fx.GraphModule) -> list[Slot]:
    """The tensors that tracing found in the code."""
    found = []
    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(value := getattr(module, node.target, None), torch.Tensor):
            node.meta.setdefault("val", value)
            found.append(Slot(node, "weight", node.target, _checked(node.target, value), "constant"))
    return found


def from_aot(module: torch.fx.GraphModule, signature, examples: list, names: list[str], is_weight: Callable, before=None) -> Functional:
    """A graph that AOTAutograd made under torch.compile. `examples` and `names`: of all placeholders; `is_weight(i)`: it may be bound;
    `before`: the layouts of the results in Dynamo's graph."""
    import re

    tokens = tuple(getattr(signature, f"{side}_tokens", ()) for side in ("input", "output"))
    names_of_results = [name for v in module.graph.output_node().args[0] if (name := getattr(v, "name", None)) not in tokens[1] or name is None]  # the signature has these
    fix.run(order.FUNCTIONAL, Traced(module, tokens=tokens))
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    shape_env = None
    slots, by_name = [], {}
    for i, node in enumerate(placeholders):
        meta = node.meta.get("val")
        if isinstance(meta, torch.SymInt):
            shape_env = meta.node.shape_env
        if not isinstance(meta, torch.Tensor):
            slot = Slot(node, "number", names[i])
        elif is_weight(i):
            slot = Slot(node, "weight", names[i], _checked(names[i], examples[i]))
        else:
            local = re.fullmatch(r"L\['(\w+)'\]", names[i])  # Dynamo's text for the variable of that name
            slot = Slot(node, "input", local[1] if local else names[i])
            for size in meta.shape:
                if isinstance(size, torch.SymInt):
                    shape_env = size.node.shape_env
        slots.append(slot)
        by_name[node.name] = slot
    values = list(next(n for n in module.graph.nodes if n.op == "output").args[0])
    changed = {**signature.buffers_to_mutate, **signature.parameters_to_mutate, **signature.user_inputs_to_mutate}
    writes = []
    count = len(values) - len(signature.user_outputs)
    for value, name in zip(values[:count], names_of_results):
        slot = by_name[changed[name]]
        if slot.kind == "weight":
            slot.kind = "state"
        if value is not slot.node:
            writes.append((slot, value))
    slots += _constants(module)
    ranges = shape_env.var_to_range.get if shape_env is not None else (lambda symbol: None)
    return Functional(module, slots, values[count:], writes, ranges, before=before)
