"""Functions and products of two tensors that are no weights: right at every kind of number, in every shape, with any number of threads."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate
from calls import Calls

import ingot


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e-45, -1e-38, 3.4e38, -3.4e38, float("inf"), -float("inf"), float("nan"), 0.99999994, 126.5, -149.0, 88.7, 1e30, -1e-30, 7.25, 1e20]


@pytest.mark.parametrize("name", ["pow", "atan2", "hypot", "copysign", "fmod", "remainder", "floor_divide"])
def test_functions(name):
    """One unit of the last place beside float64; NaN, infinities, and zeros with their signs as there. The length is not a multiple of a vector's."""
    f = getattr(torch, name)
    a, b = (t.flatten() for t in torch.meshgrid(torch.tensor(SPECIAL), torch.tensor(SPECIAL), indexing="ij"))
    a = torch.cat([a, torch.rand(1000) * 10, torch.exp(torch.randn(1000) * 20), torch.randn(1003)])
    b = torch.cat([b, torch.randn(1000) * 10, torch.randn(1000) * 3, torch.randn(1003)])
    exact = f(a.double(), b.double())
    for x, y, want in [(a, b, exact), (a[:1], b, f(a[:1].double(), b.double())), (a, b[7:8], f(a.double(), b[7:8].double()))]:
        got = ingot.compile(Calls(f), inputs=[x, y])(x, y)
        rounded = want.float()
        finite = rounded.isfinite()
        assert torch.equal(got.isnan(), rounded.isnan()) and torch.equal(got[rounded.isinf()], rounded[rounded.isinf()])
        zero = finite & (rounded == 0)
        assert torch.equal(torch.signbit(got[zero]), torch.signbit(rounded[zero]))
        unit = torch.nextafter(rounded.abs(), torch.tensor(float("inf"))) - rounded.abs()
        off = ((got.double() - want).abs() / unit.double())[finite & got.isfinite()]
        assert torch.equal(got.isfinite(), finite) and off.max() <= 1, off.max()


SHAPES = [
    ((70, 33), (33, 65)), ((1, 300), (300, 200)), ((300,), (300,)), ((200, 300), (300,)), ((300,), (300, 70)), ((3, 40, 600), (3, 600, 33)), ((2, 1, 64), (2, 64, 500)),
    ((1, 130, 17), (1, 17, 130)), ((0, 8), (8, 4)), ((4, 0), (0, 5)), ((5, 2, 16, 8), (2, 8, 3)), ((900, 64), (64, 1)), ((40, 1025), (1025, 513)),
]  # fmt: skip


@pytest.mark.parametrize("turned", [False, True], ids=["", "B transposed"])
@pytest.mark.parametrize("left, right", SHAPES, ids=str)
@pytest.mark.one_in(4)
def test_products(left, right, turned):
    if turned and len(right) < 2:
        pytest.skip("a vector")
    a, b = torch.randn(left), torch.randn(right)
    given = b.transpose(-1, -2).contiguous() if turned else b
    f = (lambda x, y: x @ y.transpose(-1, -2) * 1.5 + 0.25) if turned else (lambda x, y: x @ y * 1.5 + 0.25)
    exact = a.double() @ b.double() * 1.5 + 0.25
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            got = ingot.compile(Calls(f), inputs=[a, given])(a, given)
            assert_accurate(got, f(a, given), exact, depth=left[-1] + 1)
    finally:
        torch.set_num_threads(before)
    batch = ingot.compile(Calls(f), inputs=[a, given], deterministic="batch")
    if len(left) == 2 and left[0] > 4:  # the bits of a row do not depend on the others
        few = ingot.compile(Calls(f), inputs=[a[:3].contiguous(), given], deterministic="batch")
        assert torch.equal(batch(a, given)[:3], few(a[:3].contiguous(), given))


@pytest.mark.parametrize("shape, weights", [((500, 70), (500, 1)), ((3, 200, 33), (3, 200, 1)), ((1000, 5), (1000, 1))], ids=str)
def test_weighted_sums_of_rows(shape, weights):
    x, w = torch.randn(shape), torch.rand(weights)
    f = lambda x, w: (x * w).sum(-2)  # noqa: E731
    assert_accurate(ingot.compile(Calls(f), inputs=[x, w])(x, w), f(x, w), f(x.double(), w.double()), depth=shape[-2])


@pytest.mark.parametrize("batch", [1, 2])
def test_a_gate_of_channels(batch):
    """Squeeze and excitation in front of a 1 x 1 convolution with few channels: one image multiplies the weight by its gate, several their own rows."""
    class Gated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.gate, self.narrow, self.norm = torch.nn.Conv2d(3, 24, 1), torch.nn.Conv2d(24, 24, 1), torch.nn.Conv2d(24, 6, 1, bias=False), torch.nn.BatchNorm2d(6)

        def forward(self, x):
            y = torch.nn.functional.silu(self.wide(x))
            return self.norm(self.narrow(y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))))

    model, x = Gated().eval(), torch.randn(batch, 3, 16, 16)
    model.norm.running_var.uniform_(0.5, 2)
    compiled = ingot.compile(model, inputs=[x])
    eager = model(x)
    result = compiled(x)
    assert_accurate(result, eager, Gated.forward(model.double(), x.double()), depth=24)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("left, right", [*SHAPES, ((40000,), (40000,))], ids=str)
