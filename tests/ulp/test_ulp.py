"""Functions of one float32 stay as exact as docs/accuracy.md says, on a part of the inputs, special inputs and those around the worst known."""

import math
import re
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from functions import FUNCTIONS, Walk, blocks, special_inputs
from walk import on_cuda, read_table

TABLE = read_table()
WAYS = ("portable", "avx2", "avx512")
CANCELS = {"lgamma", "digamma", "gelu", "gelu_tanh"}  # no worse than torch's; all others 2 ulp
NOT_AS_EAGER = {"gelu": [math.inf, -0.0]}  # NaN, or 0 without its sign, in torch's kernels for the CPU alone


def cell(text: str) -> tuple[float, float]:
    error, at = re.match(r"(\S+) at ([^\s;]+)", text).groups()
    return float(error), float(at)


def test_every_function_has_its_row():
    assert list(TABLE) == list(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_table_keeps_the_bar(name):
    row = TABLE[name]
    for way, eager in [*((way, "torch") for way in WAYS), ("CUDA", "torch on CUDA")]:
        if row[way] != "-":
            assert cell(row[way])[0] <= (cell(row[eager])[0] if name in CANCELS else 2.0), f"{name} ({way})"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_further_off_than_the_table(name):
    row, walk = TABLE[name], Walk(name)
    x = special_inputs()
    walk.add(x, FUNCTIONS[name](x))
    worst = torch.tensor([cell(row[way])[1] for way in WAYS])
    if row["inputs"] == "all":
        step = 10007
        worst = (worst.view(torch.int32)[:, None] + torch.arange(-500, 501, dtype=torch.int32)).flatten().view(torch.float32)
    else:  # inputs that the table's walk has seen
        step = 101 * int(row["inputs"].removeprefix("every "))
    for x in [worst.contiguous(), *blocks(step)]:
        walk.add(x, FUNCTIONS[name](x))
    for way, result in walk.of_ways().items():
        error = cell(row[way])[0]
        assert result.error <= error, f"{name} ({way}): {result.error:.3f} ulp at {result.at!r}, {error} in docs/accuracy.md"
        allowed = NOT_AS_EAGER.get(name, [])
        assert result.specials == 0 or result.special_at in allowed, f"{name} ({way}): another kind than eager's at {result.special_at!r}"


def test_an_error_is_found():
    """The measurement itself finds results that are off by one unit, zeros of the wrong sign, flushed results, and NaN."""
    x = torch.tensor([1.0, -0.0, 1e-40, 2.0])
    exact = torch.sqrt(x)
    walk = Walk("sqrt")
    walk.add(x, exact, torch.nextafter(exact, torch.tensor(math.inf)), kernels=False)
    assert walk.given(0).error <= 0.5 and 0.5 < walk.given(1).error <= 1.5
    walk = Walk("sqrt")
    walk.add(x, exact, torch.tensor([1.0, 0.0, exact[2], math.nan]), kernels=False)
    assert walk.given(1).specials == 2
    walk = Walk("erf")
    walk.add(x, torch.erf(x), torch.tensor([torch.erf(x)[0], -0.0, 0.0, torch.erf(x)[3]]), kernels=False)
    assert walk.given(1).error > 1000


def test_each_instruction_set_is_measured():
    """Without vectors the sine is the C library's, rounded once."""
    walk = Walk("sin")
    x = torch.linspace(0.3, 0.9, 2001)
    walk.add(x, torch.sin(x))
    error = {way: result.error for way, result in walk.of_ways().items()}
    assert error["portable"] <= 0.5 and all(error[way] > 0.5 for way in WAYS[1:] if way in error), error


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_a_gpu(name):
    cells = on_cuda(name, 10007)
    ours, theirs = cell(cells["CUDA"])[0], cell(cells["torch on CUDA"])[0]
    assert ours <= (theirs if name in CANCELS else 2.0), f"{name}: {ours} ulp, torch's {theirs}"
