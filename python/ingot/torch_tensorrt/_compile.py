"""`torch_tensorrt.compile`, `convert_method_to_trt_engine`, `save` and `load`."""

from __future__ import annotations

import logging
import os

import torch

from .. import files
from ..base import atomic
from ..engine import _op
from ..errors import FormatError, InputError, IoError, OptionError, UnsupportedError
from ..saving import torch_archive
from ..torch_internals.dynamo import is_compiled
from . import _torchscript
from ._errors import refusal
from ._said import log, once
from .dynamo import _compiler
from .dynamo._exporter import module_of
from .dynamo._settings import Settings
from .dynamo.backend import torch_tensorrt_backend

_IRS = ("default", "dynamo", "torch_compile", "ts", "torchscript", "fx")
_FORMATS = ("exported_program", "torchscript", "aot_inductor", "executorch", "ingot")


def compile(module, ir="default", inputs=None, arg_inputs=None, kwarg_inputs=None, enabled_precisions=None, strict=False, dynamic_shapes=None, **settings):
    """Compiles a model.

    Arguments:
        module: an nn.Module, a GraphModule, an ExportedProgram, or a ScriptModule (which torch's converter turns into a program).
        ir: "default" and "dynamo" compile now. "torch_compile" returns torch.compile(module, backend="tensorrt"), which compiles at the first call. "ts" is
            `torch_tensorrt.ts.compile`.
        inputs (or arg_inputs), kwarg_inputs: Inputs, tensors, numbers, None, and lists, tuples and dictionaries of them.
        strict, dynamic_shapes: passed to torch.export.
        settings: see docs/migration.md. An unknown setting does nothing and is logged with the nearest name.

    Returns a GraphModule that is called like the model; its weights are the model's own (docs/modules.md). Raises CallError (an AssertionError) without inputs or with
    both inputs and arg_inputs, ValueError for another ir, PartialCompilationError (an AssertionError) with require_full_compilation, UnsupportedError for refused settings.
    """
    if enabled_precisions is not None:
        settings["enabled_precisions"] = enabled_precisions
    ir = str(ir)
    if ir not in _IRS:
        raise ValueError(f"ir={ir!r} is not known: {', '.join(_IRS)}")
    if ir == "fx":
        raise refusal('compile(ir="fx")', "the fx front end is retired", 'ir="dynamo"')
    if isinstance(module, torch.jit.ScriptModule) or ir in ("ts", "torchscript"):
        from . import ts

        return ts.compile(module, inputs=inputs if inputs is not None else arg_inputs, kwarg_inputs=kwarg_inputs, **settings)
    if ir == "torch_compile":
        return torch_compile(module, **settings)
    read = Settings(settings)
    if isinstance(module, torch.export.ExportedProgram):
        return _compiler.compiled(module, _compiler.inputs_of(inputs, arg_inputs, kwarg_inputs, needed=False), read)
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"a {type(module).__name__} cannot be compiled", remedy="give an nn.Module, a GraphModule, a ScriptModule or an ExportedProgram")
    return _compiler.compiled(module, _compiler.inputs_of(inputs, arg_inputs, kwarg_inputs), read, dynamic_shapes=dynamic_shapes, strict=strict)


def torch_compile(module, **settings):
    """torch.compile(module, backend="tensorrt") with these settings, for the sizes of each call; torch._dynamo.mark_dynamic leaves an axis open."""
    return torch.compile(module, backend=torch_tensorrt_backend, dynamic=False, options=settings)


def convert_method_to_trt_engine(module, method_name="forward", inputs=None, arg_inputs=None, kwarg_inputs=None, ir="default", enabled_precisions=None, **settings) -> bytes:
    """Compiles a method of a model as one engine and returns the bytes of a plan. Arguments as for `compile`. Raises UnsupportedOperatorException if an operator has no engine."""
    if ir in ("fx", "torch_compile"):
        raise RuntimeError(f"ir={ir!r} makes no engine that can be kept; ir=\"dynamo\" does")
    if enabled_precisions is not None:
        settings["enabled_precisions"] = enabled_precisions
    taken = {"inputs": inputs, "arg_inputs": arg_inputs, "kwarg_inputs": kwarg_inputs}
    if isinstance(module, torch.export.ExportedProgram):
        return _compiler.convert_exported_program_to_serialized_trt_engine(module, **taken, **settings)
    if isinstance(module, torch.jit.ScriptModule) or ir in ("ts", "torchscript"):
        from . import ts

        return ts.convert_method_to_trt_engine(module, method_name, inputs=inputs if inputs is not None else arg_inputs, kwarg_inputs=kwarg_inputs, **settings)
    program = _compiler.trace(module if method_name == "forward" else _Method(module, method_name), **taken)
    return _compiler.convert_exported_program_to_serialized_trt_engine(program, **taken, **settings)


class _Method(torch.nn.Module):
    """A model whose forward is another of its methods."""

    def __init__(self, module, name):
        super().__init__()
        self.module = module
        self.forward = getattr(module, name)


# ---- files


