"""Numbers among the inputs of a model that is compiled ahead of time: fixed, or left open by dynamic_shapes."""

import math

import pytest
import torch
from torch.export import Dim

import ingot


class Windowed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x, n):
        return torch.nn.functional.gelu(self.linear(x)).softmax(-1) * n, x[:n]


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def test_a_number_that_varies(tmp_path):
    model, x = Windowed().eval(), torch.randn(9, 8)
    compiled = ingot.compile(model, inputs=[x, 3], dynamic_shapes=({0: Dim.DYNAMIC}, Dim.DYNAMIC))
    ingot.save(compiled, tmp_path / "model.pt2", format="exported_program")
    for n in (3, 5, 1):
        x = torch.randn(9 + n, 8)
        for call in (compiled, ingot.load(tmp_path / "model.pt2")):
            for got, eager in zip(call(x, n), model(x, n)):
                assert got.shape == eager.shape and torch.allclose(got, eager, atol=1e-6)
    assert not [n for n in compiled.report.nodes if n["segment"] is None]
    for bad, message in (
        (2.0, "input 'n' is of type float, but the model takes an int there"),
        (-4, "input 'n' is -4, outside the range 0.. the model was compiled for\n  remedy: compile with a wider range for this number"),
    ):
        with pytest.raises(ingot.InputError) as caught:
            compiled(x, bad)
        assert str(caught.value) == message
    with pytest.raises(ingot.UnsupportedError) as caught:
        ingot.save(compiled, tmp_path / "model.ingot")
    assert str(caught.value) == (
        "input 'n' is a number that varies, which a .ingot file does not take\n"
        '  remedy: give it as a tensor, compile for one value of it, or save with format="exported_program"'
    )


def test_a_number_that_is_fixed(tmp_path):
    model, x = Windowed().eval(), torch.randn(9, 8)
    compiled = ingot.compile(model, inputs=[x, 3])
    ingot.save(compiled, tmp_path / "model.ingot")
    for call in (compiled, ingot.load(tmp_path / "model.ingot")):
        for got, eager in zip(call(x, 3), model(x, 3)):
            assert torch.allclose(got, eager, atol=1e-6)
        with pytest.raises(ingot.InputError) as caught:
            call(x, 4)
        assert str(caught.value) == "argument 1 is 4, but the model was compiled with 3 there\n  remedy: compile it again for this value"


class OfSign(torch.nn.Module):
    def forward(self, x, n):
        return torch.copysign(x, n), x * n


@pytest.mark.parametrize("number", [math.nan, -math.nan, 0.0, -0.0, 2.0, 2, True])
def test_a_fixed_number_is_known_by_its_type_value_and_sign(number, tmp_path):
    model, x = OfSign().eval(), torch.tensor([1.5, -2.0])
    compiled = ingot.compile(model, inputs=[x, number], min_block_size=1)
    ingot.save(compiled, tmp_path / "model.ingot")
    saved = [] if str(number) == "nan" and math.copysign(1, number) < 0 else [ingot.load(tmp_path / "model.ingot")]  # JSON has one NaN
    for call in (compiled, *saved):
        for got, eager in zip(call(x, number), model(x, number)):
            assert torch.equal(got.isnan(), eager.isnan()) and torch.equal(got.nan_to_num(), eager.nan_to_num()) and torch.equal(got.signbit(), eager.signbit())
        for other in (math.nan, -math.nan, 0.0, -0.0, 2.0, 2, True):
            if other is not number and (type(other), str(other), math.copysign(1, other)) != (type(number), str(number), math.copysign(1, number)):
                with pytest.raises(ingot.InputError, match="but the model was compiled with"):
                    call(x, other)


def test_a_size_as_a_tensor_is_a_float():
    class Scaled(torch.nn.Module):
        def forward(self, x):
            return x * torch.scalar_tensor(x.shape[0]), torch.scalar_tensor(x.shape[1])

    compiled = ingot.compile(Scaled(), inputs=[ingot.Input(min_shape=(1, 2), opt_shape=(3, 2), max_shape=(9, 2))], fallback="error")
    for n in (1, 3, 9):
        for made, expected in zip(compiled(torch.ones(n, 2)), Scaled()(torch.ones(n, 2)), strict=True):
            assert made.dtype == expected.dtype and torch.equal(made, expected)


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_a_softmax_of_integers_needs_a_type(function):
    """As in eager, which refuses it too."""

    class Of(torch.nn.Module):
        def __init__(self, dtype):
            super().__init__()
            self.dtype = dtype

        def forward(self, x):
            return function(x, -1, dtype=self.dtype)

    x = torch.tensor([[1, 2, 3]])
    with pytest.raises(ingot.UnsupportedError, match="a softmax of i64 without a dtype of its result"):
        ingot.compile(Of(None), inputs=[x], fallback="error")
    torch.testing.assert_close(ingot.compile(Of(torch.float32), inputs=[x], fallback="error")(x), Of(torch.float32)(x))


@pytest.mark.parametrize("capacity", [lambda n: int(n * 2.0 / 4), lambda n: int(n * 2.0 / 3), lambda n: int(n**0.3 * 4)], ids=["quarters", "thirds", "refused"])
def test_a_float_of_sizes_that_is_used_twice(capacity):
    """As mixtures of experts have their capacity. What the engine refuses of one operator it refuses of the next, too."""

    def model(x):
        most = float(max(min(x.shape[0], capacity(x.shape[0])), 4))
        return torch.stack([x[0] * (x[1] < most), x[1] * (x[2] < most)])

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="ingot", dynamic=True)
    for n in (24, 16, 7, 100):
        x = torch.arange(3.0 * n).remainder(31).view(3, n).T.repeat(1, 9).contiguous()
        assert torch.equal(compiled(x), model(x)), n
