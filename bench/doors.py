"""The ledger of doors: every architecture by every way into ingot, in each mode, type and on each device.

    make doors          on the CPU: float32 and bfloat16 by every door, capture and partition; builds, errors and times by two doors
    make doors-all      every cell, built
    make doors-cuda     on a GPU, in 8 minutes: torch.compile in float32 first
    bench/doors.py --models 'timm-*' --doors compile,pt2     some cells, to look at
    bench/doors.py --page                                     docs/models.md, made of the lines

A cell is a model by a door in a mode, a type and on a device. Its line in bench/results/doors-<machine>.jsonl has the operators that stay in torch with their reasons, segments, graphs,
seconds to build, the error relative to eager's (tests/accuracy.py), time over eager's, the date and the commit. Where torch.compile takes longer than eager, it also has the time of torch's
own part, Dynamo with backend="eager". Errors and times are without TF32. Lines of a GPU up to
commit b66f0f5a were measured with it: `with_tf32` says that such an error is over the bound. A later line replaces an earlier one of the same cell. Models run in worker processes with limits of time and memory: a crash is a line.
If a cell of torch.compile is not done in time, torch's own part (Dynamo, with backend="eager") is tried alone, to say whose time it is. Lines are written as they come,
so that a run that is stopped keeps what it has, and `--resume` and `--left` go on.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import fnmatch
import gc
import importlib.util
import json
import os
import resource
import select
import signal
import statistics
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests")]
PAGE = ROOT / "docs" / "models.md"
KNOWN = HERE / "doors_known.txt"
CELL_SECONDS = 180      # of one cell; then its process is ended
MEMORY_BYTES = 12 << 30  # of a process on the CPU
DOOR_NAMES = ("torch.compile", "compile", "compile-open", "torch.compile-dynamic", "exported", "decomposed", "pt2", "saved", "torchscript")
BUILT_DOORS = ("torch.compile", "compile")  # by these, a short run builds, and measures errors and times
NEED_A_BUILD = ("saved",)
SLOW = 1 / 0.9  # of eager's time: the page names cells over it
SECOND_DTYPE = {"cpu": "bfloat16", "cuda": "float16"}


@dataclass(frozen=True, order=True)
class Cell:
    """One line of the ledger."""

    model: str
    door: str
    mode: str = "no_grad"
    dtype: str = "float32"
    device: str = "cpu"

    @classmethod
    def of(cls, line: dict) -> Cell:
        return cls(**{field.name: line[field.name] for field in dataclasses.fields(cls)})


# ---- a worker: cells of its standard input, lines to its standard output


def worker(arguments):
    import torch
    from architectures import ARCHITECTURES
    from by_door import Case

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if arguments.device == "cpu":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    torch.set_num_threads(arguments.threads)
    torch.backends.cudnn.allow_tf32 = False  # torch would round convolutions of float32 to TF32, and choose by size where
    cases = {}
    for text in sys.stdin:
        task = json.loads(text)
        cell = Cell.of(task)
        key = cell.model, cell.mode, cell.dtype
        if key not in cases:
            cases.clear()
            gc.collect()
            cases[key] = Case(ARCHITECTURES[cell.model], cell.mode, cell.dtype, cell.device)
        start = time.perf_counter()
        try:
            found = alone_in_torch(cases[key], cell.door) if task["control"] else measured(cases[key], cell.door, task["build"], arguments.times)
        except Exception as problem:  # the line says it
            from by_door import first_line

            found = {"failed": first_line(problem)}
        print(json.dumps({**found, "seconds": round(time.perf_counter() - start, 2)}), file=answers, flush=True)


def alone_in_torch(case, door) -> dict:
    from by_door import torch_alone

    torch_alone(case, door)
    return {}


def measured(case, door, build, times) -> dict:
    """The findings of a cell."""
    import torch
    from by_door import TORCH_COMPILE, Refused, enter, first_line, torch_alone

    try:
        eager = case.eager()
    except Exception as problem:
        return {"not_run": f"eager does not run it: {first_line(problem)}"}
    start = time.perf_counter()
    try:
        made = enter(case, door, build)
    except Refused as problem:
        return {"not_run": str(problem)}
    except Exception as problem:  # of many kinds
        return {"refused": first_line(problem)}
    seconds = round(time.perf_counter() - start, 2)
    found = {
        "operators": made.operators, "in_torch": sum(t["count"] for t in made.in_torch.values()), "torch": {k: {**v, "reason": v["reason"][:160]} for k, v in made.in_torch.items()},
        "segments": made.segments, "graphs": len(made.reports),
    }  # fmt: skip
    if not build:
        return found
    found["build_s"] = seconds
    with case.context():
        try:
            result = made.call(*case.inputs)
            found |= error(result, eager, case)
        except Exception as problem:
            return found | {"failed": f"the call: {first_line(problem)}"}
        if times:
            with alone():
                wait = torch.cuda.synchronize if case.device == "cuda" else lambda: None
                found["time_over_eager"] = time_over_eager(lambda: made.call(*case.inputs), lambda: case.module(*case.inputs), wait)
                if found["time_over_eager"] > SLOW and door in TORCH_COMPILE:  # what of it is torch's own
                    torchs = torch_alone(case, door)
                    found["torch_alone_over_eager"] = time_over_eager(lambda: torchs(*case.inputs), lambda: case.module(*case.inputs), wait)
    return found


def error(result, eager, case) -> dict:
    """The error against float64 relative to eager's; for integers, whether they are equal."""
    from accuracy import errors_of

    try:
        exact = case.exact()
    except Exception as problem:
        from by_door import first_line

        return {"error": None, "error_why": f"float64 does not run: {first_line(problem)}"}
    try:
        found = errors_of(result, eager, exact, case.depth())
    except AssertionError as problem:
        return {"failed": f"the result: {problem}"}
    held = {} if found.held else {"failed": f"error {found.error:.3e} is over {found.bound:.3e}"}
    return {"error": found.error, "eager_error": found.theirs, **held}


