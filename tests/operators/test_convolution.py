"""Convolutions as implicit GEMMs, for fixed and open sizes, and convolutions that cannot be one."""

import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot

nn = torch.nn


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.inner = nn.Sequential(nn.Conv2d(16, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 1))
        self.last = nn.Conv2d(16, 24, 3, stride=2, padding=1)

    def forward(self, x):
        x = self.first(x)
        return self.last(torch.relu(self.inner(x) + x))


KINDS = {
    "residual": (Residual, (3, 24, 20)),
    "dilated": (lambda: nn.Conv2d(6, 9, 3, padding=4, dilation=3), (6, 12, 11)),
    "groups": (lambda: nn.Conv2d(12, 8, 3, padding=1, groups=4), (12, 9, 9)),
    "groups of six columns": (lambda: nn.Sequential(nn.Conv1d(96, 96, 40, padding=20, groups=16), nn.GELU()), (96, 25)),
    "groups of one column": (lambda: nn.Sequential(nn.Conv2d(12, 3, 3, padding=1, groups=3), nn.ReLU()), (12, 9, 9)),
    "groups of ten columns": (lambda: nn.Conv2d(15, 30, 3, stride=2, padding=1, groups=3), (15, 9, 9)),
    "pixel shuffle": (lambda: nn.Sequential(nn.Conv2d(6, 20, 3, padding=1), nn.PixelShuffle(2), nn.ReLU(), nn.Conv2d(5, 4, 1)), (6, 9, 11)),
    "pixel unshuffle": (lambda: nn.Sequential(nn.Conv2d(6, 5, 3, padding=1), nn.PixelUnshuffle(3), nn.SiLU()), (6, 9, 12)),
    "depthwise": (lambda: nn.Sequential(nn.Conv2d(12, 12, 5, padding=2, groups=12), nn.Conv2d(12, 5, 1)), (12, 9, 9)),
    "one axis": (lambda: nn.Sequential(nn.Conv1d(5, 8, 4, padding=2), nn.GELU(), nn.Conv1d(8, 3, 3, stride=2)), (5, 33)),
    "three axes": (lambda: nn.Conv3d(4, 6, 3, padding=1, stride=2), (4, 6, 7, 8)),
    "padded with ones": (lambda: nn.Sequential(nn.ConstantPad2d(1, 1.0), nn.Conv2d(4, 6, 3)), (4, 7, 7)),
    "padded twice": (lambda: nn.Sequential(nn.ZeroPad2d(1), nn.Conv2d(4, 6, 3, padding=1)), (4, 7, 7)),
    "long lines": (lambda: nn.Sequential(nn.Conv2d(6, 9, 3, padding=1), nn.ReLU()), (6, 8, 40)),
    "long lines of groups": (lambda: nn.Conv2d(12, 20, 3, stride=2, padding=1, groups=4), (12, 7, 70)),
    "long lines, depthwise": (lambda: nn.Conv2d(5, 5, 3, padding=2, dilation=2, groups=5), (5, 6, 40)),
    "outputs some elements apart": (lambda: nn.Conv1d(1, 20, 10, stride=5), (1, 300)),
    "a stride far longer than the input": (lambda: nn.Conv1d(5, 8, 3, stride=2**31 - 1), (5, 33)),
    "patches": (lambda: nn.Sequential(nn.Conv2d(3, 16, 4, stride=4), nn.Flatten(2)), (3, 16, 16)),
}


def make(kind):
    torch.manual_seed(0)
    build, shape = KINDS[kind]
    return build().eval().requires_grad_(False), shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.one_in(5)
def test_kinds(kind, dtype):
    model, shape = make(kind)
    x = torch.randn(2, *shape)
    exact = copy.deepcopy(model).double()(x.to(dtype).double()) if dtype is torch.float64 else copy.deepcopy(model).to(dtype).double()(x.to(dtype).double())
    model, x = model.to(dtype), x.to(dtype)
    assert_accurate(ingot.compile(model, inputs=[x], fallback="error")(x), model(x), exact, depth=1000)


