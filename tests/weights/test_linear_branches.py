"""Branches that are linear in one value become one convolution: blocks of RepVGG, MobileOne and FastViT, with fixed and open sizes, in every float type, after their weights change."""

import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot

nn = torch.nn


def normalised(*convolution, **options):
    layer = nn.Conv2d(*convolution, bias=False, **options)
    return nn.Sequential(layer, nn.BatchNorm2d(layer.out_channels))


class Sum(nn.Module):
    """The sum of branches of one value, each times a sign, with an activation behind it."""

    def __init__(self, *branches, signs=None):
        super().__init__()
        self.branches, self.signs = nn.ModuleList(branches), signs or [1] * len(branches)

    def forward(self, x):
        total = 0
        for branch, sign in zip(self.branches, self.signs):
            total = total + branch(x) if sign > 0 else total - branch(x)
        return torch.relu(total)


class Mixer(nn.Module):
    """FastViT's: x + scale * (branches(x) - normalised(x))."""

    def __init__(self, channels):
        super().__init__()
        self.one, self.three = normalised(channels, channels, 1, groups=channels), normalised(channels, channels, 3, padding=1, groups=channels)
        self.identity, self.norm = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.scale = nn.Parameter(torch.rand(channels, 1, 1))

    def forward(self, x):
        return x + self.scale * (self.one(x) + self.identity(x) + self.three(x) - self.norm(x))


class Numbers(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(channels, 1, 1)), nn.Parameter(torch.randn(channels, 1, 1))
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return x * self.a - (self.norm(x) - 3 * x * self.b)


KINDS = {
    "RepVGG": lambda: nn.Sequential(nn.Conv2d(6, 12, 1), Sum(normalised(12, 12, 3, padding=1), normalised(12, 12, 1), nn.BatchNorm2d(12)), nn.Conv2d(12, 4, 1)),
    "RepVGG of an input": lambda: Sum(normalised(6, 9, 3, padding=1, stride=2), normalised(6, 9, 1, stride=2)),
    "few channels": lambda: nn.Sequential(nn.Conv2d(6, 3, 1), Sum(normalised(3, 16, 3, padding=1), normalised(3, 16, 1))),
    "MobileOne": lambda: nn.Sequential(nn.Conv2d(6, 16, 1), Sum(nn.BatchNorm2d(16), normalised(16, 16, 1, groups=16), *(normalised(16, 16, 3, padding=1, groups=16) for _ in range(3)))),
    "Mixer": lambda: nn.Sequential(nn.Conv2d(6, 16, 3, padding=1), nn.GELU(), Mixer(16), nn.Conv2d(16, 8, 1)),
    "groups of two columns": lambda: nn.Sequential(Sum(normalised(6, 12, 7, padding=3, stride=2, groups=6), normalised(6, 12, 3, padding=1, stride=2, groups=6)), nn.Conv2d(12, 4, 1)),
    "dilated": lambda: Sum(nn.Conv2d(6, 6, 5, padding=4, dilation=2, groups=6), nn.Conv2d(6, 6, 3, padding=2, dilation=2, groups=6), signs=[1, -1]),
    "not square": lambda: Sum(nn.Conv2d(6, 9, 3, padding=1), nn.Conv2d(6, 9, (3, 1), padding=(1, 0)), nn.Conv2d(6, 9, (1, 3), padding=(0, 1))),
    "off the centre": lambda: Sum(nn.Conv2d(6, 9, 4, padding=1), nn.Conv2d(6, 9, 2), signs=[1, -1]),
    "beyond the larger kernel": lambda: Sum(nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.Conv2d(6, 6, 5, padding=2, dilation=1, groups=6), nn.Conv2d(6, 6, 3, padding=3, dilation=3, groups=6)),
    "other strides": lambda: Sum(nn.Sequential(nn.Conv2d(6, 9, 3, padding=1, stride=2), nn.Upsample(scale_factor=2)), nn.Conv2d(6, 9, 1)),
    "numbers": lambda: Numbers(6),
}


def make(kind, seed=0):
    torch.manual_seed(seed)
    model = KINDS[kind]()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for t in (module.weight, module.bias, module.running_mean, module.running_var):
                t.data = torch.rand_like(t) + 0.5
    return model.eval().requires_grad_(False)


def check(compiled, model, x):
    assert_accurate(compiled(x), model(x), copy.deepcopy(model).double()(x.double()), depth=1000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.one_in(10)
def test_values(kind, dtype):
    model, x = make(kind).to(dtype), torch.randn(2, 6, 10, 8).to(dtype)
    check(ingot.compile(model, inputs=[x], fallback="error"), model, x)


@pytest.mark.parametrize("axes", [(0,), (0, 2, 3)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.one_in(5)
def test_open_sizes(kind, axes):
    model = make(kind)
    shapes = [tuple((size * (2 if i != 1 else 1) if i in axes else size) for i, size in enumerate((2, 6, 10, 8))), (2, 6, 10, 8), tuple(4 if i in axes else size for i, size in enumerate((2, 6, 10, 8)) )]
    least, most = (tuple(f(s[i] for s in shapes) for i in range(4)) for f in (min, max))
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=least, opt_shape=shapes[1], max_shape=most)], fallback="error")
    for shape in shapes:
        check(compiled, model, torch.randn(shape))


@pytest.mark.parametrize("kind", ["RepVGG", "MobileOne", "Mixer", "groups of two columns", "numbers"])
def test_other_weights(kind):
    model, x = make(kind), torch.randn(2, 6, 10, 8)
    compiled = ingot.compile(model, inputs=[x], fallback="error")
    other = make(kind, seed=1)
    compiled.update_weights(other.state_dict())
    check(compiled, other, x)
    model.load_state_dict(make(kind, seed=2).state_dict())
    check(ingot.compile(model, inputs=[x]), model, x)


def test_a_weight_that_the_model_writes_stays():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.ones(6, 1, 1))
            self.b = nn.Parameter(torch.rand(6, 1, 1), requires_grad=False)

        def forward(self, x):
            self.a += 1
            return x * self.a + x * self.b

    model, x = Counts(), torch.randn(2, 6, 4, 4)
    compiled = ingot.compile(copy.deepcopy(model), inputs=[x])
    for _ in range(3):
        right = model(x)
        torch.testing.assert_close(compiled(x), right)


class Given(nn.Module):
    """A function of the input and of these parameters."""

    def __init__(self, function, **parameters):
        super().__init__()
        self.function = function
        for name, value in parameters.items():
            setattr(self, name, nn.Parameter(value, requires_grad=False))

    def forward(self, x):
        return self.function(self, x)


def part_of_rows(s, x):
    return (x * s.a).sum(1)[:, :5] + (x * s.b).sum(1)[:, :5] + s.bias


def diagonal(s, x):
    return torch.diagonal(x @ s.a, dim1=0, dim2=2) + x[:, :, 3].T


@pytest.mark.parametrize(
    "function, parameters, shape",
    [
        (part_of_rows, {"a": (4, 1), "b": (4, 1), "bias": (5,)}, (3, 4, 9)),  # the bias fits the part, not the whole
        (diagonal, {"a": (4, 6, 4)}, (4, 5, 6)),  # an element of the result is in one column of the product each
    ],
)
def test_branches_that_are_read_in_part(function, parameters, shape):
    torch.manual_seed(0)
    model = Given(function, **{name: torch.randn(dims) for name, dims in parameters.items()})
    x = torch.randn(shape)
    torch.testing.assert_close(ingot.compile(model, inputs=[x], fallback="error")(x), model(x))