@contextlib.contextmanager
def alone():
    """One worker times at a time."""
    with open(__file__) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def time_over_eager(ours, theirs, wait, rounds=5, burst=0.1) -> float:
    """The median over rounds of the ratio of the two calls' median times, called alternately."""

    def median(call):
        taken, end = [], time.perf_counter() + burst
        while not taken or time.perf_counter() < end:
            start = time.perf_counter()
            call()
            wait()
            taken.append(time.perf_counter() - start)
        return statistics.median(taken)

    ours(), theirs(), wait()
    return round(statistics.median(median(ours) / median(theirs) for _ in range(rounds)), 3)


# ---- which cells, in which order


def plan(arguments, architectures) -> list[tuple[Cell, bool]]:
    """(cell, whether to build), what says most first."""
    names = [n for n in architectures if any(fnmatch.fnmatch(n, p) for p in arguments.models.split(","))]
    device, doors = arguments.device, arguments.doors.split(",") if arguments.doors else DOOR_NAMES
    dtypes, modes = arguments.dtypes.split(","), arguments.modes.split(",")

    def cells(doors, dtypes, modes, build):
        return [(Cell(n, door, mode, dtype, device), build) for n in names for dtype in dtypes for mode in modes for door in doors if build or door not in NEED_A_BUILD]

    if arguments.build == "all":
        return cells(doors, dtypes, modes, True)
    waves = cells([d for d in doors if d == "torch.compile"], dtypes[:1], modes[:1], False)
    waves += cells([d for d in doors if d != "torch.compile"], dtypes[:1], modes[:1], False)
    waves += cells(doors, dtypes[1:], modes[:1], False)
    waves += cells(doors, dtypes[:1], modes[1:], False)
    if arguments.build == "some":
        waves += cells([d for d in doors if d in BUILT_DOORS], dtypes[:1], modes[:1], True)
        if device == "cpu":  # the build finds what the partition does
            built = {cell for cell, build in waves if build}
            waves = [(cell, build) for cell, build in waves if build or cell not in built]
    return waves


