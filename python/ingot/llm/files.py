"""`ingot.llm.load` and `ingot.llm.load_encoder`."""

from __future__ import annotations

import os
from typing import Any

from .. import files
from ..errors import FormatError
from . import encoder, model
from .encoder import Encoder
from .model import LanguageModel


def load(path: str | os.PathLike[str], *, kv_bytes: int | None = None, **how: Any) -> LanguageModel:
    """The language model in a .ingot file that `LanguageModel.save` wrote. transformers is not needed. kv_bytes: as `ingot.llm.compile` takes it. **how: as `ingot.load` takes them (device, trust,
    threads, ..).

    Raises FormatError if the file is not one, and what `ingot.load` raises.
    """
    found = load_either(path, kv_bytes=kv_bytes, **how)
    if not isinstance(found, LanguageModel):
        raise FormatError(f"{os.fspath(path)} is an encoder, not a language model", remedy="ingot.llm.load_encoder(path)")
    return found


def load_encoder(path: str | os.PathLike[str], **how: Any) -> Encoder:
    """The encoder in a .ingot file that `Encoder.save` wrote. transformers is not needed. **how: as `ingot.load` takes them (device, trust, threads, ..).

    Raises FormatError if the file is not one, and what `ingot.load` raises.
    """
    found = load_either(path, **how)
    if not isinstance(found, Encoder):
        raise FormatError(f"{os.fspath(path)} is a language model, not an encoder", remedy="ingot.llm.load(path)")
    return found


def load_either(path: str | os.PathLike[str], *, kv_bytes: int | None = None, **how: Any) -> LanguageModel | Encoder:
    """A language model or an encoder, whichever the file has."""
    module = files.load(path, format="ingot", **how)
    if model.RECORD in module.engine.signature:
        return LanguageModel(module, kv_bytes)
    if encoder.RECORD in module.engine.signature:
        return Encoder(module)
    raise FormatError(f"{os.fspath(path)} is a plan, but not of a language model", remedy="ingot.load(path)")
