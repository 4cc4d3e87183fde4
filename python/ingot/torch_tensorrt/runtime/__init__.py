"""`torch_tensorrt.runtime`: how engines run.

ingot's engines need little of this: they record CUDA graphs by themselves (option cuda_graphs), and run in the caller's stream on the device of the inputs. Each name is
accepted and checked. If it means something else here, that is logged once.
"""

from __future__ import annotations

import logging

import torch

from .._said import log, once
from . import _modes
from ._settings import RuntimeCache, RuntimeSettings, engines_of, runtime_cache, runtime_config, set_dynamic_shapes_kernel_strategy
from ._whole_graph import recorded

__all__ = [
    "RuntimeCache", "RuntimeSettings", "enable_cudagraphs", "enable_output_allocator", "enable_pre_allocated_outputs", "get_cudagraphs_mode", "get_whole_cudagraphs_mode",
    "optimization_profile", "runtime_cache", "runtime_config", "set_cudagraphs_mode", "set_dynamic_shapes_kernel_strategy", "set_multi_device_safe_mode", "weight_streaming",
]  # fmt: skip


def __getattr__(name):
    if name in ("TorchTensorRTModule", "PythonTorchTensorRTModule"):
        from ..dynamo.runtime import TorchTensorRTModule

        return TorchTensorRTModule
    raise AttributeError(f"module 'torch_tensorrt.runtime' has no attribute {name!r}")


_cudagraphs, _whole, _safe = _modes.cudagraphs, _modes.whole, _modes.safe


def set_cudagraphs_mode(enabled: bool):
    """Stores the mode. Runs on a GPU with the same addresses are recorded in any mode (option cuda_graphs); on the CPU there is nothing to record. While it is on, a
    call of a module whose engines read sizes from data is a RuntimeError, as is one inside enable_output_allocator."""
    if enabled:
        _say_cudagraphs()
    _cudagraphs.value = bool(enabled)


def _say_cudagraphs():
    where = "engines record their runs by themselves (option cuda_graphs)" if torch.cuda.is_available() else "there is no GPU here, so nothing is recorded"
    once("cudagraphs", f"CUDA graphs: {where}")


def get_cudagraphs_mode() -> bool:
    return _cudagraphs.value


def get_whole_cudagraphs_mode() -> bool:
    """True inside `enable_cudagraphs` of a module with parts in torch."""
    return _whole.value


class enable_cudagraphs:
    """A context manager that returns the module. `get_cudagraphs_mode()` is true inside; the old mode is restored afterwards. See set_cudagraphs_mode.

    On a GPU a module with parts in torch is recorded as one CUDA graph, from the second call with inputs of the same sizes, dtypes and strides on. Results stay the caller's, inputs and
    buffers that the model writes are written in place, and changes of weights are followed by a new recording. A module with parts on the CPU, or with operators that cannot be
    recorded, runs as always, and a warning says why. The recordings are freed at the end."""

    def __init__(self, compiled_module, *, cuda_graph_strategy=None):
        if cuda_graph_strategy is not None:
            raise RuntimeError(f"cuda_graph_strategy={cuda_graph_strategy!r} is TRT-RTX-only: leave it out")
        self._module = compiled_module

    def __enter__(self):
        self._on = _modes.switched_on(_cudagraphs, _from_data(self._module))
        self._on.__enter__()
        _say_cudagraphs()
        report = getattr(self._module, "report", None)
        self._whole_before, _whole.value = _whole.value, report is not None and not report.whole
        self._recorded = recorded(self._module)
        self._recorded.__enter__()
        return self._module

    def __exit__(self, *problem):
        self._recorded.__exit__()
        self._on.__exit__()
        _whole.value = self._whole_before


def _from_data(module) -> bool:
    """Whether a module, or an engine of it, reads sizes from data."""
    return getattr(module, "reads_sizes_from_data", False) or any(engine.requires_output_allocator for engine in engines_of(module)) if isinstance(module, torch.nn.Module) else False


class enable_pre_allocated_outputs:
    """A context manager that returns the module. After a call its engines allocate the results of the next one with the same sizes, while the GPU works. What a call has returned
    is never written again; what only parts of the module read is, by the next call.

    ingot's engines get memory for results in a microsecond, so this costs more than it saves: 13 small engines of a module take 430 us instead of 260 on an H100. It is for
    scripts that name it; enable_cudagraphs is what makes such modules fast."""

    def __init__(self, module):
        self._module = module

    def set_pre_allocated_output(self, enable: bool):
        engines = engines_of(self._module)
        for engine in engines:
            engine.set_pre_allocated_outputs(enable)
        if enable and engines:
            once("time of pre_allocated_outputs", "enable_pre_allocated_outputs: engines get memory for results in a microsecond without it; calls of small engines take longer with it")
        if enable and not engines:
            once("pre_allocated_outputs", f"enable_pre_allocated_outputs: a {type(self._module).__name__} has no engines of its own, so nothing is allocated in advance", logging.WARNING)

    def __enter__(self):
        self.set_pre_allocated_output(True)
        return self._module

    def __exit__(self, *problem):
        self.set_pre_allocated_output(False)


