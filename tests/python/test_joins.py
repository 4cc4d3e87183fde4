"""Values that are parts of joined tensors: each join has them, whatever else reads them."""

import pytest
import torch

import ingot


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def of_two(x, y):
    m = x.amax(-1, keepdim=True)
    return torch.cat([m, y]), torch.cat([y, m])


def of_another(x, y):
    m = x.amax(-1, keepdim=True)
    return torch.cat([m, torch.cat([m, y])])


def beside_a_reshape(x, y):
    m = x.sort(-1)[0]
    return torch.cat([m, y], -1), m.reshape(9, 4, 1).tril(-1)


def of_two_in_other_shapes(x, y):
    m = x.sort(-1)[0]
    n = m.reshape(9, 4)
    return torch.cat([m, y], -1), torch.cat([n, n * 2, x.t()], -1)


@pytest.mark.parametrize("function", [of_two, of_another, beside_a_reshape, of_two_in_other_shapes], ids=lambda f: f.__name__)
def test_parts_of_joins(function):
    model, x, y = Function(function), torch.randn(4, 9), torch.randn(4, 1)
    got, eager = ingot.compile(model, inputs=[x, y], fallback="error")(x, y), model(x, y)
    for a, b in zip(*((t,) if isinstance(t, torch.Tensor) else t for t in (got, eager))):
        assert torch.equal(a, b)


def test_a_part_that_is_written_from_rows_of_another_shape():
    def normalised(x, y):
        x = x.flip(-1)
        return torch.cat([x[:, :1], x, x[:, -1:]], 1), torch.log_softmax(x.reshape(3, 2, 3, 2, 2), 0) * y

    model, x, y = Function(normalised), torch.randn(8, 3, 1, 3), torch.randn(1)
    for a, b in zip(ingot.compile(model, inputs=[x, y], fallback="error")(x, y), model(x, y)):
        torch.testing.assert_close(a, b)


def test_parts_whose_axes_follow_one_index():
    def smaller(x, y):
        return torch.minimum(torch.cat([x.diagonal(), x.diagonal()]), y)

    x, y = torch.randn(15, 1), torch.randn(1)
    assert torch.equal(ingot.compile(Function(smaller), inputs=[x, y], fallback="error")(x, y), smaller(x, y))


def test_many_axes_of_size_1():
    def repeated(x, y):
        return x.repeat(1, 2, 2, 2, 1, 1, 1), y.flip(-1) * 2

    x, y = torch.randn(1, 2, 16, 1, 2, 2, 7), torch.randn((1,) * 13 + (5,))
    for got, eager in zip(ingot.compile(Function(repeated), inputs=[x, y], fallback="error")(x, y), repeated(x, y)):
        assert torch.equal(got, eager)
