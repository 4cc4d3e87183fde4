"""The application: OpenAI's routes over a batcher. It runs in any ASGI server; `__main__.py` starts one."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import time
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from ..errors import Error, InputError
from ..llm import Batcher, LanguageModel
from .text import Chat, Decoder, Stops

MAX_BODY = 4 << 20  # bytes of a request: a prompt of a million tokens
COMPLETION_TOKENS = 16  # what OpenAI's completions give if max_tokens is not said


class _Asked(BaseModel):
    """What completions and chats have in common."""

    model_config = ConfigDict(extra="ignore")
    model: str = ""
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool = False
    n: Literal[1] = 1
    response_format: dict[str, Any] | None = None
    adapter: str | None = None
    priority: int = 0


class _Completion(_Asked):
    prompt: str | Annotated[list[int], Field(min_length=1)]


class _Conversation(_Asked):
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    tools: list[dict[str, Any]] | None = None


class _Refused(Exception):
    def __init__(self, status: int, message: str, kind: str = "invalid_request_error"):
        self.status, self.message, self.kind = status, message, kind


def application(lm: LanguageModel, *, name: str = "ingot", api_key: str | None = None, max_batch: int | None = None, max_tokens: int = 512, max_waiting: int = 1024) -> FastAPI:
    """An ASGI application with the routes /v1/completions, /v1/chat/completions, /v1/models, /health and /metrics.

    Arguments:
        lm: a language model with caches in pages, and with the tokenizer of its folder.
        name: of the model, in answers.
        api_key: what callers have to send as `Authorization: Bearer KEY`. None: nothing.
        max_batch, max_tokens, max_waiting: of `LanguageModel.batcher`.
    """
    server = _Server(lm, name)

    @contextlib.asynccontextmanager
    async def lifespan(app):
        server.batcher = lm.batcher(max_batch, max_tokens, max_waiting)
        yield
        await asyncio.to_thread(server.batcher.close)

    def known(request: Request):
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if api_key is not None and not hmac.compare_digest(given.encode(), api_key.encode()):
            raise _Refused(401, "the API key is missing or wrong", "authentication_error")

    app = FastAPI(title="ingot", lifespan=lifespan, openapi_url=None)

    @app.middleware("http")
    async def small(request: Request, call_next):
        size = request.headers.get("content-length", "0")
        if not size.isdigit() or int(size) > MAX_BODY or "chunked" in request.headers.get("transfer-encoding", ""):
            return _answer(413, f"a request may have {MAX_BODY} bytes, and has to say how many it has", "invalid_request_error")
        return await call_next(request)

    @app.exception_handler(_Refused)
    async def refused(request, problem):
        return _answer(problem.status, problem.message, problem.kind)

    @app.exception_handler(RequestValidationError)
    async def invalid(request, problem):
        first = problem.errors()[0]
        return _answer(400, f"{'.'.join(map(str, first['loc'][1:])) or 'the body'}: {first['msg']}", "invalid_request_error")

    @app.get("/health")
    async def health():
        return {"status": "ok"}

    @app.get("/metrics")
    async def metrics():
        return PlainTextResponse(server.metrics())

    @app.get("/v1/models", dependencies=[Depends(known)])
    async def models():
        return {"object": "list", "data": [{"id": name, "object": "model", "created": server.begun, "owned_by": "ingot"}]}

    @app.post("/v1/completions", dependencies=[Depends(known)])
    async def completions(asked: _Completion) -> Response:
        ids = asked.prompt if isinstance(asked.prompt, list) else server.tokenizer().encode(asked.prompt).ids
        return await server.answer(asked, ids, COMPLETION_TOKENS, _Completed)

    @app.post("/v1/chat/completions", dependencies=[Depends(known)])
    async def chat(asked: _Conversation) -> Response:
        try:
            text = server.chat.prompt(asked.messages, asked.tools)
        except InputError as problem:
            raise _Refused(400, str(problem)) from None
        return await server.answer(asked, server.tokenizer().encode(text, add_special_tokens=False).ids, None, _Said)

    return app


def _answer(status: int, message: str, kind: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": None}}, status)


# -- the forms of answers


class _Form:
    """How OpenAI writes an answer, whole and in parts."""

    def __init__(self, model: str):
        self.head = {"id": f"{self.prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, text: str, reason: str, usage: dict[str, int]) -> dict[str, Any]:
        return {**self.head, "object": self.kind, "choices": [{"index": 0, **self.of(text), "logprobs": None, "finish_reason": reason}], "usage": usage}

    def part(self, text: str, reason: str | None, is_first: bool) -> dict[str, Any]:
        return {**self.head, "object": self.kind_of_parts, "choices": [{"index": 0, **self.of_part(text, is_first), "logprobs": None, "finish_reason": reason}]}


class _Completed(_Form):
    prefix, kind, kind_of_parts = "cmpl", "text_completion", "text_completion"

    def of(self, text):
        return {"text": text}

    def of_part(self, text, is_first):
        return {"text": text}


class _Said(_Form):
    prefix, kind, kind_of_parts = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def of(self, text):
        return {"message": {"role": "assistant", "content": text}}

    def of_part(self, text, is_first):
        return {"delta": ({"role": "assistant"} if is_first else {}) | ({"content": text} if text or is_first else {})}


# -- requests


class _Server:
    batcher: Batcher

    def __init__(self, lm: LanguageModel, name: str):
        self._lm, self._name = lm, name
        self.begun, self.chat = int(time.time()), Chat(lm.files)
        self._tokenizer: Any = None
        self._counts = {"requests": 0, "refused": 0, "prompt_tokens": 0, "generation_tokens": 0}

    def tokenizer(self):
        if self._tokenizer is None:
            from ..llm.command import _tokenizer

            try:
                self._tokenizer = _tokenizer(self._lm)
            except InputError as problem:
                raise _Refused(400, problem.message) from None
        return self._tokenizer

    def metrics(self) -> str:
        """In the text format of Prometheus."""
        lines = []
        for name, value in {**self._counts, "running": self.batcher.running, "waiting": self.batcher.waiting}.items():
            kind, full = ("counter", f"ingot_{name}_total") if name in self._counts else ("gauge", f"ingot_requests_{name}")
            lines += [f"# TYPE {full} {kind}", f"{full} {value}"]
        return "\n".join(lines) + "\n"

    async def answer(self, asked: _Asked, ids: list[int], tokens: int | None, form: type[_Form]) -> Response:
        tokens = asked.max_completion_tokens or asked.max_tokens or tokens or max(1, self._lm.max_length - len(ids) + 1)
        how = {name: value for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "adapter", "priority") if (value := getattr(asked, name)) is not None}
        if (schema := _schema_of(asked.response_format)) is not None:
            how["schema"] = schema
        if self.batcher.is_full:
            self._counts["refused"] += 1
            raise _Refused(429, "too many requests wait already; try again later", "rate_limit_error")
        changed, loop = asyncio.Event(), asyncio.get_running_loop()

        def notify():
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(changed.set)

        try:
            request = self.batcher.submit(ids, max_new_tokens=tokens, notify=notify, **how)
        except Error as problem:
            self._counts["refused"] += 1
            raise _Refused(400, str(problem)) from None
        self._counts["requests"] += 1
        self._counts["prompt_tokens"] += len(ids)
        words = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
        parts = self._parts(request, changed, [word for word in words if word])
        written = form(self._name)
        if asked.stream:
            return StreamingResponse(_events(parts, written), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        text, reason = "", "length"
        try:
            async for text_of_part, reason in parts:
                text += text_of_part
        except Error as problem:
            raise _Refused(400, str(problem)) from None
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(request.tokens), "total_tokens": len(ids) + len(request.tokens)}
        return JSONResponse(written.whole(text, reason, usage))

    async def _parts(self, request, changed: asyncio.Event, words: list[str]) -> AsyncIterator[tuple[str, str | None]]:
        """Parts of the text as they come, and with the last one why it ended. A caller that goes away cancels the request."""
        decoder, stops, at = Decoder(self.tokenizer()), Stops(words), 0
        ends = set(self._lm.stop)
        try:
            while True:
                reason, come = request.finish_reason, request.tokens[at:]
                at += len(come)
                self._counts["generation_tokens"] += len(come)
                text = "".join(stops.add(decoder.add(token)) for token in come if token not in ends and not stops.met)
                if stops.met:
                    yield text, "stop"
                    return
                if reason is not None and at == len(request.tokens):
                    request.result()  # raises what ended it
                    yield text + stops.add(decoder.end()) + ("" if stops.met else stops.end()), "stop" if stops.met else "length" if reason == "length" else "stop"
                    return
                if text:
                    yield text, None
                await changed.wait()
                changed.clear()
        finally:
            request.cancel()


async def _events(parts: AsyncIterator[tuple[str, str | None]], form: _Form) -> AsyncIterator[str]:
    is_first = True
    try:
        async for text, reason in parts:
            yield f"data: {json.dumps(form.part(text, reason, is_first), ensure_ascii=False)}\n\n"
            is_first = False
    except Error as problem:
        yield f"data: {json.dumps({'error': {'message': str(problem), 'type': 'server_error'}})}\n\n"
    yield "data: [DONE]\n\n"


def _schema_of(form: dict[str, Any] | None):
    kind = (form or {}).get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind == "json_schema" and isinstance((given := (form or {}).get("json_schema")), dict) and isinstance(given.get("schema"), dict):
        return given["schema"]
    raise _Refused(400, f"response_format is {json.dumps(form)[:200]}, and its type has to be text, json_object, or json_schema with json_schema.schema")
