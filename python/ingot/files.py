"""`ingot.save` and `ingot.load`: files of every format, written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .base import atomic
from .engine import _engine, _op
from .engine._engine import SIGNED, checked_keys
from .errors import DeviceError, FormatError, InputError, IoError, OptionError, UnsupportedError
from .module.module import Module
from .module.module_kinds import Exported, FromPlan, FromProgram, Package
from .saving import torch_archive
from .saving.loaded import Loaded, holds_plans

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .option_types import RunOptions

_FORMATS = ("ingot", "exported_program", "aot_inductor")
_FOREIGN = {".onnx": "models of ONNX", ".pt": "what torch.save writes", ".pth": "what torch.save writes", ".ts": "TorchScript", ".engine": "engines of TensorRT", ".safetensors": "weights alone"}
_SHOWN = {"ingot": "not an archive of torch's", "exported_program": "a program of torch's", "aot_inductor": "an AOTInductor package"}


def save(module: Module, path: str | os.PathLike[str], *, format: str | None = None, weights: str | None = None) -> None:
    """Writes a compiled module to a file.

    format: "ingot", "exported_program" or "aot_inductor": see below. None: "exported_program" for a name that ends in `.pt2`, otherwise "ingot"; an ending of other
        programs' files (`.onnx`, `.pt`) is refused.
    weights: "embed" writes the values of weights and buffers. "strip" (format "ingot" only) leaves them out; give them to `ingot.load`. None: with format
        "ingot" the option `weights` of the build decides, otherwise "embed".

    **"ingot"** is one engine, for `ingot.load`, the command line and the C and C++ APIs, with or without torch. Raises UnsupportedError if parts of the model need
    torch. Results are row-major and share no memory, even if eager's are views; the other formats keep strides and views.

    **"exported_program"** is a `.pt2` with the model's signature, ranges, parameters and buffers, for torch.export.load. Parts that need torch stay torch operators. The
    process that loads it has to `import ingot` first; otherwise torch.export.load logs "We failed to resolve torch.ops.ingot.execute.default to an operator" and raises
    RuntimeError. Parameters are saved without requires_grad. The next call sees other values for them (load_state_dict, an in-place write, another tensor). It may miss
    writes that torch does not count (through `.data` or NumPy, or to tensors of torch.inference_mode). The process keeps the parameters of a program's last call until
    the program is called with others or another program is called for the first time, even after the program is deleted.

    **"aot_inductor"** is an AOTInductor package (a `.pt2` that needs a C++ compiler here) for torch._inductor.aoti_load_package after `import ingot`, or from C++
    (examples/cpp/run_package.cpp). Inductor compiles the parts that stay in torch, and rounds in its own way.

    The structure of inputs and results is kept: tuples, lists, dicts, OrderedDicts, namedtuples, torch's return types, and classes that are registered
    with pytree. A model with any other container is refused with UnsupportedError. torch's two formats keep the containers that torch can name in files.

    Atomic: the file is the old one or the new one, never half. Raises IoError if it cannot be written, OptionError for an unknown format.
    """
    if not isinstance(module, Module):
        raise InputError(f"only an ingot.Module can be saved, not a {type(module).__name__}", remedy="compile it first: ingot.compile(model, inputs=[...])")
    format = _format_of(path) if format is None else format
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


def _format_of(path) -> str:
    ending = os.path.splitext(os.fsdecode(path))[1].lower()
    if ending in _FOREIGN:
        raise OptionError(f"ingot.save writes no {ending} files, which are {_FOREIGN[ending]}", remedy='name it .ingot, or .pt2 for torch.export.load; format="ingot" writes a plan under any name')
    return "exported_program" if ending == ".pt2" else "ingot"


def load(
    path: str | os.PathLike[str],
    *,
    device: str | torch.device | None = None,
    format: str | None = None,
    trust: str = "auto",
    keys: Sequence[str | os.PathLike[str]] | None = None,
    mmap: bool = True,
    weights: Mapping[str, Any] | None = None,
    **runtime_option: Unpack[RunOptions],
) -> Module:
    """Loads a file of any format that `ingot.save` or `ingot compile` wrote.

    A `.ingot` file takes milliseconds: weights are mapped, not read. **Loading one never runs code from the file**, and imports nothing that it names.

    **A `.pt2` file is a torch program: loading it may run any code that its maker wants.** It is opened only if its name ends in `.pt2`, or with trust="code".
    Its pickles are read only by torch's restricted reader; trust="code" reads all of them. **An AOTInductor package is native code** and always needs
    trust="code".

    device: where a `.ingot` file runs, with its inputs and results: "cpu", "cuda" or "cuda:1". None: the CPU if the file has a program for it, else the first GPU.
    format: the format that the file must have: "ingot", "exported_program" or "aot_inductor". None: the first bytes decide.
    trust: "data": nothing in the file is executed, and all checksums are compared. "code": code in the file may run. "auto": GPU code of a `.ingot` file runs
        if this user's ingot compiled it on this machine. With "auto" and "data" all other GPU code is compiled anew from the file's graph. "signed": a `.ingot` file
        that one of `keys` has signed (`ingot sign`) and that was not changed since; it is read whole, and then trusted like "code".
    keys: for trust="signed", of those whose files you trust: texts "ed25519:.." as `ingot keygen` prints them, or paths of files with one a line.
    mmap: False reads a `.ingot` file whole and compares its checksums. Use it for a file that somebody may overwrite or truncate while it is in use: a mapped
        file that is truncated ends the process (SIGBUS), in a call or in ingot.save. Files that ingot.save replaces are safe.
    weights: a state dict, instead of the values in a `.ingot` file; needed for one that was saved without values (weights="strip").

    Results have the model's structure. A namedtuple whose class is not in a loaded module becomes another one with the same fields. Classes registered with
    pytree have to be registered here too. Raises FormatError for a damaged file, one of another format
    or one without the signature asked for, VersionError, IoError, InputError.
    """
    if format not in (None, *_FORMATS):
        raise OptionError(f"format {format!r} is not known", remedy=", ".join(f'"{name}"' for name in _FORMATS))
    checked_keys(trust, keys)
    kind = torch_archive.kind_of(path)
    if format not in (None, kind):
        raise FormatError(f"{os.fspath(path)} is {_SHOWN[kind]}, and the format asked for is {format!r}", remedy=f'format="{kind}" or none')
    if kind != "ingot":
        if trust == SIGNED:
            raise FormatError(f"{os.fspath(path)} is {_SHOWN[kind]}, and only .ingot files can be signed", remedy='save it with format="ingot", or load it with trust="code" if you trust whoever made it')
        if runtime_option:
            raise OptionError(f"option {next(iter(runtime_option))!r} is for .ingot files", remedy="torch.set_num_threads sets the threads of a torch program")
        if weights is not None:
            raise OptionError("weights are for .ingot files", remedy="Module.update_weights replaces those of a torch program")
        if device is not None:
            raise OptionError("device is for .ingot files", remedy="a torch program runs where it was compiled; torch.export.passes.move_to_device_pass moves it")
        return _load_program(os.fspath(path), kind, trust)
    if device is not None:
        runtime_option["device"] = str(device)
    return Module(FromPlan(_engine.load_engine(path, weights=weights, trust=trust, keys=keys, mmap=mmap, **runtime_option)))


def save_exported_program(program, path):
    for result in program.graph_signature.output_specs:
        if isinstance(text := getattr(result.arg, "value", None), str):
            raise UnsupportedError(f"the model returns the text {text!r}, which torch writes to a file but does not read from one", remedy='leave it out, or save with format="ingot"')
    _check_room(path, program)
    _write(path, lambda temporary: torch.export.save(program, temporary))


def _check_room(path, program):
    """torch ends the process where a disk is full while it writes an archive."""
    folder = os.path.dirname(os.path.abspath(os.fsdecode(path)))
    needed = sum(tensor.nbytes for tensor in (*program.state_dict.values(), *program.constants.values()) if isinstance(tensor, torch.Tensor))
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return  # a folder that cannot be written either, which the writer reports
    if free < needed:
        raise IoError(f"{os.fspath(path)} needs at least {needed} bytes, and its disk has {free} bytes left", remedy="free room, or save elsewhere")


def save_aot_inductor(program, path):
    with torch.no_grad():
        try:
            _write(path, lambda temporary: torch._inductor.aoti_compile_and_package(program, package_path=temporary))
        except Exception as problem:  # Inductor wraps its exceptions
            if "InvalidCxxCompiler" not in repr(problem) and "No working C++ compiler" not in str(problem):
                raise
            raise DeviceError("an AOTInductor package needs a C++ compiler, and torch found none that works", remedy="apt install g++ (dnf install gcc-c++), or name one in CXX") from None


def _write(path, make):
    def named(temporary):
        try:
            make(temporary)
        except NotImplementedError as problem:  # a container type that torch cannot name in files
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
