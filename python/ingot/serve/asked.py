"""The bodies of requests, as OpenAI's clients send them. What would change an answer and is not served is refused by name."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

MAX_CHOICES = 128  # answers to one prompt, as OpenAI has it
MAX_LOGPROBS = 20  # of the likeliest tokens that are reported, as OpenAI has it
MAX_TEXTS = 2048  # of a request for embeddings, as OpenAI has it

Ids = Annotated[list[int], Field(min_length=1)]


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")
    include_usage: bool = False


class Asked(BaseModel):
    """What completions and chats have in common."""

    model_config = ConfigDict(extra="ignore")
    model: str = ""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    response_format: dict[str, Any] | None = None
    adapter: str | None = None
    priority: int = 0
    presence_penalty: Literal[0] | None = None
    frequency_penalty: Literal[0] | None = None
    logit_bias: dict[str, Literal[0]] | None = None

    @property
    def choices(self) -> int:
        """How many answers to each prompt are wanted."""
        return self.n or 1

    @property
    def words(self) -> list[str]:
        """Before which words a text ends."""
        return [word for word in ([self.stop] if isinstance(self.stop, str) else self.stop or []) if word]

    @property
    def likeliest(self) -> int | None:
        """How many of the likeliest tokens are reported beside the chosen one; None for no report."""
        raise NotImplementedError


class Completion(Asked):
    prompt: str | Ids | Annotated[list[str] | list[Ids], Field(min_length=1)]
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    echo: Literal[False] | None = None
    suffix: Literal[""] | None = None
    best_of: int | None = None

    @model_validator(mode="after")
    def _best(self):
        if self.best_of not in (None, self.choices):
            raise ValueError(f"best_of is {self.best_of}, and only n is served")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        return [self.prompt] if isinstance(self.prompt, str) or isinstance(self.prompt[0], int) else list(self.prompt)

    @property
    def likeliest(self):
        return self.logprobs


class Conversation(Asked):
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    @field_validator("messages")
    @classmethod
    def _plain(cls, messages):
        return [_plain(message) for message in messages]

    @model_validator(mode="after")
    def _reported(self):
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        return self

    @property
    def likeliest(self):
        return (self.top_logprobs or 0) if self.logprobs else None


class Texts(BaseModel):
    """Of /v1/embeddings."""

    model_config = ConfigDict(extra="ignore")
    model: str = ""
    input: str | Ids | Annotated[list[str] | list[Ids], Field(min_length=1, max_length=MAX_TEXTS)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None

    @property
    def texts(self) -> list[str | list[int]]:
        return [self.input] if isinstance(self.input, str) or isinstance(self.input[0], int) else list(self.input)


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """As chat templates want it: content as text, and arguments of tool calls as objects."""
    content, calls = message.get("content"), message.get("tool_calls")
    if isinstance(content, list):
        if wrong := [part for part in content if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str)]:
            raise ValueError(f"a part of content is {json.dumps(wrong[0])[:200]}, and text alone is taken")
        message = {**message, "content": "".join(part["text"] for part in content)}
    if isinstance(calls, list):
        message = {**message, "tool_calls": [_call(call) for call in calls]}
    return message


def _call(call):
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(arguments := function.get("arguments"), str):
        return call
    try:
        return {**call, "function": {**function, "arguments": json.loads(arguments or "{}")}}
    except ValueError:
        raise ValueError(f"arguments of a tool call are {arguments[:200]!r}, which is no JSON") from None
