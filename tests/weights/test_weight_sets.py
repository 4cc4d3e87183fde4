"""Sets of weights: versions and adapters of one plan, in sessions that switch between them."""

import copy
import gc
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import ingot
from ingot.engine._library import lib, text_of


class Mlp(torch.nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.first, self.last = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        return self.last(torch.relu(self.first(self.norm(x))))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Mlp().eval().requires_grad_(False)


x = np.linspace(-1, 1, 3 * 256, dtype=np.float32).reshape(3, 256)


def of(model):
    return ingot.compile(model, inputs=[torch.zeros(3, 256)]).engine


def eager(model, **values):
    made = copy.deepcopy(model)
    made.load_state_dict({n.replace("__", "."): v for n, v in values.items()}, strict=False)
    return made(torch.from_numpy(x)).numpy()


def close(given, expected):
    return np.allclose(given, expected, atol=1e-4)


def resolutions(session):
    return json.loads(text_of(lib().ingot_session_profile, session.pointer, 0))["resolutions"]


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


def test_versions_and_adapters(model):
    engine = of(model)
    session = engine.session()
    low = torch.randn(1024, 2) @ torch.randn(2, 256) * 0.1
    adapter = engine.new_weights({"first.weight": model.first.weight + low})
    version = engine.new_weights()
    version.update({n: t + 0.01 for n, t in model.state_dict().items()})
    for _ in range(2):
        assert close(session.run(x)[0], eager(model))
        assert close(session.run(x, weights=adapter)[0], eager(model, first__weight=model.first.weight + low))
        assert close(session.run(x, weights=version)[0], eager(model, **{n.replace(".", "__"): t + 0.01 for n, t in model.state_dict().items()}))
    assert resolutions(session) == 1
    assert "first.weight" in repr(adapter) and "engine" in repr(engine.new_weights())


def test_what_changes_in_the_engine_changes_there(model):
    engine = of(model)
    session = engine.session()
    own = torch.randn(256)
    adapter = engine.new_weights({"last.bias": own})
    model.first.weight.mul_(2)
    model.last.bias.add_(1)
    assert close(session.run(x)[0], eager(model)) and close(session.run(x, weights=adapter)[0], eager(model, last__bias=own))
    other = torch.randn(1024, 256)
    engine.update_weights({"first.weight": other})
    assert close(session.run(x, weights=adapter)[0], eager(model, last__bias=own, first__weight=other))
    del adapter
    gc.collect()
    assert not engine.forks and close(session.run(x)[0], eager(model, first__weight=other))


def test_what_is_equal_is_shared(model):
    big = Mlp(1024).eval().requires_grad_(False)
    engine = ingot.compile(big, inputs=[torch.zeros(1, 1024)]).engine
    value = np.ones(1024, np.float32)
    before, made = resident(), []
    for _ in range(16):
        made.append(engine.new_weights({"first.bias": np.ones(4096, np.float32), "norm.weight": value}))
    assert resident() - before < 16 * 2**20  # the two matrices are 32 MiB
    small = np.zeros((1, 1024), np.float32)
    session = engine.session()
    assert all(np.array_equal(session.run(small, weights=w)[0], session.run(small, weights=made[0])[0]) for w in made)


def test_wrong_ones(model):
    engine, session = of(model), of(model).session()
    weights = engine.new_weights()
    with pytest.raises(ingot.InputError, match="a session runs with weights of its own engine"):
        session.run(x, weights=weights)
    with pytest.raises(ingot.InputError, match="the engine has no weight 'lost.weight'"):
        engine.new_weights({"lost.weight": torch.zeros(1)})
    assert engine.new_weights({"lost.weight": torch.zeros(1)}, strict=False)
    with pytest.raises(ingot.InputError, match="last.bias"):
        weights.update({"last.bias": torch.zeros(3)})
    assert close(engine.session().run(x, weights=weights)[0], eager(model))


SIDE_BY_SIDE = """
import random, sys, threading, time
import ingot, numpy as np
engine = ingot.load_engine(sys.argv[1])
end, wrong = time.time() + 4, []
full = lambda v: {"weight": np.full((8, 8), v, np.float32), "bias": np.full(8, v, np.float32)}
engine.update_weights(full(1))

def run(number):
    session, x = engine.session(), np.ones((2, 8), np.float32)
    while time.time() < end:
        own = engine.new_weights({"bias": full(number)["bias"]} if number % 2 else ())
        for weights in (own, None):
            y = session.run(x, weights=weights)[0]
            v = (y[0, 0] - number) / 8 if weights and number % 2 else y[0, 0] / 9
            assert (y == y[0, 0]).all() and v == int(v) and 1 <= v <= 50, y

def change(number):
    while time.time() < end:
        engine.update_weights(full(random.randint(1, 50)))
        engine.configure(memory_bytes=0)

def noted(work, number):
    try:
        work(number)
    except BaseException as e:
        wrong.append(repr(e))

threads = [threading.Thread(target=noted, args=(work, number)) for number, work in enumerate((run, run, run, run, change, change))]
[t.start() for t in threads]
[t.join() for t in threads]
print(wrong or "done")
"""


def test_sets_come_and_go_while_other_threads_change_the_weights(tmp_path):
    """Each run sees one commit's weights; no set is used that another thread drops, and no value that was replaced."""
    model = torch.nn.Linear(8, 8)
    ingot.save(ingot.compile(model.eval().requires_grad_(False), inputs=[torch.ones(2, 8)]), tmp_path / "m.ingot")
    done = subprocess.run([sys.executable, "-c", SIDE_BY_SIDE, tmp_path / "m.ingot"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr
