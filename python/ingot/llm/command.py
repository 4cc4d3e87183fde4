"""`ingot generate`: the command of the wheel that writes what a saved language model says."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path

import torch

from ..errors import Error, InputError
from .files import load
from .tokens import tokenizer_of


def main(arguments: list[str]) -> int:
    parse = argparse.ArgumentParser(prog="ingot generate", description="Writes what a language model that LanguageModel.save wrote says after a prompt.")
    parse.add_argument("plan", help="the .ingot file")
    given = parse.add_mutually_exclusive_group(required=True)
    given.add_argument("--prompt", help="text; needs the package tokenizers, and a model that was compiled from a folder with tokenizer.json")
    given.add_argument("--ids", help="token ids with commas; ids are written")
    parse.add_argument("--max-new-tokens", type=int, default=64)
    parse.add_argument("--temperature", type=float, help="0 takes the likeliest token; by default as the model's own settings say, and so are the next ones")
    parse.add_argument("--top-k", type=int)
    parse.add_argument("--top-p", type=float)
    parse.add_argument("--min-p", type=float)
    parse.add_argument("--repetition-penalty", type=float)
    parse.add_argument("--seed", type=int)
    parse.add_argument("--draft", help="prompt, or the .ingot file of a smaller model with the same tokens: guesses the next tokens, which come sooner and are the same")
    parse.add_argument("--draft-tokens", type=int, help="the most guesses at a time")
    form = parse.add_mutually_exclusive_group()
    form.add_argument("--schema", metavar="FILE", help="a JSON schema: the answer is JSON of it; needs the package llguidance, as the next two do")
    form.add_argument("--regex", help="a regular expression that the answer follows")
    form.add_argument("--grammar", metavar="FILE", help="a grammar in Lark's form, with a rule start, that the answer follows")
    parse.add_argument("--state-in", metavar="FILE", help="what --state-out wrote: the prompt goes on from there")
    parse.add_argument("--state-out", metavar="FILE", help="where to write the state afterwards; it has the prompt and the answer, but for the last token")
    parse.add_argument("--device", help="cpu, cuda, cuda:1")
    parse.add_argument("--stats", action="store_true", help="writes times to stderr")
    a = parse.parse_args(arguments)
    try:
        _run(a)
    except Error as problem:
        print(f"ingot generate: {problem}", file=sys.stderr)
        return 1
    return 0


def _run(a):
    begin = time.perf_counter()
    lm = load(a.plan, **({"device": a.device} if a.device else {}))
    tokenizer = tokenizer_of(lm.files, "give --ids") if a.prompt is not None else None
    ids = tokenizer.encode(a.prompt).ids if tokenizer is not None else _numbers(a.ids)
    loaded, shown, tokens, times = time.perf_counter(), "", [], []
    state = lm.new_state() if a.state_in is None else lm.new_state().load(a.state_in)
    if state.batch > 1:
        raise InputError(f"{a.state_in} has {state.batch} sequences, and one is written")
    chosen = {name: getattr(a, name) for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "draft_tokens")}
    for token in lm.generate(state, torch.tensor([ids]), max_new_tokens=a.max_new_tokens, draft=_draft(a), schema=_schema(a), **chosen):
        tokens.append(int(token))
        times.append(time.perf_counter())
        if tokenizer is None:
            print(tokens[-1], flush=True)
            continue
        text = tokenizer.decode(tokens)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):  # half of a character
            print(text[len(shown) :], end="", flush=True)
            shown = text
    if tokenizer is not None:
        print()
    if a.state_out is not None:
        state.save(a.state_out)
    if a.stats:
        rate = f"{(len(times) - 1) / (times[-1] - times[0]):.1f} tokens a second" if len(times) > 1 else "one token"
        print(f"loaded in {loaded - begin:.2f} s, {len(ids)} tokens read in {times[0] - loaded:.2f} s, {rate}", file=sys.stderr)


def _draft(a):
    return a.draft if a.draft in (None, "prompt") else load(a.draft, **({"device": a.device} if a.device else {}))


def _schema(a):
    if a.regex is not None:
        try:
            return re.compile(a.regex)
        except re.error as problem:
            raise InputError(f"--regex is {a.regex!r}: {problem}") from None
    path = a.schema if a.schema is not None else a.grammar
    if path is None:
        return None
    try:
        text = Path(path).read_text()
        return json.loads(text) if a.schema is not None else text
    except (OSError, ValueError) as problem:
        raise InputError(f"{path} cannot be read: {problem}") from None


def _numbers(text) -> list[int]:
    try:
        return [int(n) for n in text.split(",")]
    except ValueError:
        raise InputError(f"--ids is {text!r}, and has to be numbers with commas") from None
