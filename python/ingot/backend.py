"""`torch.compile(model, backend="ingot")`."""

from __future__ import annotations

import contextlib
import operator
import weakref

import torch

from .base.processes import Lock
from .capture import autocast, composites, devices, fix, passes as passes_, subclasses
from .capture.fixes import numbers, order, random_numbers, region_writes
from .capture.functional import _first_line, from_aot, lays, not_functional, same_sizes
from .capture.memory import may_write, refuse_unexpressible
from .capture.switches import asked_masks, both_sides, experts_together, moved_modules, open_numbers, own_traces, recurrent_layers
from .capture.traced import NotFunctional, Traced, as_aten
from .engine.tensor_changes import Snapshot, Watch
from .errors import UnsupportedError
from .running.assemble import assemble, in_torch
from .running.gradients import with_requirements
from .torch_internals.aot import FunctionalTensor, aot_export_module
from .torch_internals.tensors import FakeTensor, functorch_depth, functorch_undo_to
from .torch_internals.tracing import TracingContext, detect_fake_mode


def captured(backend):
    """Decorates a backend of torch.compile: what Dynamo traces for it has all forms that engines take."""
    own_traces.register(backend)
    both_sides.allow()
    asked_masks.allow()
    experts_together.allow()
    moved_modules.allow()
    recurrent_layers.allow()
    open_numbers.allow()
    return backend


@captured
def ingot_backend(module: torch.fx.GraphModule, example_inputs, *, options=None, passes=(), **ignored):
    """The backend that the entry point group `torch_dynamo_backends` names.

    Weights are recognised among the graph's inputs and bound once. The next call sees a replaced or changed weight, as `ingot.compile` describes. Options are
    those of `ingot.compile`; an unknown one raises OptionError. passes: functions that change the graph, in ATen's operators, as `ingot.compile` takes them; weights are
    inputs of the graph here. In grad mode results require gradients where eager's do, and backward through them raises
    UnsupportedError. Under torch.no_grad() a call is some microseconds quicker.
    """
    if (opened := subclasses.opened_graph(module, example_inputs)) is not None:
        module, inner = opened
        compiled = ingot_backend(module, inner(*example_inputs), options=options, passes=passes)
        return _told(lambda *args: compiled(*inner(*args)), compiled.engine, compiled.report)
    traced = Traced(module, in_aten=False)
    fix.run(order.TRACED, traced)
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    examples = [_example(node, value) for node, value in zip(placeholders, example_inputs)]
    fakes = [node.meta.get("example_value", value) for node, value in zip(placeholders, example_inputs)]
    options = devices.written(options or {})
    names, weights = [_name(node) for node in placeholders], [_is_weight(node, example) for node, example in zip(placeholders, examples)]
    state = ()
    try:
        _refuse_changed_shapes(names, examples, fakes)
        with _one_fake_mode(fakes):
            written = _after(passes, traced.module, fakes)
            functional, signature = _functionalised(written, fakes)
            if options.get("fallback") == "error" and random_numbers.remain(functional) and (own := _with_own_numbers(written, fakes)) is not None:
                written, fake, *state = own
                fakes, names, weights = [*fakes, fake], [*names, random_numbers.STATE], [*weights, True]
                functional, signature = _functionalised(written, fakes)
        # A graph without writes keeps its layouts when torch makes it functional, and strides.py corrects them there; Dynamo's own graph has views that it does not correct.
        writes = any(map(may_write, module.graph.nodes)) or region_writes.wanted(traced)
        before = lays(next(n for n in module.graph.nodes if n.op == "output").args[0], placeholders) if writes else None
        f = from_aot(functional, signature, [*examples, *state], names, weights.__getitem__, before)
    except NotFunctional as problem:
        report = in_torch(module.graph, problem.message, options)

        def call(*args):
            with torch.no_grad():
                return module(*args)

        return _told(with_requirements(call, module.graph, examples), None, report)
    compiled = _Compiled(f, options, [*examples, *state])
    call = compiled.straight() if compiled.is_straight() else compiled
    if state:
        call = lambda *args: compiled(*args, *state)  # noqa: E731
    call = numbers.guarded(call, module, traced.numbers)
    call = with_requirements(call, module.graph, examples)
    return call if call is compiled else _told(call, compiled.engine, compiled.report)


def _after(passes, module, fakes):
    """The graph after users' passes."""
    if not passes:
        return module
    try:
        module = as_aten(module, fakes)
    except Exception as problem:  # of many kinds
        raise NotFunctional(f"torch cannot trace it for the passes: {_first_line(problem)}") from problem
    for function in passes:
        module = passes_.checked(function, module)
    return module


