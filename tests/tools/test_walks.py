"""Names in documents exist: functions of docs/walks.md, files of docs/extending.md and of the rooms' READMEs, context lines of docs/extending.md's examples."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = sorted(p.relative_to(ROOT) for p in (ROOT / "src").rglob("README.md"))
SUFFIX = r"(?:h|hpp|cpp|inc|def|cuh|py|fbs|md|test)"


def test_functions_of_the_walks():
    text = (ROOT / "docs/walks.md").read_text()
    hops = re.findall(rf"`([\w./]+\.{SUFFIX}):(\w+)`", text)
    assert len(hops) > 50
    for file, function in hops:
        path = ROOT / file
        assert path.is_file(), f"docs/walks.md names {file}"
        assert re.search(rf"\b{function}\(", path.read_text()), f"docs/walks.md names {function} of {file}"


def test_rooms_have_a_readme():
    rooms = {"base", "ir", "ops", "kernels", "backend", "backend/cpu", "backend/cuda", "backend/cuda/kernels/gemm", "backend/reference", "capture", "partition", "lower", "compile", "plan", "runtime", "verify", "api", "torch", "cli"}
    assert {str(p.parent.relative_to("src")) for p in READMES} == rooms
    assert {p.name for p in (ROOT / "src").iterdir() if p.is_dir()} <= rooms
    for path in READMES:
        assert 10 <= len((ROOT / path).read_text().splitlines()) <= 40, path


@pytest.mark.parametrize("page", ["docs/walks.md", "docs/extending.md", "ARCHITECTURE.md", *map(str, READMES)])
def test_files_that_are_named(page):
    """A path from the root, from src/ or include/ingot/, or the end of one: of a room's file in its README, of any file in ARCHITECTURE.md."""
    folders = {"ARCHITECTURE.md": [ROOT / "src", ROOT / "python"], "docs/walks.md": [], "docs/extending.md": []}.get(page, [(ROOT / page).parent])
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.S)
    for name in sorted(set(re.findall(rf"(?<![\w<>*{{}}/.-])([\w./-]*\w\.{SUFFIX})(?![\w(])", text))):
        last = name.rsplit("/", 1)[-1]
        if last.startswith(("x_", "x.", "PASS.")) or name in ("kernels.def", "run/kernels.def"):  # of any kernel, pass or backend
            continue
        if not any((ROOT / base / name).is_file() for base in (".", "src", "include/ingot")):
            assert any(p.as_posix().endswith("/" + name) for folder in folders for p in folder.rglob(last)), f"{page} names {name}"


def test_lines_of_the_examples():
    """Lines that a diff of docs/extending.md keeps or takes away stand in the file."""
    for diff in re.findall(r"```diff\n(.*?)```", (ROOT / "docs/extending.md").read_text(), re.S):
        lines = None
        for line in diff.splitlines():
            if line.startswith("--- a/"):
                lines = (ROOT / line.removeprefix("--- a/")).read_text().splitlines()
            elif line[:1] in (" ", "-"):
                assert line[1:] in lines, f"docs/extending.md has the line {line!r}"


def test_commits_that_are_named():
    """Where the history is at hand: each commit of docs/extending.md touched what its row says first."""
    rows = re.findall(r"^\| [^|]* \| ([0-9a-f]{7}) [^|]*\| (.*) \|$", (ROOT / "docs/extending.md").read_text(), re.M)
    assert len(rows) == 8
    for commit, said in rows:
        shown = subprocess.run(["git", "show", "--name-only", "--format=", commit], cwd=ROOT, capture_output=True, text=True)
        if shown.returncode != 0:
            pytest.skip("the repository has no history here")
        files = shown.stdout.split()
        if count := re.match(r"(\d+):", said):
            assert len(files) == int(count[1]), commit
        for name in re.findall(r"`([\w/.]*/[\w/.]*)`", said):
            assert any(name in f for f in files), f"{commit} touches no {name}"