def save(module, file_path="", *, extra_files=None, output_format="exported_program", inputs=None, arg_inputs=None, kwarg_inputs=None, retrace=True, use_legacy_exporter=None, pickle_protocol=2,
         dynamic_shapes=None, **more):  # fmt: skip
    """Writes a compiled module, or an ExportedProgram.

    output_format: "exported_program" (for `load` and torch.export.load), "aot_inductor" (an AOTInductor package, which needs a C++ compiler here) or "ingot" (one engine,
    for ingot.load, C, C++ and the command line), or "torchscript" (for `load`, torch.jit.load and, with libingot_torch.so loaded, C++). "executorch" is refused. extra_files:
    {name: bytes or str} to store with an exported program or TorchScript.

    The file has the inputs and sizes of the build: inputs, arg_inputs, kwarg_inputs, dynamic_shapes, retrace and use_legacy_exporter change nothing. The file is the old
    one or the new one, never half. Raises ValueError for a model that was not compiled or an unknown format, IoError.
    """
    if output_format not in _FORMATS:
        raise ValueError(f"output_format {output_format!r} is not known: {', '.join(_FORMATS)}")
    if inputs is not None and arg_inputs is not None:
        raise _compiler.CallError("inputs and arg_inputs are both given; they are the same thing")
    if not file_path:
        raise InputError("file_path is empty", remedy='save(module, "model.ep")')
    if output_format == "executorch":
        raise refusal('save(output_format="executorch")', "ingot has no ExecuTorch backend", 'output_format="exported_program", "torchscript", "aot_inductor" or "ingot"')
    for name in more:
        once(f"save {name}", f"save: {name} is not known and does nothing", logging.WARNING)
    if dynamic_shapes is not None:
        once("save dynamic_shapes", "save: the file has the sizes that the module was compiled with; dynamic_shapes changes nothing")
    if isinstance(module, torch.export.ExportedProgram):
        _save_program(module, file_path, output_format, extra_files, pickle_protocol)
        return
    if not hasattr(module, "ingot_module"):
        raise ValueError(_why_not_saved(module))
    if output_format in ("exported_program", "torchscript"):
        _save_program(module_of(module)._kind.program(empty_lists=True), file_path, output_format, extra_files, pickle_protocol)
    else:
        files.save(module_of(module), file_path, format=output_format)


def _why_not_saved(module):
    if is_compiled(module):
        return 'a module of torch.compile is made anew in each process and cannot be saved: torch_tensorrt.compile(model, ir="dynamo", inputs=...) can'
    if isinstance(module, torch.jit.ScriptModule):
        return "a ScriptModule that was not compiled is saved by torch.jit.save"
    return f"a {type(module).__name__} was not compiled: torch_tensorrt.compile(model, inputs=...) gives what can be saved"


def _save_program(program, path, output_format, extra_files, protocol):
    if output_format == "ingot":
        raise UnsupportedError('output_format="ingot" needs the compiled module, not a program', remedy="give what torch_tensorrt.compile gave")
    if output_format == "aot_inductor":
        files.save_aot_inductor(program, path)
        return
    if output_format == "torchscript":
        script = _torchscript.script_module(program)
        atomic.write(path, lambda temporary: torch.jit.save(script, temporary, _extra_files=extra_files), ".ts")
        return
    extra = {name: value.decode() if isinstance(value, bytes) else value for name, value in (extra_files or {}).items()}
    atomic.write(path, lambda temporary: torch.export.save(program, temporary, extra_files=extra or None, pickle_protocol=protocol), ".pt2")


def load(file_path="", extra_files=None, *, format=None, **more):
    """Reads a file that `save` wrote: an ExportedProgram (call its `.module()`), a torch ScriptModule, or for a .ingot file an `ingot.Module`.

    **Like torch.export.load, it may run code from the file**: load only files of people you trust, or use ingot.load, which has rules for other files. extra_files:
    {name: ""}, which is filled in. Raises ValueError for a file of another kind (such as a TensorRT engine), IoError.
    """
    if format == "executorch":
        raise refusal('load(format="executorch")', "ingot has no ExecuTorch backend", "save it as an exported program")
    if format not in (None, "exported_program", "torchscript", "ingot", "aot_inductor"):
        raise OptionError(f"format {format!r} is not known", remedy="leave it out")
    path = os.fspath(file_path)
    if torch_archive.is_torchscript(path):
        _op.library()  # registers the operator of engines in it
        return torch.jit.load(path, _extra_files=extra_files)
    try:
        kind = torch_archive.kind_of(path)
        if kind == "ingot":
            return files.load(path)
        if kind == "aot_inductor":
            return files.load(path, trust="code")
    except IoError:
        raise
    except FormatError as problem:
        raise ValueError(f"{path} is neither an exported program nor an engine of ingot ({problem.message}); engines of TensorRT have to be compiled again from the model") from None
    _op.library()  # registers the operator that such programs name
    try:
        with open(path, "rb") as file:
            return torch.export.load(file, extra_files=extra_files)
    except Exception as problem:  # torch's readers raise all kinds on a damaged file
        log.debug("torch.export.load", exc_info=True)
        raise ValueError(f"{path} is not a program that torch.export.load reads: {problem}") from None
