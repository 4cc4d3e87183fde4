"""`RuntimeCache`: a file of what TensorRT-RTX compiles while it runs, for scripts that keep one.

ingot keeps compiled GPU code in its own folder (INGOT_CACHE_DIR) and adds nothing here. A file that is there is read and written back as it is, so that the scripts and machines that
share it lose nothing.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from functools import partial

import torch


class _RuntimeCacheHandle:
    """The bytes of a cache. `_pending_warm_bytes`: those that were read; `_cache`: TensorRT's own object, of which there is none. A pickle keeps path and bytes."""

    def __init__(self, path=""):
        self.path, self._pending_warm_bytes, self._cache, self._lock = os.fspath(path), b"", None, threading.Lock()

    def deserialize(self, tensor: torch.Tensor):
        """Takes the bytes of a uint8 tensor."""
        with self._lock:
            self._pending_warm_bytes = tensor.numpy().tobytes()

    def serialize(self) -> torch.Tensor:
        """The bytes as a uint8 tensor."""
        with self._lock:
            return torch.frombuffer(bytearray(self._pending_warm_bytes), dtype=torch.uint8) if self._pending_warm_bytes else torch.empty(0, dtype=torch.uint8)

    def __getstate__(self):
        return {"path": self.path, "bytes": self._pending_warm_bytes}

    def __setstate__(self, state):
        self.__init__(state["path"])
        self._pending_warm_bytes = state["bytes"]


class RuntimeCache:
    """path: the file; "" is none. autosave_on_del: `save()` when the object goes, or at the end of the process."""

    def __init__(self, path="", autosave_on_del=False):
        self._handle, self.autosave_on_del, self._atexit_token = _RuntimeCacheHandle(path), autosave_on_del, None
        self._look_after()

    @property
    def path(self) -> str:
        return self._handle.path

    def load(self, path=None):
        """Reads the file, where there is one."""
        path = path or self.path
        if path and os.path.exists(path):
            with open(path, "rb") as file:
                data = bytearray(file.read())
            self._handle.deserialize(torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8))

    def save(self, path=None):
        """Writes the bytes that were read; nothing where there are none."""
        from ...base import atomic

        path, data = path or self.path, self._handle.serialize().numpy().tobytes()
        if path and data:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            atomic.write_bytes(path, data)

    def _look_after(self):
        if self.autosave_on_del:
            self._atexit_token = partial(_autosave_at_exit, weakref.ref(self))
            atexit.register(self._atexit_token)

    def __del__(self):
        try:
            if self._atexit_token is not None:
                atexit.unregister(self._atexit_token)
            if self.autosave_on_del and self.path:
                self.save()
        except Exception:  # noqa: S110  the interpreter may be half gone, and nobody can be told
            pass

    def __getstate__(self):
        return {**self.__dict__, "_atexit_token": None}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._look_after()


def _autosave_at_exit(cache: weakref.ref):
    """Saves a cache that is still there, once."""
    if (found := cache()) is not None:
        found.autosave_on_del = False
        found.save()
