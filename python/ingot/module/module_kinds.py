"""The kinds of compiled modules: from a plan in a file, from a model compiled here, from a torch program that was saved with engines in it, and models that torch runs
without an engine. `ingot.Module` is the same for all; the differences are here."""

from __future__ import annotations

import functools

import torch
from torch.autograd import forward_ad as forward_mode

from ..capture import autocast, caches
from ..capture.reshapes import check_layout, rank_of
from ..capture.writer import order_of, write
from ..engine import _engine, _library, _op, _values, plain_tensors
from ..engine.profile import Profile
from ..errors import FormatError, InputError, UnsupportedError
from ..running import module_state
from ..running.assemble import Assembled
from ..running.report import Report, of_plan
from ..running.runners import no_profile, of_engine
from ..running.weight_changes import GivenWeights, report_writes
from ..saving import torch_program
from ..saving.loaded import Loaded
from ..torch_internals.modules import own_buffers, own_parameters
from ..torch_internals.tensors import FORWARD_MODE, LEVEL
from . import call_form, lora_target
from .arguments import Arguments, parameters_of_program
from .call_form import Form


class Engines:
    """A model that engines run, alone or together with torch.

    engine: None if there is none, or several.
    report: None for a torch program from a file.
    way: see runners.py. run, plain: those of the way, with what the kind adds.
    form: the form of calls (call_form.py).
    captured: the state of autocast when the model was captured.
    device: the device of the model.
    """

    adapters = None
    report: Report | None = None
    captured = autocast.ANY

    def call(self, args, kwargs):
        autocast.check(self.captured, self.device.type)
        flat = self.form.flat(args, kwargs)
        for value in flat:
            if type(value) is not torch.Tensor and not torch.compiler.is_compiling():
                flat = plain_tensors.inputs(flat, self.input_names())
                break
        if torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in flat):
            raise InputError("an input requires gradients, but a compiled module computes none", remedy="call it under torch.no_grad() or torch.inference_mode(), or give a detach()ed tensor")
        if FORWARD_MODE[LEVEL] >= 0 and any(isinstance(t, torch.Tensor) and forward_mode.unpack_dual(t).tangent is not None for t in flat):
            raise InputError("an input has a forward-mode tangent, but a compiled module computes no derivatives", remedy="call the model itself")
        return self.form.results(self.run(flat), flat)

    def profile(self, args, kwargs, runs) -> Profile:
        engine = self.way.profiled()
        names = engine.input_names
        flat = plain_tensors.inputs(self.form.flattened(args, kwargs), names)
        for value, name in zip(flat, names):
            if not isinstance(value, torch.Tensor):
                raise plain_tensors.not_one(value, name)
            if why := plain_tensors.why_not(value, name):
                raise InputError(f"input {name!r} {why[0]}", remedy=why[1])
        flat = [t.detach().resolve_neg().cpu() for t in flat]
        flat = [t.clone() if binding.get("written") else t for t, binding in zip(flat, engine.inputs())]  # the runs write to copies, as they do to the session's own buffers
        # bfloat16 has no numpy type: its bits go in as uint16
        return engine.session().profile(*[t.view(torch.uint16).numpy() if t.dtype is torch.bfloat16 else t.numpy() for t in flat], runs=runs)


class FromPlan(Engines):
    """An engine from a plan alone. `states`: the buffers that calls write; they start with the plan's values."""

    def __init__(self, engine: _engine.Engine):
        self.engine, self.device = engine, torch.device(engine.device or "cpu")
        if engine.device is not None:
            engine.watch = GivenWeights(engine)  # before it is registered
        self.way = of_engine(engine)
        self.states = self._first_states() if engine.device is not None else {}
        self._laid = _laid(engine)
        self.form = call_form.of_plan(engine)
        self.run, self.plain = (self._run, None) if self.states or self._laid else (self.way.run, self.way.plain)
        self.segments = self.way.segments

    @functools.cached_property
    def report(self) -> Report:
        return of_plan(self.engine)

    def _first_states(self):
        bindings = self.engine.states()
        values, states = self.engine.session().state if bindings else {}, {}
        for binding in bindings:
            value = torch.from_numpy(values[binding["name"]])
            states[binding["name"]] = (value.view(torch.bfloat16) if binding["dtype"] == "bfloat16" else value).to(self.device)
        return states

    def _run(self, flat):
        for i, name, layout in self._laid:
            if i < len(flat) and isinstance(flat[i], torch.Tensor):
                check_layout(name, flat[i], layout)
        state, own = module_state.current(), self.states.values()
        return self.way.run([*flat, *(own if state is None else state.tensors(self, own))])

    def written(self):
        return self.states

    def engines(self):
        return [self.engine]

    def input_names(self):
        return self.engine.input_names

    def weight_names(self):
        return {*(w["name"] for w in self.engine.inspect()["weights"]), *self.engine.tied}

    def shown(self):
        return self.states.items()

    def shown_by(self, module):
        pass

    def owned_by(self, model):
        pass

    def follow(self):
        self.engine.follow()

    def update_weights(self, state_dict, strict):
        self.engine.update_weights(state_dict, strict=strict)

    def lora_target(self):
        return lora_target.OfEngine(self.engine)

    def program(self, empty_lists):
        raise _no_program()

    def plan(self):
        return self.engine


