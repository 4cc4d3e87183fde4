"""`Generation`: the tokens of one call of `LanguageModel.generate`, step by step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..errors import InputError
from .drafts import Draft
from .grammar import Guide
from .sampling import LOWEST, Choice, Draws, likeliest

if TYPE_CHECKING:
    from .state import State

MOST_WAITING = 32  # tokens: a sequence with more that wait for those of other rows sits out a run, so that a caller who stops early has few to forget


class LogProbs(NamedTuple):
    """Logarithms of probabilities as the model's logits have them, before temperature and other choices.

    chosen: float32 [batch], of the tokens that were yielded. ids int64 [batch, n] and values float32 [batch, n]: the likeliest tokens, the likeliest first.
    Of a sequence that had ended before, chosen and values are nan, and ids the pad id.
    """

    chosen: torch.Tensor
    ids: torch.Tensor
    values: torch.Tensor

    @staticmethod
    def of(logits: torch.Tensor, chosen: torch.Tensor, count: int) -> LogProbs:
        """logits [rows, vocabulary], chosen [rows]."""
        every = logits.float().log_softmax(-1)
        top = every.topk(count)
        return LogProbs(every.gather(1, chosen[:, None])[:, 0], top.indices, top.values)

    def without(self, rows: list[bool], pad: int) -> LogProbs:
        gone = torch.tensor(rows, device=self.chosen.device)
        return LogProbs(self.chosen.masked_fill(gone, float("nan")), self.ids.masked_fill(gone[:, None], pad), self.values.masked_fill(gone[:, None], float("nan")))


@dataclass
class Task:
    """What a call asks for, checked. ids [batch, tokens] int64, counts: how many count in each row. draft: None for one token a run, else with draft_tokens proposals a run.
    weights: of an adapter; None for the
    model's own. logprobs: how many of the likeliest tokens are reported; 0 for no report."""

    lm: Any
    state: State
    ids: torch.Tensor
    counts: list[int]
    max_new_tokens: int
    choice: Choice
    ends: Ends
    draws: Draws | None
    draft: Draft | None
    draft_tokens: int
    guide: Guide | None
    weights: Any
    logprobs: int

    def chosen(self, logits: torch.Tensor, tokens: list[torch.Tensor], numbers: list[float] | None, allowed: torch.Tensor | None) -> torch.Tensor:
        """The next token of each row of logits [rows, vocabulary], int64 [rows]. tokens: what comes before, if the choice reads it. numbers: random ones, if it draws.
        allowed: bool like logits, if there is a guide."""
        if allowed is not None:
            logits = logits.masked_fill(~allowed.to(logits.device), LOWEST)
        scores = self.choice.scores(logits, tokens)
        return likeliest(scores) if numbers is None else Draws.at(numbers, scores)

    def ended(self, row: int, token: int) -> bool:
        """Notes the next token of a sequence that goes on, and says whether it ends there."""
        complete = self.guide is not None and self.guide.take(row, token)
        return self.ends.after(row, token) or complete


@dataclass
class _Report:
    """What a call tells beside its tokens."""

    ended: list[bool]
    logprobs: LogProbs | None = None
    runs: int = 0


class Generation(Iterator[torch.Tensor]):
    """Yields new tokens, one int64 tensor [batch] a step. `LanguageModel.generate` returns one."""

    def __init__(self, task: Task):
        self.task = task
        self._report = _Report([False] * task.state.batch)
        self._steps = (_one_by_one if task.draft is None else _several)(task, self._report)  # without self: a loop that is left frees it, which closes it

    def __next__(self) -> torch.Tensor:
        return next(self._steps)

    @property
    def ended(self) -> list[bool]:
        """For each sequence, whether it has met its end in what was yielded: an end id, or that of its schema."""
        return list(self._report.ended)

    @property
    def logprobs(self) -> LogProbs | None:
        """Of the last step, if they were asked for."""
        return self._report.logprobs

    @property
    def runs(self) -> int:
        """How often the model has run, the prompt's run included. With a draft there are fewer runs than steps."""
        return self._report.runs

    def close(self) -> None:
        """Ends early. The state then has the prompt and what was yielded, but for the last token. A loop that is left closes what only it holds."""
        self._steps.close()


def _run(task: Task, report: _Report, ids, counts, logits="last"):
    report.runs += 1
    return task.lm._advanced(task.state, ids, counts, logits, task.weights)


def _one_by_one(task: Task, report: _Report):
    """Without a draft: each run gives one token of each sequence, and nothing waits for the device that need not."""
    tokens = [row[:count] for row, count in zip(task.ids, task.counts)] if task.choice.reads_tokens else []
    logits = _run(task, report, task.ids, task.counts)
    for left in range(task.max_new_tokens - 1, -1, -1):
        allowed = task.guide and torch.cat([task.guide.allowed(row) for row in range(task.state.batch)])
        chosen = task.chosen(logits, tokens, task.draws and task.draws.take(), allowed)
        report.logprobs = LogProbs.of(logits, chosen, task.logprobs) if task.logprobs else None
        if any(report.ended):
            chosen = torch.where(torch.tensor(report.ended, device=chosen.device), task.lm.pad, chosen)
            report.logprobs = report.logprobs and report.logprobs.without(report.ended, task.lm.pad)
        if task.ends.any or task.guide:
            report.ended = [ended or task.ended(row, token) for row, (ended, token) in enumerate(zip(report.ended, chosen.tolist()))]
        yield chosen
        if left == 0 or all(report.ended):
            return
        tokens = [torch.cat([row, token[None]]) for row, token in zip(tokens, chosen)]
        logits = _run(task, report, chosen[:, None], [int(not ended) for ended in report.ended])


