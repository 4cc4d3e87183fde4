"""torch.compile(dynamic=True) passes the float attributes of modules as inputs, which are read by .item(). Engines are built for their values, and other values run in torch."""

import functools
import logging

import numpy
import pytest
import torch

from ingot.backend import ingot_backend


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.eps, self.scale, self.linear = 1e-5, 0.35, torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        q = y.view(1, 1, -1, 8)
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, scale=self.scale * 2)


def test_float_attributes(caplog):
    caplog.set_level(logging.WARNING, "ingot")
    torch._dynamo.reset()
    reports, model = [], Normed().eval()

    def backend(graph, examples):
        made = ingot_backend(graph, examples)
        reports.append(made.report)
        return made

    fast = torch.compile(model, backend=backend, dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 7):
            x = torch.randn(n, 8)
            assert torch.allclose(fast(x), model(x), atol=1e-5)
        assert all(r.whole for r in reports) and not caplog.messages
        for model.eps, model.scale in ((0.5, 0.35), (0.25, 0.35), (1e-5, 0.9)):
            assert torch.allclose(fast(x), model(x), atol=1e-5)
    assert len([m for m in caplog.messages if "calls with other numbers run in torch" in m]) >= 1


class Pooled(torch.nn.Module):
    """A size of numpy in a list of sizes, and numbers of numpy in arithmetic."""

    def __init__(self):
        super().__init__()
        self.size, self.scale, self.shift = (numpy.int64(2), 3), numpy.float64(1.5), numpy.int64(4)

    def forward(self, x):
        return torch.nn.functional.avg_pool2d(x.exp(), self.size, 1) * self.scale + self.shift


def test_sizes_of_numpy(caplog):
    caplog.set_level(logging.WARNING, "ingot")
    torch._dynamo.reset()
    reports, model, x = [], Pooled().eval(), torch.randn(1, 2, 6, 7)

    def backend(graph, examples):
        made = ingot_backend(graph, examples)
        reports.append(made.report)
        return made

    fast = torch.compile(model, backend=backend)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
        assert [r.whole for r in reports] == [True] and not caplog.messages
        model.size, model.shift = (numpy.int64(4), 3), numpy.int64(-1)
        torch.testing.assert_close(fast(x), model(x))


BY_NUMBERS = {
    "tril": lambda x, n: torch.tril(x, n) + 1,
    "triu": lambda x, n: x.triu(n) * 2,
    "from": lambda x, n: x[n:] + 1,
    "up to": lambda x, n: x[:, :n] + 1,
    "two of": lambda x, n: x[n : n + 2] * 2,
    "narrow": lambda x, n: x.narrow(0, n, 2) + 1,
    "one of": lambda x, n: x[:, n] + 1,
}


@pytest.mark.parametrize("function", BY_NUMBERS.values(), ids=BY_NUMBERS)
@pytest.mark.one_in(3)
def test_places_of_either_sign(function):
    torch._dynamo.reset()
    compiled, x = torch.compile(function, backend="ingot", options={"fallback": "error"}, dynamic=True), torch.randn(6, 8)
    for n in (2, 3, -2, -3, 4, -4):
        assert torch.equal(compiled(x, n), function(x, n))


def test_usual_sizes_are_the_examples(no_gradients):
    """Kernels are chosen for the sizes of the first call, not for the smallest ones of the range."""
    torch._dynamo.reset()
    symbols = []

    @functools.wraps(ingot_backend)
    def backend(graph, examples):
        made = ingot_backend(graph, examples)
        symbols.extend(line.split() for line in made.engine.graph.splitlines() if line.startswith("symbol "))
        return made

    torch.compile(lambda x: (x * 2).sum(1), backend=backend, dynamic=True)(torch.randn(6, 40))
    assert [usual for _, _, _, usual, _ in symbols] == ["6", "40"]


def test_a_divisor_that_is_zero_at_the_smallest_size(no_gradients):
    """As in MobileViT, which divides by its number of patches where the model's own check leaves no image without one."""

    def patches(x):
        size = x.shape[0]
        count = ((size - 1) // 4 + 1) // 2
        y = x.reshape(-1, count) if count * 8 == size else x.reshape(-1, 1)
        return torch.softmax(y @ y.T, -1)

    torch._dynamo.reset()
    fast = torch.compile(patches, backend="ingot", dynamic=True)
    for size in (16, 40):
        x = torch.randn(size)
        assert torch.allclose(fast(x), patches(x), atol=1e-5)
