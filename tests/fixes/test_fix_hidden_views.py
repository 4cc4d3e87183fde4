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


def test_broadcast_tensors():
    model = lambda x, z: (y := x.sin(), y.add_(1), torch.broadcast_tensors(y[:, None], z, y))[2]
    x, z = torch.randn(4, 3), torch.randn(1, 4, 3)
    for dynamic in (None, (({0: torch.export.Dim("n", min=2, max=9)},),)):
        traced = exported(model, x, z) if dynamic is None else exported(lambda x: model(x, x[None]), x, dynamic_shapes=dynamic)
        fixed("hidden_views", traced)
        assert "aten.broadcast_tensors.default" not in targets(traced) and targets(traced).count("aten.expand.default") == 3
    got = traced.program().module()(x)
    assert all(map(torch.equal, got, model(x, x[None])))


def test_a_view_that_no_operator_gives_is_refused():
    traced = exported(lambda x: (y := x.sin(), torch.meshgrid(y, x, indexing="ij")[0].add_(1))[0], torch.randn(3))
    assert hidden_views.wanted(traced)
    with pytest.raises(NotFunctional, match="result or operand of meshgrid"):
        hidden_views.apply(traced)


def test_what_is_not_written():
    assert not hidden_views.wanted(exported(lambda x: torch.einsum("ij->ji", x.sin()), torch.randn(2, 3)))


def test_other_graphs():
    assert is_unwanted("hidden_views")
