"""ctypes over include/ingot/ingot.h: the library, its structs, the errors of failed calls, and the handles of a model and a plan."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any

from .. import errors
from ..base import atomic, debug, processes
from ..base.progress import bar
from ..errors import IoError, OptionError
from ._values import Tensor, WeightSource, sources

_PACKAGE = Path(__file__).resolve().parents[1]
_lock = processes.Lock()
_lib = None


def find(name: str) -> str:
    """The path of one of ingot's libraries: in $INGOT_LIBRARY_DIR, in the package (a wheel, or an editable install's second folder), or in the repository's build folder."""
    folders = [os.environ.get("INGOT_LIBRARY_DIR"), *(Path(p) / "lib" for p in sys.modules["ingot"].__path__), _PACKAGE.parents[1] / "build" / "release"]
    for folder in folders:
        if folder:
            for path in (Path(folder) / name, Path(folder) / "lib" / name):
                if path.exists():
                    return str(path)
    raise IoError(f"{name} was not found", remedy="build it (`make build`), install the wheel, or set INGOT_LIBRARY_DIR to its folder")


def library_path() -> str:
    """The folder of libingot_runtime.so, for programs in C and C++: `-L` and, when they run, LD_LIBRARY_PATH or a run path. Raises IoError if it is not there."""
    return os.path.dirname(find("libingot_runtime.so"))


def include_path() -> str:
    """The folder for `-I`, with ingot/ingot.h, ingot/ingot.hpp and ingot/kernel.h. Raises IoError if it is not there."""
    for folder in (*(Path(p) / "include" for p in sys.modules["ingot"].__path__), _PACKAGE.parents[1] / "include"):
        if (folder / "ingot" / "ingot.h").exists():
            return str(folder)
    raise IoError("ingot's headers were not found", remedy="install the wheel, or use ingot from a checkout")


class Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("message", c_char_p), ("origin", c_char_p), ("remedy", c_char_p)]


