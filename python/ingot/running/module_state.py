"""`Module.new_state`: the buffers that a compiled module writes, separate from the module, so that one module serves many sequences."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Mapping

import torch

from ..capture import autocast
from ..errors import InputError, UnsupportedError
from . import state_file

_current: contextvars.ContextVar["ModuleState | None"] = contextvars.ContextVar("ingot_state", default=None)


def current() -> ModuleState | None:
    """The state of the current call; None: the module's own buffers, as always while torch traces."""
    return None if torch.compiler.is_compiling() else _current.get()


class ModuleState(Mapping):
    """The tensors of a state, by the names of the buffers. They are the memory itself: the next call reads what is written to one.

    One call or function uses a state at a time; a second one from another thread meanwhile is an InputError.
    """

    def __init__(self, module, tensors: dict[str, torch.Tensor]):
        self._module, self._tensors, self._used = module, tensors, threading.Lock()
        self._forward = None

    def __len__(self):
        return len(self._tensors)

    def __iter__(self):
        return iter(self._tensors)

    def __getitem__(self, name):
        if name not in self._tensors:
            raise InputError(f"the module writes no buffer {name!r}", remedy="those it writes are " + (", ".join(self._tensors) or "none"))
        return self._tensors[name]

    @torch.no_grad()
    def __setitem__(self, name, value):
        """Copies a tensor of the entry's dtype and shape into it; `state[name] -= 3` works in place."""
        entry = self[name]
        if not isinstance(value, torch.Tensor) or (value.dtype, value.shape) != (entry.dtype, entry.shape):
            shown = f"{value.dtype} {list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
            raise InputError(f"buffer {name!r} is {entry.dtype} {list(entry.shape)}, not {shown}", remedy="give a tensor of that dtype and shape; state[name].fill_(number) writes a number")
        entry.copy_(value)

    def fork(self) -> ModuleState:
        """Another state with the same values, in separate memory."""
        with _Use(self):
            return ModuleState(self._module, _copies(self._tensors))

    def copy_(self, other: ModuleState) -> ModuleState:
        """Sets every buffer to its value in the other state."""
        if not isinstance(other, ModuleState) or other._module is not self._module:
            raise InputError("a state copies one of the same module", remedy="make both with new_state() of one module")
        if other is not self:
            with _Use(self), _Use(other):
                self._fill(other._tensors)
        return self

    @property
    def bytes(self) -> int:
        """The size of all buffers in bytes. It does not change: torch.export fixes sizes of buffers, and a cache that grows is an input (`Engine.new_state`)."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def save(self, path):
        """Writes all buffers to a safetensors file, atomically."""
        with _Use(self):
            state_file.write(self._tensors, path)

    def load(self, path) -> ModuleState:
        """Sets every buffer to its value in a file that `save` wrote. The file must have the same buffers; otherwise a FormatError, and the state is as it was."""
        with _Use(self):
            state_file.read(self._tensors, path)
        return self

    def reset(self):
        """Sets every buffer to its current value in the module."""
        with _Use(self):
            self._fill(self._module._kind.written())

    @torch.no_grad()
    def _fill(self, values):
        for name, tensor in self._tensors.items():
            tensor.copy_(values[name])

    def tensors(self, kind, own):
        """The tensors for a call of the module of this kind: this state's, or `own` if the state belongs to another module."""
        return self._tensors.values() if kind is self._module._kind else own

    def forward(self, way, own):
        """The forward of the torch graph, with these tensors in place of the module's buffers; `own` if the graph belongs to another module."""
        if way is not self._module._kind.way:
            return own
        if self._forward is None:
            graph = way.graph
            values = {graph.ingot_weights[name]: tensor for name, tensor in self._tensors.items() if name in graph.ingot_weights}
            self._forward = autocast.without(functools.partial(type(graph).forward, _Instead(graph, values)))
        return self._forward


class WithState:
    """A module with a state: called like the module, it uses the state's buffers."""

    def __init__(self, module, state: ModuleState):
        if not isinstance(state, ModuleState) or state._module is not module:
            raise InputError("a module runs with a state of its own", remedy="make it with this module's new_state()")
        self.module, self.state = module, state

    def __call__(self, *args, **kwargs):
        with _Use(self.state):
            token = _current.set(self.state)
            try:
                return self.module(*args, **kwargs)
            finally:
                _current.reset(token)


class _Use:
    def __init__(self, state: ModuleState):
        self._used = state._used

    def __enter__(self):
        if not self._used.acquire(blocking=False):
            raise InputError("the state is in use: another call with it has not returned", remedy="make one call after another, or give each thread a state of its own (fork)")

    def __exit__(self, *_):
        self._used.release()


class _Instead:
    """An object with some attributes of its own, and all others from another object."""

    def __init__(self, of, values):
        self.__dict__.update(values, _of=of)

    def __getattr__(self, name):
        return getattr(self._of, name)


def new_state(module) -> ModuleState:
    tensors = module._kind.written()
    storages = [t.untyped_storage().data_ptr() for t in tensors.values() if t.numel() > 0]
    if len(set(storages)) < len(storages):
        raise UnsupportedError("buffers that the model writes share memory, and a state has memory for each", remedy="copy the model for each sequence: copy.deepcopy(model)")
    return ModuleState(module, _copies(tensors))


def _copies(tensors):
    with torch.no_grad():
        return {name: t.detach().clone(memory_format=torch.preserve_format) for name, t in tensors.items()}
