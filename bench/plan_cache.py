"""The time that the cache of plans saves: milliseconds of ingot.compile by stage, with an empty folder and with the plan in it, each in its own process.

    python bench/plan_cache.py [--models bert,bert_large,resnet,resnet_torchvision,llama] [--target cpu|cuda:sm_90]

For each stage the fastest round counts. capture: torch.export, and writing the graph. import: reading the graph and deciding what runs where. build: ingot_compile, which looks into the
cache. pack: preparing the weights (nothing for a GPU that is not here). rest: what ingot.compile does besides. "beyond" is import, build and rest: what a hit costs beyond capture and packing;
"its CPU" is the processor's time of it, which other programs on the machine disturb less. Random weights. Lines are appended to bench/results/<machine>.jsonl with the command.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from cpu import machine_name

STAGES = ("capture", "import", "build", "pack", "rest")


class Clocks(NamedTuple):
    """Seconds on the wall, and of this process on all processors."""

    wall: float = 0.0
    cpu: float = 0.0

    @staticmethod
    def now():
        return Clocks(time.perf_counter(), time.process_time())

    def __add__(self, other):
        return Clocks(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other):
        return Clocks(self.wall - other.wall, self.cpu - other.cpu)


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


def resnet_torchvision():
    import torch
    import torchvision

    return torchvision.models.resnet50(weights=None), [torch.zeros(1, 3, 224, 224)], "ResNet-50 of torchvision, 1 x 3 x 224 x 224"


def llama(layers=16):
    import torch
    import transformers

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            sizes = dict(hidden_size=2048, num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=8, intermediate_size=8192, vocab_size=128256, use_cache=False)
            config = transformers.LlamaConfig(**sizes, tie_word_embeddings=True, attn_implementation="sdpa", dtype="bfloat16")
            with torch.device("meta"):
                self.model = transformers.LlamaForCausalLM(config).bfloat16()
            rotary = type(self.model.model.rotary_emb)(config)
            self.model.to_empty(device="cpu").tie_weights()
            self.model.model.rotary_emb = rotary
            for p in self.model.parameters():
                p.data.fill_(0.01)

        def forward(self, ids):
            return self.model(input_ids=ids, use_cache=False).logits

    return Logits(), [torch.ones(1, 64, dtype=torch.int64)], "Llama-3.2-1B's sizes, bfloat16, 1 x 64" if layers == 16 else f"Llama-3.2-1B's sizes, {layers} of 16 layers, bfloat16, 1 x 64"


def one(name, target):
    """Prints the seconds of each stage of one build, in this process."""
    import torch
    from images import import_torchvision

    import ingot
    from ingot.engine import _engine, _library

    import_torchvision()  # transformers imports it
    model, inputs, title = globals()[name]()
    model = model.eval().requires_grad_(False)
    with torch.no_grad():  # what is loaded at the first use is not part of it
        ingot.compile(torch.nn.Linear(8, 8).eval(), inputs=[torch.ones(2, 8)], min_block_size=1, cache="off", target=target)
    seconds, imported = {stage: Clocks() for stage in STAGES}, []

    def timed(owner, method, stage):
        real = getattr(owner, method)

        def call(*args, **kwargs):
            start = Clocks.now()
            if stage == "import" and not imported:
                imported.append(start)
            made = real(*args, **kwargs)
            seconds[stage] += Clocks.now() - start
            return made

        setattr(owner, method, staticmethod(call) if method == "from_json" else call)

    timed(_library.Model, "from_json", "import")
    timed(_library.Model, "explain", "import")
    timed(_library.Model, "compile", "build")
    timed(_engine.Engine, "_place", "pack")
    start = Clocks.now()
    with torch.no_grad():
        ingot.compile(model, inputs=inputs, cache="readwrite", target=target)
    end = Clocks.now()
    seconds["capture"] = imported[0] - start
    seconds["rest"] = end - start - sum(seconds.values(), Clocks())
    beyond = seconds["import"] + seconds["build"] + seconds["rest"]
    print(json.dumps({"title": title, "beyond": beyond.wall, "cpu": beyond.cpu, **{stage: s.wall for stage, s in seconds.items()}}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="bert,bert_large,resnet,resnet_torchvision,llama")
    parser.add_argument("--target", default="auto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        return one(args.one, args.target)
    command = "python bench/plan_cache.py " + " ".join(sys.argv[1:])
    log = Path(__file__).resolve().parent / "results" / f"{machine_name()}.jsonl"
    print(f"| model | cache | {' | '.join(STAGES)} | all | beyond | its CPU |\n|{'---|' * (len(STAGES) + 5)}")
    for name in args.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("empty", "hit"):
                rounds = []
                for _ in range(args.rounds):
                    if state == "empty":
                        shutil.rmtree(os.path.join(folder, "built"), ignore_errors=True)
                        shutil.rmtree(os.path.join(folder, "code"), ignore_errors=True)
                    done = subprocess.run([sys.executable, "-W", "ignore", __file__, "--one", name, "--target", args.target], env={**os.environ, "INGOT_CACHE_DIR": folder}, capture_output=True, text=True)
                    if done.returncode != 0:
                        sys.exit(done.stderr)
                    rounds.append(json.loads(done.stdout.strip().splitlines()[-1]))
                ms = {stage: round(1e3 * min(r[stage] for r in rounds), 1) for stage in STAGES}
                beyond, cpu = (round(1e3 * min(r[k] for r in rounds), 1) for k in ("beyond", "cpu"))
                with open(log, "a") as file:
                    line = {"row": f"cache-{name}", "target": args.target, "cache": state, **{f"{k}_ms": v for k, v in ms.items()}, "beyond_ms": beyond, "beyond_cpu_ms": cpu, "rounds": args.rounds}
                    file.write(json.dumps({**line, "time": time.strftime("%Y-%m-%d"), "command": command.strip()}) + "\n")
                print(f"| {rounds[0]['title']} | {state} | {' | '.join(f'{v:.0f}' for v in ms.values())} | {sum(ms.values()):.0f} | {beyond:.0f} | {cpu:.0f} |", flush=True)


if __name__ == "__main__":
    main()