def _several(task: Task, report: _Report):
    """With a draft: a run reads the last token of each sequence and the draft's proposals after it, and keeps those that the model itself chooses."""
    rows = [_Row(ids[:count].tolist()) for ids, count in zip(task.ids, task.counts)]
    try:
        logits = _run(task, report, task.ids, task.counts)
        _keep(task, rows, [[] for _ in rows], logits[:, None])
        for left in range(task.max_new_tokens - 1, -1, -1):
            while any(not row.waiting and not row.ended for row in rows):
                _verify(task, report, rows)
            gone = [not row.waiting for row in rows]
            step = [row.waiting.pop(0) if row.waiting else _Chosen(task.lm.pad, row.last.logprobs) for row in rows]
            report.ended = [row.ended and not row.waiting for row in rows]
            if task.logprobs:
                report.logprobs = LogProbs(*(torch.stack(parts) for parts in zip(*(of.logprobs for of in step)))).without(gone, task.lm.pad)
            yield torch.tensor([of.token for of in step], device=task.lm.device)
            if left == 0 or all(report.ended):
                return
    finally:
        if rows[0].new:  # the prompt was taken
            if any(waiting := [len(row.waiting) for row in rows]):
                task.state.rewind(waiting)
            task.draft.close([row.tokens[: len(row.tokens) - n] for row, n in zip(rows, waiting)])


def _verify(task, report, rows):
    goes = [not row.ended and row.new < task.max_new_tokens and len(row.waiting) <= MOST_WAITING for row in rows]
    wanted = [min(task.draft_tokens, task.max_new_tokens - row.new - 1) if go else 0 for go, row in zip(goes, rows)]
    proposed = task.draft.proposals([row.tokens for row in rows], wanted, task.choice, task.draws)
    if task.guide:
        proposed = [task.guide.valid(n, p) for n, p in enumerate(proposed)]
    counts = [1 + len(p) if go else 0 for go, p in zip(goes, proposed)]
    ids = torch.tensor([([row.tokens[-1], *p] + [0] * max(counts))[: max(counts)] for row, p in zip(rows, proposed)], device=task.lm.device)
    _keep(task, rows, [p if go else None for go, p in zip(goes, proposed)], _run(task, report, ids, counts, "all"))


def _keep(task, rows, proposed, logits):
    """Appends to each row the proposals that are what the model chooses, and one token more. logits [batch, tokens, vocabulary]: before the first proposal, and after each.
    proposed: for each row; None if it sat out."""
    parts = [(n, p) for n, p in enumerate(proposed) if p is not None]
    places = [(n, i) for n, p in parts for i in range(len(p) + 1)]
    before = [torch.tensor(rows[n].tokens + proposed[n][:i], device=logits.device) for n, i in places] if task.choice.reads_tokens else []
    numbers = task.draws and [number for n, p in parts for number in task.draws.ahead(n, len(p) + 1)]
    allowed = task.guide and torch.cat([task.guide.allowed(n, p) for n, p in parts])
    at = torch.tensor(places, device=logits.device)
    logits = logits[at[:, 0], at[:, 1]]
    chosen = task.chosen(logits, before, numbers, allowed)
    logprobs = zip(*LogProbs.of(logits, chosen, task.logprobs)) if task.logprobs else itertools.repeat(None)
    every = iter([_Chosen(token, said) for token, said in zip(chosen.tolist(), logprobs)])
    extra = [0] * len(rows)
    for n, p in parts:
        answers, row, kept = [next(every) for _ in range(len(p) + 1)], rows[n], 0
        while True:  # each answer is the model's own; the next one counts if the proposal was this one
            row.take(answers[kept], task.ended(n, answers[kept].token))
            kept += 1
            if row.ended or kept > len(p) or answers[kept - 1].token != p[kept - 1]:
                break
        extra[n] = len(p) + 1 - kept
        if task.draws:
            task.draws.skip(n, kept)
    if any(extra):
        task.state.rewind(extra)


class _Chosen(NamedTuple):
    """A token, and of `LogProbs` its row."""

    token: int
    logprobs: tuple[torch.Tensor, ...] | None


class _Row:
    """A sequence of a call with a draft. tokens: its ids and all that was chosen; waiting: what was chosen and not yielded."""

    def __init__(self, ids: list[int]):
        self.tokens, self.new, self.ended = ids, 0, False
        self.waiting: list[_Chosen] = []
        self.last: _Chosen | None = None

    def take(self, chosen: _Chosen, ended: bool):
        self.tokens.append(chosen.token)
        self.waiting.append(chosen)
        self.new, self.ended, self.last = self.new + 1, ended, chosen


class Ends:
    """The ends of the sequences of a batch: ids, and lists of ids."""

    def __init__(self, stop, batch: int):
        given = [[s] if isinstance(s, int) else list(s) for s in ([stop] if isinstance(stop, int) else stop)]
        for ids in given:
            if not ids or not all(type(n) is int for n in ids):
                raise InputError(f"stop has {ids!r}, and has to be ids and lists of ids", remedy="text is tokenised first")
        self.single = {ids[0] for ids in given if len(ids) == 1}
        self._several = [ids for ids in given if len(ids) > 1]
        self._longest = max(map(len, self._several), default=0)
        self._last: list[list[int]] = [[] for _ in range(batch)]

    @property
    def any(self) -> bool:
        return bool(self.single or self._several)

    def after(self, row: int, token: int) -> bool:
        """Notes the next token of a sequence, and says whether it ends there."""
        self._last[row] = [*self._last[row], token][-self._longest :] if self._longest else []
        return token in self.single or any(self._last[row][-len(ids) :] == ids for ids in self._several)
