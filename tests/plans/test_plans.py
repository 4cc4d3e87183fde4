"""The plans of twenty models equal those in recorded/: every step with its operands' layouts and its body, every buffer.

After an intended change, `INGOT_UPDATE=1 pytest tests/plans` records the plans anew; read the diff.

Bodies and kernel arguments are recorded as hashes, printed CUDA code as the hash in its kernel's name.
"""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from pathlib import Path

import pytest
import torch
from recorded_models import MODELS, made

import ingot
from ingot.engine import _library

RECORDED = Path(__file__).parent / "recorded"
TARGETS = {"cpu": "cpu", "cuda": "cuda:sm_90"}


def test_there_are_twenty():
    assert len(MODELS) == 20
    assert {p.stem for p in RECORDED.glob("*.txt")} == {f"{name}.{target}" for name in MODELS for target in TARGETS}


def programs_of(name, target, folder):
    module, inputs = made(name)
    path = folder / "plan.ingot"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = ingot.compile(module, inputs=inputs, target=target, fallback="error")
    ingot.save(compiled, path)
    return subprocess.run([_library.find("ingot"), "inspect", "--programs", path], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_plan(name, target, tmp_path):
    try:
        found = programs_of(name, TARGETS[target], tmp_path)
    except ingot.errors.DeviceError as error:
        pytest.skip(str(error).splitlines()[0])
    recorded = RECORDED / f"{name}.{target}.txt"
    if os.environ.get("INGOT_UPDATE") == "1":
        recorded.write_text(found)
    assert found.splitlines() == recorded.read_text().splitlines(), "the plan is another one; where that is meant: INGOT_UPDATE=1 pytest tests/plans"


def test_a_record_has_what_matters():
    """Kernels, layouts, bodies, memory."""
    text = (RECORDED / "vit.cpu.txt").read_text()
    assert re.search(r"^  buffer \d+: \d+ bytes, steps \d+ to \d+$", text, re.M)
    assert re.search(r"^  \d+ matmul \| .*: .*f32\[[\d, ]+\]\{[\d, ]+\}.* -> .*; \d+ bytes [0-9a-f]{16}$", text, re.M)
