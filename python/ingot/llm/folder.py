"""The model that a caller gives: an object, or a folder as transformers' save_pretrained writes it. Nothing in a folder is executed."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import torch

from ..errors import FormatError, InputError, OptionError, UnsupportedError

TAKEN = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")  # into the compiled model


def given(model: torch.nn.Module | str | os.PathLike[str], dtype, kind: str) -> tuple[torch.nn.Module, dict[str, bytes]]:
    """The model in a type of dtype ("auto": its own), and the files of its folder for callers of the compiled one. kind: transformers' class that reads a folder."""
    files: dict[str, bytes] = {}
    if isinstance(model, (str, os.PathLike)):
        model, files = _read(model, dtype, kind)
    wanted = dtype_of("dtype", dtype)
    if wanted is not None and wanted != getattr(model, "dtype", wanted):
        model = copy.deepcopy(model).to(wanted)
    return model, files


def dtype_of(name: str, given, taken='torch.float32, torch.bfloat16, torch.float16 or "auto"') -> torch.dtype | None:
    """A float type of torch, by itself or by name; None for "auto"."""
    if isinstance(given, str) and given == "auto":
        return None
    found = getattr(torch, given, None) if isinstance(given, str) else given
    if found not in (torch.float32, torch.bfloat16, torch.float16):
        raise OptionError(f"{name} is {given!r}", remedy=taken)
    return found


def _read(folder: str | os.PathLike[str], dtype, kind: str) -> tuple[torch.nn.Module, dict[str, bytes]]:
    import transformers

    path = Path(folder)
    if not (path / "config.json").is_file():
        raise InputError(f"{path} has no config.json", remedy="give the folder that save_pretrained wrote, or a model object")
    if not any(path.glob("*.safetensors")):
        raise InputError(f"{path} has no *.safetensors, the only form of weights that is read", remedy="model.save_pretrained(folder) writes it")
    try:
        model = getattr(transformers, kind).from_pretrained(path, dtype=dtype, use_safetensors=True, trust_remote_code=False, local_files_only=True)
    except (ValueError, KeyError, OSError) as problem:
        if "trust_remote_code" in str(problem):
            raise UnsupportedError(f"the model in {path} needs code of its folder, which is never executed", remedy="load it yourself, and give the model object") from None
        raise FormatError(f"{path} cannot be read by {kind}: {problem}") from None
    return model.eval(), {name: (path / name).read_bytes() for name in TAKEN if (path / name).is_file()}
