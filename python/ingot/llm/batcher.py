"""`Batcher`: many callers of one language model. Their sequences join and leave between steps; each step is one run of the plan over all that wait for a token."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..errors import Error, InputError, UnsupportedError
from .beginnings import Beginnings, common, keys_of
from .generation import LogProbs, Task
from .pages import PagedCaches
from .state import State, Together

# Without kv_bytes nothing says when pages are short: states of requests that ended stay while the pool has at most this part of the machine's memory in use.
KEPT_PART = 1 / 16


class Request(Iterator[int]):
    """The answer to one prompt, which `Batcher.submit` returns: an iterator over its tokens, as they come. Several threads may read one request, each token goes to one of them.

    tokens: those that there are. logprobs: of each token, as `LogProbs` of one sequence, if they were asked for. finish_reason: None while it goes on, then "stop" (an end id), "length" (max_new_tokens), "cancelled" or "error".
    """

    def __init__(self, batcher: Batcher, task: Task, prompt: list[int], priority: int, number: int, notify: Callable[[], None] | None):
        self._batcher, self._task, self._prompt, self._notify = batcher, task, prompt, notify
        self._order = -priority, number
        self._sequence: State | None = None
        self._given = 0  # how much of its text the state has
        self._keys = keys_of(prompt, batcher._pool.page, task.weights)
        self._turn = 0  # the round in which a part of its text was last taken
        self._read = 0
        self._is_cancelled = False
        self._problem: BaseException | None = None
        self.tokens: list[int] = []
        self.logprobs: list[LogProbs] = []
        self.finish_reason: str | None = None

    def __next__(self) -> int:
        with self._batcher._changed:
            while self._read >= len(self.tokens) and self.finish_reason is None:
                self._batcher._changed.wait()
            if self._read < len(self.tokens):
                self._read += 1
                return self.tokens[self._read - 1]
            if self._problem is not None:
                raise self._problem
            raise StopIteration

    def result(self, timeout: float | None = None) -> list[int]:
        """All tokens, when the request has ended. Raises what ended it, and TimeoutError after so many seconds."""
        with self._batcher._changed:
            if not self._batcher._changed.wait_for(lambda: self.finish_reason is not None, timeout):
                raise TimeoutError(f"the request has not ended after {timeout} seconds")
            if self._problem is not None:
                raise self._problem
            return list(self.tokens)

    def cancel(self) -> None:
        """Ends the request, unless it has ended. Its memory is free after the step that runs."""
        with self._batcher._changed:
            self._is_cancelled = True
            self._batcher._changed.notify_all()

    def _let_go(self):
        if self._sequence is not None:
            self._sequence.rewind(self._sequence.lengths[0])  # its pages are free at once, whoever else has the state (the frames of an error)
        self._sequence, self._given = None, 0

    def _tell(self):
        if self._notify is not None:
            self._notify()

    @property
    def _text(self) -> list[int]:
        return self._prompt + self.tokens

    @property
    def _left(self) -> int:
        """How many tokens its state has not taken."""
        return len(self._prompt) + len(self.tokens) - self._given


class Batcher:
    """Runs requests of many threads together. `LanguageModel.batcher` makes one; `close` it, or use it in a `with` statement.

    Prompts are taken in parts of at most max_tokens tokens, between the steps of others; of several prompts, the one goes on that has waited longest. Requests that begin with the same tokens as
    one that runs, or ran before, share its pages. If pages (`kv_bytes`) are short, those of requests that ended go first; then the request that came last waits and is computed again later, with
    the same tokens.
    """

    def __init__(self, lm: Any, max_batch: int | None, max_tokens: int, max_waiting: int):
        if not isinstance(lm._caches, PagedCaches):
            raise UnsupportedError("a batcher needs a cache in pages, and this model has its caches in one piece", remedy="models of attention alone have pages on the CPU")
        for name, value, most in (("max_batch", max_batch, lm.max_batch), ("max_tokens", max_tokens, None), ("max_waiting", max_waiting, None)):
            if value is not None and (type(value) is not int or value < 1 or most is not None and value > most):
                raise InputError(f"{name} is {value!r}, and has to be 1 {'or more' if most is None else f'to {most}'}")
        self._lm, self._pool = lm, lm._caches.pool
        self._max_batch, self._max_tokens, self._max_waiting = max_batch or lm.max_batch, max_tokens, max_waiting
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[Request] = []
        self._running: list[Request] = []  # the first has the right to stay when pages are short
        self._kept = Beginnings(self._pool.page)
        self._rounds = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="ingot batcher", daemon=True)
        self._thread.start()

    def submit(self, ids: Sequence[int] | torch.Tensor, *, max_new_tokens: int, priority: int = 0, notify: Callable[[], None] | None = None, **how: Any) -> Request:
        """Asks for an answer to a prompt. Returns at once.

        ids: the prompt's tokens, int64 [tokens]. max_new_tokens and **how: as `LanguageModel.generate` takes them (temperature, top_p, stop, seed, schema, adapter, logprobs, ..), without
        draft. priority: requests with a larger one run first; those of one priority in the order in which they came. notify: called without arguments, in the batcher's thread, after each token and
        at the end; it must not wait.

        Raises InputError for what `generate` refuses, and if max_waiting requests wait already.
        """
        for name in ("draft", "lengths"):
            if how.pop(name, None):
                raise InputError(f"a batcher takes no {name}", remedy="use LanguageModel.generate for it")
        prompt = torch.as_tensor(ids).reshape(1, -1)
        task = self._lm.generate(self._lm.new_state(), prompt, max_new_tokens=max_new_tokens, **how).task
        with self._changed:
            if self._is_closed:
                raise InputError("the batcher is closed")
            if len(self._waiting) >= self._max_waiting:
                raise InputError(f"{len(self._waiting)} requests wait already, max_waiting", remedy="wait for some to end, or make the batcher with a larger max_waiting")
            request = Request(self, task, prompt[0].tolist(), priority, next(self._numbers), notify)
            self._waiting.append(request)
            self._changed.notify_all()
        return request

    def close(self) -> None:
        """Cancels what has not ended, and waits for the step that runs."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Batcher:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Batcher(running={self.running}, waiting={self.waiting})"

    @property
    def running(self) -> int:
        """How many requests have a place in the steps."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many requests have none yet."""
        return len(self._waiting)

    @property
    def room(self) -> int:
        """How many requests `submit` would take now."""
        return max(0, self._max_waiting - len(self._waiting))

    # -- the thread

    def _serve(self):
        while True:
            with self._changed:
                while not self._is_closed and not self._waiting and not self._running:
                    self._changed.wait()
                for request in [r for r in (*self._running, *self._waiting) if r._is_cancelled or self._is_closed]:
                    self._end(request, "cancelled")
                if self._is_closed:
                    self._kept.clear()
                    return
                self._admit()
            self._rounds += 1
            one = [r for r in self._running if r._left == 1]
            many = self._part([r for r in self._running if r._left > 1])
            for requests in (many, one):
                self._try_step(requests)

    def _admit(self):
        """Gives places to requests that wait. One whose beginning another request is about to have waits for it."""
        self._waiting.sort(key=lambda request: request._order)
        for request in list(self._waiting):
            if len(self._running) == self._max_batch:
                return
            text = request._text[:-1]
            found, same = self._begun(request, text)
            if any(common(other._prompt[:-1], text) >= max(same, other._given) + self._pool.page for other in self._running if self._is_akin(request, other)):
                continue
            state = self._lm.new_state() if found is None else found.fork()
            state.rewind(state.lengths[0] - same)
            while self._running and not self._lm._caches.has_room([state._memory], [same], [request._left - same]):
                if not self._kept.drop_oldest():
                    return  # it would only take the pages of others, or lose its own
            request._sequence, request._given = state, same
            self._running.append(request)
            self._waiting.remove(request)

    def _begun(self, request: Request, text: list[int]) -> tuple[State | None, int]:
        """A state that has a page or more of the text's beginning, and how many tokens that is."""
        found, same = self._kept.find(text, request._task.weights) or (None, 0)
        for other in self._running:
            if self._is_akin(request, other) and (both := common(other._text[: other._given], text)) >= max(same + 1, self._pool.page):
                found, same = other._sequence, both
        return found, same

    @staticmethod
    def _is_akin(request: Request, other: Request) -> bool:
        """Whether the prompts of both begin with the same page."""
        return bool(request._keys and other._keys) and request._keys[0] == other._keys[0] and request._task.weights is other._task.weights

    def _part(self, requests: list[Request]) -> list[Request]:
        """Those of the requests whose next parts together are at most max_tokens, filled up to the longest part; one at least. Each has its turn before another has two."""
        chosen, longest = [], 0
        for request in sorted(requests, key=lambda r: r._turn):
            part = min(request._left, self._max_tokens)
            if chosen and max(longest, part) * (len(chosen) + 1) > self._max_tokens:
                continue
            chosen.append(request)
            request._turn = self._rounds
            longest = max(longest, part)
        return chosen

    def _try_step(self, requests: list[Request]):
        by_weights: dict[int, list[Request]] = {}
        for request in requests:
            by_weights.setdefault(id(request._task.weights), []).append(request)
        for group in by_weights.values():
            try:
                group = self._with_room([r for r in group if r._sequence is not None])  # a step of this round may have taken the pages of one
                chosen = self._step(group) if group else []
            except Exception as problem:
                with self._changed:
                    for request in group:
                        self._end(request, "error", problem if isinstance(problem, Error) or len(group) == 1 else RuntimeError(str(problem)))
                continue
            with self._changed:
                for request, token, said in chosen:
                    if said is not None:
                        request.logprobs.append(said)
                    request.tokens.append(token)
                    request._tell()
                    if request._task.ended(0, token):
                        self._end(request, "stop")
                    elif len(request.tokens) == request._task.max_new_tokens:
                        self._end(request, "length")
                self._changed.notify_all()

    def _with_room(self, requests: list[Request]) -> list[Request]:
        """The requests, without those that have to give their pages to others."""
        while True:
            states = [r._sequence._memory for r in requests]
            lengths, counts = [r._given for r in requests], [min(r._left, self._max_tokens) for r in requests]
            if self._lm._caches.has_room(states, lengths, counts):
                return requests
            if self._kept.drop_oldest():
                continue
            if len(self._running) > 1:
                with self._changed:
                    last = self._running.pop()
                    last._let_go()
                    self._waiting.append(last)
                requests = [r for r in requests if r is not last]
                if not requests:
                    return []
            else:
                return requests  # alone, and too large: the step says so

    def _step(self, requests: list[Request]) -> list[tuple[Request, int, LogProbs | None]]:
        """Gives each request's next tokens to the model, and chooses one token of those that have been given all."""
        counts = [min(r._left, self._max_tokens) for r in requests]
        parts = [r._text[r._given : r._given + count] for r, count in zip(requests, counts)]
        ids = torch.tensor([part + [0] * (max(counts) - len(part)) for part in parts], device=self._lm.device)
        with contextlib.ExitStack() as used:
            for request in requests:
                used.enter_context(request._sequence.in_use())
            logits = self._lm._take(Together([r._sequence for r in requests]), ids, counts, "last", requests[0]._task.weights)
        by_choice: dict[Any, list[tuple[int, Request]]] = {}
        for row, (request, count) in enumerate(zip(requests, counts)):
            request._given += count
            if not request._left:
                alone = request._task.guide is not None or request._task.choice.reads_tokens
                by_choice.setdefault(id(request) if alone else request._task.choice, []).append((row, request))
        chosen: list[tuple[Request, int, LogProbs | None]] = []
        for group in by_choice.values():
            task = group[0][1]._task
            before = [torch.tensor(r._text, device=logits.device) for _, r in group] if task.choice.reads_tokens else []
            numbers = None if task.draws is None else [r._task.draws.take()[0] for _, r in group]
            tokens = task.chosen(logits[[row for row, _ in group]], before, numbers, task.guide and task.guide.allowed(0))
            for (row, request), token, number in zip(group, tokens, tokens.tolist()):
                count = request._task.logprobs
                chosen.append((request, number, LogProbs.of(logits[row : row + 1], token[None], count) if count else None))
        return chosen

    def _end(self, request: Request, reason: str, problem: BaseException | None = None):
        for requests in (self._running, self._waiting):
            if request in requests:
                requests.remove(request)
        request.finish_reason, request._problem = reason, problem
        if request._sequence is not None and reason in ("stop", "length"):
            self._kept.add(request._text[: request._given], request._sequence, request._task.weights)
            request._sequence = None
            while not self._pool.is_limited and self._pool.used > KEPT_PART * self._pool.capacity and self._kept.drop_oldest():
                pass
        request._let_go()
        request._tell()
        self._changed.notify_all()
