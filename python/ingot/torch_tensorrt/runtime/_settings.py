"""Run-time settings: accepted and checked, so that scripts run. ingot's runtime needs none of them."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass

from .._said import once
from ._runtime_cache import RuntimeCache

RUNTIME_CACHE_PATH = os.path.join(tempfile.gettempdir(), "torch_tensorrt_engine_cache", "runtime_cache.bin")
_STRATEGIES = {
    "dynamic_shapes_kernel_specialization_strategy": ("lazy", "eager", "none"),
    "cuda_graph_strategy": ("disabled", "whole_graph_capture"),
}


@dataclass(frozen=True)
class RuntimeSettings:
    """dynamic_shapes_kernel_specialization_strategy: "lazy", "eager" or "none". cuda_graph_strategy: "disabled" or "whole_graph_capture". runtime_cache: a path, a
    RuntimeCache or None. Other strategies are a ValueError. They are kept and shown, and change nothing here, which is logged once."""

    dynamic_shapes_kernel_specialization_strategy: str = "lazy"
    cuda_graph_strategy: str = "disabled"
    runtime_cache: object = RUNTIME_CACHE_PATH

    def __post_init__(self):
        for name, known in _STRATEGIES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}")
        if self != RuntimeSettings._quiet():
            once("RuntimeSettings", "RuntimeSettings change nothing here: kernels serve ranges of sizes, and CUDA graphs are recorded by the option cuda_graphs")

    @classmethod
    def _quiet(cls) -> "RuntimeSettings":
        return _DEFAULT

    def merge(self, **overrides) -> "RuntimeSettings":
        """The settings with some others; an unknown name is a TypeError."""
        unknown = set(overrides) - {f.name for f in dataclasses.fields(self)}
        if unknown:
            raise TypeError(f"{sorted(unknown)[0]!r} is not a setting of running: {', '.join(f.name for f in dataclasses.fields(self))}")
        return dataclasses.replace(self, **overrides)


_DEFAULT = object.__new__(RuntimeSettings)
for _field in dataclasses.fields(RuntimeSettings):
    object.__setattr__(_DEFAULT, _field.name, _field.default)


def engines_of(targets) -> list:
    """The engine modules of a compiled module, of several, or of an engine module."""
    from ..dynamo.runtime._TorchTensorRTModule import TorchTensorRTModule

    found = []
    for target in targets if isinstance(targets, (list, tuple)) else [targets]:
        target = getattr(target, "compiled", target)
        found += [m for m in target.modules() if isinstance(m, TorchTensorRTModule)]
    return found


class runtime_config:
    """A context manager with other RuntimeSettings for the engines of one or several modules. An unknown name is a TypeError."""

    def __init__(self, targets, **overrides):
        RuntimeSettings._quiet().merge(**overrides)  # checks the names even if there are no engines
        self._targets, self._overrides = targets, overrides

    def __enter__(self):
        self._before = [(engine, engine.runtime_settings) for engine in engines_of(self._targets)]
        for engine, settings in self._before:
            engine.runtime_settings = settings.merge(**self._overrides)
        return self._targets

    def __exit__(self, *problem):
        for engine, settings in self._before:
            engine.runtime_settings = settings


def set_dynamic_shapes_kernel_strategy(targets, strategy):
    """runtime_config with only this setting."""
    return runtime_config(targets, dynamic_shapes_kernel_specialization_strategy=strategy)


@contextmanager
def runtime_cache(targets, path="", autosave=True):
    """runtime_config with a RuntimeCache, which is what the context gives. One that is made here is read at the beginning, and with autosave written at the end."""
    given = isinstance(path, RuntimeCache)
    cache = path if given else RuntimeCache(path if isinstance(path, (str, os.PathLike)) else "")
    if not given:
        cache.load()
    with runtime_config(targets, runtime_cache=cache):
        yield cache
    if autosave and not given:
        cache.save()