@pytest.mark.parametrize("columns", [3, 8, 16, 40])
def test_ends_of_few_columns(columns):
    """Partial panels with a short epilogue end in registers: with several blocks of K, a residual, and depthwise; with more rows than a tile."""
    ends = (nn.Hardswish(), nn.ReLU6(), nn.ReLU(), nn.SiLU(), nn.Mish(), nn.LeakyReLU(0.1), nn.PReLU(), nn.PReLU(columns, -0.3))

    class Net(nn.Module):
        def __init__(self, end):
            super().__init__()
            self.wide, self.first = nn.Conv2d(7, 450, 1), nn.Conv2d(450, columns, 1)
            self.second, self.depthwise, self.end = nn.Conv2d(columns, columns, 1, bias=False), nn.Conv2d(columns, columns, 3, padding=1, groups=columns), end

        def forward(self, x):
            y = self.end(self.first(torch.relu(self.wide(x))))
            return self.end(self.depthwise(self.end(self.second(y) + y)) * 3) + self.end(y)

    class All(nn.Module):
        def __init__(self):
            super().__init__()
            self.nets = nn.ModuleList(Net(end) for end in ends)

        def forward(self, x):
            return [net(x) for net in self.nets]

    torch.manual_seed(0)
    model, x = All().eval().requires_grad_(False), 3 * torch.randn(2, 7, 5, 9)
    special = x.clone()
    special[0, 0, 0, 0], special[1, 1, 4, 8] = torch.inf, torch.nan
    compiled = ingot.compile(model, inputs=[x], fallback="error")
    for given in (x, special):
        for found, eager, right in zip(compiled(given), model(given), copy.deepcopy(model).double()(given.double())):
            assert_accurate(found, eager, right, depth=1000)


