"""`python -m ingot.serve m.ingot`: starts the server."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..errors import Error, InputError


def main(arguments: list[str] | None = None) -> int:
    parse = argparse.ArgumentParser(prog="python -m ingot.serve", description="Serves a saved language model by HTTP, with OpenAI's interface.")
    parse.add_argument("plans", nargs="+", metavar="plan", help="a .ingot file that LanguageModel.save or Encoder.save wrote, or one of each")
    parse.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine alone)")
    parse.add_argument("--port", type=int, default=8000)
    parse.add_argument("--name", help="the language model's name in answers; by default the file's")
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
    from ..llm import Encoder
    from ..llm.files import load_either

    try:
        opened = {Path(path).stem: load_either(path, kv_bytes=a.kv_bytes, **({"threads": a.threads} if a.threads else {})) for path in a.plans}
        lms, encoders = ([(name, one) for name, one in opened.items() if isinstance(one, Encoder) is is_encoder] for is_encoder in (False, True))
        if len(lms) > 1 or len(encoders) > 1 or len(opened) < len(a.plans):
            raise InputError(f"{len(a.plans)} files are given", remedy="give a language model, an encoder, or one of each, with different names")
        (name, lm), (encoder_name, encoder) = (*lms, ("", None))[0], (*encoders, ("", None))[0]
        app = application(lm, encoder=encoder, name=a.name or name, encoder_name=encoder_name, api_key=os.environ.get("INGOT_API_KEY"), max_batch=a.max_batch, max_tokens=a.max_tokens,
                          max_waiting=a.max_waiting)  # fmt: skip
        if lm is not None:
            lm.batcher(a.max_batch, a.max_tokens, a.max_waiting).close()  # what it refuses is said before the server starts
    except Error as problem:
        print(f"ingot.serve: {problem}", file=sys.stderr)
        return 1
    uvicorn.run(app, host=a.host, port=a.port, log_level="warning", timeout_graceful_shutdown=5)
    return 0


if __name__ == "__main__":
    sys.exit(main())
