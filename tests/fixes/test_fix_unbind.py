import torch
from graphs import exported, fixed, is_unwanted, targets


def test_parts_are_selected():
    model = lambda x: x.unbind(1)[2] - x.unbind(1)[0]
    traced, x = exported(model, torch.randn(2, 3)), torch.randn(2, 3)
    assert "aten.unbind.int" in targets(traced)
    fixed("unbind", traced)
    traced.graph.eliminate_dead_code()
    assert targets(traced) == ["aten.select.int", "aten.select.int", "aten.sub.Tensor"]
    assert traced.program().module()(x).equal(model(x))


def test_other_graphs():
    assert is_unwanted("unbind")
