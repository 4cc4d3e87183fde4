"""`Answer`: the text of a batcher's request, part by part."""

from __future__ import annotations

from typing import Any

from ..llm import Request
from .forms import Part, Said
from .text import Decoder, Stops


class Answer:
    """One answer to one prompt. tokens: how many were read of it."""

    def __init__(self, request: Request, tokenizer: Any, words: list[str], ends: set[int], likeliest: int | None):
        """words: before which the text ends. ends: the ids that end a text and are none of it. likeliest: how many tokens a report of probabilities has beside the chosen one; None: no report."""
        self._request, self._tokenizer, self._ends, self._likeliest = request, tokenizer, ends, likeliest
        self._decoder, self._stops = Decoder(tokenizer), Stops(words)
        self.tokens = 0

    def come(self) -> Part | None:
        """What came since the last call; None if nothing did. Raises what ended the request."""
        reason = self._request.finish_reason  # before the tokens: they are whole once it is there
        part = Part("", None, None if self._likeliest is None else [])
        while self.tokens < len(self._request.tokens) and not self._stops.met:
            self._take(part)
        if self._stops.met:
            part.reason = "stop"
        elif reason is not None:
            self._request.result()
            part.text += self._stops.add(self._decoder.end())
            if not self._stops.met:
                part.text += self._stops.end()
            part.reason = "length" if reason == "length" and not self._stops.met else "stop"
        return part if part.text or part.said or part.reason else None

    def _take(self, part: Part):
        at, token = self.tokens, self._request.tokens[self.tokens]
        self.tokens += 1
        if token in self._ends:
            return
        part.text += self._stops.add(self._decoder.add(token))
        if part.said is not None and not self._stops.met:
            said = self._request.logprobs[at]
            likeliest = zip(said.ids[0, : self._likeliest].tolist(), said.values[0, : self._likeliest].tolist())
            part.said.append(Said(self._text(token), float(said.chosen[0]), [(self._text(n), value) for n, value in likeliest]))

    def _text(self, token: int) -> str:
        return self._tokenizer.decode([token], skip_special_tokens=False)

    def close(self):
        """Ends the request, unless it has ended."""
        self._request.cancel()
