"""torch.compile of models whose layers run the same graph: Dynamo breaks the graph inside a layer, and passes each layer's weights to what it compiled for the first."""

import copy
import gc
import threading
import weakref

import pytest
import torch

import ingot
from ingot import backend
from ingot.engine import _engine


class Layer(torch.nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8) if norm else torch.nn.Identity()

    def forward(self, x):
        y = self.norm(torch.tanh(self.linear(x)))
        torch._dynamo.graph_break()
        return x + y


class Model(torch.nn.Module):
    def __init__(self, layers=3, norm=False):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(norm) for _ in range(layers)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture
def made(monkeypatch):
    """What torch.compile has made."""
    torch._dynamo.reset()
    made, create = [], backend._Compiled.__init__

    def noted(self, *given):
        made.append(weakref.ref(self))
        create(self, *given)

    monkeypatch.setattr(backend._Compiled, "__init__", noted)
    yield made
    torch._dynamo.reset()


def sets(made):
    return [len(one()._sets) for one in made if one() is not None and one()._weights]


def check(compiled, model, x):
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


def test_each_layer_is_bound_once(made, monkeypatch):
    model, x = Model().eval(), torch.randn(4, 8)
    compiled = torch.compile(model, backend="ingot")
    check(compiled, model, x)
    assert sets(made) == [3]  # one graph for three layers
    monkeypatch.setattr(_engine.Engine, "replace", lambda *given, **more: pytest.fail("a layer was bound again"))
    for _ in range(3):
        check(compiled, model, torch.randn(4, 8))


def test_changes_reach_the_layer_that_changed(made):
    model, x = Model().eval(), torch.randn(4, 8)
    compiled = torch.compile(model, backend="ingot")
    check(compiled, model, x)
    with torch.no_grad():
        model.layers[1].linear.weight.mul_(2)
    check(compiled, model, x)
    model.layers[2].linear.weight.data = torch.randn(8, 8)
    check(compiled, model, x)
    model.layers[0].linear.bias.data.copy_(torch.ones(8))
    check(compiled, model, x)
    assert sets(made) == [3]


def test_sets_go_with_their_parameters(made):
    model, x = Model(2).eval(), torch.randn(4, 8)
    compiled = torch.compile(model, backend="ingot")
    for _ in range(5):
        model.layers[1].linear.weight = torch.nn.Parameter(torch.randn(8, 8))
        check(compiled, model, x)
    gc.collect()
    assert sets(made) == [2]  # those of the four parameters that were replaced are gone


@pytest.mark.parametrize("train", [False, True])
def test_buffers_of_layers(made, train):
    model = Model(3, norm=True).train(train)
    for layer in model.layers:
        layer.norm.running_mean.normal_()
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend="ingot")
    for _ in range(4):
        check(compiled, other, torch.randn(4, 8))
    for mine, theirs in zip(model.buffers(), other.buffers()):
        torch.testing.assert_close(mine, theirs)
    with torch.no_grad():
        for m in (model, other):
            m.layers[1].norm.weight.fill_(3)
            m.layers[2].norm.running_var.fill_(2)
    for _ in range(3):
        check(compiled, other, torch.randn(4, 8))


def test_threads_run_different_layers(made):
    """Each thread runs one layer over and over, with one compiled graph: none may get another's weights."""
    model, x = Model(4).eval(), torch.randn(64, 8)
    compiled = torch.compile(model, backend="ingot")
    check(compiled, model, x)
    run = next(one() for one in made if one()._weights)
    places, wrong = [], []
    with torch.no_grad():
        for layer in model.layers:
            values = list(run._sets)[len(places)]
            tensors = [next(t for t in layer.parameters() if id(t) == i) for i in values]
            args = [None] * (len(tensors) + 1)
            for i, t in zip(run._weights, tensors):
                args[i] = t
            args = [x if t is None else t for t in args]
            places.append((args, [r.clone() for r in run(*args)]))

    def work(args, expected):
        with torch.no_grad():
            for _ in range(300):
                if not all(map(torch.equal, run(*args), expected)):
                    wrong.append(args)

    threads = [threading.Thread(target=work, args=place) for place in places for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_other_shapes_of_layers(made):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Layer(), Layer()])
            self.layers[1].linear = torch.nn.Linear(8, 8, bias=False)

        forward = Model.forward

    model = Two().eval()
    compiled = torch.compile(model, backend="ingot")
    for _ in range(3):
        check(compiled, model, torch.randn(4, 8))


def test_the_report_and_engine_of_one_module_stay(made):
    """A module without a break keeps its one set, and a compiled module has nothing to do with it."""
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval(), torch.randn(4, 8)
    check(torch.compile(model, backend="ingot"), model, x)
    assert sets(made) == [1]
    check(ingot.compile(model, inputs=[x]), model, x)
