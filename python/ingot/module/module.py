"""`ingot.Module`: a compiled model, called as the original is."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import torch

from ..base import processes
from ..capture import autocast
from ..engine import _values
from ..engine.memory import Configured
from ..engine.profile import Profile
from ..errors import FormatError, InputError, UnsupportedError
from ..running import module_state
from ..running.report import Report
from ..torch_internals.modules import HOOKS_OF_ALL, call_of_module, own_hooks
from ..torch_internals.tensors import FORWARD_MODE, LEVEL, is_tracing
from .inference_only import InferenceOnly

_CALL = call_of_module  # torch.nn.Module.__call__ when nobody traces


class Module(InferenceOnly):
    """A compiled model: called as the original is, with pytrees in and out.

    engine: the `ingot.Engine` inside; None if no part of the model runs in one.
    report: the `ingot.Report` of what runs where; None for a torch program from a file.
    segments: the parts of the model that run in the engine.

    Inputs are tensors of the dtypes and ranks that the model was compiled for, with sizes inside the given ranges. Other sizes, dtypes or ranks raise InputError,
    which names the input and what is allowed. Buffers and inputs that the model writes in eager are written here too, in the model's own tensors. Calls from several
    threads run side by side; the caller orders calls that write the same buffer.
    """

    def __init__(self, kind):
        """kind: an object of one of the classes in module_kinds.py."""
        super().__init__()
        self._kind, self.engine = kind, kind.engine
        for name, tensor in kind.shown():
            self._show_state(name, tensor)
        self._quick = self._quick_call()
        self.eval()
        kind.shown_by(self)

    @property
    def report(self) -> Report | None:
        return self._kind.report

    @property
    def segments(self) -> list[Any]:
        """The parts of the model that run in the engine, in order."""
        return self._kind.segments

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        quick = self._quick
        if quick is not None and not kwargs and (result := quick(args)) is not None:
            return result
        call = torch.nn.Module.__call__
        if call is not _CALL and processes.tracer not in (None, threading.get_ident()):
            call = _CALL  # another thread's tracer has replaced it, and must not see this call
        return call(self, *args, **kwargs)

    def forward(self, *args, **kwargs):
        self._refuse_tracers(args, kwargs)
        return self._kind.call(args, kwargs)

    def new_state(self) -> module_state.ModuleState:
        """The buffers that calls write, in separate memory, with their current values: see with_state."""
        return module_state.new_state(self)

    def with_state(self, state: module_state.ModuleState) -> module_state.WithState:
        """This module as a function that reads and writes the state's buffers instead of the module's own. Calls with several states run side by side."""
        return module_state.WithState(self, state)

    def _quick_call(self):
        """A function for the usual call: plain tensors by position, into one engine. It looks up as little as possible, because after a run the processor's caches
        hold little of Python. It returns None for a call of another kind. None instead of a function if no call is of this kind."""
        run = self._kind.plain
        if run is None:
            return None
        form, captured = self._kind.form, self._kind.captured
        if not (form.positional and form.plain_outputs and captured in (None, autocast.ANY)):
            return None
        count, single, spec, plain, compiling, unflatten = len(form.inputs), form.single, form.out_spec, torch.Tensor, torch.compiler.is_compiling, form.unflatten
        casts, tracing = autocast.anywhere if captured is None else bool, is_tracing  # bool() is False
        (before, hooks), (all_hooks, all_before), forward_mode, level = own_hooks(self), HOOKS_OF_ALL, FORWARD_MODE, LEVEL

        def call(args):
            hooked, traced = hooks or before or all_hooks or all_before, compiling() or tracing()
            if hooked or traced or len(args) != count or casts() or forward_mode[level] >= 0:
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
        """Registers a buffer that calls write, under the model's name: state_dict() shows what they have written."""
        *path, last = name.split(".")
        if not all((*path, last)):
            raise FormatError(f"the plan has a state named {name!r}")
        place = self
        for part in path:
            if not hasattr(place, part):
                place.add_module(part, torch.nn.Module())
            place = getattr(place, part)
            if not isinstance(place, torch.nn.Module):
                return  # a name with another meaning in torch.nn.Module
        if not hasattr(place, last):
            place.register_parameter(last, tensor) if isinstance(tensor, torch.nn.Parameter) else place.register_buffer(last, tensor)

    def _apply(self, function, recurse=True):
        # The effect of .to(), .half(), .cuda() and the like on a parameter.
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

    def update_weights(self, state_dict: Mapping[str, Any], *, strict: bool = True) -> Any:
        """Replaces weights by state-dict name; results of the next call use them. With strict, unknown names are an InputError.

        Tensors are read in place and followed like the model's own. If one of the model's tensors changes later, the model's tensor is used again. In a saved program
        the values are copied into its parameters. Raises InputError for another dtype or shape.
        """
        _values.by_name(state_dict)
        self._kind.update_weights(state_dict, strict)

    def configure(self, **runtime_option: Any) -> None:
        """Changes memory_bytes for each engine of the module: see `ingot.Engine.configure`. In a `with` statement the old limits return at the end of the block."""
        return Configured(self._kind.engines(), runtime_option)

    def add_lora(self, name: str, adapter, *, scale: float = 1.0, config=None):
        """Adds a LoRA adapter: calls use W + scale * B @ A for each of its weights. The sum over all chosen adapters is computed in float32 and rounded once.

        adapter: {weight: (A, B, scale)} by the names of the model's state dict, with A [rank, in] and B [out, rank] (for a convolution the kernel axes follow); or a
            state dict of PEFT, diffusers or kohya's scripts; or the path of such a safetensors file, or of PEFT's folder.
        scale: multiplies the whole adapter.
        config: PEFT's adapter_config.json as a dict or path, if it is not in the file's folder.

        The model's own tensors stay unchanged, and are still followed. Calls in other threads finish with the weights they began with. `use_lora` chooses among several
        adapters. ingot.save writes the sums. Raises InputError for a name that is taken, an unknown weight (with the nearest one) and shapes that do not fit; then nothing
        has changed.
        """
        self._adapters().add(name, adapter, scale, config)

    def remove_lora(self, name: str):
        """Removes an adapter and the weights merged from it. Later calls compute without it. InputError if there is none of that name."""
        self._adapters().remove(name)

    def use_lora(self, *names: str):
        """Makes later calls use exactly these of the added adapters. Going back to a recent choice costs microseconds, because its weights are kept."""
        self._adapters().use(names)

    def _adapters(self):
        kind = self._kind
        if kind.adapters is None:
            from .adapters import Adapters

            kind.adapters = Adapters(kind.lora_target())
        return kind.adapters

    def profile(self, *args, runs: int = 10, **kwargs) -> Profile:
        """Where the time of a call goes: an `ingot.Profile`, for a module that is one engine. It lists the steps with the user's line, bytes and nanoseconds (median of
        `runs` calls), prints as a table, and writes a trace (`.trace(path)`)."""
        return self._kind.profile(args, kwargs, runs)

    def verify(self, *args, bound: float | None = None, bisect: bool = False, **kwargs):
        """Compares each step of the engine on these inputs with the reference interpreter; `print` shows the errors as a table. With bisect=True it returns the first step
        over its bound, or None. See ingot.verify."""
        from .verification import verify

        return verify(self, *args, bound=bound, bisect=bisect, **kwargs)

    def extra_repr(self):
        if not self.segments:
            return "runs in torch"
        if self.engine is None:
            return f"{len(self.segments)} segments"
        return f"inputs={self.engine.input_names}, outputs={self.engine.output_names}"
