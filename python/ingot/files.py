"""`ingot.save` and `ingot.load`: files of every format, written whole or not at all."""

from __future__ import annotations

import os

import torch

from . import _engine, _op, atomic, torch_archive
from ._engine import TRUST
from .errors import FormatError, InputError, OptionError, UnsupportedError
from .kinds import Exported, FromPlan, FromProgram, Package
from .loaded import Loaded, holds_plans
from .module import Module

_FORMATS = ("ingot", "exported_program", "aot_inductor")
_SHOWN = {"ingot": "no archive of torch's", "exported_program": "a program of torch's", "aot_inductor": "an AOTInductor package"}


def save(module: Module, path, *, format="ingot", weights=None):
    """Writes a compiled module to a file.

    format:
        "ingot": one engine, for `ingot.load`, the command line and the C and C++ APIs, with or without torch. Raises UnsupportedError
            when parts of the model need torch. Results are row-major and share memory with nothing, also where eager's are views; the other
            formats keep both.
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

    The structure of inputs and results is kept: tuples, lists, dicts, OrderedDicts, namedtuples, torch's return types, and classes that are registered
    with pytree; a model with another one is refused with UnsupportedError. The two formats of torch's keep what torch has a name for in files.

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
    kind = module._kind
    kind.follow()
    if format == "ingot":
        kind.plan().save(path, weights=weights)
    elif format == "exported_program":
        save_exported_program(kind.program(empty_lists=True), path)
    else:
        save_aot_inductor(kind.program(empty_lists=False), path)


def load(path, *, device=None, format=None, trust="auto", mmap=True, weights=None, **runtime_option) -> Module:
    """Loads what `ingot.save` or `ingot compile` wrote, of any format.

    A `.ingot` file takes milliseconds: weights are mapped, not read. **Loading one never runs code that the file brings**, and imports nothing that it names.

    **A `.pt2` file is a program of torch's: loading it may run any code that its maker wants.** It is opened only when its name ends in `.pt2` or with
    trust="code". Its pickles are then read by torch's restricted reader alone; trust="code" reads them all. **An AOTInductor package is native code**
    and always needs trust="code".

    device: where a `.ingot` file runs, "cpu", "cuda" or "cuda:1"; its inputs and results are there. None: the CPU when the file has a program
        for it, else the first GPU.
    format: "ingot", "exported_program" or "aot_inductor", where the file has to be that. None: what its first bytes say.
    trust: "data": nothing in the file is executed, and all of it is compared with its checksums. "code": what is in it may run.
        "auto": of a `.ingot` file's code for GPUs, what this user's ingot compiled on this machine is run; with it and with "data", other such code is
        compiled anew from the file's graph.
    mmap: False reads a `.ingot` file whole and compares it with its checksums: for a file that somebody may overwrite or cut off while it is in use, which
        ends the process (SIGBUS) when it is mapped, in a call or in ingot.save. Files that ingot.save replaces are no danger.
    weights: a state dict, instead of the values in a `.ingot` file; needed for one that was saved without (weights="strip").

    Results come in the structure they had: namedtuples whose class is not among the loaded modules as one of the same fields; classes registered with pytree
    have to be registered here too. Raises FormatError for a damaged file or one of another format, VersionError, IoError, InputError.
    """
    if format not in (None, *_FORMATS):
        raise OptionError(f"format {format!r} is not known", remedy=", ".join(f'"{name}"' for name in _FORMATS))
    if trust not in TRUST:
        raise OptionError(f"trust {trust!r} is not known", remedy=", ".join(f'"{name}"' for name in TRUST))
    kind = torch_archive.kind_of(path)
    if format not in (None, kind):
        raise FormatError(f"{os.fspath(path)} is {_SHOWN[kind]}, and the format asked for is {format!r}", remedy=f'format="{kind}" or none')
    if kind != "ingot":
        if runtime_option:
            raise OptionError(f"option {next(iter(runtime_option))!r} is for .ingot files", remedy="torch.set_num_threads sets the threads of a torch program")
        if weights is not None:
            raise OptionError("weights are for .ingot files", remedy="Module.update_weights replaces those of a torch program")
        if device is not None:
            raise OptionError("device is for .ingot files", remedy="a torch program runs where it was compiled; torch.export.passes.move_to_device_pass moves it")
        return _load_program(os.fspath(path), kind, trust)
    if device is not None:
        runtime_option["device"] = str(device)
    return Module(FromPlan(_engine.load_engine(path, weights=weights, trust=trust, mmap=mmap, **runtime_option)))


def save_exported_program(program, path):
    _write(path, lambda temporary: torch.export.save(program, temporary))


def save_aot_inductor(program, path):
    with torch.no_grad():
        _write(path, lambda temporary: torch._inductor.aoti_compile_and_package(program, package_path=temporary))


def _write(path, make):
    def named(temporary):
        try:
            make(temporary)
        except NotImplementedError as problem:  # a container type without a name in files
            raise UnsupportedError(f"torch cannot save the structure of the model's inputs or results: {problem}", remedy='return a tuple, list or dict, or save with format="ingot"') from None

    atomic.write(path, named, ".pt2")  # torch wants the ending


def _load_program(path, kind, trust):
    if trust == "data" or trust == "auto" and (kind == "aot_inductor" or not path.endswith(".pt2")):
        raise torch_archive.needs_code(path, f"is {_SHOWN[kind]}")
    _op.library()
    if kind == "aot_inductor":
        return Module(Package(torch._inductor.aoti_load_package(path)))
    program = torch_archive.load_program(path, trust)
    return Module(FromProgram(Loaded(program, trust)) if holds_plans(program) else Exported(program))
