"""ctypes over libingot_torch.so: its C functions, in addition to the operator of torch's dispatcher."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_int, c_int64, c_size_t, c_uint64, c_void_p

from ._engine import Engine

_Changed = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t)


class TorchRegistry:
    """The C functions of the op library."""

    def __init__(self, path: str):
        library = ctypes.CDLL(path)
        library.ingot_torch_register.argtypes, library.ingot_torch_register.restype = [c_void_p, c_void_p, c_void_p, c_void_p, c_uint64], c_uint64
        library.ingot_torch_unregister.argtypes, library.ingot_torch_unregister.restype = [c_uint64], None
        library.ingot_torch_use.argtypes, library.ingot_torch_use.restype = [c_uint64, c_void_p], None
        library.ingot_torch_wait.argtypes, library.ingot_torch_wait.restype = [c_uint64], None
        library.ingot_torch_plan_words.argtypes, library.ingot_torch_plan_words.restype = [c_uint64, POINTER(c_int64)], None
        library.ingot_torch_count_of.argtypes, library.ingot_torch_count_of.restype = [c_void_p], c_void_p
        self._path = path
        self._library = library
        self._engines: dict[int, Engine] = {}
        self.used = library.ingot_torch_used

    def register(self, engine: Engine) -> int:
        watch = engine.watch.pointer if engine.watch is not None else None
        like = next((number for number, other in self._registered() if other.family is engine.family), 0)
        number = self._library.ingot_torch_register(engine._plan.pointer, engine._weights.pointer, engine._options.pointer, watch, like)
        self._engines[number] = engine
        engine.readers.of_torch[number] = functools.partial(self._library.ingot_torch_wait, number)
        if engine.active is not None:
            self.use(number, engine.active)
        return number

    def use(self, number: int, weights):
        """Makes later calls read these weights (weights.Weights), or the engine's own (None)."""
        self._library.ingot_torch_use(number, None if weights is None else weights.pointer)

    def use_everywhere(self, engine: Engine, weights):
        for number, other in self._registered():
            if other is engine:
                self.use(number, weights)
        engine.readers.wait()  # the caller may drop the weights that were used

    def direct(self, exchange, number: int, function: int):
        """A function from a tuple of torch tensors to a tuple of results, which bypasses torch's dispatcher by the DLPack exchange table in the capsule `exchange`.
        It raises the op's RuntimeError. None if the version of the table or of Python is not supported."""
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], c_void_p
        library = ctypes.PyDLL(self._path)  # PyDLL keeps Python's lock; the library releases it when the model runs
        library.ingot_torch_can_call.argtypes = [c_void_p]
        table = pointer(exchange, b"dlpack_exchange_api")
        if not library.ingot_torch_can_call(table):
            return None
        call = library.ingot_torch_call
        call.argtypes, call.restype = [c_void_p, c_uint64, ctypes.c_int64, ctypes.py_object], ctypes.py_object
        return functools.partial(call, c_void_p(table), c_uint64(number), ctypes.c_int64(function))

    def _registered(self):
        """Numbers and engines, of a copy: the pairs of `list(items())` may start a garbage collection, which unregisters engines."""
        return self._engines.copy().items()

    def unregister(self, number: int):
        self._library.ingot_torch_unregister(number)
        engine = self._engines.pop(number, None)
        if engine is not None:
            engine.readers.of_torch.pop(number, None)

    def watch(self, changed) -> "TorchWatch":
        return TorchWatch(ctypes.PyDLL(self._path), changed)

    def plan_words(self, number: int) -> list[int]:
        """The content of the plan tensor of a registered engine."""
        words = (c_int64 * 4)()
        self._library.ingot_torch_plan_words(number, words)
        return list(words)

    def count_of(self, tensor: int) -> int | None:
        """The address of torch's write counter of a tensor, from the address of the tensor's C++ object."""
        return self._library.ingot_torch_count_of(tensor)


class TorchWatch:
    """Compares words of this process's memory before an engine runs; see tensor_changes.py. Calls `changed(text, room)` if one differs."""

    def __init__(self, library, changed):
        self._library = library  # keeps Python's lock, because a call is short
        library.ingot_torch_watch_create.argtypes, library.ingot_torch_watch_create.restype = [_Changed], c_void_p
        library.ingot_torch_watch_set.argtypes, library.ingot_torch_watch_set.restype = [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_int], None
        library.ingot_torch_watch_same.argtypes = library.ingot_torch_watch_release.argtypes = [c_void_p]
        library.ingot_torch_watch_release.restype = None
        self._changed = _Changed(changed)
        self.pointer = library.ingot_torch_watch_create(self._changed)
        self.same = functools.partial(library.ingot_torch_watch_same, c_void_p(self.pointer))

    def set(self, words, halves, unknown):
        """words, halves: addresses of 64-bit and 32-bit words, each followed by the expected value."""
        arrays = [(c_uint64 * max(len(list_), 1))(*list_) for list_ in (words, halves)]
        self._library.ingot_torch_watch_set(self.pointer, arrays[0], len(words) // 2, arrays[1], len(halves) // 2, unknown)

    def __del__(self):
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer:
            self._library.ingot_torch_watch_release(pointer)
