import torch
from graphs import exported, fixed, is_unwanted, targets


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.37]))

    def forward(self, x):
        return x * self.scale.item(), torch.full((2,), self.scale.item())


def test_the_tensor_takes_the_number_s_place():
    traced, x, model = exported(Scaled(), torch.randn(3)), torch.randn(3), Scaled()
    assert targets(traced) == ["aten.item.default", "aten.mul.Tensor", "aten.full.default"]
    fixed("read_numbers", traced)
    assert "aten.item.default" not in targets(traced) and "aten.full.default" not in targets(traced)
    for made, expected in zip(traced.program().module()(x), model(x), strict=True):
        assert made.equal(expected)


def test_other_graphs():
    assert is_unwanted("read_numbers")
