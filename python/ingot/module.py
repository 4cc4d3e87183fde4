"""`ingot.Module`: a compiled model, called as the original is."""

from __future__ import annotations

import threading

import torch
import torch.nn.modules.module as _hooks
from torch.autograd import forward_ad as forward_mode

from . import _values, autocast, module_state, processes
from .errors import FormatError, InputError, UnsupportedError
from .inference_only import InferenceOnly
from .memory import Configured
from .profile import Profile

_CALL = torch.nn.Module._wrapped_call_impl  # what torch.nn.Module.__call__ is where nobody traces


class Module(InferenceOnly):
    """A compiled model: called as the original is, with pytrees in and out.

    engine: the `ingot.Engine` inside, None when nothing of the model runs in one. report: the `ingot.Report` of what runs where (None for
    a loaded file, which runs in its engine alone). segments: the pieces of the model that run in the engine. Inputs are tensors of the
    dtypes and ranks the model was compiled for, with sizes inside the ranges given then; other sizes, dtypes or ranks raise InputError
    naming the input and what is allowed. What the model writes in eager (buffers, inputs) is written here too, in the model's own
    tensors. Calls from several threads run side by side; calls that write the same buffer are the caller's to order.
    """

    def __init__(self, kind):
        """kind: one of kinds.py."""
        super().__init__()
        self._kind, self.engine, self.report = kind, kind.engine, kind.report
        for name, tensor in kind.shown():
            self._show_state(name, tensor)
        self._quick = self._quick_call()
        self.eval()
        kind.shown_by(self)

    @property
    def segments(self):
        """The pieces of the model that run in the engine, in order."""
        return self._kind.segments

    def __call__(self, *args, **kwargs):
        quick = self._quick
        if quick is not None and not kwargs and (result := quick(args)) is not None:
            return result
        call = torch.nn.Module.__call__
        if call is not _CALL and processes.tracer not in (None, threading.get_ident()):
            call = _CALL  # the tracer of another thread stands in its place, and is not to see this call
        return call(self, *args, **kwargs)

    def forward(self, *args, **kwargs):
        self._refuse_tracers(args, kwargs)
        return self._kind.call(args, kwargs)

    def new_state(self) -> "module_state.ModuleState":
        """The buffers that calls write, in memory apart from the module's, with the values that they have now: see with_state."""
        return module_state.new_state(self)

    def with_state(self, state: "module_state.ModuleState") -> "module_state.WithState":
        """This module as a function that reads and writes the state's buffers instead of the module's own. Calls with several states run side by side."""
        return module_state.WithState(self, state)

    def _quick_call(self):
        """The usual call, of plain tensors by position into one engine, with everything at hand: after a run the caches hold little of Python, and each
        object that is looked up costs. Gives None when the call is not of that kind; None itself when no call is."""
        run = self._kind.plain
        if run is None:
            return None
        form, captured = self._kind.form, self._kind.captured
        if not (form.positional and form.plain_outputs and captured in (None, autocast.ANY)):
            return None
        count, single, spec, plain, compiling, unflatten = len(form.inputs), form.single, form.out_spec, torch.Tensor, torch.compiler.is_compiling, form.unflatten
        casts, tracing = autocast.anywhere if captured is None else bool, torch._C._is_tracing  # bool() is False
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
        kind = self.__dict__.get("_kind")
        return kind.weight_names() if kind is not None else ()

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

    def _apply(self, function, recurse=True):
        # What .to(), .half(), .cuda() and their like do to a parameter.
        probe = torch.empty(0, device=self._kind.device)
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

    def update_weights(self, state_dict, *, strict=True):
        """Replaces weights by state-dict name; results of the next call use them. With strict, unknown names are an InputError.

        Tensors are read where they are, and followed as the model's own are; the model's take their places again when they change. The parameters of a
        saved program take the values instead.
        """
        _values.by_name(state_dict)
        self._kind.update_weights(state_dict, strict)

    def configure(self, **runtime_option):
        """Changes memory_bytes for each engine of the module: see `ingot.Engine.configure`. As a context, what was before is back behind it."""
        return Configured(self._kind.engines(), runtime_option)

    def add_lora(self, name: str, adapter, *, scale: float = 1.0, config=None):
        """Adds a LoRA adapter to the weights that calls compute with: each becomes W + scale * B @ A, for all adapters together summed in float32 and rounded once.

        adapter: {weight: (A, B, scale)} with the names of the model's state dict, A [rank, in] and B [out, rank] (a convolution's with their other axes behind); or a state dict of
        PEFT's, diffusers' or kohya's scripts; or the path of such a safetensors file, or of PEFT's folder. scale: multiplies all of it. config: PEFT's adapter_config.json as a dict
        or path, where it is not beside the file.

        The model's own tensors stay as they are, and are still followed. Calls under way in other threads go on with the weights they began with. `use_lora` chooses among several.
        ingot.save writes the sums. InputError for a name that is taken, an unknown weight (with the nearest one) and shapes that do not fit; then nothing has changed.
        """
        self._adapters().add(name, adapter, scale, config)

    def remove_lora(self, name: str):
        """Calls compute without the adapter from now on, and what was merged of it goes. InputError when there is none of that name."""
        self._adapters().remove(name)

    def use_lora(self, *names: str):
        """Calls compute with these of the added adapters from now on, and no others. A choice that was used lately costs microseconds: its weights were kept."""
        self._adapters().use(names)

    def _adapters(self):
        kind = self._kind
        if kind.adapters is None:
            from .adapters import Adapters

            kind.adapters = Adapters(kind.lora_target())
        return kind.adapters

    def profile(self, *args, runs: int = 10, **kwargs) -> Profile:
        """Where the time of a call goes: an `ingot.Profile`, a list of the steps with the user's line, bytes and nanoseconds (median of `runs` calls), which prints as
        a table and writes a trace (`.trace(path)`). Of a module that is one engine."""
        return self._kind.profile(args, kwargs, runs)

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
