"""Random convolutions of all kinds against eager: sizes, strides, paddings, dilations, groups, transposed or not, one to three axes, fixed and open sizes, one thread
and two."""

import copy
import math
import random
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot

nn = torch.nn
LAYERS = {False: (nn.Conv1d, nn.Conv2d, nn.Conv3d), True: (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)}


def random_problem(seed):
    """A model around a random convolution, and the smallest and largest shape of its input."""
    r = random.Random(seed)
    axes, transposed = r.choice((1, 1, 2, 2, 2, 3)), r.random() < 0.4
    kind = r.choice(("dense", "groups", "depthwise", "multiplier"))
    groups = {"dense": 1, "groups": r.choice((2, 3, 4, 8)), "depthwise": r.choice((4, 7, 8, 24)), "multiplier": r.choice((3, 4, 8))}[kind]
    each = {"depthwise": 1, "multiplier": 1}.get(kind) or r.choice((1, 2, 3, 4, 8, 12))
    out = groups * {"depthwise": 1, "multiplier": r.choice((2, 3, 4))}.get(kind, r.choice((1, 2, 3, 4, 8, 16)))
    channels = groups * each
    numbers = lambda *choices: tuple(r.choice(choices) for _ in range(axes))  # noqa: E731
    kernel, stride, dilation = numbers(1, 2, 3, 3, 4, 5), numbers(1, 1, 2, 2, 3, 4), numbers(1, 1, 1, 2, 3)
    padding = tuple(r.randrange(0, d * (k - 1) // 2 + 2) for k, d in zip(kernel, dilation))
    more = {"output_padding": tuple(r.randrange(0, max(s, d)) for s, d in zip(stride, dilation))} if transposed else {}
    torch.manual_seed(seed)
    layer = LAYERS[transposed][axes - 1](channels, out, kernel, stride, padding, groups=groups, dilation=dilation, bias=r.random() < 0.6, **more)
    before, behind = (LAYERS[False][axes - 1](c, o, 1) for c, o in ((5, channels), (out, 6)))
    ends = r.choice((nn.Identity, nn.ReLU, nn.SiLU, nn.Hardswish, nn.ELU, nn.LeakyReLU, nn.PReLU))
    between = r.random() < 0.7
    model = nn.Sequential(before, nn.ReLU(), layer, ends(), behind) if between else nn.Sequential(layer, ends())
    least = [max(3, d * (k - 1) + 1 - 2 * p + 2 * s, (2 * p + s) // s + 1) for k, d, p, s in zip(kernel, dilation, padding, stride)]
    most = [n + r.randrange(0, (40, 12, 6)[axes - 1]) for n in least]
    head = 5 if between else channels
    return model.eval().requires_grad_(False), (1, head, *least), (2, head, *most)


def compare(compiled, model, shape):
    x = torch.randn(shape)
    assert_accurate(compiled(x), model(x), copy.deepcopy(model).double()(x.double()), depth=1000)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.one_in(5)
def test_fixed(seed):
    model, _, shape = random_problem(seed)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 + seed % 2)
        compare(ingot.compile(model, inputs=[torch.randn(shape)], fallback="error"), model, shape)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.one_in(8)
def test_open(seed):
    model, least, most = random_problem(seed)
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=least, opt_shape=most, max_shape=most)], fallback="error")
    for shape in (least, most, tuple((a + b + 1) // 2 for a, b in zip(least, most))):
        compare(compiled, model, shape)


NEAR_INFINITY = {
    **{f"problem {seed}": seed for seed in range(300, 330)},
    "few columns, phases that see other places": nn.ConvTranspose2d(8, 3, 3, 2, 1, 1),
    "few columns, phases that see the same in pairs": nn.ConvTranspose2d(8, 1, 8, 4, 2),
    "few columns, phases without a kernel": nn.ConvTranspose2d(8, 1, 1, 2),
    "few columns, volumes": nn.ConvTranspose3d(4, 2, 4, 2, 1),
    "few columns, lines": nn.ConvTranspose1d(4, 2, 5, 3, 1),
}  # fmt: skip


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan], ids=str)
@pytest.mark.parametrize("name", NEAR_INFINITY)
@pytest.mark.one_in(6)
def test_beside_a_place_that_is_not_finite(name, value):
    """One element that is not finite is in the results that it belongs to, and in no others."""
    given = NEAR_INFINITY[name]
    if isinstance(given, int):
        model, _, shape = random_problem(given)
    else:
        model = nn.Sequential(given, nn.Tanh()).eval().requires_grad_(False)
        shape = (2, given.in_channels, *(7, 9, 5)[: given.weight.dim() - 2])
    x = torch.randn(shape)
    x[(-1, 0, *(n // 2 for n in shape[2:]))] = value
    compiled = ingot.compile(model, inputs=[x], fallback="error")
    assert_accurate(compiled(x), model(x), copy.deepcopy(model).double()(x.double()), depth=1000)


class BesideSkip(nn.Module):
    """A transposed convolution whose result is joined with an image of other channels."""

    def __init__(self, r, axes):
        super().__init__()
        channels, out, skip = r.choice((4, 8, 33)), r.choice((3, 16, 32)), r.choice((1, 16, 33))
        kernel = r.choice((2, 3, 4))
        self.up = LAYERS[True][axes - 1](channels, out, kernel, r.choice((2, kernel)), bias=r.random() < 0.7)
        self.before, self.beside, self.behind = (LAYERS[False][axes - 1](c, o, 1) for c, o in ((4, channels), (4, skip), (out + skip, 5)))
        self.end = r.choice((nn.Identity, nn.ReLU, nn.SiLU))()

    def forward(self, x, skip):
        return self.behind(torch.cat([self.end(self.up(self.before(x))), self.beside(skip)], 1))


@pytest.mark.parametrize("seed", range(200, 216))
@pytest.mark.one_in(3)
def test_beside_a_skip(seed):
    r = random.Random(seed)
    torch.manual_seed(seed)
    axes = r.choice((1, 2, 2, 3))
    model = BesideSkip(r, axes).eval().requires_grad_(False)
    x = torch.randn(r.choice((1, 2)), 4, *(r.randrange(1, 20) for _ in range(axes)))
    skip = torch.randn(x.shape[0], 4, *model.up(torch.randn(x.shape[0], model.up.in_channels, *x.shape[2:])).shape[2:])
    compiled = ingot.compile(model, inputs=[x, skip], fallback="error")
    assert_accurate(compiled(x, skip), model(x, skip), copy.deepcopy(model).double()(x.double(), skip.double()), depth=1000)


@pytest.mark.parametrize("layer", [
    nn.Conv3d(3, 32, (3, 7, 7), (1, 2, 2), (1, 3, 3)),
    nn.Conv3d(2, 5, 5, padding=(4, 2, 2)),
    nn.Conv3d(2, 9, 5, padding=(7, 2, 2), bias=False),  # windows wholly outside
    nn.Conv3d(4, 8, (3, 5, 5), padding=(2, 2, 2), dilation=(2, 1, 1), groups=2),
], ids=str)  # fmt: skip
def test_planes_outside(layer):
    """Volumes that lie as [N, C, D, H, W], of which windows leave whole planes."""
    model, shape = nn.Sequential(layer, nn.ReLU()).eval().requires_grad_(False), (2, layer.in_channels, 4, 17, 64)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            compare(ingot.compile(model, inputs=[torch.randn(shape)], fallback="error"), model, shape)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("depth", [3, 4])
def test_one_plane_outside(depth):
    """All windows of a volume lie in one plane, which is padding (results are the bias) or is not."""
    model = nn.Sequential(nn.Conv3d(4, 32, 1), nn.ReLU(), nn.Conv3d(32, 32, (1, 3, 3), (depth + 2, 1, 1), (1, 1, 1)), nn.Conv3d(32, 3, 1)).eval().requires_grad_(False)
    compare(ingot.compile(model, inputs=[torch.randn(1, 4, depth, 17, 16)], fallback="error"), model, (1, 4, depth, 17, 16))
    model[2].padding = (0, 1, 1)
    compare(ingot.compile(model, inputs=[torch.randn(1, 4, depth, 17, 16)], fallback="error"), model, (1, 4, depth, 17, 16))


@pytest.mark.parametrize("layer, size", [
    (nn.ConvTranspose2d(16, 1, 3, 2, 1, 1), (14, 14)),
    (nn.ConvTranspose2d(5, 1, 4, 3, 2, 1), (13, 17)),  # a phase without taps at some ends
    (nn.ConvTranspose2d(7, 1, (2, 5), (3, 2), output_padding=(2, 1), bias=False), (5, 19)),  # phases without taps
    (nn.ConvTranspose2d(4, 1, 3, 2, 2, dilation=2), (9, 21)),
    (nn.ConvTranspose2d(6, 2, 3, 2, 1, groups=2), (12, 15)),
    (nn.ConvTranspose1d(8, 1, 5, 2, 2), (40,)),
    (nn.ConvTranspose1d(3, 1, 7, 9), (33,)),  # results farther apart than lines are written
    (nn.ConvTranspose3d(3, 1, 3, 2, 1, (0, 1, 1)), (3, 4, 13)),
    (nn.Conv2d(4, 3, 1), (9, 33)),
    (nn.Conv3d(3, 32, (3, 7, 7), (1, 2, 2), (1, 3, 3)), (4, 11, 56)),
    (nn.Conv2d(3, 32, 5, 2, (7, 2)), (9, 40)),  # lines wholly outside
    (nn.Conv2d(12, 64, 3, 3, 1, bias=False), (21, 60)),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.one_in(8)
def test_lines(layer, size, dtype):
    """Images that lie as [N, C, ...], whose results are some elements apart or fill vectors along columns better, alone and before another layer."""
    last = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(size) - 1](layer.out_channels, 5, 1)
    threads = torch.get_num_threads()
    try:
        for count, model in ((1, nn.Sequential(layer)), (2, nn.Sequential(layer, nn.ReLU())), (1, nn.Sequential(layer, nn.ReLU(), last))):
            torch.set_num_threads(count)
            model = copy.deepcopy(model).eval().requires_grad_(False).to(dtype)
            x = torch.randn(2, layer.in_channels, *size, dtype=dtype)
            assert_accurate(ingot.compile(model, inputs=[x], fallback="error")(x), model(x), copy.deepcopy(model).double()(x.double()), depth=1000)
    finally:
        torch.set_num_threads(threads)
