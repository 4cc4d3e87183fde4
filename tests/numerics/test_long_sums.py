"""Matrix products with many terms: an engine's error is like eager's, with no allowance for the number of terms."""

from __future__ import annotations

import copy

import pytest
import torch

import ingot


def off(result, exact):
    return (result.double() - exact).square().mean().sqrt().item()


# Root mean square of the error beside that of the result that any order of sums may have. Some CPUs sum 512 terms in so many accumulators that eager is off by two
# roundings; one chain of 8,192 terms is off by about 45.
FLOOR = 8 * 2.0**-24


def check(module, x):
    module = module.eval().requires_grad_(False)
    with torch.no_grad():
        exact = copy.deepcopy(module).double()(x.double())
        ours, theirs = off(ingot.compile(module, inputs=[x])(x), exact), off(module(x), exact)
    floor = FLOOR * exact.square().mean().sqrt().item()
    assert ours <= max(2 * theirs, floor), f"{ours:.3e}, eager's is {theirs:.3e}"


@pytest.mark.parametrize("columns", [64, 70, 8], ids=["whole-panels", "part-of-a-panel", "few-columns"])
@pytest.mark.parametrize("rows", [1, 2, 16, 100])
@pytest.mark.parametrize("terms", [512, 8192])
@pytest.mark.one_in(2)
def test_linear(terms, rows, columns):
    torch.manual_seed(0)
    check(torch.nn.Linear(terms, columns), torch.randn(rows, terms))


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("terms", [128, 384, 512, 1280])
def test_few_rows_are_as_accurate_as_one(terms, rows):
    torch.manual_seed(0)
    module = torch.nn.Linear(terms, 992).eval().requires_grad_(False)
    x = torch.randn(rows, terms)
    exact = copy.deepcopy(module).double()(x.double())
    error = off(ingot.compile(module, inputs=[x])(x), exact)
    one = ingot.compile(module, inputs=[x[:1]])
    assert error <= 1.2 * off(torch.cat([one(row[None]) for row in x]), exact)


@pytest.mark.parametrize("rows", [1, 4, 64])
@pytest.mark.parametrize("columns", [5, 10])
def test_few_columns_have_sums_of_128_terms(columns, rows):
    torch.manual_seed(0)
    x, weight = torch.randn(64, 512), torch.randn(columns, 512)

    def product(x, weight):
        module = torch.nn.Linear(*weight.t().shape, bias=False).requires_grad_(False)
        module.weight.copy_(weight)
        engine = ingot.compile(module, inputs=[x[:rows]], min_block_size=1)
        return torch.cat([engine(part) for part in x.split(rows)])

    with torch.no_grad():
        exact = x.double() @ weight.double().t()
        parts = sum(product(a.contiguous(), b) for a, b in zip(x.split(128, 1), weight.split(128, 1)))
        assert off(product(x, weight), exact) <= 1.2 * off(parts, exact)


@pytest.mark.parametrize("columns, groups", [(64, 1), (8, 1), (8, 2)])
@pytest.mark.parametrize("channels, size", [(2048, 1), (512, 3)])
def test_convolution(channels, size, columns, groups):
    torch.manual_seed(0)
    check(torch.nn.Conv2d(channels, columns, size, padding=size // 2, groups=groups), torch.randn(2, channels, 6, 6))
