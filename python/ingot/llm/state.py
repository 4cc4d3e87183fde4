"""`ingot.llm.State`: what a language model keeps of the tokens that it has taken."""

from __future__ import annotations

import os
import threading
from ..errors import FormatError, InputError
from ..running import state_file


class State:
    """The caches and counters of a batch of sequences. `LanguageModel.new_state` makes one, empty.

    Memory grows by doubling as tokens come, up to the model's max_length. One call uses a state at a time; a second one meanwhile is an InputError.
    """

    def __init__(self, lm, inner, lengths: list[int]):
        # lm: the LanguageModel; inner: the engine's state.
        self._lm, self._inner, self._lengths, self._used = lm, inner, lengths, threading.Lock()

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
        """The memory that the state takes."""
        return self._inner.bytes

    def fork(self) -> State:
        """Another state with the same tokens, in separate memory."""
        with self.in_use():
            return State(self._lm, self._inner.fork(), list(self._lengths))

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
            self._set([length - count for count, length in zip(counts, self._lengths)])
        return self

    def reset(self) -> State:
        """Forgets all tokens."""
        with self.in_use():
            self._inner = self._lm.empty(self.batch)
            self._lengths = [0] * self.batch
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state to a safetensors file, atomically."""
        with self.in_use():
            self._inner.save(path)

    def load(self, path: str | os.PathLike[str]) -> State:
        """Reads what `save` wrote, with its batch and its lengths. Raises FormatError if the file is not a state of this model, and InputError if it has more sequences or tokens
        than the model takes; the state is then as it was."""
        with self.in_use():
            batch, room = _sizes_of(path)
            inner = self._lm.allocated(batch, room).load(path)
            lengths = [int(n) for n in inner.read("position")]
            if not all(0 <= n <= self._lm.max_length for n in lengths):
                raise FormatError(f"{os.fspath(path)} says that its sequences have {lengths} tokens, and the model takes 0 to {self._lm.max_length}")
            self._inner, self._lengths = inner, lengths
        return self

    def in_use(self):
        return _Use(self._used)

    def make_room(self, tokens: int):
        """Grows until each sequence has room for so many tokens. For `LanguageModel`."""
        self._inner = self._lm.grown(self._inner, tokens)

    def took(self, counts: list[int]):
        self._lengths = [length + count for length, count in zip(self._lengths, counts)]

    def _set(self, lengths):
        self._inner.write("position", lengths)
        self._lengths = lengths

    def __repr__(self):
        return f"State(lengths={self._lengths}, bytes={self.bytes})"


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


def _sizes_of(path) -> tuple[int, int | None]:
    """The batch and the places of a saved state. None: it has no cache."""
    with state_file.opened(path) as file:
        shapes = {name: shape for name, (_, shape, *_) in state_file.header(file).items()}
    try:
        caches = [shape[2] for name, shape in shapes.items() if name.endswith(".keys")]
        return int(shapes["position"][0]), int(caches[0]) if caches else None
    except (ValueError, KeyError, IndexError, TypeError, OverflowError):
        raise FormatError(f"{os.fspath(path)} is not a saved state of a language model") from None
