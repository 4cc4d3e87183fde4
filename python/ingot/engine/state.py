"""`ingot.State`: the memory that an engine's functions write (buffers, caches, counters), separate from the sessions that run them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from ctypes import POINTER, byref, c_int64, c_size_t, c_uint8, c_void_p, cast

from ..base import atomic
from ..errors import InputError
from . import _values
from ._library import Binding, Handle, Size, check, lib


class State(Handle, Mapping):
    """The memory that the functions of an engine write: an entry for each written buffer and each written input, by name. Functions share the entries. `Engine.new_state`
    makes a state. A run takes written inputs from it if they are not given.

    `state[name]` is the entry itself, not a copy: a numpy array (bfloat16 as uint16), on a GPU a torch tensor. `state.tensor(name)` is always a torch tensor. Both keep
    the state's memory alive. Only one run or call uses a state at a time; a second one meanwhile is an InputError.
    """

    kind = "state"

    def __init__(self, engine, pointer, memory=()):
        super().__init__(pointer)
        self._engine, self._memory = engine, {}
        self._bindings = self._entries()
        for name, value in dict(memory).items():
            self._bind(name, value)

    def _entries(self):
        count, found = c_size_t(), {}
        check(lib().ingot_state_count(self.pointer, byref(count)))
        for i in range(count.value):
            b = Binding()
            check(lib().ingot_state_entry(self.pointer, i, byref(b)))
            found[b.name.decode()] = {"name": b.name.decode(), "dtype": _values._DTYPES[b.dtype], "dims": b.dims[: b.rank]}
        return found

    def _bind(self, name, value):
        given = value.detach() if hasattr(value, "detach") else value
        tensor, points_at = _view(given, self._binding(name), self._engine.device)
        check(lib().ingot_state_bind(self.pointer, name.encode(), byref(tensor)))
        self._memory[name] = given
        del points_at

    def _binding(self, name):
        if name not in self._bindings:
            raise InputError(f"the engine has no state {name!r}", remedy="its states are " + (", ".join(self._bindings) or "none"))
        return self._bindings[name]

    def dims(self, name) -> list[int]:
        """The sizes of an entry."""
        return list(self._binding(name)["dims"])

    def __contains__(self, name):
        return name in self._bindings

    def __len__(self):
        return len(self._bindings)

    def __iter__(self):
        return iter(self._bindings)

    def __getitem__(self, name):
        binding = self._binding(name)
        if name in self._memory:
            return self._memory[name]
        return self._array(name, binding) if self._engine.device == "cpu" else self.tensor(name)

    def __setitem__(self, name, value):
        self.write(name, value)

    def _address(self, name) -> int:
        tensor = _values.Tensor()
        check(lib().ingot_state_tensor(self.pointer, name.encode(), byref(tensor)))
        return tensor.data

    def _array(self, name, binding):
        import numpy as np

        dtype = _values.numpy_type(binding["dtype"])
        count = int(np.prod(binding["dims"], dtype=np.int64))
        if count == 0:
            return np.empty(binding["dims"], dtype)
        memory = (c_uint8 * (count * dtype.itemsize)).from_address(self._address(name))
        memory.state = self  # keeps the state alive as long as there are views of it
        return np.frombuffer(memory, dtype).reshape(binding["dims"])

    def tensor(self, name):
        """The entry as a torch tensor of the same memory."""
        import torch

        binding = self._binding(name)
        if hasattr(memory := self._memory.get(name), "data_ptr"):
            return memory
        if self._engine.device == "cpu":
            found = torch.from_numpy(self._array(name, binding) if memory is None else memory)
        else:
            found = torch.as_tensor(_OnGpu(self, self._address(name), binding), device=self._engine.device)
        return found.view(torch.bfloat16) if binding["dtype"] == "bfloat16" else found

    def read(self, name):
        """A numpy array with a copy of the entry's values."""
        import numpy as np

        binding = self._binding(name)
        out = np.empty(binding["dims"], _values.numpy_type(binding["dtype"]))
        check(lib().ingot_state_read(self.pointer, name.encode(), out.ctypes.data, out.nbytes))
        return out

    def write(self, name, value):
        """Writes values to the entry: an array of its shape, or one value for all elements."""
        given = _values.broadcast(value, self._binding(name))
        check(lib().ingot_state_write(self.pointer, name.encode(), given.ctypes.data, given.nbytes))

    def grow(self, **sizes) -> State:
        """Sets larger sizes for dynamic axes, by their names. Values keep their indices; new elements are zero. Entries move in memory, so read `state[name]` again."""
        table = _table(sizes)
        check(lib().ingot_state_grow(self.pointer, table, len(sizes)))
        self._bindings = self._entries()
        return self

    @property
    def bytes(self) -> int:
        """The size of all entries in bytes."""
        return sum(_values.numpy_type(b["dtype"]).itemsize * math.prod(b["dims"]) for b in self._bindings.values())

    def save(self, path):
        """Writes all entries to a safetensors file, atomically."""
        check(lib().ingot_state_save(self.pointer, atomic.encoded(path)))

    def load(self, path) -> State:
        """Sets every entry to its value in a file that `save` wrote. The file must have the same entries; otherwise a FormatError."""
        check(lib().ingot_state_load(self.pointer, atomic.encoded(path)))
        return self

    def fork(self) -> State:
        """Another state with the same values, in separate memory."""
        out = c_void_p()
        check(lib().ingot_state_fork(self.pointer, byref(out)))
        return State(self._engine, out)

    def copy_(self, other: State) -> State:
        """Sets every entry to its value in the other state."""
        if not isinstance(other, State):
            raise InputError(f"a state copies a State, and this is of type {type(other).__name__}")
        check(lib().ingot_state_copy(self.pointer, other.pointer))
        return self

    def reset(self):
        """Sets every entry to the plan's value again."""
        check(lib().ingot_state_reset(self.pointer))

    def __repr__(self):
        return "State(" + ", ".join(f"{n}: {b['dtype']} {b['dims']}" for n, b in self._bindings.items()) + ")"


