"""Drafts: guesses of the next tokens, which one run of a model checks together. They change how long tokens take, never which come."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import torch

from ..errors import InputError
from .sampling import Choice, Draws, likeliest
from .state import State

MODEL_TOKENS, PROMPT_TOKENS = 4, 10  # proposals of a run, if the caller does not say
LONGEST_MATCH = 3  # tokens: the longest ending of a text that is looked up in it


class Draft(Protocol):
    def proposals(self, tokens: list[list[int]], wanted: list[int], choice: Choice, draws: Draws | None) -> list[list[int]]:
        """For each sequence at most so many tokens that may come next. tokens: all of each sequence; they only grow from call to call."""

    def close(self, tokens: list[list[int]]) -> None:
        """The call of generate is over, and these are its sequences."""


class OfPrompt:
    """Proposes what followed the last tokens where they stood before."""

    def __init__(self, batch: int):
        self._after: list[dict[tuple[int, ...], int]] = [{} for _ in range(batch)]  # by a few tokens, the place behind where they were last
        self._seen = [1] * batch

    def proposals(self, tokens, wanted, choice, draws):
        return [self._of_row(row, ids, count) if count else [] for row, (ids, count) in enumerate(zip(tokens, wanted))]

    def _of_row(self, row, ids, count):
        after = self._after[row]
        for place in range(self._seen[row], len(ids)):  # the last tokens themselves have nothing behind them yet
            for length in range(1, min(LONGEST_MATCH, place) + 1):
                after[tuple(ids[place - length : place])] = place
        self._seen[row] = len(ids)
        for length in range(min(LONGEST_MATCH, len(ids)), 0, -1):
            if (place := after.get(tuple(ids[-length:]))) is not None:
                period = len(ids) - place
                return [ids[place + i % period] for i in range(count)]
        return []

    def close(self, tokens):
        pass


class OfModel:
    """Proposes what a smaller language model says, chosen as the large one's tokens are and with the same random numbers."""

    def __init__(self, state: State, vocabulary: int, *, keep: bool):
        """vocabulary: the large model's. keep: whether the state is the caller's, and is to have the whole text afterwards."""
        self._lm, self._state, self._vocabulary, self._keep = state._lm, state, vocabulary, keep
        self._read: list[list[int]] = [[] for _ in range(state.batch)]  # what its state has of the sequences
        self._sure = [0] * state.batch  # how much of that are tokens, the rest was proposed

    def proposals(self, tokens, wanted, choice, draws):
        logits = self._follow(tokens, [bool(count) for count in wanted])
        choice = dataclasses.replace(choice, processors=())
        made: list[list[int]] = [[] for _ in tokens]
        numbers = None if draws is None else [draws.ahead(row, count) for row, count in enumerate(wanted)]
        for step in range(max(wanted)):
            rows = [row for row, count in enumerate(wanted) if count > step]
            before = [torch.tensor(tokens[row] + made[row], device=logits.device) for row in rows] if choice.reads_tokens else []
            scores = choice.scores(logits[rows, : self._vocabulary], before)
            chosen = likeliest(scores) if numbers is None else Draws.at([numbers[row][step] for row in rows], scores)
            for row, token in zip(rows, chosen.tolist()):
                made[row].append(token)
            if step + 1 < max(wanted):
                logits = self._give([made[row][-1:] if wanted[row] > step + 1 else [] for row in range(len(tokens))])
        return made

    def _follow(self, tokens, rows):
        """Makes its state hold these rows' tokens. Returns the logits after the last ones."""
        agreed = [self._agreed(row, ids) if go else len(self._read[row]) for row, (ids, go) in enumerate(zip(tokens, rows))]
        extra = [len(read) - n for read, n in zip(self._read, agreed)]
        if any(extra):
            self._state.rewind(extra)
            self._read = [read[:n] for read, n in zip(self._read, agreed)]
        self._sure = [len(ids) if go else n for ids, go, n in zip(tokens, rows, self._sure)]
        return self._give([ids[n:] if go else [] for ids, n, go in zip(tokens, agreed, rows)])

    def _agreed(self, row, ids):
        """How much of what was read are tokens of the sequence."""
        read, n = self._read[row], min(self._sure[row], len(ids))
        while n < min(len(read), len(ids)) and read[n] == ids[n]:
            n += 1
        return n

    def _give(self, new):
        longest = max(map(len, new))
        if not longest:
            return None
        last = self._lm.vocabulary - 1  # of two sizes of one vocabulary the larger one has ids that no text has: what is guessed after them does not matter
        ids = torch.tensor([[min(n, last) for n in row] + [0] * (longest - len(row)) for row in new], device=self._lm.device)
        for read, row in zip(self._read, new):
            read.extend(row)
        return self._lm._advanced(self._state, ids, [len(row) for row in new])

    def close(self, tokens):
        if self._keep:
            self._follow([ids[:-1] for ids in tokens], [True] * len(tokens))
