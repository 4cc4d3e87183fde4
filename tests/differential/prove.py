"""`python tests/differential/prove.py [NAME...]`: puts the faults of faults/*.patch back, one at a time, into a copy of the repository, builds it
where the patch changes C++, and counts the programs until the fault is found. Prints the table of docs/testing.md.

The first lines of a patch say what the fault is and what is drawn:

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
MOST = 2000
SEED = 1_000_000


def run(*command, cwd=None, check=True):
    done = subprocess.run([str(c) for c in command], cwd=cwd or COPY, capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def copy_repository():
    """A worktree of what is committed, with a build of its own."""
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
    run("git", "apply", patch)
    try:
        if re.search(r"^\+\+\+ b/(src|include)/", text, re.M):
            build()
        command = [sys.executable, COPY / "tests" / "differential", "--seed", SEED, "--programs", MOST, "--chunk", 20, "--stop", "--reduce", 0, *draw.split()]
        done = run(*command, check=False)
    finally:
        run("git", "apply", "-R", patch)
    found = re.findall(r"after (\d+) programs: (.*)", done.stdout)
    if not found and "FAILED" not in done.stdout:
        return fault, draw, "NOT FOUND" if done.returncode == 0 else done.stderr[-300:]
    return fault, draw, min(found, key=lambda f: int(f[0]), default=("20", "the process ended"))[0]


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