def _table(sizes):
    return (Size * max(len(sizes), 1))(*(Size(name.encode(), value) for name, value in sizes.items()))


def new_state(engine, memory, sizes) -> State:
    if engine._weights is None:
        raise engine.not_here()
    engine.follow()
    out = c_void_p()
    check(lib().ingot_state_create_with(engine._plan.pointer, engine._weights.pointer, _table(sizes), len(sizes), byref(out)))
    return State(engine, out, memory)


class InState:
    """A placeholder for an input that is in the session's state."""

    def __init__(self, dims):
        self.dims = dims

    def fill_in(self, tensor, binding):
        numbers = (c_int64 * max(len(self.dims), 1))(*self.dims)
        tensor.data, tensor.dtype, tensor.rank = None, _values._DTYPES.index(binding["dtype"]), len(self.dims)
        tensor.dims = cast(numbers, POINTER(c_int64))
        return numbers


def complete(state, arrays, bindings):
    """The arrays, with an InState for each input that the state has and the caller does not give."""
    has = [b["name"] if b.get("written") and b["name"] in state else None for b in bindings]
    if len(arrays) != has.count(None):
        return arrays
    rest = iter(arrays)
    return [next(rest) if name is None else InState(state._bindings[name]["dims"]) for name in has]


class _OnGpu:
    """Memory on a GPU, in the form that torch accepts."""

    def __init__(self, state, address, binding):
        types = {"bool": "|b1", "uint8": "|u1", "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "float16": "<f2", "bfloat16": "<i2", "float32": "<f4", "float64": "<f8"}
        self._state = state
        self.__cuda_array_interface__ = {"shape": tuple(binding["dims"]), "typestr": types[binding["dtype"]], "data": (address, False), "version": 3}


def _view(given, binding, device):
    """A C tensor that points at the memory of an array or tensor, and the object that owns the memory."""
    import numpy as np

    out, name = _values.Tensor(), binding["name"]
    if isinstance(given, np.ndarray):
        if not (given.flags.writeable and _values.native(given) is given):
            raise InputError(f"the array given for state {name!r} is read-only or not in this machine's byte order")
        return out, _values.fill(out, given, binding, "state")
    if not hasattr(given, "data_ptr"):
        raise InputError(f"the value given for state {name!r} is of type {type(given).__name__}, and has to be a tensor or an array")
    from .plain_tensors import why_not

    why = why_not(given, name) or (("is a negative view", "give its resolve_neg()") if given.is_neg() else None)
    if why is None and str(given.device) not in ("cpu", device):
        why = f"is on {given.device}, and the engine runs on {device}", f"give {name}.to({device!r})"
    dtype = str(given.dtype).removeprefix("torch.")
    if why is None and dtype not in _values._DTYPES:
        why = f"is {dtype}, and has to be {binding['dtype']}", ""
    if why is not None:
        raise InputError(f"state {name!r} {why[0]}", remedy=why[1])
    numbers = [(c_int64 * max(given.dim(), 1))(*values) for values in (given.shape, given.stride())]
    out.data, out.dtype, out.rank = given.data_ptr(), _values._DTYPES.index(dtype), given.dim()
    out.dims, out.strides = (cast(n, POINTER(c_int64)) for n in numbers)
    return out, numbers
