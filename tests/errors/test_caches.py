"""Caches hold only what this user can have written. Another folder or file is not used, which is logged once, and the build continues without it."""

import os

import fresh
import pytest

BUILD = """
import torch, ingot
for width in (3, 5):
    ingot.compile(torch.nn.Sequential(torch.nn.Linear(width, 4), torch.nn.GELU()).eval(), inputs=[ingot.Input((2, width))], target="cuda:sm_90", **{options})
"""


def build(cache, **options):
    environment = {**os.environ, "INGOT_CACHE_DIR": str(cache)}
    done = fresh.run(BUILD.replace("{options}", repr(options)), env=environment)
    if "NVRTC" in done.stderr and "was not found" in done.stderr:
        pytest.skip("NVRTC is not installed")
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("ingot: ")]


def test_a_code_cache_of_ones_own_is_used(tmp_path):
    assert build(tmp_path / "cache") == []
    folder = tmp_path / "cache/code"
    assert folder.stat().st_mode & 0o777 == 0o700
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert before
    assert build(tmp_path / "cache") == []
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before


def test_a_code_cache_that_others_can_write_is_not_used(tmp_path):
    folder = tmp_path / "cache/code"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert build(tmp_path / "cache") == [
        f"ingot: compiled code is not kept: other users can write to {folder}, so it is not used; `chmod go-w` it if you know what is in it, or delete it"
    ]
    assert list(folder.iterdir()) == []


def test_a_timing_cache_that_others_can_write_is_not_used(tmp_path):
    path = tmp_path / "timings"
    path.write_text("ingot timings 1\nmachine\tproblem\tchoice\n")
    path.chmod(0o666)
    assert build(tmp_path / "cache", timing_cache=str(path)) == [
        f"ingot: timing_cache: other users can write to {path}, so it is not used; `chmod go-w` it if you know what is in it, or delete it"
    ]
    assert path.read_text() == "ingot timings 1\nmachine\tproblem\tchoice\n"
