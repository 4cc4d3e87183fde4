"""Operators on short rows, on integers in their own type, and on many small matrices: right for sizes that fill no vector, beside eager and float64."""

import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate
from calls import Calls

import ingot

F = torch.nn.functional
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def run(f, *inputs):
    return ingot.compile(Calls(f), inputs=list(inputs))(*inputs)


def is_accurate(f, *inputs, depth=1):
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    assert_accurate(run(f, *inputs), f(*inputs), f(*wide), depth=depth)


def integers(dtype, n):
    """Both ends of the type, and what lies between."""
    ends = torch.iinfo(dtype)
    x = torch.randint(max(ends.min, -(2**62)), min(ends.max, 2**62), (n,), dtype=torch.int64).to(dtype)
    x[: min(n, 4)] = torch.tensor([ends.min, ends.max, 0, 1], dtype=torch.int64).to(dtype)[: min(n, 4)]
    return x


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("n", [1, 63, 64, 5000])
@pytest.mark.one_in(2)
def test_integers(dtype, n):
    """Each operation in the integer's own type wraps as eager's, with a number on either side too."""
    a, b = integers(dtype, n), integers(dtype, n).flip(0)
    shift, one = torch.randint(0, torch.iinfo(dtype).bits, (n,)).to(dtype), b[:1].clone()
    condition = torch.rand(n) > 0.5

    def f(a, b, shift, one, condition):
        out = [a + b, a - b, a * b, a & b, a | b, a ^ b, ~a, a << shift, a >> shift, torch.minimum(a, b), torch.maximum(a, b), a.abs(), a.clamp(3, 60), a * 3 + one, one - a]
        out += [a == b, a != b, a < b, a <= b, a > b, a >= b, a < one, one <= a, a == 3, torch.where(condition, a, b), torch.where(condition, a, one)]
        out += [(a * b) // 7, (a + b).sum(), a.amax(), (a * b).to(torch.int64) + 1, -(a.to(torch.int32))]
        return tuple(out)

    for k, (got, want) in enumerate(zip(run(f, a, b, shift, one, condition), f(a, b, shift, one, condition), strict=True)):
        assert got.dtype == want.dtype and torch.equal(got, want), k


@pytest.mark.parametrize("to", [*INTEGERS, torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.one_in(3)
def test_conversions(to):
    """Between all types, also at a distance, from one element and in a longer computation."""
    for given in [*INTEGERS, torch.bool, torch.float16, torch.float32, torch.float64]:
        x = torch.randint(0, 120, (37, 70)).to(given) if given != torch.bool else torch.rand(37, 70) > 0.5
        got, want = (f(lambda x: (x.to(to), x[:, ::2].to(to), x[0, :1].to(to).expand(9), x.t().to(to)), x) for f in (run, lambda f, x: f(x)))
        assert all(g.dtype == to and torch.equal(g, w) for g, w in zip(got, want, strict=True)), given


@pytest.mark.parametrize("to", [torch.float16, torch.bfloat16], ids=str)
def test_a_store_rounds(to):
    """Results of a half type are rounded once, by the store, also if they are used in another way too."""
    x = torch.cat([torch.randn(1000) * 100, torch.tensor([float("inf"), -float("inf"), 1e30, -0.0, 1e-8])])
    got = run(lambda x: ((x * 2).to(to), (x + 1).to(to).float() * 3), x)
    assert torch.equal(got[0], (x * 2).to(to)) and torch.equal(got[1], (x + 1).to(to).float() * 3)
    assert run(lambda x: x.to(to), torch.tensor([float("nan")] * 70)).isnan().all()


ROWS = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "norm": lambda x: x.norm(dim=-1),
    "norm 1": lambda x: torch.linalg.vector_norm(x, 1, -1),
    "var": lambda x: x.var(-1),
    "prod": lambda x: (x * 0.1 + 1).prod(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "both": lambda x: (x - x.amax(-1, True)) / (1 + x.abs().sum(-1, True)) * x.amin(-1, True),
    "dot": lambda x: (x * x.flip(0)).sum(-1),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("length", [2, 3, 12, 13, 49, 64, 127, 1000, 1025])
@pytest.mark.one_in(10)
def test_rows(name, length):
    """Several short rows are computed at once. A row's values do not depend on the number of rows, which fills no group of them."""
    f = ROWS[name]
    x = torch.randn(53, length) * 3
    is_accurate(f, x, depth=length)
    is_accurate(f, torch.randn(53, length + 5)[:, 2 : length + 2], depth=length)  # rows with gaps
    is_accurate(f, x[:1], depth=length)
    is_accurate(f, x.bfloat16(), depth=length)
    if name == "softmax":
        x[1, 0], x[2], x[3, -1] = float("nan"), -float("inf"), float("inf")
        assert torch.equal(run(f, x).isnan(), f(x).isnan())


SIZES = [((2, 3, 7, 7), (3, 3)), ((1, 5, 30, 30), (7, 7)), ((2, 2, 15, 20), (6, 6)), ((1, 3, 224, 17), (13, 5)), ((1, 40, 9, 600), (2, 37)), ((1, 1, 5, 7), (7, 9)), ((3, 70, 28, 28), (5, 3))]


@pytest.mark.parametrize("sizes, to", SIZES, ids=str)
@pytest.mark.one_in(2)
def test_unequal_windows(sizes, to):
    """An average over windows of different lengths reads only their elements: an infinite one beside them changes nothing."""
    x = torch.randn(sizes)
    is_accurate(lambda x: F.adaptive_avg_pool2d(x, to), x)
    is_accurate(lambda x: F.adaptive_avg_pool1d(x[:, :, 0], to[1]), x)
    is_accurate(lambda x: F.adaptive_avg_pool2d(x, to), x.to(memory_format=torch.channels_last))
    is_accurate(lambda x: F.adaptive_avg_pool2d(x.relu() * 2, to) + 1, x.bfloat16())
    x[..., 0, 0] = float("inf")
    assert torch.equal(run(lambda x: F.adaptive_avg_pool2d(x, to), x).isinf(), F.adaptive_avg_pool2d(x, to).isinf())


@pytest.mark.parametrize("to", [2, 3, (2, 4)], ids=str)
def test_unequal_windows_between_convolutions(to):
    """Of open sizes: each row of the convolution's result is looked up at places of its own."""
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 64, 1), torch.nn.AdaptiveAvgPool2d(to), torch.nn.Conv2d(64, 16, 1)).eval()
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 8, 8, 8), opt_shape=(2, 8, 16, 16), max_shape=(4, 8, 40, 40))])
    for sizes in [(2, 8, 16, 16), (1, 8, 20, 24), (3, 8, 31, 40)]:
        x = torch.randn(sizes)
        with torch.no_grad():
            assert_accurate(compiled(x), model(x), copy.deepcopy(model).double()(x.double()), depth=64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.one_in(3)
def test_small_products(dtype):
    """Thousands of products of small matrices, contiguous or not."""
    for m, k, n in [(4, 4, 4), (2, 3, 5), (16, 16, 16), (1, 7, 9), (5, 1, 16), (17, 4, 4)]:
        a, b = torch.randn(3, 50, m, k, dtype=dtype), torch.randn(3, 50, k, n, dtype=dtype)
        is_accurate(lambda a, b: a @ b, a, b, depth=k)
        is_accurate(lambda a, b: a.transpose(-1, -2) @ b, torch.randn(3, 50, k, m, dtype=dtype), b, depth=k)
        is_accurate(lambda a, b: a[:, ::2] @ b[:1, 1::2], a, b, depth=k)
        is_accurate(lambda a, b: (a @ b).relu() + 1, a, b, depth=k)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("m, k, n", [(1, 64, 33), (3, 101, 70), (40, 255, 64), (130, 64, 95), (1, 1000, 300)], ids=str)
@pytest.mark.one_in(2)
def test_products_of_half_types(dtype, m, k, n):
    """Neither operand is a weight: B is packed in its own type, from rows or from columns."""
    a, b = torch.randn(m, k, dtype=dtype), torch.randn(k, n, dtype=dtype)
    is_accurate(lambda a, b: a @ b, a, b, depth=k)
    is_accurate(lambda a, b: a @ b.t(), a, b.t().contiguous(), depth=k)
    is_accurate(lambda a, b: a @ b[:, 1:], a, b, depth=k)
    is_accurate(lambda a, b: a @ b[:, ::2], a, b, depth=k)


def test_lines_that_go_to_one_place():
    """Neighbouring rows of one destination are summed before they are added."""
    for width in (8, 17, 300):
        at = torch.randint(0, 20, (400,)).sort()[0]
        x, base = torch.randn(400, width), torch.randn(20, width)
        for index in (at, at[torch.randperm(400)]):
            is_accurate(lambda b, i, x: b.index_add(0, i, x), base, index, x, depth=400)
        offsets = torch.tensor([0, 0, 3, 90, 90, 399])
        is_accurate(lambda i, t, o: F.embedding_bag(i, t, o, mode="sum"), torch.randint(0, 20, (400,)), base, offsets, depth=400)


def test_copies_of_overlapping_rows():
    x = torch.randn(7, 403)
    assert torch.equal(run(lambda x: x.unfold(-1, 16, 8).contiguous(), x), x.unfold(-1, 16, 8).contiguous())
    assert torch.equal(run(lambda x: x.double().unfold(-1, 3, 5) + 1, x), x.double().unfold(-1, 3, 5) + 1)


def test_nan_to_num():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0, -0.0, 3.4028234663852886e38])
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        for given in ({}, {"nan": 2.0}, {"posinf": 5.0}, {"neginf": -7.0, "posinf": float("inf")}):
            y = x.to(dtype)
            assert torch.equal(run(lambda x: torch.nan_to_num(x, **given), y), torch.nan_to_num(y, **given)), (dtype, given)
