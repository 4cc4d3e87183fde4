"""`ingot.save` and `ingot.load`: files of every format, written whole or not at all."""

from __future__ import annotations

import os
import zipfile

import torch

from . import _engine, _op, atomic
from .errors import InputError, OptionError, UnsupportedError
from .loaded import Loaded, holds_plans
from .module import Module

_FORMATS = ("ingot", "exported_program", "aot_inductor")


def save(module: Module, path, *, format="ingot", weights=None):
    """Writes a compiled module to a file.

    format:
        "ingot": one engine, for `ingot.load`, the command line and the C and C++ APIs, with or without torch. Raises UnsupportedError
            when parts of the model need torch.
        "exported_program": a `.pt2` with the model's signature, ranges, parameters and buffers, for torch.export.load. Parts that need
            torch stay torch operators. In the process that loads it `import ingot` comes first; without it torch.export.load logs "We failed
            to resolve torch.ops.ingot.execute.default to an operator" and raises RuntimeError. Parameters are saved without requires_grad;
            other values for them (load_state_dict, an in-place write, another tensor) are noticed at the next call; writes that torch does not
            count may not be (through `.data` or NumPy, or to tensors of torch.inference_mode). The process keeps the parameters that a program was
            called with last until it is called with others or another program is called for the first time, also when the program is gone.
        "aot_inductor": an AOTInductor package (a `.pt2` that needs a C++ compiler here) for torch._inductor.aoti_load_package after
            `import ingot`, or from C++ (examples/cpp/run_package.cpp). Inductor compiles what stays in torch and rounds in its own way.
    weights: "embed", or with format "ingot" "strip": the values of weights and buffers are left out, and given to `ingot.load`. None: with format
        "ingot" what the option `weights` said at compile time, "embed" where it said nothing.

    Atomic: the file is the old one or the new one, never half. Raises IoError when it cannot be written, OptionError for another format.
    """
    if not isinstance(module, Module):
        raise InputError(f"only an ingot.Module can be saved, not a {type(module).__name__}", remedy="compile it first: ingot.compile(model, inputs=[...])")
    if format not in _FORMATS:
        raise OptionError(f"format {format!r} is not known", remedy=", ".join(f'"{name}"' for name in _FORMATS))
    if weights not in (None, "embed", "strip"):
        raise OptionError(f"weights {weights!r} is not known", remedy='"embed", "strip"')
    if weights == "strip" and format != "ingot":
        raise OptionError(f'weights "strip" is for format "ingot", not {format!r}', remedy="a torch program keeps its parameters")
    module._follow()
    if format == "ingot":
        module._plan().save(path, weights=weights)
    elif format == "exported_program":
        save_exported_program(module._program(), path)
    else:
        save_aot_inductor(module._program(empty_lists=False), path)


def load(path, *, device=None, weights=None, **runtime_option) -> Module:
    """Loads what `ingot.save` or `ingot compile` wrote, of any format.

    A `.ingot` file takes milliseconds: weights are mapped, not read. Of the other two, torch loads the program (torch.export.load, which
    uses pickle: load only files you trust) and the module runs it; runtime options are for `.ingot` files.
    device: where a `.ingot` file runs, "cpu", "cuda" or "cuda:1"; its inputs and results are there. None: the CPU when the file has a program
        for it, else the first GPU.
    weights: a state dict, instead of the values in a `.ingot` file; needed for one that was saved without (weights="strip").
    """
    if (kind := kind_of(path)) is not None:
        if runtime_option:
            raise OptionError(f"option {next(iter(runtime_option))!r} is for .ingot files", remedy="torch.set_num_threads sets the threads of a torch program")
        if weights is not None:
            raise OptionError("weights are for .ingot files", remedy="Module.update_weights replaces those of a torch program")
        if device is not None:
            raise OptionError("device is for .ingot files", remedy="a torch program runs where it was compiled; torch.export.passes.move_to_device_pass moves it")
        return _load_program(path, kind)
    if device is not None:
        runtime_option["device"] = str(device)
    return Module(_engine.load_engine(path, weights=weights, **runtime_option))


def save_exported_program(program, path):
    def make(temporary):
        try:
            torch.export.save(program, temporary)
        except NotImplementedError as problem:  # a container type without a name in files
            raise UnsupportedError(f"torch cannot save the structure of the model's inputs or results: {problem}", remedy="return a tuple, list or dict") from None

    atomic.write(path, make, ".pt2")  # torch wants the ending


def save_aot_inductor(program, path):
    with torch.no_grad():
        atomic.write(path, lambda temporary: torch._inductor.aoti_compile_and_package(program, package_path=temporary), ".pt2")


def kind_of(path):
    """"exported_program" or "aot_inductor" for an archive of torch's, None for anything else."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        return "aot_inductor" if any("/data/aotinductor/" in name for name in archive.namelist()) else "exported_program"


def _load_program(path, kind):
    _op.library()
    if kind == "aot_inductor":
        return Module(eager=torch._inductor.aoti_load_package(os.fspath(path)))
    program = torch.export.load(path)
    if holds_plans(program):
        loaded = Loaded(program)
        return Module(assembled=loaded, signature=loaded.signature())
    return Module(eager=program.module(), program=program)
