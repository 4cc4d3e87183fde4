"""The GPU memory that an engine's weights take, and its limit (option memory_bytes). Needs no torch."""

from __future__ import annotations

import ctypes
from ctypes import byref

from ..errors import OptionError
from ._library import check, lib, session_options


class Memory(ctypes.Structure):
    """ingot_memory of ingot.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("resident", "streamed", "ring", "arena", "limit", "least")]


def of_weights(pointer) -> dict[str, int]:
    return _read(lib().ingot_weights_memory, pointer)


def of_session(pointer) -> dict[str, int]:
    return _read(lib().ingot_session_memory, pointer)


def _read(function, pointer):
    out = Memory()
    check(function(pointer, byref(out)))
    return {name: getattr(out, name) for name, _ in Memory._fields_}


class Configured:
    """Sets the limits of engines. As a context manager it restores the earlier limits at the end."""

    def __init__(self, engines, runtime_option: dict):
        session_options(runtime_option)  # refuses unknown names and bad values
        for name in runtime_option:
            if name != "memory_bytes":
                raise OptionError(f"option {name!r} cannot be changed on an existing engine", remedy="give it where the model is compiled or loaded, or to Engine.session")
        engines = [engine for engine in engines if engine.device is not None]
        self._before = []
        if not runtime_option:
            return
        try:
            for engine in engines:
                self._before.append((engine, engine.memory()["limit"]))
                _set(engine, int(runtime_option["memory_bytes"]))
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        for engine, limit in self._before:
            _set(engine, limit)
        self._before = []


def _set(engine, limit: int):
    with engine.changing():
        for weights in [engine._weights, *engine.forks]:  # the list keeps them while the library uses them
            check(lib().ingot_weights_set_memory(weights.pointer, limit))