class Binding(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", c_int32), ("dims", POINTER(c_int64)), ("written", c_int32), ("order", c_void_p)]


class Size(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


_Progress = ctypes.CFUNCTYPE(c_int, c_char_p, c_double, c_void_p)
_Log = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
OutputMemory = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t, POINTER(c_int64), c_int32)

_SIGNATURES = {
    "ingot_options_create": [POINTER(c_void_p)],
    "ingot_options_set": [c_void_p, c_char_p, c_char_p],
    "ingot_options_describe": [POINTER(c_void_p)],
    "ingot_set_library_folders": [POINTER(c_char_p), c_size_t],
    "ingot_set_log": [_Log, c_void_p],
    "ingot_describe_machine": [POINTER(c_void_p)],
    "ingot_measure_machine": [c_int32, c_double, POINTER(c_void_p)],
    "ingot_measure_rates": [c_int32, c_double, POINTER(c_void_p)],
    "ingot_ops_describe": [POINTER(c_void_p)],
    "ingot_ops_describe_absent": [POINTER(c_void_p)],
    "ingot_model_open": [c_char_p, POINTER(c_void_p)],
    "ingot_model_from_memory": [c_char_p, c_size_t, POINTER(WeightSource), c_size_t, POINTER(c_void_p)],
    "ingot_model_set_dim": [c_void_p, c_char_p, c_int64, c_int64, c_int64, c_int64, c_char_p],
    "ingot_model_set_signature": [c_void_p, c_char_p],
    "ingot_model_describe": [c_void_p, POINTER(c_void_p)],
    "ingot_explain": [c_void_p, c_void_p, POINTER(c_void_p)],
    "ingot_compile": [c_void_p, c_void_p, _Progress, c_void_p, POINTER(c_void_p)],
    "ingot_plan_load_with": [c_char_p, c_int, c_int, POINTER(c_void_p)],
    "ingot_plan_load_memory_with": [c_void_p, c_size_t, c_int, POINTER(c_void_p)],
    "ingot_plan_load_signed": [c_char_p, POINTER(c_char_p), c_size_t, POINTER(c_void_p)],
    "ingot_plan_load_memory_signed": [c_void_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_void_p)],
    "ingot_plan_save": [c_void_p, c_char_p],
    "ingot_plan_write": [c_void_p, c_int, POINTER(c_void_p), POINTER(c_size_t)],
    "ingot_plan_part": [c_void_p, c_uint32, POINTER(c_void_p)],
    "ingot_plan_with_weights": [c_void_p, POINTER(WeightSource), c_size_t, POINTER(c_void_p)],
    "ingot_plan_weight_value": [c_void_p, c_size_t, POINTER(c_void_p)],
    "ingot_adapter_describe": [POINTER(c_char_p), c_size_t, c_char_p, POINTER(c_char_p), c_size_t, POINTER(c_void_p)],
    "ingot_plan_verify": [c_void_p],
    "ingot_graph_draw": [c_char_p, c_char_p, POINTER(c_void_p), POINTER(c_size_t)],
    "ingot_plan_describe": [c_void_p, POINTER(c_void_p)],
    "ingot_plan_graph": [c_void_p, c_uint32, POINTER(c_void_p)],
    "ingot_plan_reference": [c_void_p, c_uint32, POINTER(Tensor), c_size_t, POINTER(Tensor), c_size_t],
    "ingot_plan_verify_steps": [c_void_p, c_uint32, c_void_p, POINTER(Tensor), c_size_t, c_double, c_int, POINTER(c_void_p)],
    "ingot_weights_create": [c_void_p, c_void_p, POINTER(c_void_p)],
    "ingot_weights_device": [c_void_p, POINTER(c_int32)],
    "ingot_weights_set_memory": [c_void_p, c_int64],
    "ingot_weights_memory": [c_void_p, c_void_p],
    "ingot_session_memory": [c_void_p, c_void_p],
    "ingot_weights_set": [c_void_p, c_char_p, c_void_p, c_size_t, POINTER(c_int64), c_int],
    "ingot_weights_commit": [c_void_p],
    "ingot_weights_add_products": [c_void_p, c_int, POINTER(c_int64), POINTER(c_void_p), c_size_t, c_void_p],
    "ingot_weights_fork": [c_void_p, POINTER(c_void_p)],
    "ingot_session_create": [c_void_p, c_void_p, c_uint32, c_void_p, POINTER(c_void_p)],
    "ingot_session_resolve": [c_void_p, POINTER(Tensor), c_size_t],
    "ingot_session_output": [c_void_p, c_size_t, POINTER(c_int32), POINTER(POINTER(c_int64))],
    "ingot_session_state": [c_void_p, c_size_t, c_void_p, c_size_t, c_int],
    "ingot_session_set_output_memory": [c_void_p, OutputMemory, c_void_p],
    "ingot_session_reset": [c_void_p],
    "ingot_session_set_state": [c_void_p, c_void_p],
    "ingot_session_set_weights": [c_void_p, c_void_p],
    "ingot_state_create_with": [c_void_p, c_void_p, POINTER(Size), c_size_t, POINTER(c_void_p)],
    "ingot_state_grow": [c_void_p, POINTER(Size), c_size_t],
    "ingot_state_count": [c_void_p, POINTER(c_size_t)],
    "ingot_state_entry": [c_void_p, c_size_t, POINTER(Binding)],
    "ingot_state_fork": [c_void_p, POINTER(c_void_p)],
    "ingot_state_copy": [c_void_p, c_void_p],
    "ingot_state_reset": [c_void_p],
    "ingot_state_read": [c_void_p, c_char_p, c_void_p, c_size_t],
    "ingot_state_write": [c_void_p, c_char_p, c_void_p, c_size_t],
    "ingot_state_save": [c_void_p, c_char_p],
    "ingot_state_load": [c_void_p, c_char_p],
    "ingot_state_bind": [c_void_p, c_char_p, POINTER(Tensor)],
    "ingot_state_tensor": [c_void_p, c_char_p, POINTER(Tensor)],
    "ingot_session_profile": [c_void_p, c_int, POINTER(c_void_p)],
    "ingot_session_trace": [c_void_p, POINTER(c_void_p)],
    "ingot_session_run_with": [c_void_p, POINTER(Tensor), c_size_t, POINTER(Tensor), c_size_t],
}
_RELEASES = ["options", "model", "plan", "weights", "session", "state"]


