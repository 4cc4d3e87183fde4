import pytest
import torch
from graphs import fixed, is_unwanted, of_dynamo, targets
from torch._higher_order_ops import scan, while_loop

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


class InRegion(torch.nn.Module):
    """A norm in a region, into which Dynamo passes its epsilon."""

    def __init__(self, function):
        super().__init__()
        self.norm, self.function = torch.nn.LayerNorm(4), function

    def forward(self, x):
        return self.function(self.norm, x)


REGIONS = {
    "branch": lambda norm, x: torch.cond(x.sum() > 0, lambda x: norm(x), lambda x: x * 2, (x,)),
    "loop": lambda norm, x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, norm(x) + 1), (torch.zeros((), dtype=torch.int64), x))[1],
    "scan": lambda norm, x: scan(lambda h, x: ((y := norm(h + x)), y * 2), x[0], x)[1],
    "branch in a loop": lambda norm, x: while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, torch.cond(x.sum() > 0, lambda x: norm(x), lambda x: x * 2, (x,)) + 1), (torch.zeros((), dtype=torch.int64), x)
    )[1],
}


@pytest.mark.parametrize("name", REGIONS)
def test_numbers_in_regions(name, no_gradients):
    torch._dynamo.reset()
    model, x = InRegion(REGIONS[name]).eval(), torch.randn(3, 4)
    compiled = torch.compile(model, backend="ingot", dynamic=True, options={"fallback": "error"})
    for x in (x, torch.ones(5, 4)):
        torch.testing.assert_close(compiled(x), model(x))
    model.norm.eps = 0.5  # another value than the compiled one
    torch.testing.assert_close(compiled(x), model(x))
