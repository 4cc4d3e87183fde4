"""Strides where an axis has size 1: group_norm chooses the layout of its result by all of them, so those of a view are as torch's kernels give them, by every door."""

import pytest
import torch

import ingot

nn = torch.nn


class Attends(nn.Module):
    """A transposed result of a linear, seen as an image."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.linear, self.last = nn.GroupNorm(4, 32), nn.Linear(32, 32), nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.linear(x.view(b, c, -1).transpose(1, 2)).transpose(-1, -2).reshape(b, c, h, w) + x
        return self.last(self.norm(y).relu())


DOORS = {
    "ahead": lambda m, x: ingot.compile(m, inputs=[x]),
    "exported": lambda m, x: ingot.compile(torch.export.export(m, (x,))),
    "static": lambda m, x: torch.compile(m, backend="ingot", dynamic=False),
    "dynamic": lambda m, x: torch.compile(m, backend="ingot", dynamic=True),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("door", DOORS)
def test_layout_of_an_image_from_tokens(door, batch):
    model = Attends().eval().requires_grad_(False)
    x = torch.randn(batch, 32, 8, 8)
    torch._dynamo.reset()
    wanted, got = model(x), DOORS[door](model, x)(x)
    assert got.stride() == wanted.stride()
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
