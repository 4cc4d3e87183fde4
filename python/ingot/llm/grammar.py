"""`schema=` of generate: which tokens a JSON schema, a regular expression or a grammar allows next, by llguidance."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..errors import InputError

SPACE = " ?"  # between two parts of JSON, as a regular expression: with more, a model may go on with spaces alone


class Words:
    """The texts of a model's tokens, as llguidance wants them. Made once for a model, from its tokenizer.json."""

    def __init__(self, tokenizer: str | None, size: int, ends: list[int]):
        """size: how many logits there are. ends: the model's end ids."""
        if tokenizer is None:
            raise InputError("schema needs the texts of the tokens, and the model has no tokenizer", remedy="compile it from a folder with tokenizer.json")
        try:
            import llguidance
        except ModuleNotFoundError:
            raise InputError("schema needs the package llguidance", remedy='pip install llguidance, or "torch-ingot[schema]"') from None
        self._matcher, self.size = llguidance.LLMatcher, size
        try:
            self._words = llguidance.LLTokenizer(tokenizer, n_vocab=size, eos_token=ends or None)
        except ValueError as problem:
            raise InputError(f"tokenizer.json does not go with a model of {size} ids: {problem}") from None
        self.ends = self._words.eos_tokens

    def matcher(self, schema) -> Any:
        grammar = self._grammar(schema)
        is_wrong, said = self._matcher.validate_grammar_with_warnings(grammar, self._words)
        if is_wrong:
            raise InputError(f"schema cannot be followed: {said[0].strip()}", remedy="llguidance's documentation has what it takes of JSON schema, regular expressions and Lark's grammars")
        return self._matcher(self._words, grammar)

    def _grammar(self, schema) -> str:
        if isinstance(schema, dict):
            try:
                text = json.dumps(schema)
            except (TypeError, ValueError) as problem:
                raise InputError(f"schema is no JSON: {problem}") from None
            return self._matcher.grammar_from_json_schema(text, defaults={"whitespace_pattern": SPACE})
        if isinstance(schema, re.Pattern) and isinstance(schema.pattern, str):
            flags = "".join(letter for letter, flag in (("i", re.I), ("m", re.M), ("s", re.S), ("x", re.X)) if schema.flags & flag)
            return self._matcher.grammar_from_regex(f"(?{flags}:{schema.pattern})" if flags else schema.pattern)
        if isinstance(schema, str) and "start" in schema:
            return self._matcher.grammar_from_lark(schema)
        raise InputError(f"schema is {schema!r}, and has to be a JSON schema (dict), a regular expression (re.compile) or a grammar in Lark's form (str with a rule start)")


class Guide:
    """Where each sequence of a batch is in its grammar."""

    def __init__(self, words: Words, schemas: Sequence[Any], ends: Iterable[int]):
        """schemas: one for each sequence; None leaves it free. ends: the ids that may follow a complete text."""
        self._size = words.size
        made: dict[int, Any] = {id(schema): words.matcher(schema) for schema in schemas if schema is not None}
        self._matchers = [made[id(schema)].deep_copy() if schema is not None else None for schema in schemas]
        self._ends, self._others = list(ends), [n for n in words.ends if n not in set(ends)]

    def valid(self, row: int, ids: list[int]) -> list[int]:
        """As many of these ids as may come next."""
        matcher = self._matchers[row]
        return ids if matcher is None else ids[: matcher.validate_tokens(ids)]

    def allowed(self, row: int, ahead: Sequence[int] = ()) -> torch.Tensor:
        """Which tokens may come next, and after each of the valid ids `ahead`: bool [1 + ahead, vocabulary]."""
        matcher = self._matchers[row]
        if matcher is None:
            return torch.ones(1 + len(ahead), self._size, dtype=torch.bool)
        masks, complete = [matcher.compute_bitmask()], [matcher.is_accepting()]
        for n in ahead:
            self._consume(matcher, n)
            masks.append(matcher.compute_bitmask())
            complete.append(matcher.is_accepting())
        matcher.rollback(len(ahead))
        bits = torch.stack([torch.frombuffer(bytearray(mask), dtype=torch.uint8) for mask in masks])
        found = ((bits[..., None] >> torch.arange(8, dtype=torch.uint8)) & 1).bool().flatten(1)[:, : self._size]
        found[:, self._others] = False
        found[:, self._ends] |= torch.tensor(complete)[:, None]
        return found

    def take(self, row: int, token: int) -> bool:
        """Goes on with this token. Returns whether the text is complete and nothing can follow."""
        matcher = self._matchers[row]
        if matcher is None or token in self._ends:
            return False
        self._consume(matcher, token)
        return matcher.is_stopped()

    @staticmethod
    def _consume(matcher, token):
        if not matcher.consume_token(token):
            raise InputError(f"schema cannot be followed on: {matcher.get_error()}")
