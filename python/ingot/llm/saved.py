"""Saved states: of each cache the keys or values [batch, heads, places, width], whatever memory the state had, so that any device reads them."""

from __future__ import annotations

import os

from ..errors import FormatError
from ..running import state_file


def shapes_of(path) -> dict[str, list[int]]:
    with state_file.opened(path) as file:
        return {name: shape for name, (_, shape, *_) in state_file.header(file).items()}


def sizes_of(path) -> tuple[int, int | None]:
    """The batch and the places of a saved state. None: it has no cache."""
    shapes = shapes_of(path)
    try:
        caches = [shape[2] for name, shape in shapes.items() if name.endswith(".keys")]
        return int(shapes["position"][0]), int(caches[0]) if caches else None
    except (ValueError, KeyError, IndexError, TypeError, OverflowError):
        raise FormatError(f"{os.fspath(path)} is not a saved state of a language model") from None