class enable_output_allocator:
    """A context manager that returns the module. Results whose sizes come from data always get memory while the engine runs. RuntimeError while CUDA graphs are on."""

    def __init__(self, module):
        self._module = module

    def __enter__(self):
        self._on = _modes.switched_on(_modes.allocator, _from_data(self._module))
        self._on.__enter__()
        once("output_allocator", "enable_output_allocator: results of any size get memory while the engine runs, with it or without")
        return self._module

    def __exit__(self, *problem):
        self._on.__exit__()


class set_multi_device_safe_mode:
    """A function, or a context manager that restores the old mode. Every call of ingot checks the device of its inputs, so the mode is only stored."""

    def __init__(self, enabled: bool):
        self._before = _safe.value
        _safe.value = bool(enabled)
        once("safe_mode", "multi-device safe mode: every call checks where its inputs are, in this mode or not")

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        _safe.value = self._before


def get_multi_device_safe_mode() -> bool:
    return _safe.value


class weight_streaming:
    """A context with `device_budget` (settable, bytes), `total_device_budget` and `get_automatic_weight_streaming_budget()`.

    On a GPU a budget is what the weights of all engines may take there, each engine's share after its size; the rest is streamed from the host (`ingot.Engine.configure`). What
    streaming itself and the calls need comes on top. A budget below 0 is a RuntimeError, one above the total is logged and taken as the total. Where the model itself is on the
    GPU its own tensors stay there, whatever the budget. On the CPU weights are in memory of the host, so the budget is only noted. A module without weights in engines has a total of 0.
    """

    def __init__(self, module):
        module = getattr(module, "compiled", module)  # of a MutableTorchTensorRTModule
        self._engines = list({id(e.engine.ingot_engine): e.engine.ingot_engine for e in engines_of(module)}.values())
        self._totals = [_weight_bytes(engine) for engine in self._engines]
        self.total_device_budget = sum(self._totals)
        self._module = module

    @property
    def device_budget(self) -> int:
        noted = self._module.__dict__.get("_device_budget")
        if noted is not None:
            return noted
        return sum(e.memory()["resident"] if _on_gpu(e) else total for e, total in zip(self._engines, self._totals))

    @device_budget.setter
    def device_budget(self, bytes: int):
        if bytes < 0:
            raise RuntimeError(f"a budget of {bytes} bytes is below 0")
        if bytes > self.total_device_budget:
            log.error("a budget of %d bytes is more than all weights take: %d is taken", bytes, self.total_device_budget)
        bytes = min(bytes, self.total_device_budget)
        for engine, total in zip(self._engines, self._totals):
            if _on_gpu(engine):
                share = bytes * total // self.total_device_budget if self.total_device_budget else 0
                engine.configure(memory_bytes=0 if share == total else engine.memory()["least"] + share)
            elif bytes < self.total_device_budget:
                once("weight_streaming", "weight_streaming: on the CPU weights are in memory of the host already, whatever the budget")
        self._module.__dict__["_device_budget"] = bytes

    def get_automatic_weight_streaming_budget(self) -> int:
        """Nine tenths of the GPU's free memory and of the weights that are there, at most the total; on the CPU the total."""
        if not any(map(_on_gpu, self._engines)):
            return self.total_device_budget
        resident = sum(e.memory()["resident"] for e in self._engines if _on_gpu(e))
        free, _ = torch.cuda.mem_get_info(next(e.device for e in self._engines if _on_gpu(e)))
        return min(self.total_device_budget, (free + resident) * 9 // 10)

    def get_required_device_budgets(self) -> int:
        return self.total_device_budget

    def __enter__(self):
        self._before = self.device_budget
        return self

    def __exit__(self, *problem):
        self.device_budget = self._before


def _on_gpu(engine) -> bool:
    return (engine.device or "").startswith("cuda")


def _weight_bytes(engine) -> int:
    if _on_gpu(engine):
        memory = engine.memory()
        return memory["resident"] + memory["streamed"]
    return sum(w["bytes"] for w in engine.inspect()["weights"])


class optimization_profile:
    """A context manager for one of the profiles of `Input(profiles=...)`: an index, "auto" (each call takes the first that its inputs fit) or None (the first). All profiles use
    one plan for their union, so the choice is stored and shown, but changes nothing. The old choice is restored afterwards. A bad index is a ValueError, another type a TypeError."""

    def __init__(self, module, profile):
        profiles = getattr(module, "profiles", None)
        count = profiles.count if profiles is not None else 1
        if isinstance(profile, bool) or not (profile is None or profile == "auto" or isinstance(profile, int)):
            raise TypeError(f"profile is {profile!r}: an index, \"auto\" or None")
        if isinstance(profile, int) and not 0 <= profile < count:
            raise ValueError(f"profile {profile} is not one of the {count} that the module was compiled with")
        once("optimization_profile", "optimization_profile: one plan serves the sizes of all profiles; choosing one changes nothing")
        self._module, self._profiles, self._profile = module, profiles, profile

    def __enter__(self):
        if (profiles := self._profiles) is not None:
            self._before = profiles.active, profiles.auto
            profiles.auto = self._profile == "auto"
            profiles.active = profiles.active if profiles.auto else self._profile or 0
        return self._module

    def __exit__(self, *problem):
        if self._profiles is not None:
            self._profiles.active, self._profiles.auto = self._before
