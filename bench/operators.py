"""The ledger of operators: some 1,600 problems of one operator each, compared with eager.

    make operators                                       on the CPU, one thread, half a second each (15 minutes); then the page
    python bench/operators.py --kinds pointwise,scan     what a change touched
    python bench/operators.py --only "softmax.*bfloat16" --dry
    python bench/operators.py --device cuda
    python bench/operators.py --page                     docs/operator_speed.md, made of the lines

`operator_problems.py` draws them. Calls of ingot and eager alternate in one process, and the fastest of each counts, in milliseconds. `ratio` is ingot's time over eager's. A problem is
"slow" if the ratio is over 1.15 and the difference over 5 us, on two such measurements. Lines in bench/results/operators-<machine>.jsonl replace earlier ones of the same problem and
number of threads. bench/operators_excused.json has slow problems that stay, each with its reason.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import re
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "operator_speed.md"
EXCUSED = HERE / "operators_excused.json"
sys.path.insert(0, str(HERE))

SLOW_RATIO = 1.15      # over eager's time
SLOW_DIFFERENCE = 5e-6  # seconds: less is the noise of a call
LEAST_ROUNDS, MOST_ROUNDS = 6, 400
WORST = 50             # rows of the page
MOST_EXCUSED = 30


def measured(problem, device: str, threads: int, seconds: float) -> dict:
    """The line of one problem."""
    import torch

    import ingot

    class Model(torch.nn.Module):
        def forward(self, *inputs):
            return call(*inputs)

    line = {"problem": problem.name, "kind": problem.kind, "dtype": problem.dtype, "layout": problem.layout, "elements": problem.elements}
    try:
        call, tensors = problem.make()
        tensors = tuple(t.to(device) for t in tensors)
        wait = torch.cuda.synchronize if device == "cuda" else lambda: None
        expected = call(*tensors)
    except Exception as error:  # eager does not take it: such a sample or size has no problem
        return {**line, "not_run": f"eager: {type(error).__name__}: {error}"[:160]}
    try:
        compiled = ingot.compile(Model(), list(tensors), threads=threads, fallback="error", cache="off")
        result = compiled(*tensors)
        if (wrong := difference(result, expected)) and farther(result, expected, call, tensors):
            return {**line, "wrong": wrong}
        ours, theirs = fastest((lambda: compiled(*tensors), lambda: call(*tensors)), wait, seconds)
        if ours > SLOW_RATIO * theirs:  # once more: what else runs on the machine makes no problem slow twice
            again = fastest((lambda: compiled(*tensors), lambda: call(*tensors)), wait, seconds)
            ours, theirs = min((ours, theirs), again, key=lambda pair: pair[0] / pair[1])
    except Exception as error:
        return {**line, "refused": f"{type(error).__name__}: {error}".split("\n")[0][:160]}
    slow = ours > SLOW_RATIO * theirs and ours - theirs > SLOW_DIFFERENCE
    return {**line, "ingot_ms": round(ours * 1e3, 4), "eager_ms": round(theirs * 1e3, 4), "ratio": round(ours / theirs, 3), "slow": slow}


def fastest(calls, wait, seconds: float) -> tuple[float, float]:
    """The least time of each of two calls, in seconds, in turn for `seconds`."""
    best = [math.inf, math.inf]
    for call in calls:
        call(), call(), wait()
    end, rounds = time.perf_counter() + seconds, 0
    while (time.perf_counter() < end or rounds < LEAST_ROUNDS) and rounds < MOST_ROUNDS:
        for side, call in enumerate(calls):
            start = time.perf_counter()
            call()
            wait()
            best[side] = min(best[side], time.perf_counter() - start)
        rounds += 1
    return best[0], best[1]


# Of a result's norm. It finds a wrong result; tests/ops judges accuracy.
WRONG = {"float64": 1e-6, "float32": 1e-3, "float16": 0.05, "bfloat16": 0.1}


def difference(results, expected) -> str:
    """What a result has wrong, or an empty string."""
    import torch
    from torch.utils import _pytree as pytree

    for result, other in zip(pytree.tree_leaves(results), pytree.tree_leaves(expected)):
        if not isinstance(other, torch.Tensor):
            continue
        if (result.shape, result.dtype) != (other.shape, other.dtype):
            return f"{result.dtype} {tuple(result.shape)}, eager has {other.dtype} {tuple(other.shape)}"
        a, b = (torch.nan_to_num(t.double(), 0.0, 0.0, 0.0) for t in (result, other) if not t.is_complex()) if not other.is_complex() else (result, other)
        distance, bound = (a - b).norm().item(), WRONG.get(str(other.dtype).removeprefix("torch."), 1e-3) * max(b.norm().item(), 1e-30)
        if distance > bound:
            return f"norm of the difference {distance:.3g}, of eager's result {b.norm().item():.3g}"
    return ""


def farther(result, expected, call, tensors) -> bool:
    """Whether a result is farther from float64's than eager's is (twice as far, or with another shape)."""
    import torch
    from torch.utils import _pytree as pytree

    floats = [t for t in pytree.tree_leaves(expected) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    if not floats or floats[0].dtype is torch.float64:
        return True
    exact = pytree.tree_leaves(call(*(t.double() if t.is_floating_point() else t for t in tensors)))
    for ours, theirs, right in zip(pytree.tree_leaves(result), pytree.tree_leaves(expected), exact):
        if ours.shape != theirs.shape or (ours.double() - right).norm() > 2 * (theirs.double() - right).norm():
            return True
    return False


def commit() -> str:
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def key(line: dict) -> tuple:
    return line["problem"], line["threads"]


def read(path: Path) -> dict[tuple, dict]:
    return {key(line): line for line in map(json.loads, path.read_text().splitlines())} if path.exists() else {}


def write(path: Path, lines: dict[tuple, dict]):
    path.write_text("".join(json.dumps(lines[k]) + "\n" for k in sorted(lines)))


def run(arguments) -> list[dict]:
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    import torch
    from cpu import machine_name
    from operator_problems import problems

    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    machine = re.sub(r"\W+", "-", torch.cuda.get_device_name()).lower() if arguments.device == "cuda" else machine_name()
    path = arguments.out / f"operators-{machine}{'-shard' * bool(arguments.shard)}{arguments.shard.partition('/')[0]}.jsonl"
    wanted = [p for p in problems(arguments.device) if (not arguments.kinds or p.kind in arguments.kinds.split(",")) and re.search(arguments.only, p.name)]
    if arguments.shard:
        index, count = map(int, arguments.shard.split("/"))
        wanted = wanted[index::count]
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines, now, done = read(path), commit(), []
    for problem in wanted:
        line = {**measured(problem, arguments.device, arguments.threads, arguments.seconds), "threads": arguments.threads, "date": time.strftime("%Y-%m-%d"), "commit": now}
        done.append(line)
        lines[key(line)] = line
        if line.get("slow") or "ratio" not in line:
            print(said(line), flush=True)
        if not arguments.dry and len(done) % 50 == 0:
            write(path, lines)
    if not arguments.dry:
        write(path, lines)
    return done


def said(line: dict) -> str:
    if "ratio" in line:
        return f"{line['ratio']:7.2f}  ingot {line['ingot_ms']:10.4f}  eager {line['eager_ms']:10.4f} ms  {line['problem']}"
    kind = next(k for k in ("not_run", "refused", "wrong") if k in line)
    return f"{kind}  {line['problem']}: {line[kind]}"


def summary(lines: list[dict]) -> str:
    ratios = [line["ratio"] for line in lines if "ratio" in line]
    mean = math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
    count = {kind: sum(kind in line for line in lines) for kind in ("not_run", "refused", "wrong")}
    return f"{len(ratios)} problems, {sum(line.get('slow', False) for line in lines)} slow, geometric mean {mean:.2f}; {count['wrong']} wrong, {count['refused']} refused, {count['not_run']} not run"


def excused() -> dict[str, str]:
    """Reasons by the pattern of the problem's name."""
    return json.loads(EXCUSED.read_text()) if EXCUSED.exists() else {}


