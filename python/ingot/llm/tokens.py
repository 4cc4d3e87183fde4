"""The tokenizer that a model brought along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError


def tokenizer_of(files: Mapping[str, str], instead: str) -> Any:
    """The tokenizers.Tokenizer in a model's files. It neither cuts texts nor fills them up, whatever its file says. instead: what a caller without one can do."""
    if "tokenizer.json" not in files:
        raise InputError("the model has no tokenizer", remedy=f"compile it from a folder with tokenizer.json, or {instead}")
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise InputError("text needs the package tokenizers", remedy=f"pip install tokenizers, or {instead}") from None
    found = tokenizers.Tokenizer.from_str(files["tokenizer.json"])
    found.no_truncation()
    found.no_padding()
    return found
