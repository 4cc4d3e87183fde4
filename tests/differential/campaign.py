"""Runs programs by a way, several at a time, and collects the failures."""

from __future__ import annotations

import contextlib
import gc
import re
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field

import known
import torch
from grow import Kinds, grow
from judge import Judge
from observe import Eager
from random_program import Program, merged, script
from reduce import Reducer
from ways import Refused, words


@dataclass
class Failure:
    program: Program
    seed: int     # the seed given to grow
    way: str
    kind: str     # the kind of failure, which reductions must keep
    message: str
    about: str = ""  # text that names the failing part

    def reduced(self, run, seconds=60) -> "Failure":
        """The same failure with a smaller program."""

        def fails(program):
            found = examine(program, self.way, run)
            return found and found.kind

        smaller = Reducer(self.program, self.kind, fails, seconds).run()
        return examine(smaller, self.way, run) or self

    def __str__(self):
        return f"{self.way}, seed {self.seed}: {self.message}\n\n{script(self.program, self.way, self.message)}"


@dataclass
class Tally:
    """The counts of a campaign."""

    programs: Counter = field(default_factory=Counter)      # by way
    elements: Counter = field(default_factory=Counter)      # compared, undecidable
    refusals: Counter = field(default_factory=Counter)
    expected: Counter = field(default_factory=Counter)      # known failures by name
    rows: Counter = field(default_factory=Counter)          # calls of each operator
    failures: list[Failure] = field(default_factory=list)
    crashes: int = 0

    @property
    def undecidable(self) -> float:
        return self.elements["undecidable"] / max(1, self.elements["elements"])

    def add(self, other: "Tally"):
        for mine, theirs in zip((self.programs, self.elements, self.refusals, self.expected, self.rows), (other.programs, other.elements, other.refusals, other.expected, other.rows)):
            mine.update(theirs)
        self.failures += other.failures

    def __str__(self):
        lines = ["programs: " + ", ".join(f"{n} {way}" for way, n in sorted(self.programs.items()))]
        lines += [f"elements compared: {self.elements['elements']}, {self.undecidable:.2%} of them undecidable; {len(self.rows)} operators called"]
        lines += [f"refused {n}: {said}" for said, n in self.refusals.most_common(12)]
        lines += [f"expected {n}: {name}" for name, n in sorted(self.expected.items())]
        return "\n".join([*lines, f"failures: {len(self.failures)}"])


def examine(program: Program, way: str, run, tally: Tally | None = None) -> Failure | None:
    """Runs one program by one way. Raises Refused if ingot (or torch's capture) refuses it."""
    judge = Judge(Eager(program))
    try:
        verdict = run(program, judge)
    except Refused:
        raise
    except Exception as problem:
        about = f"{problem}\n{lines_of(problem)}"
        if known.refusal(problem):
            raise Refused(words(problem), about) from None
        return Failure(program, program.seed % 10**9, way, words(problem)[:60], f"{type(problem).__name__}: {problem}", about)
    if verdict.problems:
        return Failure(program, program.seed % 10**9, way, kind_of(verdict.problems[0]), "\n".join(verdict.problems[:6]), "\n".join(verdict.problems))
    if tally is not None:
        tally.elements += verdict.counts
    return None


def lines_of(problem: Exception) -> str:
    """The program lines that were running when the exception came."""
    frames = traceback.extract_tb(problem.__traceback__)
    return "\n".join(frame.line or "" for frame in frames if frame.filename.startswith("<program"))


def kind_of(problem: str) -> str:
    problem = problem.replace("error nan", "NaN").replace("error inf", "infinities")
    return next((w for w in ("strides", "memory is shared", "another part", "later call", "NaN", "infinities", "results, eager", "eager's is") if w in problem), "values")


def groups(programs: list[Program], size: int) -> list[list[Program]]:
    """Groups of programs that can be called together: those with the same number of calls. Programs that write are grouped separately, because torch traces them twice."""
    made: dict[tuple, list[list[Program]]] = {}
    for program in programs:
        rows = made.setdefault((len(program.sizes), program.dynamic, program.writes), [[]])
        if len(rows[-1]) == size:
            rows.append([])
        rows[-1].append(program)
    return [group for rows in made.values() for group in rows if group]


def run_all(programs: list[Program], way: str, run, tally: Tally, together: int = 10, until=lambda: False, note=lambda group: None):
    """Runs every program by the way. If a group fails, the programs that the failure names run alone; without names the halves do, until each failing program is found."""
    with uncollected():
        for group in groups(programs, together):
            if until():
                return
            tally.programs[way] += len(group)
            for program in group:
                tally.rows.update(step.target for step in program.steps)
            _run(group, way, run, tally, note)


@contextlib.contextmanager
def uncollected():
    """Turns Python's garbage collector off. It takes a fifth of the time of torch's traces, which make millions of objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _run(group, way, run, tally, note) -> bool:
    """Runs a group; returns whether all programs passed."""
    note(group)
    if len(group) == 1:
        return _run_alone(group[0], way, run, tally)
    whole = merged(group)
    try:
        failure = examine(whole, way, run, tally)
    except Refused as refused:
        failure = refused
    if failure is None:
        return True
    named = suspects(failure.about, whole, len(group))
    parts = [[p] for i, p in enumerate(group) if i in named] + [[p for i, p in enumerate(group) if i not in named]]
    if not named:
        parts = [group[: len(group) // 2], group[len(group) // 2 :]]
    well = [_run(part, way, run, tally, note) for part in parts if part]
    if all(well) and isinstance(failure, Failure):  # each passes by itself
        tally.failures.append(failure)
    return False


def _run_alone(program, way, run, tally) -> bool:
    try:
        failure = examine(program, way, run, tally)
    except Refused as refused:
        tally.refusals[str(refused)] += 1
        return False
    if failure is None:
        return True
    if name := known.name_of(failure):
        tally.expected[name] += 1
    else:
        tally.failures.append(failure)
    return False


def suspects(about: str, whole: Program, count: int) -> set[int]:
    """The merged programs whose results, tensors or sizes the text names."""
    names = about + " ".join(whole.results[int(i)] for i in re.findall(r"\bresult (\d+)", about))
    return {int(n) for pair in re.findall(r"\bp(\d+)_[vxwbc]\d|\b[nm](\d+)\b", names) for n in pair if n and int(n) < count}


def grown(seeds, kinds: Kinds) -> list[Program]:
    with torch.no_grad():
        return [grow(seed, kinds) for seed in seeds]


def seconds(limit: float):
    end = time.monotonic() + limit
    return lambda: time.monotonic() > end


def fresh_seed() -> int:
    return int(time.time())