def page(folder: Path = HERE / "results") -> str:
    """docs/operator_speed.md."""
    out = [
        "# Operators compared with eager",
        "",
        "Single operators, each compiled alone, compared with eager torch: `bench/operators.py` draws the problems by a fixed seed and writes lines to `bench/results`; `python bench/operators.py --page` makes",
        "this page. A ratio is ingot's time over eager's (below 1: ingot is faster). Slow: over 1.15, and more than 5 us.",
        "",
    ]
    reasons = excused()
    for path in sorted(folder.glob("operators-*.jsonl")):
        runs = defaultdict(list)
        for line in read(path).values():
            runs[line["threads"]].append(line)
        for threads, lines in sorted(runs.items()):
            out += [f"## {path.stem.removeprefix('operators-')}, {threads} thread{'s' * (threads > 1)}", "", f"{summary(lines)}.", "", *by_kind(lines)]
            worst = sorted((line for line in lines if line.get("slow")), key=lambda line: -line["ratio"])[:WORST]
            out += ["The slowest:", "", "| problem | ratio | ingot, ms | eager, ms | excused |", "|---|---|---|---|---|"] if worst else []
            for line in worst:
                why = next((reason for pattern, reason in reasons.items() if re.search(pattern, line["problem"])), "")
                out.append(f"| {line['problem']} | {line['ratio']:.2f} | {line['ingot_ms']:.4f} | {line['eager_ms']:.4f} | {why} |")
            out += [""] if worst else []
    return "\n".join(out)


def by_kind(lines: list[dict]) -> list[str]:
    kinds = defaultdict(list)
    for line in lines:
        if "ratio" in line:
            kinds[line["kind"]].append(line)
    out = ["| kind | problems | geometric mean | slow |", "|---|---|---|---|"]
    for kind, rows in sorted(kinds.items()):
        mean = math.exp(sum(math.log(r["ratio"]) for r in rows) / len(rows))
        out.append(f"| {kind} | {len(rows)} | {mean:.2f} | {sum(r['slow'] for r in rows)} |")
    return [*out, ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--kinds", default="", help="with commas; all without it")
    parser.add_argument("--only", default="", help="a regular expression of problems' names")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a problem")
    parser.add_argument("--shard", default="", metavar="I/N", help="every N-th problem, from number I, into a file of its own")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="FILE", help="add the lines of shards to --out's file of the machine, and run nothing")
    parser.add_argument("--dry", action="store_true", help="print only")
    parser.add_argument("--page", action="store_true", help="write docs/operator_speed.md from the lines, and run nothing")
    arguments = parser.parse_args()
    if arguments.page:
        PAGE.write_text(page())
    elif arguments.merge:
        path = arguments.out / f"{arguments.merge[0].stem.partition('-shard')[0]}.jsonl"
        lines = read(path)
        for file in arguments.merge:
            lines.update(read(file))
        write(path, lines)
    else:
        print(summary(run(arguments)))


if __name__ == "__main__":
    main()
