"""Strides where an axis has size 1: group_norm chooses the layout of its result by all of them, so those of a view are as torch's kernels give them, by every door."""

import pytest
import torch

import ingot
from ingot.capture import strides
from ingot.engine import _library

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


class Halves(Attends):
    """The image is divided by a number, as diffusers' autoencoders do: torch's iterator has two operands then."""

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.linear(x.view(b, c, -1).transpose(1, 2)).transpose(-1, -2).reshape(b, c, h, w) + x
        return self.last(self.norm(y / 2).relu())


@pytest.mark.parametrize("door", DOORS)
def test_layout_behind_a_number(door):
    model = Halves().eval().requires_grad_(False)
    x = torch.randn(1, 32, 8, 8)
    torch._dynamo.reset()
    wanted, got = model(x), DOORS[door](model, x)(x)
    assert wanted.is_contiguous() and got.stride() == wanted.stride()
    assert got.view(-1).shape == (192,)


class OfOne(nn.Module):
    """An operator of an image from tokens and of numbers."""

    def __init__(self, target, numbers):
        super().__init__()
        self.target, self.numbers = target, numbers

    def forward(self, x):
        return self.target(x.transpose(1, 2).reshape(1, 64, 8, 8), *self.numbers)


def pointwise():
    """Pointwise operators of one tensor and of numbers, with as many numbers as they need."""
    for row in _library.ops():
        namespace, name, overload = row["name"].split(".")
        needed = [p["type"] for p in row["parameters"] if "default" not in p]
        if namespace == "aten" and needed[:1] == ["Tensor"]:
            target = getattr(getattr(torch.ops.aten, name), overload)
            if torch.Tag.pointwise in target.tags and target is not torch.ops.aten.rrelu.default:
                yield target, len(needed) - 1


def test_every_pointwise_operator_of_one_tensor(monkeypatch):
    """Strides along axes of size 1 too."""
    monkeypatch.setattr(strides, "_differ", lambda strides, made: True)
    x, compared = torch.rand(1, 64, 64), 0
    for target, numbers in pointwise():
        model = OfOne(target, [0.5] * numbers)
        try:
            wanted, program = model(x), torch.export.export(model, (x,))
        except Exception:  # the operator takes other arguments
            continue
        if not isinstance(wanted, torch.Tensor):
            continue
        node = [n for n in program.graph.nodes if n.op == "call_function"][-1]
        assert tuple(strides.corrected(program.graph).get(node) or node.meta["val"].stride()) == wanted.stride(), target
        compared += 1
    assert compared > 100
