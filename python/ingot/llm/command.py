"""`ingot generate`: the command of the wheel that writes what a saved language model says."""

from __future__ import annotations

import argparse
import sys
import time

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
    parse.add_argument("--temperature", type=float)
    parse.add_argument("--seed", type=int)
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
    for token in lm.generate(lm.new_state(), torch.tensor([ids]), max_new_tokens=a.max_new_tokens, temperature=a.temperature, seed=a.seed):
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
    if a.stats:
        rate = f"{(len(times) - 1) / (times[-1] - times[0]):.1f} tokens a second" if len(times) > 1 else "one token"
        print(f"loaded in {loaded - begin:.2f} s, {len(ids)} tokens read in {times[0] - loaded:.2f} s, {rate}", file=sys.stderr)


def _numbers(text) -> list[int]:
    try:
        return [int(n) for n in text.split(",")]
    except ValueError:
        raise InputError(f"--ids is {text!r}, and has to be numbers with commas") from None
