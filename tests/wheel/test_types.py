"""Editors and type checkers see ingot's types: a strict check of a user's program passes, and planted mistakes are found."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests/typing"
sys.path.insert(0, str(ROOT / "tools"))


def test_options_are_the_tables():
    import option_types

    assert option_types.FILE.read_text() == option_types.text(), "python tools/option_types.py writes it anew"


NAMES = ["right.py", "wrong.py"]


def by_mypy(folder) -> list[tuple[str, int, str]]:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "--no-site-packages", "--python-version", "3.11", "--cache-dir", folder, *NAMES]
    environment = {"MYPYPATH": f"{PROGRAMS / 'stubs'}:{ROOT / 'python'}"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROGRAMS, env=environment)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [(name, int(line), message) for name, line, message in re.findall(r"^(\w+\.py):(\d+): error: (.*)$", done.stdout, re.M)]


def by_pyright(folder) -> list[tuple[str, int, str]]:
    """Its package of PyPI fetches the program itself when it first runs."""
    pytest.importorskip("pyright", reason="pip install pyright")
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "stubPath": str(PROGRAMS / "stubs"), "extraPaths": [str(ROOT / "python")], "include": NAMES}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    for name in NAMES:
        shutil.copy(PROGRAMS / name, folder)
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", folder]
    if subprocess.run([*command[:3], "--version"], capture_output=True, timeout=300).returncode:
        pytest.skip("pyright was not fetched: no network")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    return [(Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["message"]) for d in found]


@pytest.mark.parametrize("checker", [by_mypy, by_pyright], ids=["mypy", "pyright"])
def test_planted_mistakes_are_found_and_no_others(checker, tmp_path):
    """A strict check of a program without mistakes, and of one with a mistake in each line that says so. Of torch it reads what tests/typing/stubs declares."""
    found = {name: {} for name in NAMES}
    for name, line, message in checker(tmp_path):
        found[name].setdefault(line, message)
    planted = {number for number, line in enumerate((PROGRAMS / "wrong.py").read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert len(planted) > 10 and set(found["wrong.py"]) == planted, found["wrong.py"]
    assert found["right.py"] == {}
