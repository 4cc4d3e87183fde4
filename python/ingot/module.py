"""`ingot.Module`: a compiled model, called as the original is."""

from __future__ import annotations

import torch
import torch.nn.modules.module as _hooks
import torch.utils._pytree as pytree
from torch.autograd import forward_ad as forward_mode

from . import _engine, _op, autocast, plain, structure, torch_program
from .arguments import Arguments, parameters_of_program
from .assemble import Segment
from .capture import order_of, write
from .errors import FormatError, InputError, UnsupportedError
from .follow import Given, hear
from .inference_only import InferenceOnly
from .loaded import Loaded
from .reshapes import check_layout, rank_of
from .signature import same_constant, shown, size_function


class Module(InferenceOnly):
    """A compiled model: called as the original is, with pytrees in and out.

    engine: the `ingot.Engine` inside, None when nothing of the model runs in one. report: the `ingot.Report` of what runs where (None for
    a loaded file, which runs in its engine alone). segments: the pieces of the model that run in the engine. Inputs are tensors of the
    dtypes and ranks the model was compiled for, with sizes inside the ranges given then; other sizes, dtypes or ranks raise InputError
    naming the input and what is allowed. What the model writes in eager (buffers, inputs) is written here too, in the model's own
    tensors. Calls from several threads run side by side; calls that write the same buffer are the caller's to order.
    """

    def __init__(self, engine: "_engine.Engine | None" = None, *, assembled=None, signature=None, prepare=None, eager=None, report=None, program=None, parameters=None):
        super().__init__()
        if eager is not None:  # torch runs all of it, engines among the rest when it comes from a file
            self.engine, self.report, self._assembled = None, report, None
            self.__dict__["_eager"], self._exported = eager, program  # no submodule: its tensors go by the model's names
            self.training = False
            self._arguments = None
            if program is not None:
                positional, keywords = program.call_spec.in_spec.children()
                self._arguments = Arguments(parameters_of_program(program) if parameters is None else parameters, positional.num_children, list(keywords.context), {})
            for name, tensor in [*eager.named_parameters(), *eager.named_buffers()] if isinstance(eager, torch.nn.Module) else ():
                if not name.startswith("ingot_plan_"):
                    self._show_state(name, tensor)
            hear(self, self._assign)
            return
        self._eager = None
        self.engine = assembled.engine if assembled is not None else engine
        self.report = assembled.report if assembled is not None else None
        self._assembled, self._prepare = assembled, prepare
        if assembled is None and engine.device is not None:
            engine.watch = Given(engine)
        self._kind = torch.device(self._device()).type
        self._autocast = autocast.ANY if assembled is None or isinstance(assembled, Loaded) else autocast.state(self._kind)
        self._runner = assembled.run if assembled is not None else self._with_layouts(self._with_states(_op.runner(engine)))
        self._out_spec = None
        self._spec = None
        self._unflatten = pytree.tree_unflatten
        if assembled is not None:
            self._inputs, self._outputs, self._refused = signature["inputs"], signature["outputs"], signature.get("refused")
            self._set_specs(assembled)
        else:
            self._read_signature(engine)
        self._constants = [(i, leaf["constant"]) for i, leaf in enumerate(self._inputs) if "constant" in leaf]
        # Around an engine alone, sizes and constants are added to its outputs here.
        complete = assembled is not None and not assembled.straight
        tensors = sum("tensor" in leaf for leaf in self._inputs)
        self._sizes = [size_function(leaf["size"], tensors, f"signature.outputs[{i}].size") if "size" in leaf and not complete else None for i, leaf in enumerate(self._outputs)]
        made = len(engine.output_names) if assembled is None else len(self._outputs)
        self._plain_outputs = complete or self._outputs == [{"tensor": i} for i in range(made)]  # they are the engine's, as they come
        self._all_inputs = complete  # numbers are inputs of the graph too
        # All arguments positional tensors: no flattening needed.
        self._positional = self._spec is None or (
            not self._constants and not self._keywords() and all(c.is_leaf() for c in self._spec.children()[0].children())
        )
        self._single = self._spec is None and len(self._outputs) == 1 or (self._out_spec is not None and self._out_spec.is_leaf())
        keywords = self._keywords()
        self._all_keywords = (
            tuple(keywords)
            if keywords and not self._constants and not self._spec.children()[0].children()
            and all(c.is_leaf() for c in self._spec.children()[1].children())
            else None
        )  # fmt: skip
        self._arguments = self._binding((engine.signature if assembled is None else signature).get("parameters", []))
        self._quick = self._quick_call()
        self.eval()
        if assembled is not None:
            assembled.followed.own(self, shows=True)  # buffers that calls write; of a saved program all

    def _read_signature(self, engine):
        """What the plan says of a call. It may be a file's: it has to fit the engine."""
        found, inputs, outputs = engine.signature, engine.inputs(), engine.outputs()
        if "refused" in found:
            raise UnsupportedError(*_reason(found["refused"]))
        self._refused = None
        self._inputs = found.get("inputs", [{"tensor": i} for i in range(len(inputs))])
        self._outputs = found.get("outputs", [{"tensor": i} for i in range(len(outputs))])
        if (count := sum("tensor" in leaf for leaf in self._inputs)) != len(inputs):
            raise FormatError(f"signature.inputs has {_op.count(count, 'tensor')}, and the engine {len(inputs)}")
        for i, leaf in enumerate(self._outputs):
            if leaf.get("tensor", 0) >= max(len(outputs), 1) or "tensor" in leaf and not outputs:
                raise FormatError(f"signature.outputs[{i}].tensor is {leaf['tensor']}, and the engine has {len(outputs)}")
            for name, (position, axis, *_) in leaf["size"]["axes"].items() if "size" in leaf else ():
                if axis >= len(inputs[position]["dims"]):
                    raise FormatError(f"signature.outputs[{i}].size.axes.{name[:40]} is axis {axis} of input {position}, which has {len(inputs[position]['dims'])}")
        if "in_spec" in found:
            self._spec, self._out_spec = structure.read_of_torch(found["in_spec"], "signature.in_spec"), structure.read_of_torch(found["out_spec"], "signature.out_spec")
        elif "inputs" in found:
            self._spec, self._out_spec = structure.read(found.get("in"), "signature.in"), structure.read(found.get("out"), "signature.out")
        else:
            return
        structure.check_call(self._spec, "signature.in")
        for spec, leaves, what in ((self._spec, self._inputs, "in"), (self._out_spec, self._outputs, "out")):
            if spec.num_leaves != len(leaves) and "in_spec" in found:
                raise UnsupportedError(f"the model's {what}puts are not tensors alone, and `ingot compile` keeps nothing else of them", remedy="compile it with ingot.compile(torch.export.load(path)), and save that")
            if spec.num_leaves != len(leaves):
                raise FormatError(f"signature.{what} has {spec.num_leaves} leaves, and there are {len(leaves)} {what}puts")
        if structure.has_classes(self._out_spec):
            self._unflatten = structure.unflatten

    def _set_specs(self, assembled):
        self._spec, self._out_spec = assembled.in_spec, assembled.out_spec
        for slot in assembled.shown:
            for name in (slot.name, *slot.tied):
                self._show_state(name, slot.tensor)

    def _show_state(self, name, tensor):
        """A buffer that calls write, under the model's name for it, so that state_dict() shows what they have written."""
        *path, last = name.split(".")
        if not all((*path, last)):
            raise FormatError(f"the plan has a state named {name!r}")
        place = self
        for part in path:
            if not hasattr(place, part):
                place.add_module(part, torch.nn.Module())
            place = getattr(place, part)
            if not isinstance(place, torch.nn.Module):
                return  # a word that a module has another meaning for
        if not hasattr(place, last):
            place.register_parameter(last, tensor) if isinstance(tensor, torch.nn.Parameter) else place.register_buffer(last, tensor)

    def _assign(self, name, tensor):
        """Another tensor for one of those that torch runs with."""
        path, _, leaf = name.rpartition(".")
        part = self._eager.get_submodule(path) if isinstance(self._eager, torch.nn.Module) else self
        for held in (part._parameters, part._buffers):
            if leaf in held and held[leaf] is not tensor:
                held[leaf] = tensor

    def _with_states(self, run):
        """A loaded engine's states are this module's buffers, begun with the file's values."""
        if not self.engine.states() or self.engine.device is None:
            return run
        values = self.engine.session().state
        states = []
        for binding in self.engine.states():
            value = torch.from_numpy(values[binding["name"]])
            states.append((value.view(torch.bfloat16) if binding["dtype"] == "bfloat16" else value).to(self.engine.device))
            self._show_state(binding["name"], states[-1])
        return lambda flat: run([*flat, *states])

    def _with_layouts(self, run):
        """Refuses inputs that lie as those that reshapes in the model are not made for (see reshapes.py)."""
        laid, bindings = self.engine.signature.get("lies"), {b["name"]: (i, b) for i, b in enumerate(self.engine.inputs())}
        for name, lies in (laid or {}).items():
            if name not in bindings or rank_of(lies) != len(bindings[name][1]["dims"]):
                raise FormatError(f"signature.lies.{name[:40]} is no input of that many axes")
        if not laid:
            return run
        places = [(bindings[name][0], name, lies) for name, lies in laid.items()]

        def checked(flat):
            for i, name, lies in places:
                if i < len(flat) and isinstance(flat[i], torch.Tensor):
                    check_layout(name, flat[i], lies)
            return run(flat)

        return checked

    @property
    def segments(self):
        """The pieces of the model that run in the engine, in order."""
        if self._eager is not None:
            return []
        graph = getattr(self._assembled, "graph", None)
        return [m for m in graph.children() if isinstance(m, Segment)] if graph is not None else ["forward"]

    def _binding(self, parameters):
        if self._spec is None:
            return None
        positional, keywords = self._spec.children()
        places, constants, at = [*range(positional.num_children), *keywords.context], {}, 0
        for place, child in zip(places, [*positional.children(), *keywords.children()]):
            if child.is_leaf() and "constant" in self._inputs[at]:
                constants[place] = self._inputs[at]["constant"]
            at += child.num_leaves
        return Arguments(parameters, positional.num_children, list(keywords.context), constants)

    def _keywords(self):
        return list(self._spec.children()[1].context) if self._spec is not None else []

    _quick = None

    def __call__(self, *args, **kwargs):
        quick = self._quick
        if quick is not None and not kwargs and (result := quick(args)) is not None:
            return result
        return super().__call__(*args, **kwargs)

    def _quick_call(self):
        """The usual call, of plain tensors by position into one engine, with everything at hand: after a run the caches hold little of Python, and each
        object that is looked up costs. Gives None when the call is not of that kind; None itself when no call is."""
        runner = self._runner
        if not (isinstance(runner, _op.Runner) and runner.plain and self._positional and self._plain_outputs and self._autocast in (None, autocast.ANY)):
            return None
        run = runner.plain
        count, single, spec, plain, compiling, unflatten = len(self._inputs), self._single, self._out_spec, torch.Tensor, torch.compiler.is_compiling, self._unflatten
        casts, tracing = autocast.anywhere if self._autocast is None else bool, torch._C._is_tracing  # bool() is False
        hooks, before, all_hooks, all_before = self._forward_hooks, self._forward_pre_hooks, _hooks._global_forward_hooks, _hooks._global_forward_pre_hooks

        def call(args):
            if hooks or before or all_hooks or all_before or len(args) != count or compiling() or tracing() or casts() or forward_mode._current_level >= 0:
                return None
            for tensor in args:
                if type(tensor) is not plain or tensor.requires_grad:
                    return None
            results = run(args)
            if single:
                return results[0]
            return tuple(results) if spec is None else unflatten(results, spec)

        return call

    def _weight_names(self):
        assembled, engine = self.__dict__.get("_assembled"), self.__dict__.get("engine")
        if assembled is not None:
            return {name for s in assembled.slots if s.kind in ("weight", "state") for name in (s.name, *s.tied)}
        return {*(w["name"] for w in engine.inspect()["weights"]), *engine.tied} if engine is not None else ()

    def _names(self):
        """Of the inputs of a flat call."""
        if self._all_inputs:
            return [s.name for s in self._assembled.slots if s.kind in ("input", "number")]
        return self.engine.input_names

    def _device(self):
        if self.engine is not None:
            return self.engine.device or "cpu"
        functional = getattr(self._assembled, "functional", None)
        return functional.device if functional is not None else next((t.device for t in [*self.parameters(), *self.buffers()]), "cpu")

    def _apply(self, function, recurse=True):
        # What .to(), .half(), .cuda() and their like do to a parameter.
        probe = torch.empty(0, device=self._device())
        moved = function(probe)
        if moved.dtype != probe.dtype or moved.device != probe.device:
            raise InputError(
                f"a compiled module stays on {probe.device} with the dtypes it was compiled for; it cannot become {moved.dtype} on {moved.device}",
                remedy="convert the model, then compile it again",
            )
        return self

    def __reduce_ex__(self, protocol):
        if self.segments:
            raise UnsupportedError("a compiled module is neither copied nor pickled", remedy="ingot.save it and ingot.load the file; for a copy with other weights compile the model again")
        return super().__reduce_ex__(protocol)

    def forward(self, *args, **kwargs):
        self._refuse_tracers(args, kwargs)
        if self._eager is not None:
            if self._arguments is not None:
                args, kwargs = self._arguments.bind(args, kwargs)
            try:
                with torch.no_grad():
                    return self._eager(*args, **kwargs)
            except RuntimeError as problem:
                raise _op.translate(problem) from None
            except AssertionError as problem:
                if not str(problem).startswith("Guard failed: "):
                    raise
                guard = str(problem).removeprefix("Guard failed: ")
                raise InputError(f"the inputs do not fit the saved program, which was compiled for {guard}", remedy="give other sizes, or compile with wider ranges") from None
        autocast.check(self._autocast, self._kind)
        if self._positional and not kwargs and len(args) == len(self._inputs):
            flat = args
        elif self._all_keywords is not None and not args and len(kwargs) == len(self._all_keywords) and all(k in kwargs for k in self._all_keywords):
            flat = [kwargs[k] for k in self._all_keywords]
        else:
            flat = self._flatten(args, kwargs)
        for value in flat:
            if type(value) is not torch.Tensor and not torch.compiler.is_compiling():
                flat = plain.inputs(flat, self._names())
                break
        if torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in flat):
            raise InputError("an input requires gradients, and a compiled module has none", remedy="call it under torch.no_grad() or torch.inference_mode(), or give a detach()ed tensor")
        if forward_mode._current_level >= 0 and any(isinstance(t, torch.Tensor) and forward_mode.unpack_dual(t).tangent is not None for t in flat):
            raise InputError("forward-mode derivatives of an input are asked for, and a compiled module has none", remedy="call the model itself")
        results = self._runner(flat)
        if self._plain_outputs:
            if self._single:
                return results[0]
        else:
            results = [
                results[leaf["tensor"]] if "tensor" in leaf else size(flat) if size is not None else leaf["constant"]
                for leaf, size in zip(self._outputs, self._sizes)
            ]
        if self._out_spec is None:
            return results[0] if len(results) == 1 else tuple(results)
        return self._unflatten(results, self._out_spec)

    def _flatten(self, args, kwargs):
        if self._spec is None:
            if kwargs:
                raise InputError("this engine was built without a signature and takes positional tensors only")
            return list(args)
        flat, spec = pytree.tree_flatten(self._arguments.bind(args, kwargs))
        if spec != self._spec and not structure.alike(spec, self._spec):
            raise InputError(f"the arguments have the structure {spec}, but the model was compiled for {self._spec}")
        for i, expected in self._constants:
            if not same_constant(flat[i], expected):
                raise InputError(f"argument {i} is {shown(flat[i])}, but the model was compiled with {shown(expected)} there", remedy="compile it again for this value")
        return flat if self._all_inputs else [flat[i] for i, leaf in enumerate(self._inputs) if "tensor" in leaf]

    def _follow(self):
        """Takes what has changed in the model's tensors; a call does so by itself."""
        if self._assembled is not None:
            self._assembled.followed.follow()
        elif self.engine is not None:
            self.engine.follow()

    def update_weights(self, state_dict, *, strict=True):
        """Replaces weights by state-dict name; results of the next call use them. With strict, unknown names are an InputError.

        Tensors are read where they are, and followed as the model's own are; the model's take their places again when they change. The parameters of a
        saved program take the values instead.
        """
        _engine.by_name(state_dict)
        if self._eager is not None:
            self._update_eager(state_dict, strict)
        elif self._assembled is None:
            self.engine.update_weights(state_dict, strict=strict)
        else:
            self._assembled.update_weights(state_dict, strict)

    def _update_eager(self, state_dict, strict):
        if not isinstance(self._eager, torch.nn.Module):
            raise UnsupportedError("the weights of an AOTInductor package cannot be replaced", remedy='save the module with other weights, or with format="exported_program"')
        try:
            unknown = self._eager.load_state_dict(state_dict, strict=False).unexpected_keys
        except RuntimeError as problem:
            raise InputError(str(problem)) from None
        if strict and unknown:
            raise InputError(f"the model has no weight {unknown[0]!r}")

    def _program(self, empty_lists=True):
        """The torch program of a saved file."""
        if self._eager is not None and self._exported is not None:
            return self._exported
        if isinstance(self._assembled, Loaded):
            return self._assembled.present()
        if self._assembled is None or self._assembled.functional.program is None:
            raise UnsupportedError("this module was made from a file alone, without the torch program around its engine", remedy="compile the original model, or torch.export.load(path) of the .pt2 file, and save that")
        if self.engine is not None and self.engine.device is None:
            raise UnsupportedError(f"a torch program runs where its tensors are, on the CPU, and the engine in this one is for {self.engine.targets}", remedy='save it with format="ingot", or compile model.cuda() where there is a GPU')
        return torch_program.exported_program(self._assembled, empty_lists)

    def _plan(self):
        """An engine that is the whole model by itself, to be saved."""
        if self._eager is not None:
            raise UnsupportedError("all of the model runs in torch, which a .ingot file does not hold", remedy="its report says why; torch.export.save keeps it")
        if isinstance(self._assembled, Loaded):
            raise UnsupportedError("this module was made from a torch program, whose engines are parts of it", remedy="compile the original model and save that")
        if self._refused is not None:
            raise UnsupportedError(*_reason(self._refused))
        if self._assembled is None or self._assembled.straight:
            return self.engine
        captured = write(self._assembled.functional.complete())
        weights = [(name, _engine.lying(self._assembled.value(name).cpu(), order_of(recorded))) for name, recorded in captured.weights]
        model = _engine.Model.from_json(captured.json, weights)
        self._prepare(model)
        return _engine.Engine(model.compile({"fallback": "error", **self._assembled.options}), values=dict(weights), here=False)

    def profile(self, *args, runs: int = 10, **kwargs) -> list[dict]:
        """Where the time of a call goes: for each step its label, kernel, sizes, bytes and nanoseconds (median of `runs` calls). Of a module that
        is one engine."""
        if self.engine is not None and self.engine.device is None:
            raise self.engine.not_here()
        if self._eager is not None or self._assembled is not None and not self._assembled.straight:
            raise UnsupportedError("parts of this module run in torch, and a profile is one of an engine", remedy="torch.profiler.profile shows the engines' calls among torch's operators")
        flat = plain.inputs(self._flatten(args, kwargs) if self._spec is not None else list(args), self.engine.input_names)
        for value, name in zip(flat, self.engine.input_names):
            if not isinstance(value, torch.Tensor):
                raise InputError(f"input {name!r} is of type {type(value).__name__}, but the engine takes a tensor there")
            if why := plain.why_not(value, name):
                raise InputError(f"input {name!r} {why[0]}", remedy=why[1])
        flat = [t.detach().resolve_neg().cpu() for t in flat]
        # bfloat16 has no numpy type: its bits go in as uint16
        return self.engine.session().profile(*[t.view(torch.uint16).numpy() if t.dtype is torch.bfloat16 else t.numpy() for t in flat], runs=runs)

    def verify(self, *args, bound: float | None = None, bisect: bool = False, **kwargs):
        """The error of each step of the engine on these inputs against the reference interpreter: `print` shows a table. With bisect=True the first step over
        its bound, or None. See ingot.verify."""
        from .verification import verify

        return verify(self, *args, bound=bound, bisect=bisect, **kwargs)

    def extra_repr(self):
        if not self.segments:
            return "runs in torch"
        if self.engine is None:
            return f"{len(self.segments)} segments"
        return f"inputs={self.engine.input_names}, outputs={self.engine.output_names}"


def _reason(refused):
    """Message, origin and remedy of the error that a signature holds."""
    message, remedy = refused
    return message, "", remedy
