"""The lints for what is hard to read: long classes with much shared state, long conditions."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool", ["check_classes", "check_conditions"])
def test_lint(tool):
    done = subprocess.run([sys.executable, ROOT / f"tools/{tool}.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
