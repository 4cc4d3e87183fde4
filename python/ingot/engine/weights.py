"""`ingot.Weights`: other values for some of an engine's weights, for another version of the model or an adapter."""

from __future__ import annotations

from ctypes import byref, c_void_p

from ..errors import InputError
from . import _values
from ._library import Handle, check, lib


class _Fork(Handle):
    kind = "weights"


class Weights:
    """The engine's weights, with other values for those given here. Only these, and what prepare makes of them, take memory. `Engine.new_weights` makes such a set, and
    `Session.run(..., weights=)` runs with it. A session that switches between sets keeps what it has resolved and recorded.

    A change of the engine's weights counts here too, except for weights that were given here.
    """

    def __init__(self, engine, pointer):
        # Not the handle itself: who finds an object in a WeakSet while another thread runs its __del__ gets it, and its pointer would be released meanwhile.
        self._fork = _Fork(pointer)
        self._engine = engine
        self.given: dict = {}  # by the engine's names; the library reads them in place

    @property
    def pointer(self):
        return self._fork.pointer

    def update(self, state_dict, *, strict=True):
        """Replaces values by state-dict name: torch tensors or numpy arrays of the same dtype and shape, which are read in place. The next run sees all of them at once. With
        strict, a name that the engine does not know is an InputError."""
        self._engine.follow()
        _, staged = self._engine.staged(state_dict, strict)
        with self._engine.changing():
            self.take(staged)
            before = [self.given.get(name) for name, _ in staged]
            self.given.update(staged)
            self._engine.readers.replaced(before)
        self._engine.readers.wait()

    def take(self, staged):
        commit(self.pointer, staged)

    def follow(self, staged):
        """Takes the new values of the engine's weights."""
        theirs = [(name, value) for name, value in staged if name not in self.given]
        if theirs or not staged:
            self.take(theirs)

    def __repr__(self):
        return f"Weights({', '.join(self.given) or 'those of the engine'})"


def commit(pointer, staged):
    for name, value in staged:
        check(lib().ingot_weights_set(pointer, name.encode(), *_values.memory(value), 0))
    check(lib().ingot_weights_commit(pointer))


def fork(engine, make):
    """make(engine, pointer) for a fork that shares all weights with the engine, and follows their changes from then on."""
    if engine._weights is None:
        raise engine.not_here()
    engine.follow()
    out = c_void_p()
    with engine.changing():
        check(lib().ingot_weights_fork(engine._weights.pointer, byref(out)))
        made = make(engine, out)
        engine.forks.add(made)
    return made


def new_weights(engine, state_dict, strict) -> Weights:
    made = fork(engine, Weights)
    if state_dict:
        made.update(state_dict, strict=strict)
    return made


def of_engine(weights, engine) -> Weights:
    if not isinstance(weights, Weights) or weights._engine is not engine:
        raise InputError("a session runs with weights of its own engine", remedy="make them with this engine's new_weights()")
    return weights
