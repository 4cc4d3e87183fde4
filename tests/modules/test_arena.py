"""arena="call": a session holds no memory between runs."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import ingot


MEASURE = """
import gc, os, sys
import torch, ingot

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 8192), torch.nn.Tanh(), torch.nn.Linear(8192, 8)).eval().requires_grad_(False)
x = torch.randn(2048, 64)
expected = model(x)
kept = []
for way in ("torch", "numpy"):
    module = ingot.compile(model, inputs=[x], arena=sys.argv[1])
    session = module.engine.session()
    run = (lambda: module(x)) if way == "torch" else (lambda: torch.from_numpy(session.run(x.numpy())[0]))
    before = resident()
    first, second = run(), run()
    print(resident() - before)
    assert torch.equal(first, second) and torch.allclose(first, expected, atol=1e-4)
    kept.append((module, session))
"""


@pytest.fixture(scope="module")
def wide():
    """64 MB between its two layers."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 8192), torch.nn.Tanh(), torch.nn.Linear(8192, 8)).eval().requires_grad_(False), torch.randn(2048, 64)


@pytest.mark.parametrize("arena", ["session", "call"])
@pytest.mark.one_in(2)
def test_memory_between_calls(arena):
    # In a separate process, because memory that other tests freed would hide new allocations.
    done = subprocess.run([sys.executable, "-c", MEASURE, arena], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for grown in map(int, done.stdout.split()):
        assert grown > 60e6 if arena == "session" else grown < 30e6, f"{grown / 1e6:.0f} MB"


def test_a_session_may_differ_from_its_engine(wide):
    model, x = wide
    engine = ingot.compile(model, inputs=[x]).engine
    kept, given_back = engine.session(), engine.session(arena="call")
    strided = np.asfortranarray(x.numpy())  # copied on the way
    for _ in range(2):
        assert np.array_equal(kept.run(strided)[0], given_back.run(strided)[0])


def test_a_failed_run_gives_back_too(wide):
    model, x = wide
    session = ingot.compile(model, inputs=[x], arena="call").engine.session()
    with pytest.raises(ingot.InputError):
        session.run(x.numpy()[:5])
    assert session.run(x.numpy())[0].shape == (2048, 8)
