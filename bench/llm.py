"""Tokens a second of `ingot.llm` beside eager and beside its own compiled forward in a bare loop, token by token in turn. One Llama with random weights, one sequence.

    python bench/llm.py --dtype bfloat16 --threads 2
"""

import argparse
import statistics
import time

import torch
import transformers

import ingot.llm
from ingot.llm.pages import PAGE, columns_of


def llama(width, layers, vocabulary, dtype, length):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=width, intermediate_size=11 * width // 4, num_hidden_layers=layers, num_attention_heads=width // 64, num_key_value_heads=width // 64,
                                      vocab_size=vocabulary, max_position_embeddings=length, eos_token_id=None)  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def by_generate(lm, prompt, count):
    yield from lm.generate(lm.new_state(), prompt, max_new_tokens=count, stop=[])


def by_bare_loop(lm, prompt, count):
    """The plan's function alone, on pages of its own: no checks, no choice but argmax."""
    engine = lm.module.engine
    table = torch.arange(columns_of(lm.max_length, PAGE))[None]
    state, session = engine.new_state(pages=table.shape[1]), engine.session()
    dtype = getattr(torch, engine.outputs()[0]["dtype"])
    out, one, zero = torch.empty(1, 1, lm.vocabulary, dtype=dtype), torch.tensor([1]), torch.tensor([[0]])
    session.run(prompt, torch.tensor([prompt.shape[1]]), torch.tensor([[prompt.shape[1] - 1]]), table, torch.tensor([0]), state=state, out=[out])
    for n in range(count):
        token = out[:, 0].argmax(-1)
        yield token
        session.run(token[:, None], one, zero, table, torch.tensor([prompt.shape[1] + n]), state=state, out=[out])


@torch.no_grad()
def by_eager(model, prompt, count, length):
    cache = transformers.StaticCache(config=model.config, max_cache_len=length)
    logits = model(prompt, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    for n in range(count):
        token = logits[:, -1].argmax(-1)
        yield token
        logits = model(token[:, None], past_key_values=cache, use_cache=True, position_ids=torch.tensor([[prompt.shape[1] + n]])).logits


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--width", type=int, default=1024)
    parse.add_argument("--layers", type=int, default=16)
    parse.add_argument("--vocabulary", type=int, default=32000)
    parse.add_argument("--length", type=int, default=512, help="tokens allocated")
    parse.add_argument("--prompt", type=int, default=128)
    parse.add_argument("--tokens", type=int, default=48)
    parse.add_argument("--eager-tokens", type=int, default=8)
    parse.add_argument("--threads", type=int, default=2)
    parse.add_argument("--dtype", default="bfloat16")
    a = parse.parse_args()
    torch.set_num_threads(a.threads)
    model = llama(a.width, a.layers, a.vocabulary, getattr(torch, a.dtype), a.length)
    begin = time.perf_counter()
    lm = ingot.llm.compile(model, max_length=a.length)
    print(f"compiled in {time.perf_counter() - begin:.1f} s")
    prompt = torch.randint(0, a.vocabulary, (1, a.prompt))
    times = in_turn({"lm.generate": by_generate(lm, prompt, a.tokens), "bare loop": by_bare_loop(lm, prompt, a.tokens)}, a.tokens)
    print(f"lm.generate over the bare loop, token by token: {statistics.median(x / y for x, y in zip(*times.values())):.3f}")
    in_turn({"lm.generate": by_generate(lm, prompt, a.eager_tokens), "eager": by_eager(model, prompt, a.eager_tokens, a.length)}, a.eager_tokens)


def in_turn(runs, tokens):
    """The seconds of each token but the first, of runs that take turns, and turns to begin."""
    times = {name: [] for name in runs}
    for n in range(tokens):
        for name in list(runs)[:: 1 if n % 2 else -1]:
            begin = time.perf_counter()
            next(runs[name])
            times[name].append(time.perf_counter() - begin)
    for name, taken in times.items():
        middle = statistics.median(taken[1:])
        print(f"{name:12} {1e3 * middle:8.2f} ms a token {1 / middle:8.1f} tokens a second")
    return {name: taken[1:] for name, taken in times.items()}


if __name__ == "__main__":
    main()
