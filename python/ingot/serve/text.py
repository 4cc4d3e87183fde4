"""Text of tokens as they come, stop words in it, and chat templates."""

from __future__ import annotations

import json
from typing import Any

from ..errors import InputError

_HALF = "\N{REPLACEMENT CHARACTER}"  # what a decoder gives for a part of a character


class Decoder:
    """The text of a sequence, part by part: tokens are decoded with the few before them, since a token's text may depend on those."""

    def __init__(self, tokenizer: Any):
        self._tokenizer, self._ids, self._begin, self._shown = tokenizer, [], 0, 0

    def add(self, token: int) -> str:
        """What the token adds to the text; nothing while a character is not whole."""
        self._ids.append(token)
        return self._rest(whole=True)

    def end(self) -> str:
        """What is left, with characters that are not whole."""
        return self._rest(whole=False)

    def _rest(self, whole: bool) -> str:
        before, now = (self._tokenizer.decode(self._ids[self._begin : end], skip_special_tokens=True) for end in (self._shown, len(self._ids)))
        if whole and now.endswith(_HALF):
            return ""
        self._begin, self._shown = self._shown, len(self._ids)
        return now[len(before) :]


class Stops:
    """Ends a text at the first of some words. Text that may be the beginning of one is held back."""

    def __init__(self, words: list[str]):
        self._words, self._held, self.met = words, "", False

    def add(self, text: str) -> str:
        """What may be shown."""
        text, self._held = self._held + text, ""
        if ends := [at for word in self._words if (at := text.find(word)) >= 0]:
            self.met = True
            return text[: min(ends)]
        held = max((n for word in self._words for n in range(1, len(word)) if text.endswith(word[:n])), default=0)
        self._held = text[len(text) - held :] if held else ""
        return text[: len(text) - held]

    def end(self) -> str:
        return self._held


class Chat:
    """A model's chat template, rendered in jinja2's sandbox."""

    def __init__(self, files: dict[str, str]):
        given = json.loads(files.get("tokenizer_config.json", "{}"))
        template = files.get("chat_template.jinja") or given.get("chat_template")
        self._template = None
        if isinstance(template, str):
            from jinja2.sandbox import ImmutableSandboxedEnvironment

            environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
            environment.globals["raise_exception"] = _refuse
            environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
            self._template = environment.from_string(template)
        text = lambda value: value["content"] if isinstance(value, dict) else value  # noqa: E731
        self._words = {name: text(given[name]) for name in ("bos_token", "eos_token", "pad_token", "unk_token") if given.get(name)}

    def prompt(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str:
        if self._template is None:
            raise InputError("the model has no chat template", remedy="use /v1/completions, or compile it from a folder with one")
        try:
            return self._template.render(messages=messages, tools=tools, add_generation_prompt=True, **self._words)
        except InputError:
            raise
        except Exception as problem:
            raise InputError(f"the model's chat template does not take these messages: {problem}") from None


def _refuse(message):
    raise InputError(f"the model's chat template refuses these messages: {message}")
