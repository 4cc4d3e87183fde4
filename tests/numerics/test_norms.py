"""The epsilon of norms, on rows of small values, where it matters."""

import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot


@pytest.mark.parametrize("eps", [None, 1e-6, 1e-3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rms_norm_of_small_values(dtype, eps):
    torch.manual_seed(0)
    model, x = torch.nn.RMSNorm(64, eps=eps, dtype=dtype), torch.randn(5, 64).to(dtype) * 1e-2
    used = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps if eps is None else eps
    with torch.no_grad():
        exact = torch.nn.functional.rms_norm(x.double(), (64,), eps=used)
        assert_accurate(ingot.compile(model, inputs=[x], fallback="error")(x), model(x), exact, depth=64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_of_groups(dtype):
    """Moments are taken in one pass: channels last and first, groups of few channels, one group, long rows; numbers far from zero."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.wide = nn.Conv2d(6, 48, 3, padding=1), nn.Conv2d(6, 3, 1)
            self.norms = nn.ModuleList([nn.GroupNorm(8, 48), nn.GroupNorm(48, 48), nn.GroupNorm(1, 48), nn.InstanceNorm2d(48, affine=True), nn.GroupNorm(16, 48)])
            self.few, self.first, self.rows = nn.GroupNorm(1, 3), nn.GroupNorm(2, 6), nn.LayerNorm([48, 24, 21])

        def forward(self, x):
            y = self.layer(x) + 10
            return [*(norm(y) for norm in self.norms), self.few(self.wide(x)), self.first(x), self.rows(y), y.transpose(1, 3).var((1, 2))]

    torch.manual_seed(0)
    model, x = Net().eval().requires_grad_(False).to(dtype), torch.randn(2, 6, 24, 21).to(dtype)
    compiled, exact = ingot.compile(model, inputs=[x], fallback="error"), copy.deepcopy(model).double()(x.double())
    for found, eager, right in zip(compiled(x), model(x), exact):
        assert_accurate(found, eager, right, depth=24 * 21 * 48)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.one_in(6)
def test_norms_of_channels_last(axes, opens, dtype):
    """Sums over places where the channels are neighbours in memory, behind a convolution; of few places and many, for fixed and open sizes, on one thread and two."""
    nn = torch.nn
    conv, norm = getattr(nn, f"Conv{axes}d"), getattr(nn, f"InstanceNorm{axes}d")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(conv(5, c, 3, padding=1) for c in (1, 3, 24, 40))
            self.norms = nn.ModuleList(norm(c, affine=True) for c in (1, 3, 24, 40))
            self.groups, self.last = nn.GroupNorm(5, 40), conv(40, 4, 1)

        def forward(self, x):
            ys = [layer(x) + 3 for layer in self.layers]
            channels = (ys[3] - ys[3].mean(1, keepdim=True)) * torch.rsqrt(ys[3].var(1, unbiased=False, keepdim=True) + 1e-6)
            return [*(nn.functional.leaky_relu(norm(y)) for norm, y in zip(self.norms, ys)), self.last(self.groups(ys[3])), channels]

    torch.manual_seed(0)
    model = Net().eval().requires_grad_(False).to(dtype)
    sides = {1: [(16,), (700,), (3000,)], 2: [(4, 4), (9, 7), (40, 33)], 3: [(3, 4, 2), (5, 6, 7), (8, 9, 20)]}[axes]
    shapes = [(n, 5, *side) for n, side in zip((1, 2, 2), sides)]
    whole = ingot.Input(min_shape=shapes[0], opt_shape=shapes[1], max_shape=(2, 5, *map(max, *sides)), dtype=dtype)
    for threads in (1, 2) if opens else (2,):
        compiled = ingot.compile(model, inputs=[whole], fallback="error", threads=threads) if opens else None
        for shape in shapes:
            x = torch.randn(shape).to(dtype)
            fixed = compiled or ingot.compile(model, inputs=[x], fallback="error", threads=threads)
            for found, eager, right in zip(fixed(x), model(x), copy.deepcopy(model).double()(x.double())):
                assert_accurate(found, eager, right, depth=1000)


@pytest.mark.parametrize("shape", [(1, 4), (1, 4, 1), (1, 4, 1, 1), (1, 1, 1), (2, 4), (1, 4, 3000), (1, 4, 60, 50)], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups_of_leading_ones(shape, groups):
    """Leading axes of size 1 before the normalised axes may be dropped by passes."""
    if shape[1] % groups:
        pytest.skip("groups that do not divide the channels")
    torch.manual_seed(0)

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.group_norm(x, groups, eps=1.0) if x.numel() > groups * x.shape[0] else torch.ops.aten.native_group_norm(x, None, None, x.shape[0], x.shape[1], x.numel() // x.shape[0] // x.shape[1], groups, 1.0)[0]

    x = torch.randn(shape)
    compiled = ingot.compile(Model(), inputs=[x], fallback="error")
    assert_accurate(compiled(x), Model()(x), Model()(x.double()))
