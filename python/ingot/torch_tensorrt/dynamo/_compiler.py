"""`torch_tensorrt.dynamo`: trace, compile, and the bytes of an engine."""

from __future__ import annotations

import os
import tempfile

import torch

from ... import ahead_of_time, files
from ...capture import export, caller_inputs
from ...errors import InputError, UnsupportedError
from .._Device import Device
from .._Input import Given
from .._errors import BindingNameMismatchError, CallError, PartialCompilationError, UnsupportedOperatorException  # noqa: F401
from . import _debugger, _host_memory, lowering
from ._binding_names import flat_names as _resolve_pytree_binding_names  # noqa: F401
from ._binding_names import named
from ._binding_names import specs_of as _binding_name_specs  # noqa: F401
from ._engine_cache import through
from ._graph_module import graph_module
from ._kept_in_torch import kept_in_torch
from ._settings import Settings
from ._stripped import strip, without_stripping
from ._symbol_bounds import user_symbol_bounds as _build_user_symbol_bounds  # noqa: F401
from .lowering._buffer_lifting import with_lifted_buffers



def inputs_of(inputs, arg_inputs, kwarg_inputs, needed=True) -> Given:
    """The inputs of an entry point. Raises CallError if they are given twice, or not at all."""
    if inputs is not None and arg_inputs is not None:
        raise CallError("inputs and arg_inputs are both given; they are the same thing", remedy="give arg_inputs, and kwarg_inputs for inputs by name")
    if needed and inputs is None and arg_inputs is None and not kwarg_inputs:
        raise CallError("no inputs are given", remedy="inputs=[torch_tensorrt.Input((1, 3, 224, 224))], or tensors")
    return Given(inputs, arg_inputs, kwarg_inputs)


def trace(mod: torch.nn.Module, inputs=None, *, arg_inputs=None, kwarg_inputs=None, strict=False, dynamic_shapes=None, **settings) -> torch.export.ExportedProgram:
    """torch.export of a module on inputs (Inputs, tensors, numbers; nested). Sizes with a range in an Input are open. Other settings are for `compile` and are ignored here.
    Raises CallError without inputs, InputError if the inputs do not fit the model."""
    taken = inputs_of(inputs, arg_inputs, kwarg_inputs)
    choose_device(mod, taken, settings.get("device"))
    return traced(mod, taken, strict, dynamic_shapes)


def traced(mod: torch.nn.Module, taken: Given, strict=False, dynamic_shapes=None) -> torch.export.ExportedProgram:
    return export.export(mod, caller_inputs.read(None, taken.positional, taken.keywords), dynamic_shapes, strict).exported


def compile(exported_program: torch.export.ExportedProgram, inputs=None, *, arg_inputs=None, kwarg_inputs=None, **settings) -> torch.fx.GraphModule:
    """Compiles an exported program; a GraphModule that is called as the program's module is.

    inputs (or arg_inputs), kwarg_inputs: as for `trace`. Inputs narrow the sizes that the program leaves open; None keeps them, and so does a keyword input that is left out.
    settings: see docs/migration.md.

    Weights are the program's own tensors and are followed (docs/modules.md). Operators without an engine run in torch. Raises PartialCompilationError with
    require_full_compilation, InputError, OptionError, and UnsupportedError for refused settings.
    """
    read = Settings(settings)
    return compiled(exported_program, inputs_of(inputs, arg_inputs, kwarg_inputs, needed=False), read)


def compiled(module, taken: Given, settings: Settings, **export_options) -> torch.fx.GraphModule:
    """The GraphModule of a module or a program."""
    if isinstance(module, torch.export.ExportedProgram):
        taken.complete(module)
    choose_device(module, taken, settings.get("device"))
    _host_memory.check(module, settings)
    if lowering.has_user_rules():
        module = module if isinstance(module, torch.export.ExportedProgram) else _exported(module, taken, export_options)
        module, export_options = lowering.with_user_rules(module, settings.compilation), {}
    custom = settings.get("custom_engine_cache")
    if custom is not None and not isinstance(module, torch.export.ExportedProgram):  # the cache needs the program for its name
        module, export_options = _exported(module, taken, export_options), {}

    def build(options):
        return ahead_of_time.compile(module, arg_inputs=taken.positional, kwarg_inputs=taken.keywords or None, options=options, **export_options)

    try:
        specs = [*(taken.positional or ()), *taken.keywords.values()]
        made = through(custom, lambda: module.graph_module, specs, settings.compilation, settings.options(), lambda options: kept_in_torch(options, build))
    except UnsupportedError as problem:
        if settings.get("require_full_compilation"):
            raise PartialCompilationError(problem.message, problem.origin, problem.remedy) from None
        raise
    module = graph_module(made, settings.compilation, taken.profiles, lambda program: compiled(program, taken, without_stripping(settings)))
    if settings.get("strip_engine_weights"):
        strip(module)
    _debugger.note(module)
    return module


