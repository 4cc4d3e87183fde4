"""Mixtures of experts on an NVIDIA GPU: one layer of experts for 1 to 8,192 tokens, compared with eager and inductor with CUDA graphs.

    python bench/experts.py [--tokens 1,32,256] [--shape qwen3|mixtral] [--steps] [--whole]

The layer is transformers' own (routing, gather, products, gate, weighted sum), of bfloat16 and random weights. A line of JSON for each number of tokens: milliseconds of a call (calls one after
another, peers alternately, median of rounds), the distance from eager's result by norm and that of float32, and the limit: the experts' weights that are read over the measured bandwidth, or the
products over the measured peak, whichever is longer. "seconds" are those to the fourth result. --steps: what each step of ingot's plan takes. --whole: a model of six such layers.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import time
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
ROUNDS, CALLS = 15, 5
SHAPES = {
    "qwen3": dict(hidden_size=2048, moe_intermediate_size=768, num_experts=64, num_experts_per_tok=8),
    "mixtral": dict(hidden_size=1024, moe_intermediate_size=3584, num_experts=8, num_experts_per_tok=2),
}


def config_of(shape, layers):
    import transformers

    return transformers.Qwen3MoeConfig(**SHAPES[shape], intermediate_size=6144, num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=4, vocab_size=32000,
                                       use_cache=False, head_dim=128)


def layer_of(shape):
    import torch
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

    config = config_of(shape, 1)
    config._experts_implementation = "grouped_mm"
    block = Qwen3MoeSparseMoeBlock(config)
    for p in block.parameters():
        torch.nn.init.normal_(p, std=0.02)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = block

        def forward(self, x):
            y = self.block(x)
            return y[0] if isinstance(y, tuple) else y

    return Layer()


def model_of(shape):
    import torch
    import transformers

    model = transformers.Qwen3MoeForCausalLM(config_of(shape, 6))

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids):
            return self.model(ids).logits

    return Logits()


def seconds_of(f, times):
    import torch

    f()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        f()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times


def machine():
    """Products a second of a large matrix product, and bytes a second that a copy reads and writes."""
    import torch

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    bytes_of_copy = 4 << 30
    memory, copy_of_it = (torch.zeros(bytes_of_copy // 4, dtype=torch.float32, device="cuda") for _ in range(2))
    return 8192**3 / seconds_of(lambda: a @ a, 20), 2 * bytes_of_copy / seconds_of(lambda: copy_of_it.copy_(memory), 20)


def limit(shape, tokens, chosen, rates):
    """Seconds that the products of the experts take at least."""
    s = SHAPES[shape]
    of_one = 3 * s["hidden_size"] * s["moe_intermediate_size"]
    return max(len(set(chosen)) * of_one * 2 / rates[1], tokens * s["num_experts_per_tok"] * of_one / rates[0])


def row(args, tokens, rates):
    import torch

    import ingot

    torch.manual_seed(0)
    module = (model_of if args.whole else layer_of)(args.shape).eval().requires_grad_(False).to("cuda", torch.bfloat16)
    x = torch.randint(3, 1000, (1, tokens), device="cuda") if args.whole else torch.randn(1, tokens, SHAPES[args.shape]["hidden_size"], device="cuda", dtype=torch.bfloat16)
    chosen, seconds = [], {}
    gate = (module.model.model.layers[0].mlp if args.whole else module.block).gate
    hook = gate.register_forward_hook(lambda _, __, out: chosen.extend((out[-1] if isinstance(out, tuple) else out).flatten().tolist()))
    with torch.no_grad():
        eager = module(x)
        hook.remove()
        exact = copy.deepcopy(module).float()(x if args.whole else x.float()) if tokens <= 256 else None
        begin = time.perf_counter()
        ways = {"eager": module, "inductor": torch.compile(module, mode="reduce-overhead"), "ingot": ingot.compile(module, [x])}
        seconds["ingot"] = time.perf_counter() - begin
        line = dict(row=f"{args.shape}{', six layers' if args.whole else ''}, {tokens} tokens", gpu=torch.cuda.get_device_name())
        times = {way: [] for way in ways}
        for way, f in ways.items():
            begin = time.perf_counter()
            for _ in range(4):
                out = f(x)
            torch.cuda.synchronize()
            seconds[way] = seconds.get(way, 0) + time.perf_counter() - begin
            line[f"{way}_far"] = float((out.double() - (eager if exact is None else exact).double()).norm() / eager.double().norm())
        for _ in range(ROUNDS):
            for way, f in ways.items():
                times[way].append(seconds_of(lambda: f(x), CALLS) * 1e3)
    for way in ways:
        line[way] = round(statistics.median(times[way]), 4)
    if not args.whole:
        line["limit"] = round(limit(args.shape, tokens, chosen if max(chosen) < SHAPES[args.shape]["num_experts"] else range(SHAPES[args.shape]["num_experts"]), rates) * 1e3, 4)
    line["seconds"] = {way: round(s, 1) for way, s in seconds.items()}
    line["ratio"] = round(min(line["eager"], line["inductor"]) / line["ingot"], 3)
    print(json.dumps(line), flush=True)
    if args.steps:
        print(ways["ingot"].profile(x, runs=20), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default="1,32,256,2048,8192")
    parser.add_argument("--shape", choices=SHAPES, default="qwen3")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--whole", action="store_true")
    args = parser.parse_args()
    rates = machine()
    print(json.dumps(dict(products_per_second=rates[0], bytes_per_second=rates[1])), flush=True)
    for tokens in args.tokens.split(","):
        row(args, int(tokens), rates)


if __name__ == "__main__":
    main()
