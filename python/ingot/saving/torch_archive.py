"""Reads torch's files: exported programs (`.pt2`) and AOTInductor packages, which are zip archives.

torch's reader of exported programs can run code from the file: it reads pickles, imports classes and modules by name, and evaluates expressions. So such a file is opened only
if the user says so. Even then its pickles are read only by torch's restricted reader (weights_only), unless the user trusts the file as code. torch.export.load would fall back to
full unpickling if that reader refuses.
"""

from __future__ import annotations

import io
import json
import os
import zipfile

import torch

from ..base.atomic import REMEDIES, encoded
from ..errors import FormatError, InputError, IoError
from ..torch_internals.saving import archive_reader, read_archive

_ZIP = b"PK\x03\x04"


def kind_of(path) -> str:
    """"ingot", "exported_program" or "aot_inductor", by the first bytes of a file, and for an archive by its entries. FormatError for anything else."""
    path = os.fsdecode(encoded(path))
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # so that a pipe does not block
        try:
            start = os.read(file, len(_ZIP))
        finally:
            os.close(file)
    except OSError as problem:
        raise IoError(f"cannot open {path}: {problem.strerror}", remedy=REMEDIES.get(problem.errno, "")) from None
    if not start.startswith(_ZIP):
        return "ingot"  # or an unknown file, which the reader of plans reports
    with open(path, "rb") as file:
        names = ["/" + name.lower() for name in _names(_reader(file, path), path)]
    if any(name.endswith("/data.pkl") for name in names) and not any("/code/" in name or "models/" in name or name.endswith("program.json") for name in names):
        raise FormatError(f"{path} is a checkpoint that torch.save wrote, with weights and no program", remedy="load its weights into the model (model.load_state_dict(torch.load(path))), then compile the model")
    return "aot_inductor" if any("/data/aotinductor/" in name for name in names) else "exported_program"


def names_cuda(path) -> bool:
    """Whether a program in a file was exported with tensors on a GPU."""
    if kind_of(path) == "ingot":
        return False
    with open(path, "rb") as file:
        reader = _reader(file, path)
        return any(b'"type": "cuda"' in _record(reader, name, path) for name in _names(reader, path) if "models/" in name and name.endswith(".json"))


def load_program(path, trust: str = "auto", remedy: str = "") -> torch.export.ExportedProgram:
    """The program in a `.pt2` file. With trust "code" it is read as torch.export.load does. Otherwise only pickles that torch's restricted reader accepts are allowed; `remedy`
    says what to do about others."""
    path = os.fspath(path)
    if trust == "code":
        with open(path, "rb") as file:
            return _told(path, lambda: torch.export.load(file))
    with open(path, "rb") as file:  # one open file for both, so that torch reads exactly what was checked
        reader = _reader(file, path)
        names = _names(reader, path)
        if len({name.lower() for name in names}) < len(names):  # torch ignores case when it looks names up
            raise FormatError(f"{path}: the archive has two records of one name")
        for name in names:
            _check(path, name, lambda: _record(reader, name, path), remedy)
        del reader
        file.seek(0)
        programs = _told(path, lambda: read_archive(file).exported_programs)
    if "model" not in programs:
        raise FormatError(f"{path}: the archive holds no exported program")
    return programs["model"]


def _is_script(entry: str) -> bool:
    return ("/" + entry).endswith("/constants.pkl")


def is_torchscript(path) -> bool:
    """Whether torch.jit.load reads the file."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(map(_is_script, archive.namelist()))


def _reader(file, path):
    """torch's reader for an open archive. Refuses compressed entries: torch writes none, and a small file could expand to a large one."""
    try:
        with zipfile.ZipFile(file) as archive:
            script = any(map(_is_script, archive.namelist()))
            packed = any(i.compress_type != zipfile.ZIP_STORED or i.file_size > i.compress_size for i in archive.infolist())
        file.seek(0)
        reader = None if packed or script else archive_reader(file)
    except Exception as problem:  # of many kinds
        raise _no_archive(path, problem) from None
    if script:
        raise FormatError(f"{path}: this is TorchScript", remedy="torch.jit.load(path), after `import ingot` if it has engines")
    if packed:
        raise FormatError(f"{path}: the archive is compressed, as torch writes none", remedy="save the program again with ingot.save or torch.export.save")
    return reader


def _names(reader, path) -> list[str]:
    try:
        return [str(name) for name in reader.get_all_records()]
    except (RuntimeError, UnicodeDecodeError) as problem:
        raise _no_archive(path, problem) from None


def _record(reader, name, path) -> bytes:
    try:
        return reader.get_record(name)
    except RuntimeError as problem:
        raise _no_archive(path, problem) from None


def _no_archive(path, problem) -> FormatError:
    why = "the zip directory is missing (the file may be truncated)" if isinstance(problem, zipfile.BadZipFile) else _line(problem)
    return FormatError(f"{path} is not a readable .pt2 archive: {why}", remedy="Save the model again with torch.export.save.")


def _check(path, name, record, remedy):
    """Refuses a record that torch would unpickle without restriction, or load as native code."""
    in_folder = "/" + name.lower()
    if "/data/aotinductor/" in in_folder:
        raise needs_code(path, "holds native code (AOTInductor)", remedy)
    if "/data/weights/" in in_folder or "/data/constants/" in in_folder:
        if in_folder.endswith(".json"):
            try:
                entries = [e for e in json.loads(record())["config"].values()]
                pickled = any(e.get("use_pickle") or not str(e["path_name"]).startswith(("weight_", "tensor_")) for e in entries)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise FormatError(f"{path}: {name} is not a list of weights") from None
            if pickled:
                raise needs_code(path, "holds pickled weights or objects", remedy)
        elif in_folder.endswith(".pt"):
            raise needs_code(path, "keeps its weights as older versions of torch did, in a pickle", remedy)
    elif in_folder.endswith(".pt"):
        data = record()
        if data:
            try:
                torch.load(io.BytesIO(data), weights_only=True)
            except Exception as problem:  # of many kinds
                raise needs_code(path, f"has sample inputs that are more than tensors and numbers ({_line(problem)})", remedy) from None


def needs_code(path, why, remedy="") -> InputError:
    return InputError(f"{path} {why}: loading it may run any code", remedy=remedy or 'give trust="code" if you trust whoever made the file as much as a program of theirs')


def _told(path, load):
    try:
        return load()
    except (FormatError, InputError, OSError):
        raise
    except Exception as problem:  # torch's readers raise all kinds on a damaged file
        raise FormatError(f"{path}: torch cannot read this program: {type(problem).__name__}: {_line(problem)}", remedy="save the program again with ingot.save or torch.export.save") from problem


def _line(problem) -> str:
    return next((line.strip()[:200] for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