@pytest.mark.parametrize("shape", [(1, 5, 6, 7), (2, 33, 19, 17), (1, 64, 40, 40), (3, 20, 300)], ids=str)
def test_results_laid_out_anew(shape):
    """Channels last inside, [N, C, H, W] outside: tiles are transposed. Other operands of the epilogue have either layout."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = (nn.Conv1d if len(shape) == 3 else nn.Conv2d)(shape[1], shape[1], 3, padding=1)

        def forward(self, x, by):
            y = self.layer(x)
            return torch.relu(y) + x * by, (y * 2).flatten(2).tanh() - by.flatten(1).sum()

    torch.manual_seed(0)
    model, x, by = Net().eval().requires_grad_(False), torch.randn(shape), torch.randn(shape[1], *[1] * (len(shape) - 2))
    exact = copy.deepcopy(model).double()(x.double(), by.double())
    for threads in (1, 2):
        compiled = ingot.compile(model, inputs=[x, by], fallback="error", threads=threads)
        for found, eager, right in zip(compiled(x, by), model(x, by), exact):
            assert_accurate(found, eager, right, depth=1000)


@pytest.mark.parametrize("kind", ["residual", "groups", "groups of six columns", "one axis", "pixel shuffle"])
def test_open_sizes(kind):
    model, shape = make(kind)
    sizes = lambda size: (size, *shape)  # noqa: E731
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=sizes(1), opt_shape=sizes(2), max_shape=sizes(5))], fallback="error")
    for batch in (1, 2, 5):
        x = torch.randn(sizes(batch))
        assert_accurate(compiled(x), model(x), copy.deepcopy(model).double()(x.double()), depth=1000)


def test_open_images():
    model, _ = make("residual")
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 3, 8, 8), opt_shape=(1, 3, 32, 32), max_shape=(2, 3, 64, 64))])
    for shape in ((1, 3, 8, 8), (2, 3, 31, 17), (1, 3, 64, 40)):
        x = torch.randn(shape)
        assert_accurate(compiled(x), model(x), copy.deepcopy(model).double()(x.double()), depth=1000)


def test_no_windows_in_memory():
    """Five convolutions, five products and nothing else."""
    model, shape = make("residual")
    compiled = ingot.compile(model, inputs=[torch.randn(2, *shape)])
    steps = [step["kernel"] for step in compiled.engine.inspect()["functions"][0]["programs"][0]["steps"]]
    assert sum(step == "matmul" or step.startswith("conv_") for step in steps) == 5 and len(steps) <= 6, steps  # the last one may put the result in order


@pytest.mark.parametrize("kernel", [32, 3])
def test_windows_of_the_lines_length(kernel):
    """If each output of a line has other taps inside the image, a tile would hold one output. Then another kernel takes the convolution."""
    model = nn.Sequential(nn.Conv1d(32, 256, kernel, padding=kernel // 2), nn.ReLU()).eval()
    x = torch.randn(1, 32, 32)
    compiled = ingot.compile(model, inputs=[x], target="cpu")
    steps = [step["kernel"] for step in compiled.engine.inspect()["functions"][0]["programs"][0]["steps"]]
    assert "conv_tiles" not in steps or kernel == 3, steps
    assert_accurate(compiled(x), model(x), copy.deepcopy(model).double()(x.double()), depth=1024)


def test_convolutions_have_a_precision_of_their_own():
    """On a GPU; the plan's constants say which products go by TF32."""

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.linear = torch.nn.Conv2d(16, 16, 1), torch.nn.Linear(16, 16)

        def forward(self, x):
            return self.linear(self.convolution(x).mean((2, 3)))

    program = torch.export.export(Both().eval(), (torch.randn(2, 16, 8, 8),))

    def constants(**options):
        try:
            compiled = ingot.compile(program, target="cuda:sm_90", **options)
        except ingot.UnsupportedError as problem:
            pytest.skip(problem.message)  # no NVRTC
        return {name: compiled.engine.inspect()["provenance"].get(name, "torch") for name in ("matmul_precision", "convolution_precision")}

    assert constants() == {"matmul_precision": "torch", "convolution_precision": "tf32"}
    assert constants(matmul_precision="ieee") == {"matmul_precision": "ieee", "convolution_precision": "torch"}
    assert constants(matmul_precision="tf32", convolution_precision="ieee") == {"matmul_precision": "tf32", "convolution_precision": "ieee"}
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        assert constants() == {"matmul_precision": "torch", "convolution_precision": "ieee"}


class Given(nn.Module):
    """A depthwise convolution whose kernel is an input, as it is or computed."""

    def __init__(self, computed=False, **how):
        super().__init__()
        self.computed, self.how = computed, how

    def forward(self, x, w, b):
        if self.computed:
            w = torch.tanh(w) * 0.5
        return nn.functional.conv2d(x, w, b, groups=w.shape[0], **self.how)


@pytest.mark.parametrize("computed", [False, True], ids=["given", "computed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "channels, size, kernel, how",
    [(32, (30, 33), 3, {"padding": 1}), (33, (13, 16), 5, {"padding": 2, "stride": 2}), (16, (32, 35), 3, {"padding": 2, "dilation": 2}), (8, (7, 10), 7, {}), (64, (8, 8), 3, {"padding": 1})],
    ids=["plain", "strided", "dilated", "no padding", "small images"],
)
@pytest.mark.one_in(3)
def test_depthwise_convolutions_with_a_kernel_given(channels, size, kernel, how, dtype, computed):
    model = Given(computed, **how)
    with torch.no_grad():
        x, w, b = torch.randn(2, channels, *size).to(dtype), torch.randn(channels, 1, kernel, kernel).to(dtype), torch.randn(channels).to(dtype)
        module = ingot.compile(model, inputs=[x, w, b], fallback="error")
        assert_accurate(module(x, w, b), model(x, w, b), model(x.double(), w.double(), b.double()), depth=kernel * kernel + 1)
        other = torch.randn_like(w)
        assert_accurate(module(x, other, b), model(x, other, b), model(x.double(), other.double(), b.double()), depth=kernel * kernel + 1)