def _laid(engine):
    """Place, name and layout of the inputs that must have their examples' layout (see reshapes.py)."""
    bindings, found = {b["name"]: (i, b) for i, b in enumerate(engine.inputs())}, []
    for name, layout in engine.signature.get("lies", {}).items():
        if name not in bindings or rank_of(layout) != len(bindings[name][1]["dims"]):
            raise FormatError(f"signature.lies.{name[:40]} is not an input of that many axes")
        found.append((bindings[name][0], name, layout))
    return found


def _no_program():
    return UnsupportedError("this module was made from a file alone, without the torch program around its engine", remedy="compile the original model, or torch.export.load(path) of the .pt2 file, and save that")


def form_of(signature: dict, in_spec, out_spec, complete=True) -> Form:
    outputs = signature["outputs"]
    return Form(signature["inputs"], outputs, in_spec, out_spec, signature["parameters"], len(outputs), complete=complete)


class WithWeights(Engines):
    """Engines whose weights are tensors of a model or a program. `runnable` holds both."""

    def __init__(self, runnable, signature: dict, in_spec, out_spec):
        self.runnable, self.engine, self.way, self.run = runnable, runnable.engine, runnable.way, runnable.run
        self.plain, self.segments = self.way.plain, self.way.segments
        self.form = form_of(signature, in_spec, out_spec, complete=not runnable.straight)

    def engines(self):
        return self.runnable.engines

    def input_names(self):
        return [s.name for s in self.runnable.slots if s.kind == "input" or s.kind == "number" and self.form.complete]

    def weight_names(self):
        return {name for s in self.runnable.slots if s.kind in ("weight", "state") for name in (s.name, *s.tied)}

    def shown(self):
        return [(name, slot.tensor) for slot in self.runnable.shown for name in (slot.name, *slot.tied)]

    def shown_by(self, module):
        self.runnable.followed.own(module, shows=True)

    def owned_by(self, model):
        self.runnable.followed.own(model)

    def follow(self):
        self.runnable.followed.follow()

    def written(self):
        self.follow()
        return {s.name: s.tensor for s in self.runnable.slots if s.kind == "state"}

    def update_weights(self, state_dict, strict):
        self.runnable.update_weights(state_dict, strict)

    def lora_target(self):
        return lora_target.OfRunnable(self.runnable, lambda: self.adapters)


class FromModel(WithWeights):
    """A model that was compiled here. prepare: gives a captured model its ranges and its signature before the build."""

    def __init__(self, assembled: Assembled, signature: dict, prepare):
        call = assembled.functional.program.call_spec
        super().__init__(assembled, signature, call.in_spec, call.out_spec)
        self.report, self.device = assembled.report, assembled.functional.device
        self.captured = autocast.state(self.device.type)
        self._refused, self._prepare = signature.get("refused"), prepare
        assembled.first = caches.first_values(caches.caches_of(assembled.functional))
        if self.engine is not None:
            self.engine.first = assembled.first

    def program(self, empty_lists):
        self.way.must_run()
        return torch_program.exported_program(self.runnable, empty_lists)

    def plan(self):
        assembled = self.runnable
        if self._refused is not None:
            message, remedy = self._refused
            raise UnsupportedError(message, remedy=remedy)
        if assembled.straight:
            return self.engine
        _refuse_held_otherwise(assembled.functional)
        captured = write(assembled.functional.complete(), assembled.options["target"])
        weights = [(name, _values.in_order(_values.held(assembled.kept(name)).cpu(), order_of(recorded))) for name, recorded in captured.weights]
        model = _library.Model.from_json(captured.json, weights)
        self._prepare(model)
        return _engine.Engine(model.compile({"fallback": "error", **assembled.options}), values=dict(weights), here=False)