# ---- the runner


def worker_command(arguments) -> list[str]:
    return [sys.executable, __file__, "--worker", "--device", arguments.device, "--threads", str(arguments.threads)] + ["--no-times"] * (not arguments.times)


class Worker:
    """A process that runs one cell after another."""

    def __init__(self, arguments):
        environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "INGOT_CACHE": "off", "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(worker_command(arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, bufsize=1)
        self.task, self.since, self.control = None, 0.0, False

    def give(self, cell: Cell, build: bool, control=False):
        """control: torch's own part of the door alone."""
        self.task, self.since, self.control = (cell, build), time.monotonic(), control
        try:
            self.process.stdin.write(json.dumps({**dataclasses.asdict(cell), "build": build, "control": control}) + "\n")
        except BrokenPipeError:
            pass  # its end is found by the next read

    def answer(self, seconds: float) -> dict | None:
        """The findings of its cell; None if they are not there yet."""
        if select.select([self.process.stdout], [], [], 0)[0]:
            text = self.process.stdout.readline()
            if text:
                return json.loads(text)
            status = self.process.wait()
            return {"failed": f"the process ended by {signal.Signals(-status).name}" if status < 0 else f"the process ended with status {status}"}
        if time.monotonic() - self.since > seconds:
            self.stop()
            return {"late": seconds}
        return None

    def stop(self):
        self.process.kill()
        self.process.wait()


def run(arguments, todo, write):
    """Runs the cells in `arguments.jobs` workers and writes a line for each. Cells of one model and type go to one worker, in order."""
    from by_door import TORCH_COMPILE

    waiting, workers = list(todo), []
    end = time.monotonic() + arguments.seconds if arguments.seconds else float("inf")
    batches: dict[int, list] = {}

    def next_for(worker):
        mine = batches.setdefault(id(worker), [])
        if not mine and waiting:
            first = waiting[0][0]
            same = [w for w in waiting if (w[0].model, w[0].mode, w[0].dtype, w[1]) == (first.model, first.mode, first.dtype, waiting[0][1]) and (w[0].door == "torch.compile") == (first.door == "torch.compile")]
            mine.extend(same)
            taken = set(same)
            waiting[:] = [w for w in waiting if w not in taken]
        return mine.pop(0) if mine else None

    for _ in range(arguments.jobs):
        workers.append(Worker(arguments))
    while time.monotonic() < end:
        for i, w in enumerate(workers):
            if w.task is None:
                if (task := next_for(w)) is not None:
                    w.give(*task)
                continue
            found = w.answer(arguments.cell_seconds)
            if found is None:
                continue
            task, w.task = w.task, None
            if w.process.poll() is not None:
                workers[i] = Worker(arguments)
                batches[id(workers[i])] = batches.pop(id(w), [])
            if "late" in found and task[0].door in TORCH_COMPILE and not w.control:
                workers[i].give(*task, control=True)
            else:
                write(task[0], timely(found, arguments.cell_seconds) if w.control else late(found))
        if all(w.task is None for w in workers) and not waiting and not any(batches.get(id(w)) for w in workers):
            break
        select.select([w.process.stdout for w in workers if w.task is not None], [], [], 0.5)
    left = [t for mine in batches.values() for t in mine] + waiting + [w.task for w in workers if w.task is not None]
    for w in workers:
        w.stop()
    return left


def late(found: dict) -> dict:
    return {"failed": f"not done after {found['late']:g} s"} if "late" in found else found


def timely(control: dict, seconds: float) -> dict:
    """The line of a cell of torch.compile that was not done in time, from what torch did alone."""
    if "late" in control:
        return {"not_run": f"torch's own trace takes over {seconds:g} s"}
    if "failed" in control:
        return {"not_run": f"torch's own trace fails: {control['failed']}"}
    return {"failed": f"not done after {seconds:g} s; torch's own trace takes {control['seconds']:g} s"}


