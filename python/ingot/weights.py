"""`ingot.Weights`: values of an engine's weights beside its own, for another version of the model or an adapter."""

from __future__ import annotations

from ctypes import byref, c_void_p

from . import _values
from ._library import Handle, check, lib
from .errors import InputError


class Weights(Handle):
    """The engine's weights but for those given here. Only these, and what is prepared of them, take memory. `Engine.new_weights` makes them, `Session.run(..., weights=)`
    runs with them; a session that goes from one to another keeps what it has resolved and recorded.

    What changes in the engine's weights changes here too, but for what was given here.
    """

    kind = "weights"

    def __init__(self, engine, pointer):
        super().__init__(pointer)
        self._engine = engine
        self.given: dict = {}  # by the engine's names: the library reads them where they are

    def update(self, state_dict, *, strict=True):
        """Other values, by state-dict name: torch tensors or numpy arrays of the same dtype and shape, which are read where they are. All are seen at once, from the next
        run on. With strict, a name that the engine does not know is an InputError."""
        self._engine.follow()
        _, staged = self._engine.staged(state_dict, strict)
        self.take(staged)
        self.given.update(staged)

    def take(self, staged):
        commit(self.pointer, staged)

    def follow(self, staged):
        """The engine's weights have these values now."""
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
    """make(engine, pointer) of weights that share everything with the engine's."""
    if engine._weights is None:
        raise engine.not_here()
    engine.follow()
    out = c_void_p()
    check(lib().ingot_weights_fork(engine._weights.pointer, byref(out)))
    return make(engine, out)


def new_weights(engine, state_dict, strict) -> Weights:
    made = fork(engine, Weights)
    if state_dict:
        made.update(state_dict, strict=strict)
    engine.forks.add(made)
    return made


def of_engine(weights, engine) -> Weights:
    if not isinstance(weights, Weights) or weights._engine is not engine:
        raise InputError("a session runs with weights of its own engine", remedy="make them with this engine's new_weights()")
    return weights
