"""More axes than a kernel has are an UnsupportedError that says where, and what to do. Views may have as many as torch's."""

import pytest
import torch
from calls import Calls

import ingot

X = torch.randn([2] * 18)
ORDER = [*range(0, 18, 2), *range(1, 18, 2)]
I = torch.randint(0, 2, [2] * 18)  # noqa: E741

PROGRAMS = {
    "add": lambda x, i: x.permute(ORDER) + x,
    "sum": lambda x, i: x.permute(ORDER).sum((1, 3, 5)),
    "sort": lambda x, i: x.sort(9)[0],
    "topk": lambda x, i: x.permute(ORDER).topk(1, 3)[0],
    "cumsum": lambda x, i: x.permute(ORDER).cumsum(4),
    "scatter": lambda x, i: x.scatter(3, i, x),
    "gather": lambda x, i: x.permute(ORDER).gather(3, i),
    "layer_norm": lambda x, i: torch.nn.functional.layer_norm(x.permute(ORDER), [2, 2]),
    "var": lambda x, i: x.permute(ORDER).var((0, 3, 5, 9)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_too_many_axes(name):
    with pytest.raises(ingot.UnsupportedError, match="18 axes") as refused:
        ingot.compile(Calls(PROGRAMS[name]), inputs=[X, I])
    assert "calls.py:" in refused.value.origin and "torch_executed_ops" in refused.value.remedy


def test_what_the_remedy_says():
    model = Calls(PROGRAMS["cumsum"])
    compiled = ingot.compile(model, inputs=[X, I], torch_executed_ops=["aten.cumsum"])
    torch.testing.assert_close(compiled(X, I), model(X, I))


def test_views_of_many_axes():
    model = Calls(lambda x, i: (x.transpose(0, 1).reshape(2, 2, -1) * 2).exp())
    compiled = ingot.compile(model, inputs=[X, I], fallback="error")
    torch.testing.assert_close(compiled(X, I), model(X, I))
