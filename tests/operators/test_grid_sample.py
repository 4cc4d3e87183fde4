"""grid_sample by its kernel and written out: every mode, inside models, with open sizes, beside eager and float64."""

import itertools
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate
from calls import Calls

import ingot

F = torch.nn.functional
MODES = list(itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)))


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def places(*sizes):
    return torch.rand(*sizes, 2) * 2.4 - 1.2


def sample(x, grid):
    return F.grid_sample(x, grid, align_corners=False)


def is_accurate(module, *inputs, depth=4):
    result, eager = ingot.compile(module.eval(), inputs=inputs, fallback="error")(*inputs), module(*inputs)
    assert_accurate(result, eager, module.double()(*(x.double() for x in inputs)), depth=depth)


@pytest.mark.parametrize("mode, outside, corners", MODES)
@pytest.mark.parametrize("channels", [1, 3, 20])
@pytest.mark.one_in(4)
def test_modes(mode, outside, corners, channels):
    is_accurate(Calls(lambda x, grid: F.grid_sample(x, grid, mode, outside, corners)), torch.randn(2, channels, 9, 11), places(2, 7, 13))


class Between(nn.Module):
    """Images and results whose channels lie together."""

    def __init__(self, mode):
        super().__init__()
        self.first, self.second, self.mode = nn.Conv2d(3, 24, 3, padding=1), nn.Conv2d(24, 4, 3), mode

    def forward(self, x, grid):
        return self.second(F.relu(F.grid_sample(F.relu(self.first(x)), grid, self.mode, align_corners=False)))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_between_convolutions(mode):
    is_accurate(Between(mode), torch.randn(1, 3, 12, 10), places(1, 9, 8), depth=216)


def warped(x, flow):
    height, width = x.shape[2:]
    v, u = torch.meshgrid(torch.arange(height, device=x.device), torch.arange(width, device=x.device), indexing="ij")
    u, v = u + flow[:, 0], v + flow[:, 1]
    return F.grid_sample(x, torch.stack((2 * u / (width - 1) - 1, 2 * v / (height - 1) - 1), -1), align_corners=True) + x


def test_a_grid_that_is_joined_of_two():
    is_accurate(Calls(warped), torch.randn(2, 6, 14, 18), torch.randn(2, 2, 14, 18), depth=16)


def test_open_sizes():
    n, h, w, p, q = (torch.export.Dim(name, min=0 if name in "pq" else 1, max=1000) for name in "nhwpq")
    engine = ingot.compile(Calls(sample), inputs=(torch.randn(2, 5, 9, 11), places(2, 7, 13)), dynamic_shapes=(({0: n, 2: h, 3: w}, {0: n, 1: p, 2: q}),), fallback="error")
    for n, h, w, p, q in ((1, 1, 1, 1, 1), (3, 4, 17, 30, 40), (2, 64, 2, 1, 700), (1, 3, 3, 0, 5)):
        x, grid = torch.randn(n, 5, h, w), places(n, p, q)
        assert_accurate(engine(x, grid), sample(x, grid), sample(x.double(), grid.double()), depth=4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_other_types(dtype):
    x, grid = torch.randn(2, 5, 9, 11).to(dtype), places(2, 7, 13).to(dtype)
    result, exact = ingot.compile(Calls(sample), inputs=(x, grid), fallback="error")(x, grid), sample(x.double(), grid.double())
    assert result.dtype == dtype and (result - exact).abs().max() <= 2 * torch.finfo(dtype).eps * exact.abs().max()


def test_volumes():
    is_accurate(Calls(sample), torch.randn(1, 3, 4, 5, 6), torch.rand(1, 3, 4, 5, 3) * 2 - 1)


def test_an_image_without_elements_is_refused():
    engine = ingot.compile(Calls(sample), inputs=(torch.randn(2, 5, 9, 11), places(2, 7, 13)), dynamic_shapes=(({3: torch.export.Dim("w", min=0, max=99)}, {}),), fallback="error")
    with pytest.raises(ingot.errors.Error, match="elements"):
        engine(torch.randn(2, 5, 9, 0), places(2, 7, 13))
