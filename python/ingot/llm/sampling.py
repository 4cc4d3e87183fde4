"""Which token comes next: the choices of transformers' generate(), on the device where the logits are."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..errors import InputError

LOWEST = float("-inf")  # the score of a token that is not to come


@dataclass(frozen=True)
class Choice:
    """How tokens are chosen. temperature 0 takes the likeliest; other values draw from the tokens that top_k, top_p and min_p leave."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    processors: tuple[Callable, ...] = ()

    def __post_init__(self):
        _within("temperature", self.temperature, 0, float("inf"))
        for name, value, low, high in (("top_p", self.top_p, 0, 1), ("min_p", self.min_p, 0, 1), ("repetition_penalty", self.repetition_penalty, 0, float("inf"))):
            if value is not None:
                _within(name, value, low, high)
        if self.top_k is not None and (not isinstance(self.top_k, int) or self.top_k < 1):
            raise InputError(f"top_k is {self.top_k!r}, and has to be 1 or more")
        if self.repetition_penalty == 0:
            raise InputError("repetition_penalty is 0, and has to be more: 1 changes nothing")

    @property
    def reads_tokens(self) -> bool:
        return self.repetition_penalty not in (None, 1) or bool(self.processors)

    def scores(self, logits: torch.Tensor, tokens: list[torch.Tensor]) -> torch.Tensor:
        """The scores [batch, vocabulary] in float32. tokens: what each sequence has so far, if `reads_tokens`."""
        scores = logits.float()
        if self.repetition_penalty not in (None, 1):
            scores = torch.cat([_penalised(row[None], seen, self.repetition_penalty) for row, seen in zip(scores, tokens)])
        for processor in self.processors:
            scores = torch.cat([processor(seen[None], row[None]) for row, seen in zip(scores, tokens)])
        if self.temperature == 0:
            return scores
        scores = scores / self.temperature
        if self.top_k is not None:
            scores = _of_top_k(scores, self.top_k)
        if self.top_p is not None and self.top_p < 1:
            scores = _of_top_p(scores, self.top_p)
        if self.min_p is not None:
            scores = _of_min_p(scores, self.min_p)
        return scores


def likeliest(scores: torch.Tensor) -> torch.Tensor:
    """The index of the largest of each row, the first of equal ones: int64 [rows], for contiguous scores [rows, vocabulary]."""
    return _largest_of_parts(scores, _parts_of(scores.shape[-1])) if scores.is_cuda else scores.argmax(-1)


def _largest_of_parts(scores: torch.Tensor, parts: int) -> torch.Tensor:
    """Parts of a row first: torch's kernel has one block for a whole row (NVIDIA H200, 128,256 elements: 28 us)."""
    values, places = scores.view(scores.shape[0], parts, -1).max(-1)
    part = values.argmax(-1, keepdim=True)
    return (places.gather(1, part) + part * (scores.shape[-1] // parts))[:, 0]


@functools.lru_cache
def _parts_of(size: int) -> int:
    """The divisor of size that is nearest to its root from below."""
    return next(n for n in range(math.isqrt(max(1, size)), 0, -1) if size % n == 0)


class Draws:
    """The random numbers of a batch, one for each draw: those of a sequence follow from its seed and the number of the draw alone."""

    def __init__(self, seeds: Sequence[int]):
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._ahead: list[list[float]] = [[] for _ in seeds]  # drawn, and not used yet

    def ahead(self, row: int, count: int) -> list[float]:
        """The next numbers of a sequence, which stay the next ones until `skip`."""
        numbers = self._ahead[row]
        if (missing := count - len(numbers)) > 0:
            numbers += [float(torch.rand((), generator=self._generators[row], dtype=torch.float64)) for _ in range(missing)]
        return numbers[:count]

    def skip(self, row: int, count: int) -> None:
        self.ahead(row, count)
        del self._ahead[row][:count]

    def take(self) -> list[float]:
        """The next number of each sequence."""
        numbers = [self.ahead(row, 1)[0] for row in range(len(self._generators))]
        for row in range(len(numbers)):
            self.skip(row, 1)
        return numbers

    @staticmethod
    def at(numbers: list[float], scores: torch.Tensor) -> torch.Tensor:
        """One token of each distribution: int64 [rows], for scores [rows, vocabulary].

        A race: token i arrives after a time of the exponential distribution with rate probability i, and the first one is drawn. The times follow from the number and the token, so two
        distributions that differ by a part d (total variation) give different tokens for at most 2 d / (1 + d) of all numbers: a draft that is nearly right guesses right.
        """
        keys = torch.tensor([int(number * 2**53) for number in numbers], device=scores.device)[:, None]
        tokens = torch.arange(scores.shape[-1], device=scores.device)
        uniform = ((_shifted(_mixed(_mixed(keys * _STEP) + tokens * _STEP), 11)).double() + 0.5) * 2.0**-53
        return likeliest(torch.softmax(scores, -1).double() / -uniform.log())

    def tokens(self, scores: torch.Tensor) -> torch.Tensor:
        """One token [batch] of each distribution, by the next numbers."""
        return self.at(self.take(), scores)


# SplitMix64: the numbers of its generator with a seed are _mixed(seed + i * _STEP). Products are of 64 bits without overflow's carry.
_STEP, _FIRST, _SECOND = (n - 2**64 for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _mixed(x):
    x = (x ^ _shifted(x, 30)) * _FIRST
    x = (x ^ _shifted(x, 27)) * _SECOND
    return x ^ _shifted(x, 31)


def _shifted(x, bits):
    """Unsigned, to the right."""
    return (x >> bits) & (2 ** (64 - bits) - 1)


def _within(name, value, low, high):
    if not isinstance(value, (int, float)) or not low <= value <= high:
        raise InputError(f"{name} is {value!r}, and has to be a number " + (f"from {low} to {high}" if high != float("inf") else f"of {low} or more"))


def _penalised(scores, seen, penalty):
    found = scores.gather(1, seen[None])
    return scores.scatter(1, seen[None], torch.where(found < 0, found * penalty, found / penalty))


def _of_top_k(scores, count):
    least = scores.topk(min(count, scores.shape[-1])).values[:, -1:]
    return scores.masked_fill(scores < least, LOWEST)


def _of_top_p(scores, part):
    """The likeliest tokens whose probabilities together reach the part; one at least."""
    ordered, places = scores.sort(descending=False)
    left = ordered.softmax(-1).cumsum(-1) <= 1 - part
    left[:, -1] = False
    return scores.masked_fill(left.scatter(1, places, left), LOWEST)


def _of_min_p(scores, part):
    """The tokens that are at least so likely beside the likeliest."""
    probabilities = scores.softmax(-1)
    return scores.masked_fill(probabilities < part * probabilities.amax(-1, keepdim=True), LOWEST)
