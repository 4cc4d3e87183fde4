"""The cache of plans: the second build of the same model takes its plan from a folder, even with other weights."""

import tempfile
import time
from pathlib import Path

import torch

import ingot


def make(seed):
    torch.manual_seed(seed)
    layers = [torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True) for _ in range(4)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(64, 8)).eval()


def build(model, folder):
    """The module, and the seconds of compiling after capture."""
    x = torch.randn(2, 16, 64)
    program = torch.export.export(model, (x,))
    start = time.perf_counter()
    compiled = ingot.compile(program, cache="readwrite", cache_dir=folder)
    seconds = time.perf_counter() - start
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-4)
    return seconds


def plans(folder):
    return sum(1 for path in Path(folder).rglob("*") if path.is_file() and path.stat().st_size > 4096)


def main():
    with tempfile.TemporaryDirectory() as folder:
        first = build(make(0), folder)
        kept = plans(folder)
        second = build(make(1), folder)  # other weights: only the graph, sizes and options count
        print(f"built in {first:.2f} s, then in {second:.2f} s with {kept} plan kept")
        assert kept == plans(folder) == 1, "the second build should have found the first one's plan"
    # Without cache_dir the folder is the user's own; `ingot cache list`, `why`, `prune` and `verify` inspect and clean it.


if __name__ == "__main__":
    main()
