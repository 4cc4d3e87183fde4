"""arena="call": a session holds no memory between runs."""

import gc
import os

import numpy as np
import pytest
import torch

import ingot


def resident():
    gc.collect()  # what earlier tests left would otherwise go in between
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def wide():
    """64 MB between its two layers."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 8192), torch.nn.Tanh(), torch.nn.Linear(8192, 8)).eval().requires_grad_(False), torch.randn(2048, 64)


@pytest.mark.parametrize("arena", ["session", "call"])
@pytest.mark.parametrize("way", ["torch", "numpy"])
def test_memory_between_calls(wide, arena, way):
    model, x = wide
    module = ingot.compile(model, inputs=[x], arena=arena)
    if way == "torch":
        run = lambda: module(x)  # noqa: E731
    else:
        session = module.engine.session()
        run = lambda: torch.from_numpy(session.run(x.numpy())[0])  # noqa: E731
    before = resident()
    first, second = run(), run()
    grown = resident() - before
    assert torch.equal(first, second) and torch.allclose(first, model(x), atol=1e-4)
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
