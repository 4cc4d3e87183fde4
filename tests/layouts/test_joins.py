"""Values that are parts of concatenated tensors: each concatenation has them, whatever else reads them."""

import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def of_two(x, y):
    m = x.amax(-1, keepdim=True)
    return torch.cat([m, y]), torch.cat([y, m])


def of_another(x, y):
    m = x.amax(-1, keepdim=True)
    return torch.cat([m, torch.cat([m, y])])


def beside_a_reshape(x, y):
    m = x.sort(-1)[0]
    return torch.cat([m, y], -1), m.reshape(9, 4, 1).tril(-1)


def of_two_in_other_shapes(x, y):
    m = x.sort(-1)[0]
    n = m.reshape(9, 4)
    return torch.cat([m, y], -1), torch.cat([n, n * 2, x.t()], -1)


@pytest.mark.parametrize("function", [of_two, of_another, beside_a_reshape, of_two_in_other_shapes], ids=lambda f: f.__name__)
def test_parts_of_joins(function):
    model, x, y = Function(function), torch.randn(4, 9), torch.randn(4, 1)
    got, eager = ingot.compile(model, inputs=[x, y], fallback="error")(x, y), model(x, y)
    for a, b in zip(*((t,) if isinstance(t, torch.Tensor) else t for t in (got, eager))):
        assert torch.equal(a, b)


def test_a_part_that_is_written_from_rows_of_another_shape():
    def normalised(x, y):
        x = x.flip(-1)
        return torch.cat([x[:, :1], x, x[:, -1:]], 1), torch.log_softmax(x.reshape(3, 2, 3, 2, 2), 0) * y

    model, x, y = Function(normalised), torch.randn(8, 3, 1, 3), torch.randn(1)
    for a, b in zip(ingot.compile(model, inputs=[x, y], fallback="error")(x, y), model(x, y)):
        torch.testing.assert_close(a, b)


def test_parts_whose_axes_follow_one_index():
    def smaller(x, y):
        return torch.minimum(torch.cat([x.diagonal(), x.diagonal()]), y)

    x, y = torch.randn(15, 1), torch.randn(1)
    assert torch.equal(ingot.compile(Function(smaller), inputs=[x, y], fallback="error")(x, y), smaller(x, y))


def test_many_axes_of_size_1():
    def repeated(x, y):
        return x.repeat(1, 2, 2, 2, 1, 1, 1), y.flip(-1) * 2

    x, y = torch.randn(1, 2, 16, 1, 2, 2, 7), torch.randn((1,) * 13 + (5,))
    for got, eager in zip(ingot.compile(Function(repeated), inputs=[x, y], fallback="error")(x, y), repeated(x, y)):
        assert torch.equal(got, eager)


class Dense(torch.nn.Module):
    """Each layer reads the results of all layers before it."""

    def __init__(self, growth=4, layers=4):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Conv2d(8 + i * growth, growth, 3, padding=1)) for i in range(layers))
        self.last = torch.nn.Conv2d(8 + layers * growth, 8, 1)

    def forward(self, x):
        features = [x * 2]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return self.last(torch.cat(features, 1)).relu()


class Split(torch.nn.Module):
    """Halves of a convolution, of which the second goes on, joined with all that is made of it."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = torch.nn.Conv2d(8, 8, 1), torch.nn.Conv2d(16, 8, 1)
        self.steps = torch.nn.ModuleList(torch.nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))

    def forward(self, x):
        parts = list(self.enter(x).chunk(2, 1))
        for step in self.steps:
            parts.append(parts[-1] + step(parts[-1]).relu())
        return self.leave(torch.cat(parts, 1))


class Skips(torch.nn.Module):
    """Values from the way down are concatenated on the way up, with two and with eight other channels."""

    def __init__(self, beside=8):
        super().__init__()
        self.down, self.low, self.up = torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.Conv2d(8, beside, 3, padding=1), torch.nn.Conv2d(8 + beside, 8, 3, padding=1)

    def forward(self, x):
        skip = self.down(x).relu()
        low = self.low(torch.nn.functional.max_pool2d(skip, 2))
        return self.up(torch.cat([torch.nn.functional.interpolate(low, scale_factor=2), skip], 1))


@pytest.mark.parametrize("model", [Dense(), Dense(growth=3), Split(), Skips(), Skips(2)], ids=["dense", "dense, odd", "split", "skips", "skips, odd"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.one_in(4)
def test_features_that_are_joined_again(model, dtype):
    model = copy.deepcopy(model).to(dtype).eval()
    exact = copy.deepcopy(model).double()
    x = torch.randn(2, 8, 12, 12).to(dtype)
    sizes = {"min_shape": (1, 8, 4, 4), "opt_shape": (2, 8, 12, 12), "max_shape": (4, 8, 32, 32), "dtype": dtype}
    for inputs in ([x], [ingot.Input(**sizes)]):
        assert_accurate(ingot.compile(model, inputs=inputs)(x), model(x), exact(x.double()), depth=200)


@pytest.mark.parametrize("model", [Dense(growth=8), Split()], ids=["dense", "split"])
def test_joined_features_are_not_copied_on_a_gpu(model):
    x = torch.randn(2, 8, 12, 12).half().to(memory_format=torch.channels_last)
    try:
        compiled = ingot.compile(torch.export.export(copy.deepcopy(model).half(), (x,)), target="cuda:sm_90")
    except ingot.UnsupportedError as problem:
        pytest.skip(problem.message)  # no NVRTC
    labels = [step["label"] for step in compiled.engine.inspect()["functions"][0]["programs"][0]["steps"]]
    assert "copy" not in labels, labels
