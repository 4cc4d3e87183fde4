import torch
from graphs import fixed, is_unwanted, of_dynamo, targets

from ingot.capture.fixes import numbers


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.5

    def forward(self, x):
        return x * self.scale


def test_the_value_becomes_a_constant():
    whole = []

    def then(traced):
        assert targets(traced) == ["item", "mul"]
        whole.append(traced.module)
        fixed("numbers", traced)

    traced = of_dynamo(Scaled(), torch.randn(3), dynamic=True, then=then)
    ((place, value),) = traced.numbers.items()
    assert value == 1.5 and targets(traced) == ["mul"]

    x, now = torch.randn(3), torch.tensor(1.5, dtype=torch.float64)
    given = [now if i == place else x if "example_value" in n.meta and isinstance(n.meta["example_value"], torch.Tensor) else 3 for i, n in enumerate(traced.graph.find_nodes(op="placeholder"))]
    call = numbers.guarded(traced.module, *whole, traced.numbers)
    assert call(*given)[0].equal(x * 1.5)
    now.fill_(2)  # another value than the compiled one
    assert call(*given)[0].equal(x * 2) and traced.module(*given)[0].equal(x * 1.5)


def test_other_graphs():
    assert is_unwanted("numbers")
