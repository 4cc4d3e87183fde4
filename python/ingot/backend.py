"""`torch.compile(model, backend="ingot")`."""

from __future__ import annotations

import contextlib
import operator

import torch
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from . import autocast, both_sides, composites, devices, effects, grad_modes, hidden_views, identities, numbers, overlap, own_traces, passes as passes_, recurrent_layers, region_writes
from .assemble import assemble, in_torch
from .errors import UnsupportedError
from .functional import NotFunctional, _first_line, from_aot, lays, same_sizes
from .gradients import with_requirements
from .watch import Snapshot, Watch


def captured(backend):
    """Decorates a backend of torch.compile: what Dynamo traces for it has all forms that engines take."""
    own_traces.register(backend)
    both_sides.allow()
    recurrent_layers.allow()
    return backend


@captured
def ingot_backend(module: torch.fx.GraphModule, example_inputs, *, options=None, passes=(), **ignored):
    """The backend that the entry point group `torch_dynamo_backends` names.

    Weights are recognised among the graph's inputs and bound once. The next call sees a replaced or changed weight, as `ingot.compile` describes. Options are
    those of `ingot.compile`; an unknown one raises OptionError. passes: functions that change the graph, in ATen's operators, as `ingot.compile` takes them; weights are
    inputs of the graph here. In grad mode results require gradients where eager's do, and backward through them raises
    UnsupportedError. Under torch.no_grad() a call is some microseconds quicker.
    """
    switches = grad_modes.settle(module.graph)
    if identities.settle(module.graph) or switches:
        module.recompile()
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    examples = [_example(node, value) for node, value in zip(placeholders, example_inputs)]
    fakes = [node.meta.get("example_value", value) for node, value in zip(placeholders, example_inputs)]
    options = devices.written(options or {})
    fixed = numbers.of(module, examples)
    names = [_name(node) for node in placeholders]
    try:
        _refuse_changed_shapes(names, examples, fakes)
        with _one_fake_mode(fakes):
            functional, signature = _functionalised(_after(passes, numbers.settled(module, fixed), fakes), fakes)
        # A graph without writes keeps its layouts when torch makes it functional, and strides.py corrects them there; Dynamo's own graph has views that it does not correct.
        writes = any(map(overlap.may_write, module.graph.nodes)) or region_writes.may_be(module)
        before = lays(next(n for n in module.graph.nodes if n.op == "output").args[0], placeholders) if writes else None
        f = from_aot(functional, signature, examples, names, lambda i: _is_weight(placeholders[i], examples[i]), before)
    except NotFunctional as problem:
        report = in_torch(module.graph, problem.message, options)

        def call(*args):
            with torch.no_grad():
                return module(*args)

        return _told(with_requirements(call, module.graph, examples), None, report)
    compiled = _Compiled(f, options, examples)
    call = numbers.guarded(compiled.straight() if compiled.is_straight() else compiled, module, fixed)
    call = with_requirements(call, module.graph, examples)
    return call if call is compiled else _told(call, compiled.engine, compiled.report)


def _after(passes, module, fakes):
    """The graph after users' passes."""
    if not passes:
        return module
    try:
        module = overlap.as_aten(module, fakes)
    except Exception as problem:  # of many kinds
        raise NotFunctional(f"torch cannot trace it for the passes: {_first_line(problem)}") from problem
    for function in passes:
        module = passes_.checked(function, module)
    return module


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
    context = torch._guards.TracingContext.try_get()
    mode = next((t.fake_mode for t in fakes if isinstance(t, torch._subclasses.FakeTensor)), None)
    if context is None or mode is None or torch.__version__ >= (2, 11):
        yield
        return
    before, context.fake_mode = context.fake_mode, mode
    try:
        yield
    finally:
        context.fake_mode = before


