"""Scatters along an axis: with an index that is the same beside it they move whole rows, and any other index stays one of elements."""

import pytest
import torch
from calls import Calls

import ingot

GEN = torch.Generator().manual_seed(0)
I = torch.randint(0, 10, (50,), generator=GEN)  # noqa: E741


def r(*shape):
    return torch.randn(*shape, generator=GEN)


# function, base, source, whether whole rows move
CASES = {
    "rows": (lambda x, i, s: x.scatter_add(0, i[:, None].expand(-1, 6), s), r(10, 6), r(50, 6), True),
    "columns": (lambda x, i, s: x.scatter_add(1, i[None, :].expand(10, -1), s), r(10, 10), r(10, 50), True),
    "the middle axis": (lambda x, i, s: x.scatter_add(1, i[None, :, None].expand(3, -1, 5), s), r(3, 10, 5), r(3, 50, 5), True),
    "set": (lambda x, i, s: x.scatter(0, i[:, None].expand(-1, 6), s), r(10, 6), r(50, 6), True),
    "the largest": (lambda x, i, s: x.scatter_reduce(0, i[:, None].expand_as(s), s, "amax"), r(10, 6), r(50, 6), True),
    "means": (lambda x, i, s: x.scatter_reduce(0, i[:, None].expand_as(s), s, "mean", include_self=False), r(10, 6), r(50, 6), True),
    "a part of each row": (lambda x, i, s: x.scatter_add(0, i[:, None].expand(-1, 4), s), r(10, 6), r(50, 4), False),
    "a part of the source": (lambda x, i, s: x.scatter_add(0, i[:, None].expand(-1, 6), s), r(10, 6), r(60, 8), False),
    "another axis": (lambda x, i, s: x.scatter_add(1, i[:, None].expand(-1, 6), s), r(50, 10), r(50, 6), False),
    "an index of elements": (lambda x, i, s: x.scatter_add(0, (i[:, None] + torch.arange(6)) % 10, s), r(10, 6), r(50, 6), False),
}


OPEN = ["rows", "set", "the largest", "means"]


@pytest.mark.parametrize("name, is_open", [(name, False) for name in CASES] + [(name, True) for name in OPEN])
def test_scatters(name, is_open):
    function, x, s, rows = CASES[name]
    n = torch.export.Dim("n", min=2, max=100)
    shapes = {"inputs": (None, {0: n}, {0: n})} if is_open else None
    compiled = ingot.compile(Calls(function), inputs=[x, I, s], dynamic_shapes=shapes, min_block_size=1)
    for few in (50, 7) if is_open else (50,):
        torch.testing.assert_close(compiled(x, I[:few], s[:few] if is_open else s), function(x, I[:few], s[:few] if is_open else s))
    steps = [step["label"] for step in compiled.engine.inspect()["functions"][0]["programs"][0]["steps"]]
    assert ("scatter_along" not in steps) == rows and any(label.startswith("scatter") for label in steps), steps


@pytest.mark.parametrize("index", [-1, 10])
def test_an_index_outside_is_refused(index):
    function, x, s, _ = CASES["rows"]
    compiled = ingot.compile(type("Model", (torch.nn.Module,), {"forward": lambda self, *given: function(*given)})(), inputs=[x, I, s], fallback="error")
    outside = I.clone()
    outside[3] = index
    with pytest.raises(ingot.InputError, match="out of range"):
        compiled(x, outside, s)