def choose_device(module, taken: Given, device):
    """A model or program runs where its tensors are, and examples are brought there. One that has none, and is given none, runs on the device of the settings: by default the GPU if there is one."""
    if isinstance(module, torch.export.ExportedProgram):
        own = [value for node in module.graph.find_nodes(op="placeholder") if isinstance(value := node.meta.get("val"), torch.Tensor)]
    else:
        own = [*module.parameters(), *module.buffers()]
    if own:
        there = next((t.device for t in own if t.device.type == "cuda"), own[0].device)
    elif taken.has_tensors:
        return
    else:
        there = Device._from(device).to(torch.device)
    if there.type == "cuda":
        taken.on(there)


def _exported(module, taken: Given, options) -> torch.export.ExportedProgram:
    return export.export(module, caller_inputs.read(None, taken.positional, taken.keywords), options.get("dynamic_shapes"), options.get("strict", False)).exported


def convert_exported_program_to_serialized_trt_engine(
    exported_program: torch.export.ExportedProgram, inputs=None, *, arg_inputs=None, kwarg_inputs=None, arg_input_binding_names=None, kwarg_input_binding_names=None,
    output_binding_names=None, lift_mutable_buffers=False, **settings,
) -> bytes:  # fmt: skip
    """Compiles the whole program as one engine and returns the bytes of a plan, for `TorchTensorRTModule` and `ingot.load_engine`. They are those that `ingot.save` writes.

    arg_input_binding_names, kwarg_input_binding_names, output_binding_names: names in the structure of the inputs and the result; None keeps the program's. Raises
    UnsupportedOperatorException, which lists every operator without an engine; BindingNameMismatchError for names that do not fit.
    lift_mutable_buffers: buffers that the model writes are inputs of the engine, after the others and named buf_<name>, which it writes in place. Otherwise they are states of the engine.
    """
    taken = inputs_of(inputs, arg_inputs, kwarg_inputs, needed=False)
    choose_device(exported_program, taken, settings.get("device"))
    if lift_mutable_buffers:
        exported_program, taken = _lifted(exported_program, taken)
    taken, names = named(exported_program, taken, arg_input_binding_names, kwarg_input_binding_names, output_binding_names)
    read = Settings({**settings, "require_full_compilation": True})
    _host_memory.check(exported_program, read)
    options = read.options()
    options.pop("dryrun", None)
    try:
        made = ahead_of_time.compile(exported_program, arg_inputs=taken.positional, kwarg_inputs=taken.keywords or None, output_names=names, options=options)
        return _bytes(made)
    except UnsupportedError as problem:
        raise UnsupportedOperatorException(problem.message, problem.origin, problem.remedy) from None


def _lifted(program, taken: Given):
    """The program with the buffers that it writes as inputs, and its inputs with these after them. Raises InputError for inputs that are nested."""
    gm, lifted = with_lifted_buffers(program)
    flat = (*(taken.positional if taken.positional is not None else program.example_inputs[0]), *(taken.keywords or program.example_inputs[1] if taken.positional is None else taken.keywords).values())
    if len(flat) + len(lifted) != len(gm.graph.find_nodes(op="placeholder")):
        raise InputError("lift_mutable_buffers takes a model whose inputs are tensors, without lists or dictionaries of them", remedy="give each tensor as an argument of its own")
    flat = (*flat, *(tensor for _, _, tensor in lifted))
    made = Given()
    made.positional = flat
    return export.export(gm, caller_inputs.read(None, flat, {}), None, False).exported, made


def _bytes(module) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "engine.ingot")
        files.save(module, path)
        with open(path, "rb") as file:
            return file.read()