def _functionalised(module, fakes):
    repeats, in_regions = overlap.has_writes(module.graph), region_writes.may_be(module)
    if repeats or in_regions or hidden_views.may_be(module.graph):
        try:
            written = overlap.as_aten(module, fakes)
        except Exception as problem:  # of many kinds, most of them assertions
            raise NotFunctional(f"torch cannot trace its writes to repeated tensors: {_first_line(problem)}") from problem
        if repeats or in_regions or hidden_views.of(written.graph):  # without these, torch accepts more graphs unchanged, such as vmap
            region_writes.settle(written)
            hidden_views.show(written)
            overlap.settle(written)
            module = written
    hidden_views.refuse(module.graph)
    depth = torch._C._functorch.get_dynamic_layer_stack_depth()
    try:
        with torch.no_grad(), composites.whole(autocast.reaches(module)):
            traced = aot_export_module(module, fakes, trace_joint=False, decompositions=composites.decompositions())
        _refuse_lost_tensors(traced[0])
    except UnsupportedError:
        raise
    except Exception as problem:  # of many kinds, most of them assertions
        raise NotFunctional(f"torch cannot express its writes in place as new values: {_first_line(problem)}") from problem
    finally:
        # A trace that fails inside vmap leaves vmap's level on the stack, and Dynamo's guards would look for it in every call.
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
    graph, signature = traced[0].graph, traced[1]
    effects.settle(graph, getattr(signature, "input_tokens", ()), getattr(signature, "output_tokens", ()))
    return traced


def _refuse_lost_tensors(traced):
    """Refuses a graph with a constant that is a tensor of the trace itself: torch lost the node that computes it (views of empty tensors that are written, `torch.Tensor(zeros)`)."""
    if any(n.op == "get_attr" and isinstance(getattr(traced, n.target, None), (FunctionalTensor, FakeTensor)) for n in traced.graph.nodes):
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

    A buffer counts as a weight until it changes. Then something else writes it (another piece of the model, its owner), and from then on it is an input of the
    graph, so that the weights are not prepared anew in each call.
    """

    def __init__(self, f, options, examples):
        self._functional, self._options, self._watch = f, options, Watch()
        self._assemble(examples)

    def _assemble(self, examples):
        for slot, example in zip(self._functional.slots, examples):
            if slot.kind in ("weight", "state"):
                slot.tensor = example
        self._assembled = assembled = assemble(self._functional, self._options)
        self.engine, self.report = assembled.engine, assembled.report
        slots = assembled.slots[: len(examples)]
        # A buffer that the model writes is passed to the graph; Dynamo guards that it is the one it saw.
        inputs = [i for i, s in enumerate(slots) if s.kind == "input" or (s.kind == "number" and not assembled.straight)]
        self._weights = [i for i, s in enumerate(slots) if s.kind == "weight"]
        self._names = [slots[i].name for i in self._weights]
        self._bind([examples[i] for i in self._weights])
        self._states = [(i, slots[i]) for i in range(len(slots)) if slots[i].kind == "state"]
        self._pick_weights = _picker(self._weights)
        self._pick_inputs = _picker(inputs)
        self._straight = inputs == list(range(len(examples))) and not self._weights and not self._states

    def _bind(self, weights):
        """Binds the engine's weights and notes their identities, which each call compares."""
        self._watch.adopt(Snapshot(weights, [True] * len(weights)))
        self._bound = self._watch.snapshot.tensors

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
        given = self._pick_weights(args)
        if not all(map(operator.is_, given, self._bound)) or not self._watch.same():
            self._follow(args, given)
        for i, slot in self._states:
            if args[i] is not slot.tensor:
                slot.tensor = args[i]
                self._assembled.replace({}, [slot])
        return self._assembled.run(list(self._pick_inputs(args)))


    def _follow(self, args, given):
        self._watch.mark(False)
        changed = [now is not old or new for now, old, new in zip(given, self._bound, self._watch.changed())]
        buffers = [i for i, new in zip(self._weights, changed) if new and not isinstance(args[i], torch.nn.Parameter)]
        if buffers:
            for i in buffers:
                slot = self._assembled.slots[i]
                slot.kind, slot.tensor = "input", None
            self._assemble(args)
            return
        snapshot = Snapshot(given, [True] * len(given))
        self._assembled.replace({name: tensor for name, tensor, new in zip(self._names, given, changed) if new})
        self._watch.adopt(snapshot)
        self._bound = snapshot.tensors


def _picker(indices):
    """operator.itemgetter that always returns a tuple."""
    if not indices:
        return lambda args: ()
    if len(indices) == 1:
        only = indices[0]
        return lambda args: (args[only],)
    return operator.itemgetter(*indices)
