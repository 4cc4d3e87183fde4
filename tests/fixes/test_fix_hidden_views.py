import pytest
import torch
from graphs import exported, fixed, is_unwanted, of_dynamo, targets

from ingot.capture.fixes import hidden_views
from ingot.capture.traced import NotFunctional


def test_they_become_views():
    model = lambda x: (y := x.sin(), torch.einsum("ij->ji", y).add_(1))[0]
    traced, x = exported(model, torch.randn(2, 3)), torch.randn(2, 3)
    assert targets(traced) == ["aten.sin.default", "aten.einsum.default", "aten.add_.Tensor"]
    fixed("hidden_views", traced)
    assert targets(traced) == ["aten.sin.default", "aten.permute.default", "aten.add_.Tensor"]
    assert traced.program().module()(x).equal(model(x))
    assert hidden_views.wanted(of_dynamo(model, x))


def test_a_diagonal_has_no_such_view():
    traced = exported(lambda x: (y := x.sin(), torch.einsum("ii->i", y).add_(1))[0], torch.randn(3, 3))
    assert hidden_views.wanted(traced)
    with pytest.raises(NotFunctional, match="result or operand of einsum"):
        hidden_views.apply(traced)


def test_what_is_not_written():
    assert not hidden_views.wanted(exported(lambda x: torch.einsum("ij->ji", x.sin()), torch.randn(2, 3)))


def test_other_graphs():
    assert is_unwanted("hidden_views")
