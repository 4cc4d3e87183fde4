"""The wheel, built once for each file of tests, and how they run commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("INGOT_BUILD", "build/release")


def run(*command, cwd, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("INGOT", "PYTHON"))}
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, env={**environment, **more})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, ROOT / "tools/make_wheel.py", "--build", BUILD, "--out", out, cwd=out)
    return next(out.iterdir())
