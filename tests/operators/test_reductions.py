"""Reductions over rows larger than the caches, which are read block by block, once for each reduction in a chain; and reductions of the results of reductions, in one body or several."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot

LENGTH = 70000


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Reduced(torch.nn.Module):
    def __init__(self, reduce):
        super().__init__()
        self.reduce = reduce

    def forward(self, x):
        return self.reduce(x)


EXACT = {
    "amax": lambda x: x.amax(-1),
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(-1),
    "any": lambda x: (x > 4).any(-1),
    "all": lambda x: (x > -4).all(-1),
    "count": lambda x: (x > 0).sum(-1),
    "all of it": lambda x: x.amin(),
    "by rows and as they are": lambda x: (x.amax(-1), x * 2),
    "kept": lambda x: x.amax(-1, keepdim=True).expand_as(x).contiguous(),
}
SUMS = {
    "sum": lambda x: (x.sum(-1),),
    "sum of all": lambda x: (x.sum(),),
    "mean and its distance": lambda x: (x.mean(-1), (x - x.mean(-1, keepdim=True)).abs().sum(-1)),
}
CHAINS = {
    "variance of a softmax": lambda x: x.softmax(-1).var(-1),
    "largest of a scaled softmax": lambda x: (x.softmax(-1).var(-1, keepdim=True) * x).softmax(-1).amax(-1),
    "variance of a log_softmax of a softmax": lambda x: x.softmax(-1).log_softmax(-1).var(-1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("name", EXACT)
def test_exact_reductions(name, dtype):
    model, x = Reduced(EXACT[name]), torch.randn(3, LENGTH).to(dtype)
    got, eager = ingot.compile(model, inputs=[x], fallback="error")(x), model(x)
    for a, b in zip(*((t,) if isinstance(t, torch.Tensor) else t for t in (got, eager))):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", SUMS)
def test_sums(name):
    model, x = Reduced(SUMS[name]), torch.randn(3, LENGTH) + 1
    for got, eager, exact in zip(ingot.compile(model, inputs=[x], fallback="error")(x), model(x), model(x.double())):
        assert_accurate(got, eager, exact, depth=LENGTH)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_chains(name, dynamic):
    model, x = Reduced(CHAINS[name]), torch.randn(5, 11)
    given = ingot.Input(min_shape=(2, 11), opt_shape=(5, 11), max_shape=(64, 11)) if dynamic else x
    assert_accurate(ingot.compile(model, inputs=[given], fallback="error")(x), model(x), model(x.double()), depth=11)


@pytest.mark.parametrize("side", [7, 8, 33])
@pytest.mark.parametrize("channels", [4, 17, 64])
def test_sums_over_images(channels, side):
    """Sums over places of channels-last images, and values scaled by them."""

    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Conv2d(5, channels, 3, padding=1)
            self.down, self.up = torch.nn.Conv2d(channels, 6, 1), torch.nn.Conv2d(6, channels, 1)

        def forward(self, x):
            y = self.first(x)
            gate = torch.sigmoid(self.up(torch.relu(self.down(torch.nn.functional.adaptive_avg_pool2d(y, 1)))))
            return y * gate, y.amax((2, 3)), (y * y).mean((2, 3))

    torch.manual_seed(0)
    model = Gate().eval().requires_grad_(False)
    x = torch.randn(2, 5, side, side)
    compiled = ingot.compile(model, inputs=[x])
    for found, wanted in zip(compiled(x), model(x)):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


# One row or two, long enough that several threads take parts of it.
LONG = {
    "any": lambda x: (x > 1e6).any(),
    "all": lambda x: (x < 1e6).all(),
    "amax": lambda x: x.amax(),
    "amin": lambda x: x.amin(),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(),
    "sum of integers": lambda x: (x * 1e5).to(torch.int64).sum() + (x > 0).sum(),
    "product of integers": lambda x: (x * 1e5).to(torch.int64).bitwise_or(1).prod(),
    "extremes of integers": lambda x: (x * 1e5).to(torch.int64).amax() - (x * 1e5).to(torch.int64).amin(),
    "position of integers": lambda x: (x * 3).to(torch.int64).argmin(),
    "rows": lambda x: (x.view(2, -1).amax(-1), x.view(2, -1).argmax(-1)),
    "kept": lambda x: x - x.amax(),
}


@pytest.mark.parametrize("last", [None, float("nan"), float("inf"), 2e6], ids=str)
@pytest.mark.parametrize("name", LONG)
@pytest.mark.one_in(4)
def test_parts_of_a_row(name, last):
    x = torch.randn(100002)
    if last is not None:
        x[-3] = x[99990] = last
    if "integers" in name:
        x = x.nan_to_num(posinf=7.0)
    model = Reduced(LONG[name])
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            got, eager = ingot.compile(model, inputs=[x], fallback="error")(x), model(x)
            for a, b in zip(*((t if isinstance(t, tuple) else (t,)) for t in (got, eager)), strict=True):
                assert a.dtype == b.dtype and torch.equal(a.nan_to_num(nan=5e9) if a.is_floating_point() else a, b.nan_to_num(nan=5e9) if b.is_floating_point() else b)
    finally:
        torch.set_num_threads(before)


def test_sums_of_parts_are_the_same_for_any_number_of_threads():
    x = torch.randn(2, 150000)
    model = Reduced(lambda x: (x.sum(), (x * x).sum(-1).sqrt(), x.prod(), (x[0] * x[1]).sum()))
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(ingot.compile(model, inputs=[x], fallback="error")(x))
    finally:
        torch.set_num_threads(before)
    for got, eager, exact in zip(results[0], model(x), model(x.double()), strict=True):
        if exact.abs().max() > 0:
            assert_accurate(got, eager, exact, depth=x.numel())
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))
