"""`python -m ingot.serve m.ingot`: starts the server."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..errors import Error


def main(arguments: list[str] | None = None) -> int:
    parse = argparse.ArgumentParser(prog="python -m ingot.serve", description="Serves a saved language model by HTTP, with OpenAI's interface.")
    parse.add_argument("plan", help="the .ingot file that LanguageModel.save wrote")
    parse.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine alone)")
    parse.add_argument("--port", type=int, default=8000)
    parse.add_argument("--name", help="the model's name in answers; by default the file's")
    parse.add_argument("--max-batch", type=int, help="the most sequences of a step; by default the model's")
    parse.add_argument("--max-tokens", type=int, default=512, help="the most tokens of prompts in a step")
    parse.add_argument("--max-waiting", type=int, default=1024, help="requests that wait; more are answered with 429")
    parse.add_argument("--kv-bytes", type=int, help="the most bytes of all keys and values")
    parse.add_argument("--threads", type=int, help="of the engine")
    a = parse.parse_args(arguments)
    try:
        import uvicorn

        from .app import application
    except ModuleNotFoundError as problem:
        print(f'ingot.serve needs the package {problem.name}: pip install "torch-ingot[serve]"', file=sys.stderr)
        return 1
    from ..llm import load

    try:
        lm = load(a.plan, kv_bytes=a.kv_bytes, **({"threads": a.threads} if a.threads else {}))
        app = application(lm, name=a.name or Path(a.plan).stem, api_key=os.environ.get("INGOT_API_KEY"), max_batch=a.max_batch, max_tokens=a.max_tokens, max_waiting=a.max_waiting)
        lm.batcher(a.max_batch, a.max_tokens, a.max_waiting).close()  # what it refuses is said before the server starts
    except Error as problem:
        print(f"ingot.serve: {problem}", file=sys.stderr)
        return 1
    uvicorn.run(app, host=a.host, port=a.port, log_level="warning", timeout_graceful_shutdown=5)
    return 0


if __name__ == "__main__":
    sys.exit(main())