@pytest.mark.one_in(4)
def test_products_of_eight_bytes(left, right, dtype):
    """Sums of integers wrap as eager's; those of numbers that doubles hold exactly are exact."""
    a, b = (torch.randint(-9, 9, s).to(dtype) if dtype.is_floating_point else torch.randint(-120, 120, s).to(dtype) for s in (left, right))
    f = lambda x, y: x @ y * 3 + 1  # noqa: E731
    got = ingot.compile(Calls(f), inputs=[a, b])(a, b)
    assert got.dtype == dtype and torch.equal(got, f(a, b))
    if len(right) > 1:
        turned = lambda x, y: x @ y.mT  # noqa: E731
        given = b.mT.contiguous()
        assert torch.equal(ingot.compile(Calls(turned), inputs=[a, given])(a, given), turned(a, given))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("left, right", [((300,), (300,)), ((200, 300), (300,)), ((1, 300), (300, 70)), ((3, 40, 64), (3, 64, 1))], ids=str)
def test_vectors_of_half_types(left, right, dtype):
    a, b = torch.randn(left).to(dtype), torch.randn(right).to(dtype)
    f = lambda x, y: x @ y  # noqa: E731
    assert_accurate(ingot.compile(Calls(f), inputs=[a, b])(a, b), f(a, b), f(a.double(), b.double()), depth=left[-1])


INTEGERS = {
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"), "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "remainder": torch.remainder, "fmod": torch.fmod,
    "mul": torch.mul, "add": torch.add, "sub": torch.sub, "maximum": torch.maximum, "minimum": torch.minimum, "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor,
    "not": lambda a, b: ~a, "neg": lambda a, b: -a, "abs": lambda a, b: a.abs(), "sign": lambda a, b: a.sign(), "less": torch.lt, "at least": torch.ge, "equal": torch.eq, "differs": torch.ne,
    "left": lambda a, b: a << (b & 7), "right": lambda a, b: a >> (b & 7),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.one_in(6)
def test_integers(name, dtype):
    """Exact at the ends of the type and where doubles end, in blocks, with one number on either side, and for a single element."""
    f, info = INTEGERS[name], torch.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100]
    ends += [] if dtype == torch.uint8 else [-1, -2, -3, -100]
    ends += [s * (2**51 + d) for s in (1, -1) for d in (-2, -1, 0, 1)] + [2**53 + 1, 2**62 + 3, -(2**62) - 3] if dtype == torch.int64 else []
    a, b = (t.flatten() for t in torch.meshgrid(torch.tensor(ends, dtype=dtype), torch.tensor(ends, dtype=dtype), indexing="ij"))
    a, b = torch.cat([a, torch.randint(info.min, info.max, (1003,), dtype=dtype)]), torch.cat([b, torch.randint(info.min, info.max, (1003,), dtype=dtype)])
    divides = name in ("floor", "trunc", "remainder", "fmod")
    if divides:
        keep = (b != 0) & ~((a == info.min) & (b == (-1 if dtype != torch.uint8 else 0)))  # the quotient that does not fit traps in eager
        a, b = a[keep], b[keep]
    few, many = torch.tensor([7], dtype=dtype), torch.tensor([100], dtype=dtype)
    for x, y in [(a, b), (a, few), (many, b), (many, few), (a[:64], b[:64])]:
        got, want = ingot.compile(Calls(f), inputs=[x, y])(x, y), f(x, y)
        assert got.dtype == want.dtype and torch.equal(got, want)


@pytest.mark.parametrize("name", ["floor", "trunc", "remainder", "fmod"])
def test_integers_by_zero(name):
    a, b = torch.arange(20), torch.ones(20, dtype=torch.int64)
    b[13] = 0
    compiled = ingot.compile(Calls(INTEGERS[name]), inputs=[a, b])
    with pytest.raises(RuntimeError):
        INTEGERS[name](a, b)
    with pytest.raises(Exception, match="divided by zero"):
        compiled(a, b)


def test_every_float16():
    """Widened, and rounded from floats between two of them, at ties, beyond the largest and below the least."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    for x in (every, every[::3]):
        got = ingot.compile(Calls(lambda a: a.float() * 1), inputs=[x])(x)
        assert torch.equal(got.nan_to_num(nan=1e9), x.float().nan_to_num(nan=1e9)) and torch.equal(got.isnan(), x.isnan())
    exact = every[every.isfinite()].float()
    up = torch.nextafter(exact, torch.tensor(float("inf")))
    floats = torch.cat([exact, up, (exact[1:] + exact[:-1]) / 2, torch.randn(5001) * 1e5, torch.tensor([float("inf"), -float("inf"), 65519.99, 65520.0, 1e-8, float("nan")])])
    for f in (lambda a: a.half(), lambda a: a.half().float() * 2, lambda a: a.double().half()):
        got, want = ingot.compile(Calls(f), inputs=[floats])(floats), f(floats)
        assert got.dtype == want.dtype and torch.equal(got.isnan(), want.isnan()) and torch.equal(got[~want.isnan()], want[~want.isnan()])


def test_nextafter():
    a, b = (t.flatten() for t in torch.meshgrid(torch.tensor(SPECIAL), torch.tensor(SPECIAL), indexing="ij"))
    for x, y in [(a, b), (a, b[:1]), (a[3:4], b), (a[:0], b[:0]), (a.double(), b.double())]:
        got, want = ingot.compile(Calls(torch.nextafter), inputs=[x, y])(x, y), torch.nextafter(x, y)
        assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got[~want.isnan()], want[~want.isnan()])
        zero = want == 0
        assert torch.equal(torch.signbit(got[zero]), torch.signbit(want[zero]))
