"""The application: OpenAI's routes over a batcher and an encoder. It runs in any ASGI server; `__main__.py` starts one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from ..errors import Error, InputError
from ..llm import Encoder, LanguageModel
from ..llm.tokens import tokenizer_of
from .answers import Answer
from .asked import Asked, Completion, Conversation, Texts
from .forms import Chatted, Completed, Part
from .text import Chat

MAX_BODY = 4 << 20  # bytes of a request: a prompt of a million tokens
COMPLETION_TOKENS = 16  # what OpenAI's completions give if max_tokens is not said


class _Refused(Exception):
    def __init__(self, status: int, message: str, kind: str = "invalid_request_error"):
        self.status, self.message, self.kind = status, message, kind


def application(
    lm: LanguageModel | None = None,
    *,
    encoder: Encoder | None = None,
    name: str = "ingot",
    encoder_name: str = "encoder",
    api_key: str | None = None,
    max_batch: int | None = None,
    max_tokens: int = 512,
    max_waiting: int = 1024,
) -> FastAPI:
    """An ASGI application with the routes /v1/models, /health and /metrics, with a language model /v1/completions and /v1/chat/completions, with an encoder /v1/embeddings.

    Arguments:
        lm: a language model with caches in pages, and with the tokenizer of its folder. encoder: one with a tokenizer. At least one of the two.
        name, encoder_name: of the models, in answers.
        api_key: what callers have to send as `Authorization: Bearer KEY`. None: nothing.
        max_batch, max_tokens: of `LanguageModel.batcher`. max_waiting: too, and how many requests for embeddings wait at most.
    """
    if lm is None and encoder is None:
        raise InputError("neither a language model nor an encoder is given")
    server = _Server({} if lm is None else {name: lm}, {} if encoder is None else {encoder_name: encoder}, max_waiting)

    @contextlib.asynccontextmanager
    async def lifespan(app):
        if lm is not None:
            server.batcher = lm.batcher(max_batch, max_tokens, max_waiting)
        yield
        if server.batcher is not None:
            await asyncio.to_thread(server.batcher.close)

    def known(request: Request):
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if api_key is not None and not hmac.compare_digest(given.encode(), api_key.encode()):
            raise _Refused(401, "the API key is missing or wrong", "authentication_error")

    app = FastAPI(title="ingot", lifespan=lifespan, openapi_url=None)
    app.add_middleware(_Small)

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
        return {"object": "list", "data": [{"id": one, "object": "model", "created": server.begun, "owned_by": "ingot"} for one in server.names]}

    if lm is not None:

        @app.post("/v1/completions", dependencies=[Depends(known)])
        async def completions(asked: Completion, http: Request) -> Response:
            prompts = [one if isinstance(one, list) else server.tokenizer().encode(one).ids for one in asked.prompts]
            return await server.answer(asked, prompts, COMPLETION_TOKENS, Completed(name), http)

        @app.post("/v1/chat/completions", dependencies=[Depends(known)])
        async def chat(asked: Conversation, http: Request) -> Response:
            try:
                text = server.chat.prompt(asked.messages, None if asked.tool_choice == "none" else asked.tools)
            except InputError as problem:
                raise _Refused(400, str(problem)) from None
            return await server.answer(asked, [server.tokenizer().encode(text, add_special_tokens=False).ids], None, Chatted(name), http)

    if encoder is not None:

        @app.post("/v1/embeddings", dependencies=[Depends(known)])
        async def embeddings(asked: Texts) -> Response:
            return await server.embeddings(asked)

    return app


class _Small:
    """Refuses large bodies before they are read."""

    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            size = headers.get(b"content-length", b"0")
            if not size.isdigit() or int(size) > MAX_BODY or b"chunked" in headers.get(b"transfer-encoding", b""):
                refused = _answer(413, f"a request may have {MAX_BODY} bytes, and has to say how many it has", "invalid_request_error")
                return await refused(scope, receive, send)
        await self._app(scope, receive, send)


def _answer(status: int, message: str, kind: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": None}}, status)


class _Server:
    def __init__(self, lms: dict[str, LanguageModel], encoders: dict[str, Encoder], max_waiting: int):
        """At most one language model and one encoder, by their names."""
        self.names = [*lms, *encoders]
        self._lm: Any = next(iter(lms.values()), None)
        self._encoder: Any = next(iter(encoders.values()), None)
        self.begun, self.chat, self.batcher = int(time.time()), Chat(self._lm.files if self._lm else {}), None
        self._tokenizer: Any = None
        self._embeds, self._embedding, self._max_waiting = asyncio.Lock(), 0, max_waiting
        self._counts = {"requests": 0, "refused": 0, "prompt_tokens": 0, "generation_tokens": 0}

    def tokenizer(self):
        if self._tokenizer is None:
            try:
                self._tokenizer = tokenizer_of(self._lm.files, "give prompts as ids")
            except InputError as problem:
                raise _Refused(400, str(problem)) from None
        return self._tokenizer

    def metrics(self) -> str:
        """In the text format of Prometheus."""
        lines = []
        running, waiting = (self.batcher.running, self.batcher.waiting) if self.batcher else (0, 0)
        gauges = {"running": running + (self._embedding > 0), "waiting": waiting + max(0, self._embedding - 1)}
        for name, value in {**self._counts, **gauges}.items():
            kind, full = ("counter", f"ingot_{name}_total") if name in self._counts else ("gauge", f"ingot_requests_{name}")
            lines += [f"# TYPE {full} {kind}", f"{full} {value}"]
        return "\n".join(lines) + "\n"

    def _refuse(self, status: int, message: str, kind: str = "invalid_request_error") -> _Refused:
        self._counts["refused"] += 1
        return _Refused(status, message, kind)

    def _wait(self, count: int, free: int):
        """Refuses what finds no place among those that wait."""
        if count > self._max_waiting:
            raise self._refuse(400, f"{count} answers are asked for at once, and at most {self._max_waiting} may wait here")
        if count > free:
            raise self._refuse(429, "too many requests wait already; try again later", "rate_limit_error")

    # -- embeddings

    async def embeddings(self, asked: Texts) -> Response:
        """One request runs at a time: its texts are the batch."""
        if asked.dimensions not in (None, self._encoder.width):
            raise self._refuse(400, f"dimensions is {asked.dimensions}, and the vectors have {self._encoder.width}")
        self._wait(1, self._max_waiting - self._embedding)
        self._embedding += 1
        try:
            ids = [self._encoder.ids_of(text) for text in asked.texts]
            async with self._embeds:
                vectors = await asyncio.to_thread(self._encoder.embed, ids)
        except InputError as problem:
            raise self._refuse(400, str(problem)) from None
        finally:
            self._embedding -= 1
        count = sum(map(len, ids))
        self._counts["requests"] += 1
        self._counts["prompt_tokens"] += count
        rows = vectors.cpu().numpy().astype("<f4")
        written = [base64.b64encode(row.tobytes()).decode() for row in rows] if asked.encoding_format == "base64" else rows.tolist()
        data = [{"object": "embedding", "index": n, "embedding": one} for n, one in enumerate(written)]
        return JSONResponse({"object": "list", "data": data, "model": self.names[-1], "usage": {"prompt_tokens": count, "total_tokens": count}})

    # -- text

    async def answer(self, asked: Asked, prompts: list[list[int]], tokens: int | None, form: Completed | Chatted, http: Request) -> Response:
        changed = asyncio.Event()
        answers = self._begin(asked, prompts, tokens, changed)
        self._counts["requests"] += 1
        self._counts["prompt_tokens"] += sum(map(len, prompts))

        def usage() -> dict[str, int]:
            given, made = sum(map(len, prompts)), sum(answer.tokens for answer in answers)
            return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}

        parts = self._parts(answers, changed)
        if asked.stream:
            events = _events(parts, form, usage if asked.stream_options and asked.stream_options.include_usage else None)
            return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        whole = [Part("") for _ in answers]
        watch = asyncio.create_task(_gone(http))
        watch.add_done_callback(lambda _: [answer.close() for answer in answers])  # which ends the loop
        try:
            async for n, part in parts:
                whole[n].add(part)
        except Error as problem:
            raise _Refused(400, str(problem)) from None
        finally:
            watch.cancel()
            await parts.aclose()
        return JSONResponse(form.whole(whole, usage()))

    def _begin(self, asked: Asked, prompts: list[list[int]], tokens: int | None, changed: asyncio.Event) -> list[Answer]:
        """All answers of a request, or none: those of the first prompt first."""
        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "adapter", "priority")
        how = {name: value for name in names if (value := getattr(asked, name)) is not None}
        if (schema := _schema_of(asked.response_format)) is not None:
            how["schema"] = schema
        if asked.likeliest is not None:
            how["logprobs"] = max(1, asked.likeliest)
        self._wait(len(prompts) * asked.choices, self.batcher.room)
        loop, answers = asyncio.get_running_loop(), []

        def notify():
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(changed.set)

        try:
            for ids in prompts:
                most = asked.max_completion_tokens or asked.max_tokens or tokens or max(1, self._lm.max_length - len(ids) + 1)
                for n in range(asked.choices):
                    seed = {} if asked.seed is None else {"seed": asked.seed + n}
                    request = self.batcher.submit(ids, max_new_tokens=most, notify=notify, **how, **seed)
                    answers.append(Answer(request, self.tokenizer(), asked.words, set(self._lm.stop), asked.likeliest))
        except (Error, _Refused) as problem:
            for answer in answers:
                answer.close()
            raise self._refuse(400, str(problem) if isinstance(problem, Error) else problem.message) from None
        return answers

    async def _parts(self, answers: list[Answer], changed: asyncio.Event) -> AsyncGenerator[tuple[int, Part], None]:
        """Parts of the texts as they come, by the numbers of answers. A caller that goes away ends them all."""
        left = dict(enumerate(answers))
        try:
            while left:
                changed.clear()
                for n, answer in list(left.items()):
                    before = answer.tokens
                    part = answer.come()
                    self._counts["generation_tokens"] += answer.tokens - before
                    if part is not None:
                        if part.reason is not None:
                            left.pop(n).close()
                        yield n, part
                if left:
                    await changed.wait()
        finally:
            for answer in answers:
                answer.close()


async def _gone(http: Request):
    """Returns when the caller has closed the connection."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


async def _events(parts: AsyncIterator[tuple[int, Part]], form: Completed | Chatted, usage) -> AsyncIterator[str]:
    begun: set[int] = set()
    try:
        async for n, part in parts:
            yield f"data: {json.dumps(form.part(n, part, n not in begun), ensure_ascii=False)}\n\n"
            begun.add(n)
        if usage is not None:
            yield f"data: {json.dumps(form.usage(usage()))}\n\n"
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
