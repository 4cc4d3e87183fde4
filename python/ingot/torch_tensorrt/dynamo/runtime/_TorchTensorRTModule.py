"""`TorchTensorRTModule`: one engine as a module."""

from __future__ import annotations

import json
import os
import weakref

import torch

from ....capture.fixes import random_numbers
from ....engine import _engine, _op
from ....errors import InputError
from ..._errors import CallError, refusal
from ...runtime import _modes
from ...runtime._settings import RuntimeSettings
from .._settings import CompilationSettings
from ._TRTEngine import TRTEngine

profiled: weakref.WeakSet = weakref.WeakSet()  # the engine modules that write a profile of each call


class TorchTensorRTModule(torch.nn.Module):
    """A module that runs one engine on tensors. It is made from the bytes of `convert_exported_program_to_serialized_trt_engine` (or of a .ingot file), or is a segment of a compiled
    module, `compiled._run_on_acc_0`.

    Arguments:
        serialized_engine: bytes of a plan; None leaves the module empty until `load_state_dict` gives them.
        input_binding_names, output_binding_names: the caller's names for inputs and results, as many as the engine has. None takes the engine's names.
        name: only shown.
        settings: only shown, but with lazy_engine_init the bytes are kept and `setup_engine()` loads them.
        weights: values for an engine that was saved without values (strip_engine_weights), by state-dict name.

    `engine` is a TRTEngine: the `ingot.Engine` under the names that scripts use. Loading bytes runs no code in them, and needs no pickle. Raises FormatError for bytes that are not a plan (such as a TensorRT
    engine), InputError for names that do not fit. An engine for the CPU is made anew for the GPU that the first inputs are on.
    """

    def __init__(self, serialized_engine=None, input_binding_names=None, output_binding_names=None, *, name="", settings=None, weights=None, requires_output_allocator=False,
                 requires_native_multidevice=False, symbolic_shape_expressions=None, aliased_io=None):  # fmt: skip
        super().__init__()
        self.name, self.settings = name, settings if settings is not None else CompilationSettings()
        self._names, self._weights, self._run, self.engine, self.function = (input_binding_names, output_binding_names), weights, None, None, 0
        self._profile_to, self._runtime_settings = None, RuntimeSettings._quiet()
        self._random = {}  # the state of the engine's own random numbers, by its place among the tensors of a run
        self.requires_output_allocator, self.requires_native_multidevice = requires_output_allocator, requires_native_multidevice
        self._serialized, self._unowned, self._ahead = None, True, False
        if serialized_engine is not None:
            self._serialized = bytes(serialized_engine)
            self._set_up_unless_lazy()

    @classmethod
    def _of(cls, run, engine, function, name, settings, profiles, unowned=True):
        """The module of a function of an existing engine. run: a function from flat tensors to a list of tensors. unowned: whether one of its results is a result of the model."""
        made = cls(name=name, settings=settings)
        made._run, made.engine, made.function, made._unowned = run, TRTEngine(engine, function, profiles), function, unowned
        made.requires_output_allocator = made.engine.reads_sizes_from_data
        return made

    def _set_up_unless_lazy(self):
        if not getattr(self.settings, "lazy_engine_init", False):
            self.setup_engine()

    def setup_engine(self):
        """Loads the engine from the bytes, if it is not loaded yet."""
        if self.engine is None and self._serialized is not None:
            self._load("auto")

    def _load(self, device: str):
        loaded = _engine.load_engine(self._serialized, weights=self._weights, device=device)
        self.engine, self._run = TRTEngine(loaded), _op.Runner(loaded)
        self.set_pre_allocated_outputs(self._ahead)
        for at, state in enumerate(loaded.states(), len(loaded.inputs())):
            if state["name"] == random_numbers.STATE:
                self._random = {at: torch.as_tensor(loaded.session().state[state["name"]]).to(loaded.device)}
        self.requires_output_allocator = self.requires_output_allocator or self.engine.reads_sizes_from_data
        for given, known, what in zip(self._names, (self.engine.inputs(), self.engine.outputs()), ("input", "output")):
            if given is not None and len(given) != len(known):
                raise InputError(f"{len(given)} {what} binding names are given ({', '.join(map(str, given))}), but the engine has {len(known)} {what}s")

    @property
    def input_binding_names(self) -> list[str]:
        return list(self._names[0] or (b["name"] for b in self.engine.inputs(self.function)))

    @property
    def output_binding_names(self) -> list[str]:
        return list(self._names[1] or (b["name"] for b in self.engine.outputs(self.function)))

    def forward(self, *inputs):
        """One tensor, a tuple of them, or () for none."""
        if self._run is None:
            raise RuntimeError("the module has no engine: give serialized_engine, or load_state_dict, and call setup_engine()")
        _modes.check(self.requires_output_allocator)
        count = len(self.engine.inputs(self.function)) + len(self.engine.states(self.function)) - len(self._random)
        if len(inputs) != count:
            raise CallError(f"the engine takes {_op.count(count, 'tensor')} ({', '.join(self.input_binding_names)}), but {_op.given(inputs)}")
        flat = [t if isinstance(t, torch.Tensor) else torch.tensor(t) for t in inputs]
        if self._serialized is not None and self.engine.device == "cpu" and (gpu := next((t.device for t in flat if t.is_cuda), None)) is not None:
            self._load(str(gpu))  # bytes that were made from tensors of the CPU hold the graph too: the engine runs where its inputs are
        for at, state in self._random.items():
            flat.insert(at, state)
        made = self._run(flat)
        if self._profile_to is not None:
            self._write_profile(inputs)
        return made[0] if len(made) == 1 else tuple(made)

    # -- properties of the engine

    @property
    def serialized_engine(self) -> bytes | None:
        """The bytes that it was made of; of a segment of a compiled module a plan of that segment (see TRTEngine.serialized_engine)."""
        return self._serialized if self._serialized is not None or self.engine is None else self.engine.serialized_engine

    def _pack_engine_info(self) -> list:
        return self.engine.serialized_info

    def get_engine(self):
        return self.engine

    @property
    def aliased_io(self) -> dict[str, tuple[str, str]]:
        """What is written in place: {name: (name of the input or buffer, kind)}. The kind of a tensor of rank 4 is "kv_cache_update", because caches have that rank; others are "user". These
        are not among the results: they are written in the caller's tensors or the model's buffers."""
        return self.engine.aliased_io if self.engine is not None else {}

    def are_output_tensors_unowned(self) -> bool:
        """Whether a result of this segment is a result of the model, so that the caller keeps it."""
        return self._unowned

    def set_pre_allocated_outputs(self, enable: bool):
        """See runtime.enable_pre_allocated_outputs."""
        self._ahead = enable
        if self._run is not None:
            self._run.allocate_ahead(enable, inner=not self._unowned)

    @property
    def pre_allocated_outputs(self) -> list[torch.Tensor]:
        """The results of the next call, before it has written them; none if they are not allocated in advance."""
        return self._run.ahead[0].tensors if self._run is not None and self._run.ahead else []

    def get_layer_info(self) -> str:
        """The engine's steps as JSON."""
        return json.dumps(self.engine.inspect()["functions"][self.function], default=str)

    def dump_layer_info(self):
        print(self.get_layer_info())

    def enable_profiling(self, profiling_results_dir=None, profile_format="perfetto"):
        """Makes each later call of a whole model's engine write `<name>_engine_execution_profile.trace` (for Perfetto) to the folder."""
        if profile_format not in ("perfetto", "trex"):
            raise ValueError(f"profile_format is {profile_format!r}: \"perfetto\"")
        if profile_format == "trex":
            raise refusal('enable_profiling(profile_format="trex")', "that is the format of TensorRT's explorer", 'profile_format="perfetto"')
        self._profile_to = os.fspath(profiling_results_dir) if profiling_results_dir is not None else os.curdir
        profiled.add(self)

    def disable_profiling(self):
        self._profile_to = None
        profiled.discard(self)

    def _write_profile(self, inputs):
        os.makedirs(self._profile_to, exist_ok=True)
        self.engine.session(self.function).profile(*map(_array, inputs), runs=1).trace(os.path.join(self._profile_to, f"{self.name or 'engine'}_engine_execution_profile.trace"))

    # -- how it runs

    @property
    def runtime_settings(self) -> RuntimeSettings:
        return self._runtime_settings

    @runtime_settings.setter
    def runtime_settings(self, value):
        self._runtime_settings = value

    def get_streamable_device_memory_budget(self) -> int:
        """The bytes of the engine's weights."""
        return sum(w["bytes"] for w in self.engine.inspect()["weights"])

    get_automatic_device_memory_budget = get_device_memory_budget = get_streamable_device_memory_budget

    # -- as part of a state dict, a pickle or a copy

    def __getstate__(self):
        """The plan's bytes in place of the engine; those of a segment of a compiled module have the weights of now."""
        return {**self.__dict__, "_serialized": self.serialized_engine, "engine": None, "_run": None, "_random": {}, "function": 0}

    def __setstate__(self, state):
        super().__setstate__(state)
        self._set_up_unless_lazy()

    def get_extra_state(self):
        """The name and the plan's bytes; for a segment of a compiled module only the name."""
        return {"name": self.name, "engine": torch.frombuffer(bytearray(self._serialized), dtype=torch.uint8) if self._serialized else None}

    def set_extra_state(self, state):
        if state.get("engine") is None:
            return
        self.name, self._serialized, self.engine = state["name"], state["engine"].numpy().tobytes(), None
        self._set_up_unless_lazy()

    def extra_repr(self):
        return f"{self.name}, {len(self.engine.inputs(self.function))} inputs, {len(self.engine.outputs(self.function))} outputs" if self.engine is not None else "empty"


def _array(tensor):
    tensor = tensor.detach().cpu()
    return (tensor.view(torch.uint16) if tensor.dtype is torch.bfloat16 else tensor).numpy()  # numpy has no bfloat16, so its bits are passed