# ---- the lines


def file_of(machine: str, folder: Path = HERE / "results") -> Path:
    return folder / f"doors-{machine}.jsonl"


def read(path: Path) -> dict[Cell, dict]:
    """The lines of a file by cell; a later one replaces an earlier one."""
    lines = [json.loads(text) for text in path.read_text().splitlines() if text] if path.exists() else []
    return {Cell.of(line): line for line in lines}


def sort_lines(path: Path):
    """Writes the file anew with one line a cell, in order."""
    lines = read(path)
    path.write_text("".join(json.dumps(lines[cell]) + "\n" for cell in sorted(lines)))


def machine_of(device: str) -> str:
    if device == "cuda":
        from cuda import gpu_name

        return gpu_name()
    from cpu import machine_name

    return machine_name()


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def is_here(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="*", help="names or patterns, with commas")
    parser.add_argument("--doors", help=f"of {', '.join(DOOR_NAMES)}")
    parser.add_argument("--dtypes", help="with commas; the first is looked at first")
    parser.add_argument("--modes", default="no_grad", help="no_grad, grad, inference_mode, autocast, with commas")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--build", default="some", choices=("none", "some", "all"), help="capture and partition alone; build by two doors; build every cell")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--threads", type=int, default=1, help="of a worker")
    parser.add_argument("--shard", default="0/1", metavar="I/N", help="every N-th model, from number I")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds; cells that are left are said to be not run")
    parser.add_argument("--cell-seconds", type=float, default=CELL_SECONDS)
    parser.add_argument("--out", type=Path, default=HERE / "results", metavar="FOLDER")
    parser.add_argument("--resume", action="store_true", help="skip cells that have a line of this commit")
    parser.add_argument("--left", action="store_true", help="skip cells whose line says whole, of any commit and machine")
    parser.add_argument("--no-times", dest="times", action="store_false", help="on a machine that others use")
    parser.add_argument("--page", action="store_true", help="write docs/models.md from the lines, and run nothing")
    parser.add_argument("--worker", action="store_true", help="(a process of a run)")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    if arguments.worker:
        return worker(arguments)
    if arguments.page:
        PAGE.write_text(page())
        return
    from architectures import ARCHITECTURES

    arguments.dtypes = arguments.dtypes or f"float32,{SECOND_DTYPE[arguments.device]}"
    at, of = map(int, arguments.shard.split("/"))
    mine = dict(list(ARCHITECTURES.items())[at::of])
    arguments.out.mkdir(parents=True, exist_ok=True)
    path, stamp = file_of(machine_of(arguments.device), arguments.out), {"date": time.strftime("%Y-%m-%d"), "commit": commit()}
    before = read(path)
    todo = plan(arguments, mine)
    if arguments.resume:
        todo = [(cell, build) for cell, build in todo if before.get(cell, {}).get("commit") != stamp["commit"] or "not_run" in before[cell] or build and "build_s" not in before[cell]]
    if arguments.left:
        found = all_lines(arguments.out)
        todo = [(cell, build) for cell, build in todo if not mark(found.get(cell)).startswith("whole") or build and "build_s" not in found[cell]]
    start, count = time.monotonic(), 0
    with open(path, "a") as file:

        def write(cell, found):
            nonlocal count
            count += 1
            line = {**dataclasses.asdict(cell), "package": ARCHITECTURES[cell.model].package, **found, **stamp}
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{time.monotonic() - start:6.0f} s {count:5d} {cell.model:32s} {cell.door:22s} {cell.mode:8s} {cell.dtype:9s} {mark(line)} {list(line.get('torch', {}))[:3] or line.get('failed', line.get('refused', ''))}", flush=True)

        absent = {p for p in {a.package for a in mine.values()} if not is_here(p)}
        for cell, _ in todo:
            if (package := ARCHITECTURES[cell.model].package) in absent:
                write(cell, {"not_run": f"{package} is not installed"})
        left = run(arguments, [t for t in todo if ARCHITECTURES[t[0].model].package not in absent], write)
        known = read(path)
        for cell, _ in left:
            if cell not in known:
                write(cell, {"not_run": "the time was over"})
    sort_lines(path)


