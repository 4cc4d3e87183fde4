import torch
from graphs import exported, fixed, is_unwanted, result, targets

from ingot.capture.fixes import own_writes


def test_writes_become_new_values():
    traced = exported(lambda x: x.sin().add_(1).relu_(), torch.randn(3))
    assert targets(traced) == ["aten.sin.default", "aten.add_.Tensor", "aten.relu_.default"]
    fixed("own_writes", traced)
    x = torch.randn(3)
    assert targets(traced) == ["aten.sin.default", "aten.add.Tensor", "aten.relu.default"] and result(traced).target is torch.ops.aten.relu.default
    assert traced.program().module()(x).equal((x.sin() + 1).relu())


def test_other_writes_are_left_to_torch():
    def through_a_view(x):
        y = x.sin()
        y[0].add_(1)
        return y

    assert not own_writes.wanted(exported(through_a_view, torch.randn(3)))
    assert not own_writes.wanted(exported(lambda x: x.add_(1), torch.randn(3)))  # an input
    traced = exported(lambda x: x.sin().add_(1), torch.randn(3))
    traced.casts = True
    assert not own_writes.wanted(traced)


def test_a_new_value_of_another_type_leaves_the_graph():
    """What a half tensor gets is rounded to half."""
    traced = exported(lambda x: torch.zeros(3, dtype=torch.float16).add_(x), torch.randn(3))
    graph, before = traced.graph, targets(traced)
    assert own_writes.wanted(traced) and own_writes.apply(traced) is False
    assert traced.graph is graph and targets(traced) == before


def test_other_graphs():
    assert is_unwanted("own_writes")
