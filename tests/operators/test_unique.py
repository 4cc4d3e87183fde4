"""torch.unique and its relatives: how many results there are comes from data."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from calls import Calls

import ingot

FORMS = {
    "values": lambda x: torch.unique(x),
    "inverse": lambda x: torch.unique(x, return_inverse=True),
    "counts": lambda x: torch.unique(x, sorted=False, return_inverse=True, return_counts=True),
    "rows": lambda x: torch.unique(x, return_inverse=True, return_counts=True, dim=0),
    "columns": lambda x: torch.unique(x, return_counts=True, dim=1),
    "slices": lambda x: torch.unique(torch.stack((x, x.flip(0)), 1), return_inverse=True, dim=2),
    "consecutive": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    "consecutive rows": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=0),
    "consecutive columns": lambda x: torch.unique_consecutive(x, return_counts=True, dim=1),
}


def draws(dtype):
    """Runs of equal numbers, all equal, all different, one element."""
    numbers = [torch.randint(0, 3, (6, 4)), torch.zeros(3, 5), torch.arange(12).reshape(4, 3).flip(0), torch.ones(1, 1), torch.randint(0, 2, (7, 1)).expand(7, 2)]
    return [n.to(dtype).contiguous() for n in numbers]


def same(ours, eager):
    ours, eager = (v if isinstance(v, tuple) else (v,) for v in (ours, eager))
    for a, b in zip(ours, eager, strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_ahead_of_time(form, dtype):
    torch.manual_seed(0)
    axes = {0: torch.export.Dim("rows", max=64), 1: torch.export.Dim("columns", max=64)}
    compiled = ingot.compile(Calls(form).eval(), inputs=[torch.zeros(6, 4).to(dtype)], dynamic_shapes=((axes,),), fallback="error")
    for x in draws(dtype):
        same(compiled(x), form(x))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_torch_compile(form):
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(Calls(form).eval(), backend="ingot", options={"fallback": "error"})
        for x in draws(torch.float32)[:3]:
            same(compiled(x), form(x))


def test_nan_equals_nothing():
    x = torch.tensor([1.0, float("nan"), float("nan"), 1.0])
    compiled = ingot.compile(Calls(FORMS["counts"]).eval(), inputs=[x], fallback="error")
    for ours, eager in zip(compiled(x), FORMS["counts"](x)):
        assert torch.equal(ours.nan_to_num(-7), eager.nan_to_num(-7))