# ---- the page


def mark(line: dict | None) -> str:
    """A cell in few letters."""
    if line is None or "not_run" in line:
        return "–"
    if "refused" in line:
        return "refused"
    if "failed" in line and "operators" not in line:
        return "failed"
    if not line["graphs"]:
        return "no graph"
    graphs = f", {line['graphs']} graphs" if line["graphs"] > 1 else ""
    wrong = ", failed" if "failed" in line else ""
    return (f"{line['in_torch']} in torch" if line["in_torch"] else "whole") + graphs + wrong


def all_lines(folder: Path = HERE / "results") -> dict[Cell, dict]:
    """The lines of every machine; of several lines of a cell the newest."""
    found: dict[Cell, dict] = {}
    for path in sorted(folder.glob("doors-*.jsonl")):
        for cell, line in read(path).items():
            if cell not in found or found[cell]["date"] <= line["date"]:
                found[cell] = line
    return found


def page(folder: Path = HERE / "results") -> str:
    """docs/models.md."""
    lines = all_lines(folder)
    columns = sorted({(c.device, c.mode, c.dtype) for c in lines}, key=lambda c: (c[0], c[1] != "no_grad", c[1], c[2] != "float32", c[2]))
    text = [
        "# Supported models, by every door",
        "",
        "Which models run wholly in an engine, by each way into ingot. `bench/doors.py --page` makes this page of the lines in `bench/results/doors-*.jsonl`, which `make doors` and `make doors-cuda` write.",
        "",
        'Weights are random and sizes small (`bench/architectures.py`). "whole": nothing stays in torch. "3 in torch": so many operators do; the reasons are below the table. "2 graphs": torch.compile',
        'breaks the model into so many, and Python runs between. "no graph": torch.compile leaves all to Python. "refused": an error, below the table. "failed": a wrong result, or the process',
        'ended. "–": not run (a package is not installed, eager or torch\'s own part of the door does not take the model or takes over three minutes, or nobody has run it on this device yet; what torch said stands below the table).',
        "",
        "| door | what it is |",
        "|---|---|",
        *(f"| {name} | {what} |" for name, what in DOOR_TEXTS.items()),
    ]
    for device, mode, dtype in columns:
        here = {c: line for c, line in lines.items() if (c.device, c.mode, c.dtype) == (device, mode, dtype)}
        doors = [d for d in DOOR_NAMES if any(c.door == d and "not_run" not in line for c, line in here.items())]
        if not doors:
            continue
        text += ["", f"## {dtype} on {'the CPU' if device == 'cpu' else 'a GPU'}" + (f", {mode}" if mode != "no_grad" else ""), "", summary(here), ""]
        text += ["| model | package | " + " | ".join(doors) + " |", "|---|---|" + "---|" * len(doors)]
        for model in sorted({c.model for c in here}):
            row = [here.get(Cell(model, door, mode, dtype, device)) for door in doors]
            package = next(line["package"] for c, line in here.items() if c.model == model)
            text.append(f"| {model} | {package} | " + " | ".join(map(mark, row)) + " |")
        said = reasons(here) + slow(here)
        if said:
            text += ["", *said]
    return "\n".join(text) + "\n"


DOOR_TEXTS = {
    "torch.compile": '`torch.compile(model, backend="ingot")`',
    "compile": "`ingot.compile(model, inputs)` for one set of sizes",
    "compile-open": "`ingot.compile` with the batch (and a text's length) open from 1",
    "torch.compile-dynamic": "`torch.compile(..., dynamic=True)`",
    "exported": "`ingot.compile(torch.export.export(model, inputs))`",
    "decomposed": "the same after `run_decompositions()`",
    "pt2": "a file of `torch.export.save`, by its path, as the command line reads it",
    "saved": "`ingot.save` and `ingot.load`",
    "torchscript": "`torch.jit.trace`, then `torch_tensorrt.ts.compile`",
}


