"""Convolutions of bfloat16 and float64 on the CPU, by every instruction set: errors by norm are those of eager."""

import os
from pathlib import Path

import fresh
import pytest
import torch

import ingot

# Channels, results, kernel, and what nn.Conv2d takes; the image.
FORMS = {
    "dense": ((64, 40, 3), {"padding": 1}, (2, 64, 9, 11)),
    "long sums": ((160, 33, 3), {"stride": 2, "padding": 1}, (1, 160, 9, 9)),
    "first layer": ((3, 64, 7), {"stride": 2, "padding": 3}, (1, 3, 30, 31)),
    "strided rows": ((64, 48, 1), {"stride": 2}, (1, 64, 12, 13)),
    "dilated": ((17, 32, 3), {"padding": 2, "dilation": 2}, (1, 17, 14, 14)),
    "groups": ((16, 16, 3), {"padding": 1, "groups": 4}, (2, 16, 18, 17)),
    "groups of odd sizes": ((15, 21, 3), {"padding": 1, "groups": 3}, (1, 15, 9, 9)),
    "groups of a channel": ((12, 24, 3), {"padding": 1, "groups": 12}, (1, 12, 9, 9)),
    "many groups": ((96, 96, 3), {"groups": 24}, (1, 96, 8, 8)),
}


def relative(x, exact):
    return float((x.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.one_in(4)
def test_errors_are_those_of_eager(form, dtype, channels_last):
    torch.manual_seed(0)
    sizes, options, image = FORMS[form]
    model = torch.nn.Sequential(torch.nn.Conv2d(*sizes, **options), torch.nn.ReLU()).requires_grad_(False).to(dtype)
    x = torch.randn(image, dtype=dtype)
    if channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    result = ingot.compile(model, inputs=[x])(x)
    eager = model(x)
    exact = model.double()(x.double())  # after the others: it changes the model
    assert result.dtype == dtype
    bound = 1e-14 if dtype is torch.float64 else 1.1 * relative(eager, exact)
    assert relative(result, exact) <= bound


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512"])
def test_by_lesser_instruction_sets(isa):
    if "INGOT_ISA" in os.environ:
        pytest.skip("an instruction set was asked for")
    program = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', sys.argv[1], '-k', 'errors and bfloat16']))"
    done = fresh.run(program, __file__, env={**os.environ, "INGOT_ISA": isa}, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout
