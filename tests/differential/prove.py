"""`python tests/differential/prove.py [NAME...]` applies the patches of faults/*.patch, one at a time, to a copy of the repository. It builds the copy if the patch changes C++, counts the
programs until one fails that passes without the fault, and prints a table.

The first lines of a patch name the fault and the programs to draw:

    Fault: torch.narrow with a negative start reads in front of its operand
    Draw: --way ahead --only aten.narrow
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPY = ROOT / "build" / "prove"
MOST, STEP = 2000, 100
SEED = 1_000_000


def run(*command, cwd=None, check=True):
    done = subprocess.run([str(c) for c in command], cwd=cwd or COPY, capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def copy_repository():
    """A worktree of the last commit, with its own build."""
    if not COPY.exists():
        run("git", "worktree", "add", "--detach", COPY, "HEAD", cwd=ROOT)
    if not (COPY / ".venv").exists():
        (COPY / ".venv").symlink_to(ROOT / ".venv")  # the build finds torch there
    run("git", "checkout", "--force", "--detach", run("git", "rev-parse", "HEAD", cwd=ROOT).stdout.strip())
    run("git", "clean", "-fdq", "tests", "src", "python")


def build():
    run("cmake", "--preset", "release", "-B", COPY / "build" / "release")
    run("cmake", "--build", COPY / "build" / "release", "-j", "2", "--target", "ingot_cli", "ingot_torch", "ingot_runtime_library")


def prove(patch: Path) -> tuple[str, str, str]:
    text = patch.read_text()
    fault, draw = (re.search(rf"^{word}: (.*)$", text, re.M)[1] for word in ("Fault", "Draw"))
    native = re.search(r"^\+\+\+ b/(src|include)/", text, re.M)
    for start in range(SEED, SEED + MOST, STEP):
        run("git", "apply", patch)
        try:
            if native:
                build()
            spoiled = failing(start, draw)
        finally:
            run("git", "apply", "-R", patch)
        if not spoiled:
            continue
        if native:
            build()
        # A program that fails without the fault too has another cause, and does not count.
        if found := spoiled - failing(start, draw):
            return fault, draw, str(min(found) - SEED + 1)
    return fault, draw, "NOT FOUND"


def failing(start: int, draw: str) -> set[int]:
    """The seeds of programs that fail."""
    command = [sys.executable, COPY / "tests" / "differential", "--seed", start, "--programs", STEP, "--reduce", 0, *draw.split()]
    said = run(*command, check=False).stdout
    seeds = {int(seed) for seed in re.findall(r"seed (\d+), after", said)}
    for busy in re.findall(r"at the programs of seeds ([\d ]+) by", said):  # the process ended
        seeds |= {int(seed) for seed in busy.split()}
    return seeds


def main():
    copy_repository()
    build()
    chosen = [p for p in sorted((HERE / "faults").glob("*.patch")) if not sys.argv[1:] or p.stem in sys.argv[1:]]
    print("| fault | drawn | programs until found |\n|---|---|---|", flush=True)
    rows = []
    for patch in chosen:
        rows.append(prove(patch))
        print("| {} | `{}` | {} |".format(*rows[-1]), flush=True)
    sys.exit(any(not count.isdigit() for _, _, count in rows))


if __name__ == "__main__":
    main()
