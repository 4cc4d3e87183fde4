"""torch.compile(model, backend="tensorrt"), also "torch_tensorrt" and "aot_torch_tensorrt_aten"."""

from __future__ import annotations

import importlib.util

import torch

from ... import backend as _backend
from ...errors import Error
from ...torch_internals.dynamo import register_backend
from .._said import log, once
from . import _host_memory, lowering
from ._engine_cache import through
from ._kept_in_torch import kept_in_torch
from ._settings import CompilationSettings, Settings

NAMES = ("tensorrt", "torch_tensorrt", "aot_torch_tensorrt_aten")


@_backend.captured
def torch_tensorrt_backend(gm: torch.fx.GraphModule, sample_inputs, *, options=None, settings: CompilationSettings | None = None, **more):
    """Compiles one graph of Dynamo, after the user's decompositions, converters and passes. options: settings by name (docs/migration.md). A graph that cannot be built runs
    uncompiled, with a warning; with pass_through_build_failures its error is raised."""
    read = Settings({**(options or {}), **more}, settings)
    if read.get("require_full_compilation"):
        once("jit full", "require_full_compilation has no effect in torch.compile, where a model may be several graphs")
    chosen = {name: value for name, value in read.options().items() if name != "fallback"}
    try:
        _host_memory.check(gm, read, [t for t in sample_inputs if isinstance(t, torch.nn.Parameter)])
        passes = lowering.graph_passes(read.compilation)
        build = lambda options: _backend.ingot_backend(gm, sample_inputs, options=options, passes=passes)  # noqa: E731
        return through(read.get("custom_engine_cache"), lambda: gm, sample_inputs, read.compilation, chosen, lambda options: kept_in_torch(options, build))
    except (Error, RuntimeError, AssertionError, TypeError) as problem:
        if read.get("pass_through_build_failures"):
            raise
        log.warning("a graph could not be built and runs as it was (pass_through_build_failures=True raises this): %s", problem)
        return gm


aot_torch_tensorrt_aten_backend = torch_tensorrt_backend


def register():
    """Registers the names with torch.compile, unless NVIDIA's package is installed and does."""
    genuine = importlib.util.find_spec("torch_tensorrt")
    if genuine is not None and type(genuine.loader).__module__ != "ingot_torch_tensorrt":
        return
    for name in NAMES:
        register_backend(torch_tensorrt_backend, name)
