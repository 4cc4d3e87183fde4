import torch
from graphs import exported, fixed, is_unwanted, targets

from ingot.capture.fixes import fill_diagonals


def test_the_diagonal_is_written():
    model = lambda x: x.clone().fill_diagonal_(3)
    traced, x = exported(model, torch.randn(3, 4)), torch.randn(3, 4)
    fixed("fill_diagonals", traced)
    assert targets(traced) == ["aten.clone.default", "aten.diagonal.default", "aten.fill_.Scalar"]
    assert traced.program().module()(x).equal(model(x))


def test_one_that_wraps_stays():
    assert not fill_diagonals.wanted(exported(lambda x: x.clone().fill_diagonal_(3, wrap=True), torch.randn(7, 2)))


def test_other_graphs():
    assert is_unwanted("fill_diagonals")


def test_a_method_in_dynamos_graph(no_gradients):
    """The diagonal of an input: without the fix torch's graph has as_strided of it, which runs in torch."""

    def model(x):
        x.fill_diagonal_(3)
        return x.tril_() * 2

    compiled = torch.compile(model, backend="ingot", options={"fallback": "error"})
    x = torch.randn(3, 4)
    y = x.clone()
    assert compiled(x).equal(model(y)) and x.equal(y)