def summary(here: dict) -> str:
    counts = {}
    for line in here.values():
        kind = mark(line).split(",")[0].rsplit(" ", 1)[-1]
        counts[kind] = counts.get(kind, 0) + 1
    names = {"whole": "whole", "torch": "with operators in torch", "graph": "without a graph", "refused": "refused", "failed": "failed", "–": "not run"}
    return f"{len(here)} cells: " + ", ".join(f"{counts[k]} {name}" for k, name in names.items() if k in counts) + "."


NAMED_OPERATORS = 3  # of one reason; more are counted


def reasons(here: dict) -> list[str]:
    """Lines that say what stays in torch, or is refused, and why: one for each reason, with its operators, models and doors."""
    operators: dict[str, dict[str, None]] = {}  # by reason, in order
    found: dict[str, dict[str, dict[str, None]]] = {}
    for cell in sorted(here):
        line = here[cell]
        said = [(entry["reason"], target) for target, entry in line.get("torch", {}).items()] + [(f"{k}: {line[k]}", None) for k in ("refused", "failed") if k in line]
        if "not_run" in line and line["not_run"].startswith("torch"):  # its own part of the door
            said.append((f"not run: {line['not_run']}", None))
        for reason, target in said:
            found.setdefault(reason, {}).setdefault(cell.model, {})[cell.door] = None
            operators.setdefault(reason, {}).update({target: None} if target else {})
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return [f"- {_named(list(operators[reason]))}{reason}. ".replace("|", "\\|") + "; ".join(f"{model} ({', '.join(doors)})" for model, doors in of.items()) for reason, of in ordered]


def slow(here: dict) -> list[str]:
    """A line that names the cells that take longer than eager, and how long torch's own part of the door takes by itself."""
    of_torch = lambda line: f"; torch's own part of the door {line['torch_alone_over_eager']:.2f}" if "torch_alone_over_eager" in line else ""
    found = [f"{cell.model} ({cell.door}: {here[cell]['time_over_eager']:.2f}{of_torch(here[cell])})" for cell in sorted(here) if here[cell].get("time_over_eager", 0) > SLOW]
    return [f"- Over eager's time: {', '.join(found)}."] if found else []


def _named(operators: list[str]) -> str:
    more = f" and {len(operators) - NAMED_OPERATORS} more" if len(operators) > NAMED_OPERATORS else ""
    return ", ".join(f"`{o}`" for o in operators[:NAMED_OPERATORS]) + more + ": " if operators else ""


# ---- what the lines must show


def known(path: Path = KNOWN) -> list[tuple[list[str], str]]:
    """The listed exceptions: patterns of (model, door, mode, dtype, device), and the reason."""
    rows = [text.split(":", 1) for text in path.read_text().splitlines() if text and not text.startswith("#")]
    return [(row[0].split(), row[1].strip()) for row in rows]


def uneven(lines: dict[Cell, dict]) -> dict[Cell, str]:
    """Cells with operators in torch, of models that another door, mode or type takes wholly."""
    def is_whole(line):
        return line["graphs"] > 0 and line["in_torch"] == 0

    ran = {cell: line for cell, line in lines.items() if "in_torch" in line}
    whole = {cell.model for cell, line in ran.items() if is_whole(line)}
    return {cell: ", ".join(line["torch"]) or "no graph" for cell, line in ran.items() if not is_whole(line) and cell.model in whole}


def is_known(cell: Cell, row: list[str]) -> bool:
    return all(fnmatch.fnmatch(value, pattern) for value, pattern in zip(dataclasses.astuple(cell), row, strict=True))


if __name__ == "__main__":
    main()
