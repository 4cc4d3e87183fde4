"""The time that the cache of plans saves: seconds of ingot.compile by stage, with an empty folder and with the plan in it, each in its own process.

    python bench/plan_cache.py [--models bert,bert_large,resnet,llama] [--target cpu|cuda:sm_90]

For each stage the fastest round counts. capture: torch.export and writing the graph. build: ingot_compile, which looks into the cache. place: the rest, mostly preparing the weights. Random
weights.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time


def bert():
    import torch
    import transformers

    model = transformers.BertModel(transformers.BertConfig(attn_implementation="sdpa"))
    return model, [torch.ones(1, 128, dtype=torch.int64)], "BERT-base, 1 x 128"


def bert_large():
    import torch
    import transformers

    sizes = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    return transformers.BertModel(transformers.BertConfig(**sizes, attn_implementation="sdpa")), [torch.ones(1, 128, dtype=torch.int64)], "BERT-large, 1 x 128"


def resnet():
    import torch
    import transformers

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.ResNetForImageClassification(transformers.ResNetConfig())

        def forward(self, image):
            return self.model(image).logits

    return Logits(), [torch.zeros(1, 3, 224, 224)], "ResNet-50, 1 x 3 x 224 x 224"


def llama():
    import torch
    import transformers

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            sizes = dict(hidden_size=2048, num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=8, intermediate_size=8192, vocab_size=32000, use_cache=False)
            self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, attn_implementation="sdpa", torch_dtype="bfloat16")).bfloat16()

        def forward(self, ids):
            return self.model(input_ids=ids, use_cache=False).logits

    return Logits(), [torch.ones(1, 64, dtype=torch.int64)], "Llama of 1B's sizes, 4 of 16 layers, bfloat16, 1 x 64"


def one(name, target):
    import torch

    import ingot
    from ingot import _library

    model, inputs, title = globals()[name]()
    stages, compile_ = {}, _library.Model.compile

    def timed(self, *args, **kwargs):
        start = time.perf_counter()
        stages["before"] = start
        made = compile_(self, *args, **kwargs)
        stages["build"] = time.perf_counter() - start
        return made

    _library.Model.compile = timed
    start = time.perf_counter()
    with torch.no_grad():
        ingot.compile(model.eval().requires_grad_(False), inputs=inputs, cache="readwrite", target=target)
    total = time.perf_counter() - start
    capture = stages["before"] - start
    print(f"{title}|{capture:.2f}|{stages['build']:.2f}|{total - capture - stages['build']:.2f}|{total:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="bert,bert_large,resnet,llama")
    parser.add_argument("--target", default="auto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        return one(args.one, args.target)
    print("| model | cache | capture | build | place | all |\n|---|---|---|---|---|---|")
    for name in args.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("empty", "hit"):
                line = [sys.executable, __file__, "--one", name, "--target", args.target]
                rounds = []
                for _ in range(args.rounds):
                    if state == "empty":
                        shutil.rmtree(os.path.join(folder, "built"), ignore_errors=True)
                        shutil.rmtree(os.path.join(folder, "code"), ignore_errors=True)
                    done = subprocess.run(line, env={**os.environ, "INGOT_CACHE_DIR": folder}, capture_output=True, text=True)
                    if done.returncode != 0:
                        sys.exit(done.stderr)
                    title, *seconds = done.stdout.strip().splitlines()[-1].split("|")
                    rounds.append([float(s) for s in seconds])
                print(f"| {title} | {state} | {' | '.join(f'{min(column):.2f}' for column in zip(*rounds))} |", flush=True)


if __name__ == "__main__":
    main()
