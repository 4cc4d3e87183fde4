"""Shared by the acceptance scripts: lines that yield (name, figure, bar, passed), printed as PASS or FAIL."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build/release")
CLI = str(BUILD / "ingot")
SCRATCH = Path(tempfile.mkdtemp(prefix="ingot-acceptance-"))
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
LINES = []


def line(name):
    """Decorates a function that yields (name, figure, bar, passed) for the lines it measures."""

    def add(function):
        LINES.append((name, function))
        return function

    return add


def shell(command, **more):
    return subprocess.run(command, shell=isinstance(command, str), capture_output=True, text=True, cwd=ROOT, **more)


def last(text, lines=1):
    return " | ".join(text.strip().splitlines()[-lines:])[:160]


def succeeds(what, command, says="", never="", **more):
    """says: a pattern that the output must contain. never: one that it must not contain."""
    start = time.perf_counter()
    try:
        done = shell(command, **more)
    except FileNotFoundError as problem:
        return what, f"not measured: {problem}", "exit status 0", False
    passed = done.returncode == 0 and bool(re.search(says, done.stdout)) and not (never and re.search(never, done.stdout))
    figure = last(done.stdout or done.stderr) or "no output"
    return what, f"{figure} ({time.perf_counter() - start:.0f} s)", "exit status 0" + (", something ran" if says else "") + (", nothing skipped" if never else ""), passed


def pytest(what, *arguments, everything=True, strict=False, spread=False, before=(), **environment):
    """Runs pytest. Fails also if all tests were skipped; with strict, if any was. spread: run on half of the cores, if pytest-xdist is installed. before: words of the command before Python."""
    environment = {**os.environ, **({"INGOT_TEST_ALL": "1"} if everything else {}), **environment}
    workers = ["-n", str(max(1, (os.cpu_count() or 1) // 2))] if spread and importlib.util.find_spec("xdist") else []
    command = [*before, sys.executable, "-m", "pytest", "-q", "-p", "no:warnings", *workers, *arguments]
    return succeeds(what, command, r"\b[1-9]\d* passed", r"\b\d+ skipped" if strict else "", env=environment)


def gtest(what, program, tests):
    """Runs some tests of a program. Fails also if one was skipped."""
    folders = os.pathsep.join([p for p in sys.path if p.endswith("-packages")] + [os.environ.get("INGOT_LIBRARY_PATH", "")]).strip(os.pathsep)
    command = [str(BUILD / program), f"--gtest_filter={tests}"]
    return succeeds(what, command, r"\[  PASSED  \] [1-9]", r"\[  SKIPPED \]", env={**os.environ, "INGOT_LIBRARY_PATH": folders})


def main(description):
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--only", default="", help="lines whose name contains this (several with commas)")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    chosen = [(n, f) for n, f in LINES if not arguments.only or any(w in n for w in arguments.only.split(","))]
    if arguments.list:
        print("\n".join(n for n, _ in chosen))
        return 0
    failed = 0
    for name, function in chosen:
        try:
            for what, figure, bar, passed in function():
                failed += not passed
                print(f"{'PASS' if passed else 'FAIL'}  {name}: {what}: {figure}  (bar: {bar})", flush=True)
        except Exception as problem:
            failed += 1
            print(f"FAIL  {name}: not measured: {type(problem).__name__}: {problem}"[:400], flush=True)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    print(f"{failed} lines failed" if failed else "every line passed")
    return 1 if failed else 0