def _with_own_numbers(module, fakes):
    """For a graph that draws random numbers in the engine: (graph, fake tensor, tensor); the tensor is the state of its numbers, the graph's last input. None if it draws none that engines make."""
    try:
        written = as_aten(module, fakes)
        traced = Traced(written, weights_are_inputs=True)
        fix.run(order.ALONE, traced)
        if (state := traced.random_state) is None:
            return None
        fake = detect_fake_mode(fakes).from_tensor(state)
        return as_aten(written, [*fakes, fake]), fake, state
    except Exception as problem:  # of many kinds
        raise NotFunctional(f"torch cannot trace its random numbers: {_first_line(problem)}") from problem


def _told(call, engine, report):
    call.engine, call.report = engine, report
    return call


def _refuse_changed_shapes(names, examples, fakes):
    """Refuses squeeze_ and the like: they change the shape of the caller's tensor, and of Dynamo's fake tensor while it traces."""
    for name, example, fake in zip(names, examples, fakes):
        if isinstance(example, torch.Tensor) and isinstance(fake, torch.Tensor) and not same_sizes((*example.shape, *example.stride()), (*fake.shape, *fake.stride())):
            raise NotFunctional(f"it changes the shape of {name} in place")


@contextlib.contextmanager
def _one_fake_mode(fakes):
    """torch 2.10 refuses fake tensors of another mode than the one of its context, and Dynamo makes a new mode for the context. Later releases convert them."""
    context = TracingContext.try_get()
    mode = next((t.fake_mode for t in fakes if isinstance(t, FakeTensor)), None)
    if context is None or mode is None or torch.__version__ >= (2, 11):
        yield
        return
    before, context.fake_mode = context.fake_mode, mode
    try:
        yield
    finally:
        context.fake_mode = before


def _functionalised(module, fakes):
    if fix.any_wanted(order.WRITING, Traced(module, in_aten=False)):
        try:
            traced = Traced(as_aten(module, fakes))
        except Exception as problem:  # of many kinds, most of them assertions
            raise NotFunctional(f"torch cannot trace its writes to repeated tensors: {_first_line(problem)}") from problem
        if fix.any_wanted(order.WRITING, traced):  # without these, torch accepts more graphs unchanged, such as vmap
            fix.run(order.WRITING, traced)
            module = traced.module
    refuse_unexpressible(module.graph)
    depth = functorch_depth()
    try:
        with torch.no_grad(), composites.whole(autocast.reaches(module)):
            functional = aot_export_module(module, fakes, trace_joint=False, decompositions=composites.decompositions())
        _refuse_lost_tensors(functional[0])
    except UnsupportedError:
        raise
    except Exception as problem:  # of many kinds, most of them assertions
        raise not_functional(problem) from problem
    finally:
        # A trace that fails inside vmap leaves vmap's level on the stack, and Dynamo's guards would look for it in every call.
        functorch_undo_to(depth)
    return functional


def _refuse_lost_tensors(functional):
    """Refuses a graph with a constant that is a tensor of the trace itself: torch lost the node that computes it (views of empty tensors that are written, `torch.Tensor(zeros)`)."""
    if any(n.op == "get_attr" and isinstance(getattr(functional, n.target, None), (FunctionalTensor, FakeTensor)) for n in functional.graph.nodes):
        raise NotFunctional("torch's functional graph loses the operator that computes a tensor")


def _example(node, value):
    """The real tensor behind a placeholder, if Dynamo has it."""
    return getattr(node.meta.get("grapharg"), "example", value)


def _source(node):
    return getattr(getattr(node.meta.get("grapharg"), "source", None), "name", "")


def _name(node):
    name = _source(node)
    return name() if callable(name) else name or node.name


def _is_weight(node, example):
    if isinstance(example, torch.nn.Parameter):
        return True
    source = _name(node)
    return isinstance(example, torch.Tensor) and ("._buffers[" in source or "._parameters[" in source)


