"""`ingot run` and `ingot bench` with states: read, written, with sizes of their own; and runs that would pass a cache's end."""

import subprocess

import numpy as np
import pytest
import torch

import ingot
from ingot.engine import _library


class Counting(torch.nn.Module):
    """Writes a row of a cache in each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 8))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        self.rows.index_copy_(0, self.position, x)
        self.position += 1
        return self.rows.sum(0)


class OpenCache(torch.nn.Module):
    """A cache of any length, which the caller gives."""

    def forward(self, x, cache, at):
        cache.index_copy_(0, at, x)
        return cache.sum(0)


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    with torch.no_grad():
        ingot.save(ingot.compile(Counting().eval(), inputs=[torch.ones(1, 8)], target="cpu"), folder / "counting.ingot")
        length = ingot.Input(min_shape=(1, 8), opt_shape=(6, 8), max_shape=(64, 8), shared_dims={0: "length"})
        ingot.save(ingot.compile(OpenCache().eval(), inputs=[torch.ones(1, 8), length, torch.tensor([0])], target="cpu"), folder / "open.ingot")
    return folder


def command(*arguments):
    return subprocess.run([_library.find("ingot"), *map(str, arguments)], capture_output=True, text=True)


def ran(*arguments):
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    return done


def test_a_run_goes_on_where_another_ended(plans, tmp_path):
    rows = torch.randn(3, 1, 8)
    for i, row in enumerate(rows):
        np.save(tmp_path / f"{i}.npy", row.numpy())
        begin = ["--state", tmp_path / "state"] if i else []
        ran("run", plans / "counting.ingot", "-i", f"x={tmp_path}/{i}.npy", *begin, "--save-state", tmp_path / "state", "-o", tmp_path / "out")
    assert np.load(tmp_path / "out/position.npy") == 3
    np.testing.assert_array_equal(np.load(tmp_path / "out/rows.npy")[:3], rows[:, 0].numpy())
    in_python = ingot.load_engine(plans / "counting.ingot").new_state().load(tmp_path / "state")
    assert in_python["position"] == 3


def test_a_cache_of_a_length_of_its_own(plans, tmp_path):
    np.save(tmp_path / "x.npy", np.full((1, 8), 2, np.float32))
    for at in (0, 9):
        np.save(tmp_path / "at.npy", np.array([at]))
        begin = ["--state", tmp_path / "state"] if at else []
        ran("run", plans / "open.ingot", "-i", f"x={tmp_path}/x.npy", "-i", f"at={tmp_path}/at.npy", *begin, "--state-size", "length=12", "--save-state", tmp_path / "state", "-o", tmp_path / "out")
    cache = np.load(tmp_path / "out/cache.npy")
    assert cache.shape == (12, 8) and cache.sum() == 2 * 16 and (cache[[0, 9]] == 2).all()


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("counting.ingot", "--state", "missing"), "missing"),
        (("counting.ingot", "--state", "of_open"), "of_open"),
        (("open.ingot", "--state-size", "length"), '--state-size takes NAME=256, not "length"'),
        (("open.ingot", "--state-size", "length=many"), "--state-size takes NAME=256"),
        (("open.ingot", "--state-size", "width=3"), "width"),
        (("open.ingot", "--state-size", "length=65"), "65"),
    ],
)
def test_what_is_refused(plans, tmp_path, arguments, said):
    if not (plans / "of_open").exists():
        ran("run", plans / "open.ingot", "--save-state", plans / "of_open")
    plan, option, value = arguments
    done = command("run", plans / plan, option, plans / value if option == "--state" else value, "--save-state", tmp_path / "after")
    assert done.returncode != 0 and said in done.stderr and done.stderr.count("\n") <= 3, done.stderr
    assert not (tmp_path / "after").exists()


@pytest.mark.parametrize("steps", [[], ["--steps"]], ids=["times", "steps"])
def test_a_benchmark_does_not_pass_the_end_of_a_cache(plans, tmp_path, steps):
    np.save(tmp_path / "x.npy", np.ones((1, 8), np.float32))
    ran("run", plans / "counting.ingot", "-i", f"x={tmp_path}/x.npy", "--repeat", "3", "--save-state", tmp_path / "state")
    for begin in ([], ["--state", tmp_path / "state"]):
        ran("bench", plans / "counting.ingot", *begin, "--seconds", "0.01", "--warmup", "5", *steps)
    assert command("run", plans / "counting.ingot", "--state", tmp_path / "state", "--repeat", "2").returncode != 0  # the cache has four rows


class Doubling(torch.nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x + 1


@pytest.mark.parametrize("rows", [0, 3])
def test_an_input_that_is_written(tmp_path, rows):
    """Without a state it is the caller's, of any size."""
    with torch.no_grad():
        any_rows = ingot.Input(min_shape=(0, 2), opt_shape=(3, 2), max_shape=(8, 2))
        ingot.save(ingot.compile(Doubling().eval(), inputs=[any_rows], target="cpu"), tmp_path / "m.ingot")
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    np.save(tmp_path / "given.npy", x)
    ran("run", tmp_path / "m.ingot", "-i", f"x={tmp_path}/given.npy", "-o", tmp_path / "out")
    np.testing.assert_array_equal(np.load(tmp_path / "out/x.npy"), 2 * x)
