"""Caches in one piece: each state is an engine's state of its own, which grows by doubling. For devices whose attention reads no pages, and for models with recurrent layers."""

from __future__ import annotations

import contextlib

from ..errors import OptionError, UnsupportedError
from . import saved


class FlatCaches:
    """Makes the memory of a model's states, and runs steps on it."""

    def __init__(self, engine, max_batch: int, max_length: int, kv_bytes: int | None):
        if kv_bytes is not None:
            raise OptionError("kv_bytes is given, and this model has no pool of pages: each state grows by itself", remedy="leave it out; models of attention alone have a pool on the CPU")
        self._engine, self._max_batch, self._max_length = engine, max_batch, max_length
        self._a_cache = next((b["name"] for b in engine.inputs() if b["name"].endswith(".keys")), None)
        self._sessions: list = []

    def new(self, batch: int) -> "Flat":
        return Flat(self, self.allocated(batch, 2))

    def allocated(self, batch: int, places: int | None):
        """An engine's state with room for so many tokens, less one: the last place takes ids that do not count."""
        sizes = {"batch": batch} if self._max_batch > 1 else {}
        return self._engine.new_state(**sizes, **({"places": places} if self._a_cache is not None and places is not None else {}))

    def load(self, path) -> tuple["Flat", list[int]]:
        inner = self.allocated(*saved.sizes_of(path)).load(path)
        return Flat(self, inner), [int(n) for n in inner.read("position")]

    def make_room(self, flats, lengths, counts):
        """Grows until each sequence has room for so many tokens more: at least by doubling."""
        if len(flats) > 1:
            raise UnsupportedError("several states are given, and this model's states have their caches in one piece each", remedy="make one state with new_state(batch=..)")
        if self._a_cache is not None:
            inner, tokens = flats[0].inner, max(length + count for length, count in zip(lengths, counts))
            room = inner.dims(self._a_cache)[2] - 1
            if tokens > room:
                inner.grow(places=min(max(tokens, 2 * room), self._max_length) + 1)

    @contextlib.contextmanager
    def runner(self):
        """A function (flats, lengths, ids, counts, take, out, weights) that runs the plan."""
        try:
            session = self._sessions.pop()
        except IndexError:  # other threads have all
            session = self._engine.session()
        try:
            yield lambda flats, lengths, ids, counts, take, out, weights: session.run(ids, counts, take, state=flats[0].inner, out=[out], weights=weights)
        finally:
            self._sessions.append(session)


class Flat:
    """The memory of one state."""

    def __init__(self, caches: FlatCaches, inner):
        self._caches, self.inner = caches, inner

    @property
    def bytes(self) -> int:
        return self.inner.bytes

    def fork(self) -> "Flat":
        return Flat(self._caches, self.inner.fork())

    def reordered(self, rows: list[int]) -> "Flat":
        """With sequence rows[n] as sequence n. This one is not used again."""
        for name in self.inner:
            entry = self.inner.tensor(name)
            entry.copy_(entry[rows])
        return self

    def keep(self, lengths: list[int]):
        """Each sequence has so many tokens, and no more."""
        self.inner.write("position", lengths)

    def save(self, path, lengths: list[int]):
        self.inner.save(path)
