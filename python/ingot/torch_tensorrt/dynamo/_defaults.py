"""Defaults that scripts import by name."""

from __future__ import annotations

import os
import tempfile

from .._Device import Device
from ..runtime._settings import RUNTIME_CACHE_PATH  # noqa: F401
from ._settings import ROWS

globals().update({name.upper(): row.initial for name, row in ROWS.items() if row.group == "field"})
ENGINE_CACHE_DIR = os.path.join(tempfile.gettempdir(), "torch_tensorrt_engine_cache")
ENGINE_CACHE_SIZE = ROWS["engine_cache_size"].initial
TIMING_CACHE_PATH = os.path.join(ENGINE_CACHE_DIR, "timing_cache.bin")
DEBUG_LOGGING_DIR = os.path.join(tempfile.gettempdir(), "torch_tensorrt", "debug_logs")


def default_device() -> Device:
    """The current device."""
    return Device._current_device()
