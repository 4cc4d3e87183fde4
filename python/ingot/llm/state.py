"""`ingot.llm.State`: what a language model keeps of the tokens that it has taken."""

from __future__ import annotations

import os
import threading

from ..errors import FormatError, InputError


class State:
    """What a model keeps of a batch of sequences. `LanguageModel.new_state` makes one, empty.

    Memory is taken as tokens come, up to the model's max_length. One call uses a state at a time; a second one meanwhile is an InputError.
    """

    def __init__(self, lm, memory, lengths: list[int]):
        # lm: the LanguageModel; memory: a Pages or a Flat.
        self._lm, self._memory, self._lengths, self._used = lm, memory, lengths, threading.Lock()

    @property
    def batch(self) -> int:
        """The number of sequences."""
        return len(self._lengths)

    @property
    def lengths(self) -> list[int]:
        """How many tokens each sequence has."""
        return list(self._lengths)

    @property
    def bytes(self) -> int:
        """The memory of the state. Pages that it shares with forks count in each."""
        return self._memory.bytes

    def fork(self) -> State:
        """Another state with the same tokens. On the CPU they share pages: a fork copies nothing, and the first of them that goes on copies the last page, if that is not full. Elsewhere it copies
        the caches."""
        with self.in_use():
            return State(self._lm, self._memory.fork(), list(self._lengths))

    def rewind(self, n) -> State:
        """Forgets the last n tokens of each sequence. n: a number, or one for each sequence.

        Raises InputError if a sequence has fewer tokens, or if the model has recurrent layers (Mamba), which keep no earlier state: fork the state before.
        """
        with self.in_use():
            counts = _numbers(n, self.batch, "n")
            for row, (count, length) in enumerate(zip(counts, self._lengths)):
                if not 0 <= count <= length:
                    raise InputError(f"sequence {row} has {length} tokens, and {count} are to be forgotten")
            if any(counts) and self._lm.is_recurrent:
                raise InputError("the model has recurrent layers, which keep no earlier state", remedy="keep a fork of the state from before")
            lengths = [length - count for count, length in zip(counts, self._lengths)]
            self._memory.keep(lengths)
            self._lengths = lengths
        return self

    def reorder(self, rows: list[int]) -> State:
        """Sequence n becomes what sequence rows[n] was. rows: one number for each sequence; one may be there several times, as beam search wants it."""
        with self.in_use():
            rows = _numbers(rows, self.batch, "rows")
            if wrong := [row for row in rows if not 0 <= row < self.batch]:
                raise InputError(f"rows has {wrong[0]}, and the sequences are 0 to {self.batch - 1}")
            if rows != list(range(self.batch)):
                self._memory = self._memory.reordered(rows)
                self._lengths = [self._lengths[row] for row in rows]
        return self

    def reset(self) -> State:
        """Forgets all tokens."""
        with self.in_use():
            self._memory = self._lm._caches.new(self.batch)
            self._lengths = [0] * self.batch
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state to a safetensors file, atomically. The file is the same for all devices."""
        with self.in_use():
            self._memory.save(path, self._lengths)

    def load(self, path: str | os.PathLike[str]) -> State:
        """Reads what `save` wrote, with its batch and its lengths. Raises FormatError if the file is not a state of this model, and InputError if it has more sequences or tokens
        than the model takes; the state is then as it was."""
        with self.in_use():
            memory, lengths = self._lm._caches.load(path)
            if not all(0 <= n <= self._lm.max_length for n in lengths):
                raise FormatError(f"{os.fspath(path)} says that its sequences have {lengths} tokens, and the model takes 0 to {self._lm.max_length}")
            self._memory, self._lengths = memory, lengths
        return self

    def in_use(self):
        return _Use(self._used)

    def __repr__(self):
        return f"State(lengths={self._lengths}, bytes={self.bytes})"


class Together:
    """Some states as one, for a step."""

    def __init__(self, states: list[State]):
        self.states = states
        self.lengths = [length for state in states for length in state._lengths]
        self.memories = [state._memory for state in states]

    def took(self, counts: list[int]):
        at = 0
        for state in self.states:
            state._lengths = [length + count for length, count in zip(state._lengths, counts[at : at + state.batch])]
            at += state.batch


class _Use:
    def __init__(self, lock):
        self._lock = lock

    def __enter__(self):
        if not self._lock.acquire(blocking=False):
            raise InputError("the state is in use: another call with it has not returned", remedy="make one call after another, or give each thread a state of its own (fork)")

    def __exit__(self, *_):
        self._lock.release()


def _numbers(given, count: int, what: str) -> list[int]:
    """A number for each sequence, of one number or of so many."""
    given = given.tolist() if hasattr(given, "tolist") else given
    numbers = [given] * count if isinstance(given, int) else list(given)
    if len(numbers) != count or not all(isinstance(n, int) for n in numbers):
        raise InputError(f"{what} is {given!r}, and has to be a number or one for each of the {count} sequences")
    return numbers
