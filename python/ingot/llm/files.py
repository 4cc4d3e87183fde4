"""`ingot.llm.load`."""

from __future__ import annotations

import os
from typing import Any

from .. import files
from ..errors import FormatError
from .model import RECORD, LanguageModel


def load(path: str | os.PathLike[str], *, kv_bytes: int | None = None, **how: Any) -> LanguageModel:
    """The language model in a .ingot file that `LanguageModel.save` wrote. transformers is not needed. kv_bytes: as `ingot.llm.compile` takes it. **how: as `ingot.load` takes them (device, trust,
    threads, ..).

    Raises FormatError if the file is not one, and what `ingot.load` raises.
    """
    module = files.load(path, format="ingot", **how)
    if RECORD not in module.engine.signature:
        raise FormatError(f"{os.fspath(path)} is a plan, but not of a language model", remedy="ingot.load(path)")
    return LanguageModel(module, kv_bytes)