@_Log
def _say(level, text, _):
    from ..base.log import line  # Python's logging is loaded when there is something to say

    line(level, text.decode(errors="backslashreplace"))


def lib():
    """The library, loaded once."""
    global _lib
    if _lib is None:
        with _lock():
            if _lib is None:
                loaded = ctypes.CDLL(find("libingot.so.0"), mode=ctypes.RTLD_GLOBAL)
                for name, arguments in _SIGNATURES.items():
                    function = getattr(loaded, name)
                    function.argtypes, function.restype = arguments, c_int
                for name in _RELEASES:
                    function = getattr(loaded, f"ingot_{name}_release")
                    function.argtypes, function.restype = [c_void_p], None
                loaded.ingot_last_error.argtypes, loaded.ingot_last_error.restype = [], POINTER(Error)
                for release in (loaded.ingot_string_release, loaded.ingot_bytes_release):
                    release.argtypes, release.restype = [c_void_p], None
                # NVIDIA's libraries in pip's packages, for systems that have none.
                folders = [os.fsencode(p) for p in sys.path if p.endswith("-packages")]
                loaded.ingot_set_library_folders((c_char_p * max(len(folders), 1))(*folders), len(folders))
                loaded.ingot_set_log(_say, None)
                atexit.register(loaded.ingot_set_log, _Log(), None)
                _lib = loaded
    return _lib


def check(status: int):
    """Raises the error of the last call when it failed."""
    if status == 0:
        return
    error = lib().ingot_last_error().contents
    raise errors.by_code(status, *(text.decode(errors="backslashreplace") for text in (error.message, error.origin, error.remedy)))  # a path may be any bytes


class Handle:
    """An opaque handle of the C API, released with its owner."""

    kind = ""

    def __init__(self, pointer: c_void_p):
        self._pointer = pointer

    @property
    def pointer(self) -> c_void_p:
        return self._pointer

    def __del__(self):
        pointer, self._pointer = getattr(self, "_pointer", None), None
        if pointer and _lib is not None:
            getattr(_lib, f"ingot_{self.kind}_release")(pointer)


def text_of(function, *arguments) -> str:
    out = c_void_p()
    check(function(*arguments, byref(out)))
    try:
        return ctypes.string_at(out).decode()
    finally:
        lib().ingot_string_release(out)


def drawn(graph: str, format: str) -> bytes:
    """A graph's text as "svg", "dot" or "onnx"."""
    out, count = c_void_p(), c_size_t()
    check(lib().ingot_graph_draw(graph.encode(), format.encode(), byref(out), byref(count)))
    try:
        return ctypes.string_at(out, count.value)
    finally:
        lib().ingot_bytes_release(out)


def options() -> list[dict[str, Any]]:
    """The table of options: each with name, type, default, kind (partition, plan, build or session) and meaning."""
    return json.loads(text_of(lib().ingot_options_describe))


def ops() -> list[dict[str, Any]]:
    """The operator table: name, family and parameters of each overload."""
    return json.loads(text_of(lib().ingot_ops_describe))


def absent_ops() -> list[dict[str, Any]]:
    """The overloads of ATen for inference that the table lacks: name, group ("composite": torch decomposes it) and reason."""
    return json.loads(text_of(lib().ingot_ops_describe_absent))


def machine() -> dict[str, Any]:
    """What ingot finds on this machine: instruction set, threads, version, GPUs; for the driver and NVIDIA's libraries the path, or how to get it."""
    return json.loads(text_of(lib().ingot_describe_machine))


