"""Poolings whose windows numbers spread, and memory made with strides of its own."""

import pytest
import torch
from calls import Calls

import ingot

F = torch.nn.functional


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("sizes", [3, 1, (4, 2)])
@pytest.mark.parametrize("axes", [2, 3])
def test_fractional_max_pool(axes, sizes, dtype, no_gradients):
    counts = sizes if isinstance(sizes, int) else (sizes * 2)[:axes]
    pool = {2: F.fractional_max_pool2d, 3: F.fractional_max_pool3d}[axes]
    torch.manual_seed(0)
    x, numbers = torch.randn(2, 3, *[9, 8, 7][:axes]).to(dtype), torch.rand(2, 3, axes).to(dtype)
    model = Calls(lambda x, numbers: pool(x, (2, 3, 2)[:axes], output_size=counts, return_indices=True, _random_samples=numbers))
    ours, theirs = ingot.compile(model, inputs=[x, numbers], fallback="error")(x, numbers), model(x, numbers)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("axes", [2, 3])
def test_fractional_max_pool_of_any_batch(axes, no_gradients):
    pool = {2: F.fractional_max_pool2d, 3: F.fractional_max_pool3d}[axes]
    model = Calls(lambda x, numbers: pool(x, 2, output_size=3, _random_samples=numbers))
    shapes = (3, *[7] * axes), (3, axes)
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, *s), opt_shape=(2, *s), max_shape=(8, *s), shared_dims={0: "B"}) for s in shapes], fallback="error")
    for batch in (1, 5):
        x, numbers = (torch.rand(batch, *s) for s in shapes)
        assert torch.equal(compiled(x, numbers), model(x, numbers))


def test_memory_with_strides_of_its_own(no_gradients):
    def function(x):
        return torch.empty_strided((4, 5), (1, 4)).copy_(x) + 1, x.new_empty_strided((2, 3), (1, 2)).fill_(2), torch.empty_strided(x.shape, (1, x.shape[0])).copy_(x)

    x = torch.randn(4, 5)
    for ours, theirs in zip(ingot.compile(Calls(function), inputs=[x], fallback="error")(x), function(x), strict=True):
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", ["max_pool", "adaptive_max_pool"])
def test_of_several_nan_the_last_one_counts(kind, axes, dtype, no_gradients):
    x = torch.randn(2, 3, *[7] * axes, generator=torch.Generator().manual_seed(axes)).to(dtype)
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(7)) < 0.3] = torch.nan
    pool = getattr(torch.nn.functional, f"{kind}{axes}d")
    model = Calls(lambda x: pool(x, 3, return_indices=True))
    values, indices = ingot.compile(model, inputs=[x], fallback="error")(x)
    theirs, places = model(x)
    assert torch.equal(values.nan_to_num(99), theirs.nan_to_num(99)) and torch.equal(indices, places)


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_by_an_order(right, no_gradients):
    def function(s, v):
        order = s.argsort(-1)
        return torch.searchsorted(s, v, sorter=order, right=right), torch.searchsorted(s[0], v[0], sorter=order[0], right=right, out_int32=True)

    compiled = ingot.compile(Calls(function), inputs=[ingot.Input(min_shape=(2, 1), opt_shape=(2, 6), max_shape=(2, 40)), ingot.Input(min_shape=(2, 1), opt_shape=(2, 3), max_shape=(2, 40))], fallback="error")
    for m, n in ((6, 3), (1, 1), (30, 9)):
        s, v = torch.randn(2, m), torch.randn(2, n)
        for ours, theirs in zip(compiled(s, v), function(s, v), strict=True):
            assert torch.equal(ours, theirs)


def test_searchsorted_by_an_order_in_halves(no_gradients):
    """The places of an order beyond 256, which bfloat16 would round."""
    def function(s, v):
        return torch.searchsorted(s, v, sorter=s.argsort(-1))

    s, v = torch.randn(1000).bfloat16(), torch.randn(64).bfloat16()
    assert torch.equal(ingot.compile(Calls(function), inputs=[s, v], fallback="error")(s, v), function(s, v))
