"""Editors and type checkers see ingot's types: a strict check of a user's program passes, and planted mistakes are found."""

import re
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


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """{program: {line: message}} by mypy --strict. Of torch it reads what tests/typing/stubs declares."""
    cache = tmp_path_factory.mktemp("mypy")
    names = ["right.py", "wrong.py"]
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "--no-site-packages", "--python-version", "3.11", "--cache-dir", cache, *names]
    environment = {"MYPYPATH": f"{PROGRAMS / 'stubs'}:{ROOT / 'python'}"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROGRAMS, env=environment)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {name: {} for name in names}
    for name, line, message in re.findall(r"^(\w+\.py):(\d+): error: (.*)$", done.stdout, re.M):
        found[name][int(line)] = message
    return found


def test_a_program_without_mistakes(errors):
    assert errors["right.py"] == {}


def test_planted_mistakes_are_found(errors):
    planted = {number for number, line in enumerate((PROGRAMS / "wrong.py").read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert len(planted) > 10 and set(errors["wrong.py"]) == planted, errors["wrong.py"]