def _refuse_held_otherwise(f):
    """The ends of a plan have the types that it has itself."""
    for name, node in [*((s.name, s.node) for s in f.slots if s.kind in ("input", "state")), *((r.name, r) for r in f.results if isinstance(r, torch.fx.Node))]:
        if isinstance(value := node.meta.get("val"), torch.Tensor) and _values.held_otherwise(value.dtype):
            kind = _values.name_of(value.dtype)
            what, form = ("signed integers", f"view(torch.{_values.SIGNED[kind]})") if kind in _values.SIGNED else ("real tensors", "torch.view_as_real")
            raise UnsupportedError(f"{name} is {kind}, and a plan takes, gives and keeps {what}", remedy=f'save it with format="exported_program", or use {form} at the ends of the model')


class FromProgram(WithWeights):
    """A torch program that ingot.save wrote, with its plans as engines."""

    def __init__(self, loaded: Loaded):
        call = loaded.program.call_spec
        super().__init__(loaded, {**loaded.signature(), "parameters": parameters_of_program(loaded.program)}, call.in_spec, call.out_spec)
        self.device = loaded.device

    def program(self, empty_lists):
        return self.runnable.present()

    def plan(self):
        raise UnsupportedError("this module was made from a torch program, whose engines are parts of it", remedy="compile the original model and save that")


class InTorch:
    """A model that torch runs as a whole: `function` takes the model's arguments."""

    engine = report = plain = adapters = None
    segments: list = []
    device = torch.device("cpu")

    def __init__(self, function):
        self._function = function

    def call(self, args, kwargs):
        try:
            with torch.no_grad():
                return self._function(*args, **kwargs)
        except RuntimeError as problem:
            raise _op.translate(problem) from None
        except AssertionError as problem:
            if not str(problem).startswith("Guard failed: "):
                raise
            guard = str(problem).removeprefix("Guard failed: ")
            raise InputError(f"the inputs do not fit the saved program, which was compiled for {guard}", remedy="give other sizes, or compile with wider ranges") from None

    def profile(self, args, kwargs, runs):
        raise no_profile()

    def written(self):
        raise UnsupportedError("all of the model runs in torch, which writes the model's own buffers", remedy="copy the model for each sequence: copy.deepcopy(model)")

    def engines(self):
        return []

    def weight_names(self):
        return ()

    def shown(self):
        return []

    def shown_by(self, module):
        pass

    def owned_by(self, model):
        pass

    def follow(self):
        pass

    def lora_target(self):
        raise UnsupportedError("all of the model runs in torch, and adapters are added to what engines run", remedy="merge the adapter into the model's weights")

    def plan(self):
        raise UnsupportedError("all of the model runs in torch, which a .ingot file does not hold", remedy="its report says why; torch.export.save keeps it")


class Package(InTorch):
    """An AOTInductor package."""

    def update_weights(self, state_dict, strict):
        raise UnsupportedError("the weights of an AOTInductor package cannot be replaced", remedy='save the module with other weights, or with format="exported_program"')

    def program(self, empty_lists):
        raise _no_program()


class Exported(InTorch):
    """A torch program without engines."""

    def __init__(self, program: torch.export.ExportedProgram, report=None, parameters=None):
        super().__init__(program.module())
        self.report, self._program = report, program
        positional, keywords = program.call_spec.in_spec.children()
        self._arguments = Arguments(parameters_of_program(program) if parameters is None else parameters, positional.num_children, list(keywords.context), {})
        self.device = next((t.device for _, t in self._tensors()), self.device)

    def _tensors(self):
        return [*self._function.named_parameters(), *self._function.named_buffers()]

    def call(self, args, kwargs):
        args, kwargs = self._arguments.bind(args, kwargs)
        return super().call(args, kwargs)

    def shown(self):
        return [(name, tensor) for name, tensor in self._tensors() if not name.startswith("ingot_plan_")]

    def shown_by(self, module):
        report_writes(module, self._assign)

    def _assign(self, name, tensor):
        """Replaces one of the tensors that torch runs with."""
        path, _, leaf = name.rpartition(".")
        part = self._function.get_submodule(path)
        for held in (own_parameters(part), own_buffers(part)):
            if leaf in held and held[leaf] is not tensor:
                held[leaf] = tensor

    def update_weights(self, state_dict, strict):
        try:
            unknown = self._function.load_state_dict(state_dict, strict=False).unexpected_keys
        except RuntimeError as problem:
            raise InputError(str(problem)) from None
        if strict and unknown:
            raise InputError(f"the model has no weight {unknown[0]!r}")

    def program(self, empty_lists):
        return self._program