class _Compiled:
    """What Dynamo calls: takes all inputs of the graph, weights included.

    Dynamo runs one graph with the weights of several layers where it breaks the graph inside a layer. Each set of weights is bound once, and kept while its tensors live.

    A buffer counts as a weight until it changes. Then something else writes it (another part of the model, its owner), and from then on it is an input of the
    graph, so that the weights are not prepared anew in each call.
    """

    def __init__(self, f, options, examples):
        self._functional, self._options, self._lock = f, options, Lock()
        self._assemble(examples)
        for slot in f.slots[: len(examples)]:
            slot.tensor = None  # each set has its own

    def _assemble(self, examples):
        slots = self._functional.slots[: len(examples)]
        self._weights = [i for i, s in enumerate(slots) if s.kind == "weight"]
        self._pick_weights = _picker(self._weights)
        self._sets: dict[tuple[int, ...], _Bound] = {}  # by the identities of the weights; without those of which a parameter is gone
        first = self._functional.with_tensors(self._own(examples))
        self._assembled = assemble(first, self._options)
        self.engine, self.report = self._assembled.engine, self._assembled.report
        inputs = [i for i, s in enumerate(slots) if s.kind == "input" or (s.kind == "number" and not self._assembled.straight)]
        self._pick_inputs = _picker(inputs)
        self._straight = inputs == list(range(len(examples))) and not self._weights and not any(s.kind == "state" for s in slots)
        self._keep(self._assembled, examples)

    def _own(self, args):
        """The tensors of weights and states by placeholder. Tensors that share the weights' memory stand for these, which are not kept alive."""
        slots = self._functional.slots[: len(args)]
        return {s.node: value.detach() if s.kind == "weight" else value for s, value in zip(slots, args) if s.kind in ("weight", "state")}

    def _keep(self, assembled, args) -> "_Bound":
        weights, compiled = self._pick_weights(args), weakref.ref(self)
        key = tuple(map(id, weights))

        def gone(parameter):
            if (alive := compiled()) is not None:
                alive._sets.pop(key, None)

        bound = self._sets[key] = _Bound(assembled, len(args), weights, gone)
        return bound

    def is_straight(self):
        """True if all arguments are passed on unchanged."""
        return self._straight

    def straight(self):
        """The call of a straight graph, without the work that other graphs need: a microsecond less."""
        run = self._assembled.run

        def call(*args):
            return run(list(args))

        return _told(call, self.engine, self.report)

    def __call__(self, *args):
        bound = self._sets.get(tuple(map(id, self._pick_weights(args))))
        if bound is None or not bound.same():
            with self._lock():
                bound = self._bound_to(args)
        return bound.run(args, self._pick_inputs(args))

    def _bound_to(self, args) -> "_Bound":
        weights = self._pick_weights(args)
        bound = self._sets.get(tuple(map(id, weights)))
        if bound is not None and bound.same():  # another thread has bound them meanwhile
            return bound
        parameters = [i for i in self._weights if isinstance(args[i], torch.nn.Parameter)]
        nearest = bound or next((b for b in list(self._sets.values()) if all(args[i] is b.tensor(self._weights.index(i)) for i in parameters)), None)
        if nearest is None:  # another layer, or new parameters
            return self._bind(args)
        buffers = [i for i, new in zip(self._weights, nearest.changed(weights)) if new and i not in parameters]
        if buffers:
            for i in buffers:
                slot = self._functional.slots[i]
                slot.kind, slot.tensor = "input", None
            self._assemble(args)
            return self._sets[tuple(map(id, self._pick_weights(args)))]
        nearest.follow(weights)
        return nearest

    def _bind(self, args) -> "_Bound":
        """Another engine of the same plan, with these weights."""
        f = self._assembled.functional.with_tensors(self._own(args))
        values = {s.name: s.tensor for s in f.slots if s.kind == "weight" and s.tensor is not None}
        engine = self.engine.with_values(values) if self.engine is not None else None
        return self._keep(self._assembled.with_engine(f, engine), args)


class _Bound:
    """An engine with one set of weights. It does not keep their parameters alive. gone: called when one of these dies."""

    def __init__(self, assembled, count, weights, gone):
        self._assembled, self._gone, self._watch = assembled, gone, Watch()
        self._names = [s.name for s in assembled.slots[:count] if s.kind == "weight"]
        self._states = [(i, s) for i, s in enumerate(assembled.slots[:count]) if s.kind == "state"]
        self.same = self._watch.same
        self._watch.adopt(self._snapshot(weights))

    def _snapshot(self, weights):
        return Snapshot(weights, [True] * len(weights), self._gone)

    def tensor(self, index):
        return self._watch.snapshot.tensors[index]

    def changed(self, weights) -> list[bool]:
        return [now is not old or new for now, old, new in zip(weights, self._watch.snapshot.tensors, self._watch.changed())]

    def follow(self, weights):
        """Brings changes of the weights to the engine."""
        changed = self.changed(weights)
        self._watch.mark(False)
        snapshot = self._snapshot(weights)  # before the values are read
        self._assembled.replace({name: tensor.detach() for name, tensor, new in zip(self._names, weights, changed) if new})
        self._watch.adopt(snapshot)

    def run(self, args, inputs):
        for i, slot in self._states:
            if args[i] is not slot.tensor:
                slot.tensor = args[i]
                self._assembled.replace({}, [slot])
        return self._assembled.run(list(inputs))


def _picker(indices):
    """operator.itemgetter that always returns a tuple."""
    if not indices:
        return lambda args: ()
    if len(indices) == 1:
        only = indices[0]
        return lambda args: (args[only],)
    return operator.itemgetter(*indices)
