"""Composites whose own code in torch asks about sizes, or takes them for plain numbers, with open sizes: one plan for all."""

import pytest
import torch

import ingot

FUNCTIONS = {
    "cdist": lambda a, b: (torch.cdist(a, b), torch.cdist(a[None], b.expand(2, -1, -1), p=1.0)),  # torch computes otherwise from 26 vectors on
    "kron": lambda a, b: (torch.kron(a, b), torch.kron(a[0], b)),
    "norms": lambda a, b: (*(torch.linalg.matrix_norm(a, order) for order in (torch.inf, -torch.inf, 1, -1)), torch.linalg.norm(a[None] * b[0], 1, (0, 2), keepdim=True), torch.linalg.norm(b, torch.inf, 0)),
    "combinations": lambda a, b: (torch.combinations(a[:, 0], 2), torch.combinations(b[:7, 1], 3), torch.combinations(b[:5, 1], 2, True)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("door", ["compile", "torch.compile"])
@pytest.mark.one_in(4)
def test_open_sizes(name, door, no_gradients):
    torch._dynamo.reset()
    function = FUNCTIONS[name]
    if door == "compile":
        rows = {"min_shape": (1, 3), "opt_shape": (5, 3), "max_shape": (40, 3)}
        model = type("Model", (torch.nn.Module,), {"forward": lambda self, a, b: function(a, b)})()
        call = ingot.compile(model, inputs=[ingot.Input(**rows), ingot.Input(**rows)], fallback="error")
    else:
        call = torch.compile(function, backend="ingot", dynamic=True, options={"fallback": "error"})
    for m, n in ((5, 4), (30, 29), (2, 40)):
        a, b = torch.randn(m, 3), torch.randn(n, 3)
        for ours, theirs in zip(call(a, b), function(a, b), strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("r", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.one_in(6)
def test_combinations(size, r, with_replacement, no_gradients):
    """torch's own code selects by a mask, whose size it cannot know."""
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: torch.combinations(x * 2, r, with_replacement)})()
    x = torch.randn(size)
    ours, theirs = ingot.compile(model, inputs=[x], fallback="error")(x), model(x)
    assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


def test_norms_that_torch_refuses_are_refused(no_gradients):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: torch.linalg.matrix_norm(x, torch.inf)})()
    with pytest.raises(ingot.Error):
        ingot.compile(model, inputs=[torch.ones(3, 4, dtype=torch.int64)])
