"""Shifted-window attention: an image is rolled, cut into windows, masked, and put together again."""

import copy
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Windows(torch.nn.Module):
    """One block of a Swin transformer on [N, H, W, C]; sizes that are not multiples of the window are padded."""

    def __init__(self, channels=16, heads=2, window=4, shift=2, fused=False):
        super().__init__()
        self.norm, self.qkv, self.out = torch.nn.LayerNorm(channels), torch.nn.Linear(channels, 3 * channels), torch.nn.Linear(channels, channels)
        self.heads, self.window, self.shift, self.fused = heads, window, shift, fused
        self.bias = torch.nn.Parameter(torch.randn(1, heads, window**2, window**2))

    def mask(self, x, h, w):
        regions = x.new_zeros(h, w)
        count = 0
        for rows in (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None)):
            for columns in (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None)):
                regions[rows, columns] = count
                count += 1
        size = self.window
        regions = regions.view(h // size, size, w // size, size).permute(0, 2, 1, 3).reshape(-1, size * size)
        apart = regions.unsqueeze(1) - regions.unsqueeze(2)
        return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)

    def forward(self, x):
        n, height, width, c = x.shape
        size, heads = self.window, self.heads
        y = functional.pad(self.norm(x), (0, 0, 0, (size - width % size) % size, 0, (size - height % size) % size))
        h, w = y.shape[1], y.shape[2]
        y = torch.roll(y, (-self.shift, -self.shift), (1, 2)) if self.shift else y
        y = y.view(n, h // size, size, w // size, size, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)
        q, k, v = self.qkv(y).reshape(y.shape[0], size * size, 3, heads, c // heads).permute(2, 0, 3, 1, 4).unbind(0)
        bias, count = self.bias, (h // size) * (w // size)
        if self.fused:
            bias = bias + self.mask(x, h, w)[:, None] if self.shift else bias.expand(count, -1, -1, -1)
            bias = bias.expand(n, count, heads, -1, -1).reshape(-1, heads, size * size, size * size)
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            scores = (q * (c // heads) ** -0.5) @ k.transpose(-2, -1) + bias
            if self.shift:
                scores = scores.view(n, count, heads, size * size, size * size) + self.mask(x, h, w)[None, :, None]
                scores = scores.view(-1, heads, size * size, size * size)
            y = scores.softmax(-1) @ v
        y = self.out(y.transpose(1, 2).reshape(-1, size * size, c))
        y = y.view(n, h // size, w // size, size, size, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        y = torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y
        return x + y[:, :height, :width]


@pytest.mark.parametrize(
    "shift, side, fused, dtype",
    [(0, 8, False, torch.float32), (2, 8, False, torch.float32), (2, 10, True, torch.float32), (0, 10, True, torch.float16), (2, 8, False, torch.float16)],
    ids=str,
)
@pytest.mark.one_in(3)
def test_windows(shift, side, fused, dtype):
    model = Windows(shift=shift, fused=fused).to(dtype).eval()
    exact = copy.deepcopy(model).double()
    for sizes in ("static", "batch"):
        for batch in (1, 3):
            x = torch.randn(batch, side, side, 16).to(dtype)
            shapes = {"min_shape": (1, side, side, 16), "opt_shape": (2, side, side, 16), "max_shape": (8, side, side, 16)}
            inputs = [x] if sizes == "static" else [ingot.Input(**shapes, dtype=dtype)]
            if sizes == "static" or batch == 1:
                compiled = ingot.compile(model, inputs=inputs, fallback="error")
            assert_accurate(compiled(x), model(x), exact(x.double()), depth=64)


def test_any_sizes():
    class Unmasked(Windows):  # torch takes long to export the mask of open sizes
        def mask(self, x, h, w):
            return x.new_zeros(h * w // self.window**2, self.window**2, self.window**2)

    model = Unmasked().eval()
    exact = copy.deepcopy(model).double()
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 8, 8, 16), opt_shape=(2, 12, 12, 16), max_shape=(4, 24, 24, 16))])
    for shape in ((1, 12, 12, 16), (2, 8, 16, 16), (3, 16, 12, 16)):
        x = torch.randn(shape)
        assert_accurate(compiled(x), model(x), exact(x.double()), depth=64)


@pytest.mark.parametrize("shift", [0, 2])
@pytest.mark.parametrize("fused", [False, True], ids=["written out", "fused"])
def test_a_block_on_a_gpu(shift, fused):
    """Attention is one step that reads bias and mask in place; rolling and cutting is one copy, putting together again one with the residual."""
    model, x = Windows(channels=32, shift=shift, fused=fused).half().eval(), torch.randn(3, 8, 8, 32).half()
    try:
        compiled = ingot.compile(torch.export.export(model, (x,)), target="cuda:sm_90")
    except ingot.UnsupportedError as problem:
        pytest.skip(problem.message)  # no NVRTC
    steps = compiled.engine.inspect()["functions"][0]["programs"][0]["steps"]
    kinds = [step["kernel"] for step in steps]
    assert kinds == ["fused", *["fused"] * (shift > 0), "gemm_tiles", "attention", "gemm_tiles", "fused"]


def test_rolled_axes_of_many():
    """A tensor may have more axes than a step: those of one element are left out."""

    class Rolled(torch.nn.Module):
        def forward(self, x):
            return torch.roll(x, (1, 1), (0, 1)), torch.roll(x, (1, 5, -1), (2, 3, 19))

    x = torch.arange(2.0**10).view([1, 2] * 10)
    for a, b in zip(ingot.compile(Rolled(), inputs=[x], fallback="error")(x), Rolled()(x)):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dims, shifts", [((1,), (2,)), ((0, 2), (1, -1)), ((0, 1), (-1, 4)), ((1, 2), (1, 2)), ((0, 0), (1, 1)), ((-2, 0, 2), (7, 5, -9))], ids=str)
def test_rolled_axes(dims, shifts):
    class Rolled(torch.nn.Module):
        def forward(self, x):
            return torch.roll(x, shifts, dims), torch.roll(x * 2, shifts, dims) + x

    x = torch.arange(60.0).view(3, 4, 5)
    for inputs in ([x], [ingot.Input(min_shape=(1, 2, 1), opt_shape=(3, 4, 5), max_shape=(9, 9, 9))]):
        for a, b in zip(ingot.compile(Rolled(), inputs=inputs, fallback="error")(x), Rolled()(x)):
            assert torch.equal(a, b)
