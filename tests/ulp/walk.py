"""`make ulp`: the largest errors of float32 functions over all inputs, ingot's beside torch's, as the table of docs/accuracy.md.

    walk.py --write                  every function, all 2^32 inputs; each row of the table is replaced when it is done
    walk.py --step 101 exp tanh      every 101st input of two functions, printed only
    walk.py --device cuda --write    ingot's compiled one-operator models on the GPU beside torch's, in the table's last columns
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from functions import FUNCTIONS, ROOT, Walk, blocks, special_inputs

PAGE = ROOT / "docs" / "accuracy.md"
COLUMNS = ["function", "inputs", "portable", "avx2", "avx512", "torch", "inputs on CUDA", "CUDA", "torch on CUDA"]


def figure(r) -> str:
    """The error to three digits, rounded up, its input, and the number of results of another kind (NaN, infinite, zero) than eager's."""
    error = math.ceil(r.error * 1000) / 1000
    text = f"{error:.3f} at {r.at:.9g}" if error < 1e4 else f"{error:.3e} at {r.at:.9g}"
    return text + (f"; {r.specials} of another kind, first at {r.special_at:.9g}" if r.specials else "")


def read_table() -> dict[str, dict[str, str]]:
    """The rows of the page's table, by function."""
    rows = {}
    for line in PAGE.read_text().splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == len(COLUMNS) and cells[0] in FUNCTIONS:
            rows[cells[0]] = dict(zip(COLUMNS, cells))
    return rows


def write_row(name: str, cells: dict[str, str]):
    rows = read_table()
    rows[name] = {**dict.fromkeys(COLUMNS, "-"), **rows.get(name, {}), "function": name, **cells}
    lines = ["| " + " | ".join(rows[f][c] for c in COLUMNS) + " |" for f in FUNCTIONS if f in rows]
    head = "| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|\n"
    text = PAGE.read_text()
    PAGE.write_text(re.sub(r"\| function \|.*\n(\|.*\n)*", lambda _: head + "\n".join(lines) + "\n", text))


def on_cpu(name: str, step: int) -> dict[str, str]:
    walk = Walk(name)
    for x in [special_inputs(), *blocks(step)] if step > 1 else blocks(step):
        walk.add(x, FUNCTIONS[name](x))
    return {**{way: figure(r) for way, r in walk.of_ways().items()}, "torch": figure(walk.given(0))}


def on_cuda(name: str, step: int) -> dict[str, str]:
    import ingot

    class One(torch.nn.Module):
        def forward(self, x):
            return FUNCTIONS[name](x)

    size = 1 << 22
    with torch.no_grad():
        compiled = ingot.compile(One().cuda(), inputs=[ingot.Input((size,), device="cuda")])
        walk = Walk(name)
        for x in blocks(step, size):
            full = torch.nn.functional.pad(x, (0, size - x.numel())).cuda()
            results = [f(full).cpu()[: x.numel()] for f in (FUNCTIONS[name], compiled)]
            walk.add(x, *results, kernels=False)
    return {"torch on CUDA": figure(walk.given(0)), "CUDA": figure(walk.given(1))}


def row(task: tuple[str, int, str]) -> tuple[str, dict[str, str], float]:
    name, step, device = task
    torch.set_num_threads(1)
    start = time.time()
    cells = on_cpu(name, step) if device == "cpu" else on_cuda(name, step)
    cells["inputs" if device == "cpu" else "inputs on CUDA"] = "all" if step == 1 else f"every {step}"
    return name, cells, time.time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", help="all if none is named")
    parser.add_argument("--step", type=int, default=1, help="every step-th input")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="functions at a time, each by one thread")
    parser.add_argument("--write", action="store_true", help="put the rows into docs/accuracy.md")
    a = parser.parse_args()
    unknown = set(a.functions) - set(FUNCTIONS)
    if unknown:
        parser.error(f"no functions of the table: {', '.join(sorted(unknown))}")
    tasks = [(name, a.step, a.device) for name in a.functions or FUNCTIONS]
    with get_context("spawn").Pool(a.jobs) as pool:
        for name, cells, seconds in pool.imap_unordered(row, tasks):
            print(name.ljust(10), "; ".join(f"{k}: {v}" for k, v in cells.items()), f"({seconds:.0f} s)", flush=True)
            if a.write:
                write_row(name, cells)


if __name__ == "__main__":
    main()
