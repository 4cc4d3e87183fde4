"""Tensor.view(dtype): the same bytes as elements of another type, of which the last axis has more or fewer."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from calls import Calls

import ingot

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def same_bits(ours, eager):
    assert ours.dtype == eager.dtype and ours.shape == eager.shape
    assert torch.equal(ours.contiguous().view(torch.uint8), eager.contiguous().view(torch.uint8))


def any_nan(x):
    """A half that a GPU's kernel copies stays NaN, but not with the same bits: it goes through float32."""
    return torch.where(x.isnan(), torch.nan, x) if x.dtype in (torch.float16, torch.bfloat16) else x


def all_bits(dtype, *shape):
    """Any bits: also infinite and subnormal numbers, and NaNs of all kinds."""
    size = torch.empty((), dtype=dtype).element_size()
    return torch.randint(0, 256, (*shape[:-1], shape[-1] * size), dtype=torch.uint8).view(dtype)


@pytest.mark.parametrize("to", TYPES, ids=str)
@pytest.mark.parametrize("of", TYPES, ids=str)
def test_types(of, to):
    torch.manual_seed(0)
    x = all_bits(of, 5, 16)
    compiled = ingot.compile(Calls(lambda t: t.view(to)), [x], fallback="error")
    same_bits(compiled(x), x.view(to))


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile(dynamic):
    torch._dynamo.reset()

    def bits(x):
        sign = (x.view(torch.int32) >> 31) & 1
        return (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32), sign, x.half().view(torch.uint8), x.view(torch.int64)

    compiled = torch.compile(bits, backend="ingot", options={"fallback": "error"}, dynamic=dynamic)
    for rows in (3, 7):
        x = torch.randn(rows, 8)
        for ours, eager in zip(compiled(x), bits(x), strict=True):
            same_bits(ours, eager)


def test_computed_numbers_are_rounded_first():
    x = torch.randn(4, 33).half()
    function = lambda t: ((t * 1.75 + 0.25).view(torch.int16), (t.float() * 3).view(torch.int32), (t.view(torch.int16) ^ 1).view(torch.float16) * 2, t.view(torch.bfloat16) + 1)  # noqa: E731
    compiled = ingot.compile(Calls(function), [x], fallback="error")
    for ours, eager in zip(compiled(x), function(x), strict=True):
        same_bits(ours, eager)


def test_bools_and_constants():
    packed = torch.tensor([1.0, -2.0, float("nan"), 0.5])
    function = lambda b: (b.view(torch.uint8) + packed.view(torch.uint8)[:3], b.view(torch.int8).view(torch.bool))  # noqa: E731
    b = torch.tensor([True, False, True])
    compiled = ingot.compile(Calls(function), [b], fallback="error")
    for ours, eager in zip(compiled(b), function(b), strict=True):
        same_bits(ours, eager)


@pytest.mark.parametrize("of", [torch.float32, torch.int16], ids=str)
def test_open_sizes(of):
    dim = torch.export.Dim("n", min=1, max=64)
    function = lambda t: (t.view(torch.uint8).float().sum(-1), t.view(torch.uint8).view(of) + 1)  # noqa: E731
    compiled = ingot.compile(Calls(function), [all_bits(of, 4, 6)], dynamic_shapes=(({1: dim},),), fallback="error")
    for n in (1, 6, 33):
        x = torch.arange(4 * n).reshape(4, n).to(of)
        for ours, eager in zip(compiled(x), function(x), strict=True):
            same_bits(ours, eager)


def test_writes_through_a_view_of_the_bits():
    def negated(x):
        bits = x.view(torch.int32)
        bits[1:] ^= -(2**31)
        return x + 1, bits

    def rewritten(x):
        bits = x.view(torch.int32)
        x.mul_(2)
        return bits + 1

    for function in (negated, rewritten):
        x, y = (torch.arange(6.0) for _ in range(2))
        compiled = ingot.compile(Calls(function), [x.clone()], fallback="error")
        ours, eager = compiled(x), function(y)
        same_bits(x, y)
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (ours, eager)), strict=True):
            same_bits(a, b)


def test_a_result_is_a_view_of_its_input():
    x = torch.arange(6.0)
    compiled = ingot.compile(Calls(lambda t: (t.view(torch.int32), t + 1)), [x])
    compiled(x)[0].zero_()
    assert torch.equal(x, torch.zeros(6))


def test_complex_numbers():
    z, x = torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 8)
    function = lambda z, x: (z.view(torch.float32) * 2, (x.view(torch.complex64) * z).real, (x + 1).view(torch.complex64) * z)  # noqa: E731
    compiled = ingot.compile(Calls(function), [z, x])
    assert compiled.report.operators_in_torch == [] if hasattr(compiled.report, "operators_in_torch") else True
    for ours, eager in zip(compiled(z, x), function(z, x), strict=True):
        torch.testing.assert_close(ours, eager)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("to", TYPES, ids=str)
@pytest.mark.parametrize("of", TYPES, ids=str)
def test_on_a_gpu(of, to):
    torch.manual_seed(0)
    x = all_bits(of, 5, 16).cuda()
    function = lambda t: (t.view(to), t.flip(0).view(to).flip(0))  # noqa: E731
    compiled = ingot.compile(Calls(function), [x], fallback="error")
    for ours, eager in zip(compiled(x), function(x), strict=True):
        same_bits(any_nan(ours).cpu(), any_nan(eager).cpu())