class Options(Handle):
    kind = "options"

    def __init__(self, values: dict):
        out = c_void_p()
        check(lib().ingot_options_create(byref(out)))
        super().__init__(out)
        for name, value in values.items():
            text = str(value).lower() if isinstance(value, bool) else ",".join(map(str, value)) if isinstance(value, (list, tuple, set)) else str(value)
            check(lib().ingot_options_set(out, str(name).encode(), text.encode()))


def session_options(values: dict) -> Options:
    made = Options(values)  # refuses unknown names and bad values
    for option in options():
        if option["name"] in values and option["kind"] != "session":
            raise OptionError(f"option {option['name']!r} is for compiling, not for running", remedy="give it to ingot.compile")
    return made


class Model(Handle):
    """A captured graph inside the library."""

    kind = "model"

    def __init__(self, pointer, keep=()):
        super().__init__(pointer)
        self._keep = keep

    @classmethod
    def from_json(cls, text: bytes, weights) -> "Model":
        table = (WeightSource * max(len(weights), 1))()
        for entry, (name, tensor) in zip(table, weights):
            entry.name, entry.data, entry.bytes = name.encode(), tensor.data_ptr(), tensor.numel() * tensor.element_size()
        out = c_void_p()
        check(lib().ingot_model_from_memory(text, len(text), table, len(weights), byref(out)))
        return cls(out, [tensor for _, tensor in weights])

    @classmethod
    def open(cls, path: str) -> "Model":
        out = c_void_p()
        check(lib().ingot_model_open(atomic.encoded(path), byref(out)))
        return cls(out)

    def set_dim(self, name, axis, low, opt, high, shared):
        check(lib().ingot_model_set_dim(self.pointer, name.encode(), axis, low, opt, high, (shared or "").encode()))

    def set_signature(self, text: str):
        check(lib().ingot_model_set_signature(self.pointer, text.encode()))

    def describe(self) -> dict:
        return json.loads(text_of(lib().ingot_model_describe, self.pointer))

    def input_names(self) -> list[str]:
        return [i["name"] for i in self.describe()["inputs"]]

    def explain(self, values: dict) -> dict:
        given = Options(values)
        return json.loads(processes.interruptible(lambda: text_of(lib().ingot_explain, self.pointer, given.pointer)))

    def compile(self, values: dict, progress=None) -> "Plan":
        given = Options(values)
        out = c_void_p()
        cancelled = []
        with bar() as show:

            def report(stage, fraction, _):
                if show is not None:
                    show(stage.decode(), fraction)
                return int(bool(cancelled or progress is not None and progress(stage.decode(), fraction)))

            callback = _Progress(report)
            with debug.for_library():
                processes.interruptible(lambda: check(lib().ingot_compile(self.pointer, given.pointer, callback, None, byref(out))), lambda: cancelled.append(True))
        session = {o["name"] for o in options() if o["kind"] == "session"}
        return Plan(out, {k: v for k, v in values.items() if k in session})


class Plan(Handle):
    kind = "plan"

    def __init__(self, pointer, session_options=None):
        super().__init__(pointer)
        self.session_options = session_options or {}

    def describe(self) -> dict:
        return json.loads(text_of(lib().ingot_plan_describe, self.pointer))

    def part(self, function: int) -> "Plan":
        """A plan with only this function and the weights that it needs."""
        out = c_void_p()
        check(lib().ingot_plan_part(self.pointer, function, byref(out)))
        return Plan(out)

    def with_weights(self, values: dict) -> "Plan":
        """The same plan with other values for some of its weights. The values are dense; they are copied only if their layout differs from the weight's."""
        out = c_void_p()
        check(lib().ingot_plan_with_weights(self.pointer, sources(values), len(values), byref(out)))
        made = Plan(out, self.session_options)
        made._keep = (self, values)
        return made

    def bytes(self, values: bool) -> bytes:
        """The bytes of the plan's file, with or without the values of its weights."""
        out, count = c_void_p(), c_size_t()
        check(lib().ingot_plan_write(self.pointer, values, byref(out), byref(count)))
        try:
            return ctypes.string_at(out, count.value)
        finally:
            lib().ingot_bytes_release(out)
