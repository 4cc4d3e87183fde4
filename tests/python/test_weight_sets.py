"""Sets of weights: versions and adapters of one plan, in sessions that switch between them."""

import copy
import gc
import json

import numpy as np
import pytest
import torch

import ingot
from ingot._library import lib, text_of


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
