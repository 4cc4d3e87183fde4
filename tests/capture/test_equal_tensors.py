"""`torch.equal(a, b)` in a model's own code: what it branches on is assumed, and checked in each call; what it asserts is asserted."""

import pytest
import torch

import ingot


class Distances(torch.nn.Module):
    """As kernels of Gaussian processes: of the same points, the distance of each to itself is 0 and not a rounding error."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([0.5, 2.0, 3.0]))

    def forward(self, x, y=None):
        x, y = x / self.scale, (x if y is None else y) / self.scale
        same = torch.equal(x, y)
        if same and not x.requires_grad:
            y = x
        found = (x * x).sum(1, keepdim=True) + (y * y).sum(1) - 2 * x @ y.T
        if same:
            found.diagonal().fill_(0)
        return found


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def points(rows, opened):
    return ingot.Input(min_shape=(2, 3), opt_shape=(rows, 3), max_shape=(16, 3)) if opened else ingot.Input(shape=(rows, 3))


@pytest.mark.parametrize("opened", [False, True], ids=["static", "open"])
def test_different_tensors(opened, tmp_path):
    model, x, y = Distances().eval(), torch.randn(5, 3), torch.randn(4, 3)
    ingot.save(ingot.compile(model, inputs=[points(5, opened), points(4, opened)]), tmp_path / "m.ingot")
    compiled = ingot.load(tmp_path / "m.ingot")
    torch.testing.assert_close(compiled(x, y), model(x, y))
    compiled = ingot.compile(model, inputs=[x, x + 1])
    torch.testing.assert_close(compiled(x, -x), model(x, -x))
    with pytest.raises(ingot.InputError, match="the tensors that test_equal_tensors.py:.*compares are equal: the model was compiled for different ones"):
        compiled(x, x.clone())


@pytest.mark.parametrize("opened", [False, True], ids=["static", "open"])
def test_tensors_that_are_computed_alike(opened):
    model, x = Distances().eval(), torch.randn(5, 3)
    compiled = ingot.compile(model, inputs=[points(5, opened)])
    assert compiled.report.whole and (compiled(x).diagonal() == 0).all()
    torch.testing.assert_close(compiled(x), model(x))
    x[0, 0] = torch.nan
    with pytest.raises(ingot.InputError, match="compares are different: the model was compiled for equal ones"):
        compiled(x)


def test_the_models_own_tensors_are_known():
    class Grid(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("grid", torch.arange(4.0))
            self.register_buffer("other", torch.arange(4.0))

        def forward(self, x):
            return x + self.grid if torch.equal(self.grid, self.other) else x

    model, x = Grid(), torch.randn(4)
    compiled = ingot.compile(model, inputs=[x])
    assert torch.equal(compiled(x), model(x))
    model.other[0] = 7
    with pytest.raises(ingot.InputError, match="grid, other changed"):
        compiled(x)


def test_assertions():
    class Asserts(torch.nn.Module):
        def forward(self, x, y):
            assert torch.equal(x, y), "not the same"
            return x + y

    x = torch.randn(4)
    compiled = ingot.compile(Asserts(), inputs=[x, torch.randn(4)])
    assert torch.equal(compiled(x, x.clone()), x + x)
    with pytest.raises(ingot.InputError, match="not the same"):
        compiled(x, x + 1)


def test_left_out_by_name(monkeypatch):
    monkeypatch.setenv("INGOT_DISABLE", "equal_tensors")
    with pytest.raises(ingot.UnsupportedError, match="reads a value"):
        ingot.compile(Distances(), inputs=[torch.randn(3, 3)])
