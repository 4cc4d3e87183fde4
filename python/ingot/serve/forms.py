"""How OpenAI writes answers, whole and in parts."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Said:
    """A token with its logarithms of probabilities. likeliest: other texts with theirs, the likeliest first."""

    text: str
    logprob: float
    likeliest: list[tuple[str, float]]


@dataclass
class Part:
    """What came of an answer. reason: why it ended; None while it goes on. said: None if no logprobs were asked for."""

    text: str
    reason: str | None = None
    said: list[Said] | None = None

    def add(self, more: Part):
        self.text, self.reason = self.text + more.text, more.reason
        if more.said is not None:
            self.said = (self.said or []) + more.said


@dataclass
class _Form:
    model: str
    head: dict[str, Any] = field(init=False)

    prefix = kind = kind_of_parts = ""

    def __post_init__(self):
        self.head = {"id": f"{self.prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": self.model}
        self._lengths: dict[int, int] = {}

    def whole(self, answers: list[Part], usage: dict[str, int]) -> dict[str, Any]:
        choices = [{"index": n, **self.of(answer.text), **self._rest(n, answer)} for n, answer in enumerate(answers)]
        return {**self.head, "object": self.kind, "choices": choices, "usage": usage}

    def part(self, index: int, part: Part, is_first: bool) -> dict[str, Any]:
        return {**self.head, "object": self.kind_of_parts, "choices": [{"index": index, **self.of_part(part.text, is_first), **self._rest(index, part)}]}

    def usage(self, usage: dict[str, int]) -> dict[str, Any]:
        """The last part of a stream that was asked for it."""
        return {**self.head, "object": self.kind_of_parts, "choices": [], "usage": usage}

    def _rest(self, index: int, part: Part):
        begin = self._lengths.get(index, 0)
        self._lengths[index] = begin + sum(len(s.text) for s in part.said or [])
        return {"logprobs": None if part.said is None else self.logprobs(part.said, begin), "finish_reason": part.reason}

    def of(self, text: str) -> dict[str, Any]:
        raise NotImplementedError

    def of_part(self, text: str, is_first: bool) -> dict[str, Any]:
        raise NotImplementedError

    def logprobs(self, said: list[Said], begin: int) -> dict[str, Any]:
        """begin: where the first token's text begins, in characters."""
        raise NotImplementedError


class Completed(_Form):
    prefix, kind, kind_of_parts = "cmpl", "text_completion", "text_completion"

    def of(self, text):
        return {"text": text}

    def of_part(self, text, is_first):
        return {"text": text}

    def logprobs(self, said, begin):
        offsets = [begin + sum(len(s.text) for s in said[:n]) for n in range(len(said))]
        return {"tokens": [s.text for s in said], "token_logprobs": [s.logprob for s in said], "top_logprobs": [_by_text(s.likeliest) for s in said], "text_offset": offsets}


class Chatted(_Form):
    prefix, kind, kind_of_parts = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def of(self, text):
        return {"message": {"role": "assistant", "content": text}}

    def of_part(self, text, is_first):
        return {"delta": ({"role": "assistant"} if is_first else {}) | ({"content": text} if text or is_first else {})}

    def logprobs(self, said, begin):
        return {"content": [_token(s.text, s.logprob) | {"top_logprobs": [_token(*one) for one in s.likeliest]} for s in said], "refusal": None}


def _by_text(likeliest: list[tuple[str, float]]) -> dict[str, float]:
    """Of parts of characters, which all have one text, the likeliest."""
    found: dict[str, float] = {}
    for text, value in likeliest:
        found.setdefault(text, value)
    return found


def _token(text: str, logprob: float) -> dict[str, Any]:
    is_whole = "\N{REPLACEMENT CHARACTER}" not in text  # else the token is a part of a character, whose bytes the text does not tell
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()) if is_whole else None}
