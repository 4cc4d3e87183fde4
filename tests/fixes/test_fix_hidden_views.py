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


EQUATIONS = ["ii->i", "bii->ib", "iibj->jbi", "iijj->ij", "iii", "cab"]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_diagonals(equation):
    model = lambda x: (y := x.sin(), torch.einsum(equation, y).add_(1))[0]
    x = torch.randn([3 if letter in "ij" else 2 for letter in equation.partition("->")[0]])
    if equation == "iii":  # what is written without an arrow has each letter once
        assert not hidden_views.wanted(exported(model, x))
        return
    traced = exported(model, x)
    fixed("hidden_views", traced)
    assert "aten.einsum.default" not in targets(traced)
    assert traced.program().module()(x).equal(model(x))


def test_an_expanded_view_is_refused():
    traced = exported(lambda x: (y := x.sin(), torch.broadcast_tensors(y, x.expand(2, 3, 3))[0].add_(1))[0], torch.randn(3, 3))
    assert hidden_views.wanted(traced)
    with pytest.raises(NotFunctional, match="result or operand of broadcast_tensors"):
        hidden_views.apply(traced)


def test_what_is_not_written():
    assert not hidden_views.wanted(exported(lambda x: torch.einsum("ij->ji", x.sin()), torch.randn(2, 3)))


def test_other_graphs():
    assert is_unwanted("hidden_views")
