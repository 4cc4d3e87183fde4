"""Reads a folder as transformers' save_pretrained writes it. Nothing in it is executed."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from ..errors import FormatError, InputError, UnsupportedError

TAKEN = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")  # into the compiled model


def read(folder: str | os.PathLike[str], dtype) -> tuple[torch.nn.Module, dict[str, bytes]]:
    """The model in the folder, and its files for callers of the compiled one."""
    import transformers

    path = Path(folder)
    if not (path / "config.json").is_file():
        raise InputError(f"{path} has no config.json", remedy="give the folder that save_pretrained wrote, or a model object")
    if not any(path.glob("*.safetensors")):
        raise InputError(f"{path} has no *.safetensors, the only form of weights that is read", remedy="model.save_pretrained(folder) writes it")
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype, use_safetensors=True, trust_remote_code=False, local_files_only=True)
    except (ValueError, KeyError, OSError) as problem:
        if "trust_remote_code" in str(problem):
            raise UnsupportedError(f"the model in {path} needs code of its folder, which is never executed", remedy="load it yourself, and give the model object") from None
        raise FormatError(f"{path} cannot be read as a language model: {problem}") from None
    return model.eval(), {name: (path / name).read_bytes() for name in TAKEN if (path / name).is_file()}
