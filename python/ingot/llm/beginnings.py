"""`Beginnings`: states of requests that ended, for requests that begin with the same tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .state import State


def keys_of(tokens: Sequence[int], page: int, weights: Any) -> list[int]:
    """A key for each beginning of the tokens that is whole pages. weights: of an adapter, under which alone a beginning is the same."""
    keys, before = [], id(weights)
    for at in range(0, len(tokens) - page + 1, page):
        before = hash((before, *tokens[at : at + page]))
        keys.append(before)
    return keys


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """With how many equal tokens both begin."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # slices compare in C
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class _Kept(NamedTuple):
    tokens: list[int]
    state: State
    weights: Any
    keys: list[int]


class Beginnings:
    """Found by keys of whole pages, so how many there are costs nothing; a key that two texts have is seen when their tokens are compared. A state of one sequence each."""

    def __init__(self, page: int):
        self._page = page
        self._kept: dict[int, _Kept] = {}  # the one that was used longest ago first
        self._by_key: dict[int, dict[int, None]] = {}
        self._next = 0

    def __len__(self):
        return len(self._kept)

    def add(self, tokens: list[int], state: State, weights: Any):
        """The state has these tokens. Another one that has no other tokens than their beginning is not needed any more."""
        keys = keys_of(tokens, self._page, weights)
        for number in [n for key in keys for n in self._by_key.get(key, ()) if self._kept[n].keys[-1] == key]:
            kept = self._kept[number]
            if kept.weights is weights and common(kept.tokens, tokens) == len(kept.tokens):
                self._drop(number)
        if not keys:
            return  # less than a page shares nothing
        self._kept[self._next] = _Kept(tokens, state, weights, keys)
        for key in keys:
            self._by_key.setdefault(key, {})[self._next] = None
        self._next += 1

    def find(self, tokens: list[int], weights: Any) -> tuple[State, int] | None:
        """A state with the longest beginning of these tokens, to the page, and how many tokens they have in common."""
        for key in reversed(keys_of(tokens, self._page, weights)):
            for number in reversed(self._by_key.get(key, {})):
                kept = self._kept[number]
                if kept.weights is weights and (same := common(kept.tokens, tokens)) >= self._page:
                    self._kept[number] = self._kept.pop(number)
                    return kept.state, same
        return None

    def drop_oldest(self) -> bool:
        """Whether there was one."""
        if not self._kept:
            return False
        self._drop(next(iter(self._kept)))
        return True

    def clear(self):
        self._kept.clear()
        self._by_key.clear()

    def _drop(self, number: int):
        for key in self._kept.pop(number).keys:
            del self._by_key[key][number]
            if not self._by_key[key]:
                del self._by_key[key]
