"""ingot.Input: what it accepts, and the exact errors for what it refuses."""

from dataclasses import dataclass

import pytest
import torch

import ingot
from ingot.capture import caller_inputs


def test_fixed_and_ranged():
    fixed = ingot.Input((2, 3))
    assert fixed.min_shape == fixed.opt_shape == fixed.max_shape == (2, 3) and fixed.dtype == "float32" and not fixed.dynamic_axes
    ranged = ingot.Input(min_shape=(1, 4), opt_shape=(2, 4), max_shape=(8, 4), dtype=torch.int64, shared_dims={0: "B"})
    assert ranged.dynamic_axes == [0] and ranged.example("max").shape == (8, 4) and ranged.example().dtype == torch.int64


@pytest.mark.parametrize("arguments, text", [
    (dict(shape=(2, -1), name="x"), "input 'x': size -1 in shape (2, -1) is negative"),
    (dict(shape=(2**62, 8), name="x"), f"input 'x': shape ({2**62}, 8) has more elements than memory has room for"),
    (dict(shape=(2, 1.5)), "an input: size 1.5 in shape (2, 1.5) is not an integer"),
    (dict(min_shape=(1,), opt_shape=(9,), max_shape=(8,), name="x"), "input 'x': axis 0 has min 1, opt 9, max 8; min <= opt <= max must hold"),
    (dict(min_shape=(1,), opt_shape=(2, 2), max_shape=(8,)), "an input: min_shape (1,), opt_shape (2, 2) and max_shape (8,) have different ranks"),
    (dict(shape=(2,), max_shape=(3,)), "an input: give either shape or min_shape/opt_shape/max_shape, not both"),
    (dict(min_shape=(1,)), "an input: max_shape is missing"),
    (dict(shape=(2,), shared_dims={3: "B"}), "an input: shared_dims names axis 3, but the input has rank 1"),
])  # fmt: skip
def test_refused(arguments, text):
    with pytest.raises(ingot.InputError) as caught:
        ingot.Input(**arguments)
    assert caught.value.message == text


def test_contradicting_ranges_name_both():
    a = ingot.Input(min_shape=(1,), opt_shape=(2,), max_shape=(8,), name="a", shared_dims={0: "B"})
    b = ingot.Input(min_shape=(1,), opt_shape=(2,), max_shape=(9,), name="b", shared_dims={0: "B"})
    with pytest.raises(ingot.InputError) as caught:
        caller_inputs.read([a, b], None, None)
    assert caught.value.message == "dimension 'B' has two ranges: axis 0 of input 'a' is 1..2..8, axis 0 of input 'b' is 1..2..9"


def test_unknown_dtype():
    with pytest.raises(ingot.InputError, match="dtype 'quux' is not known"):
        ingot.Input((1,), dtype="quux")


def test_a_chosen_name_is_the_engines():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3)).eval()
    for inputs, names in (([ingot.Input((1, 2), name="x")], ["x"]), ([ingot.Input(min_shape=(1, 2), max_shape=(4, 2), name="x")], ["x"]), ([ingot.Input((1, 2))], ["input"])):
        compiled = ingot.compile(model, inputs=inputs)
        assert compiled.engine.input_names == names
        with torch.no_grad():
            assert compiled(torch.ones(1, 2)).shape == (1, 3)
    with pytest.raises(ingot.InputError, match="'x' is float64"):
        ingot.compile(model, inputs=[ingot.Input((1, 2), name="x")])(torch.ones(1, 2, dtype=torch.float64))


def test_one_name_for_two_inputs():
    class Add(torch.nn.Module):
        def forward(self, a, b):
            return a + b

    for second in ("x", None):  # b may also be called as the parameter is
        with pytest.raises(ingot.InputError) as caught:
            ingot.compile(Add(), inputs=[ingot.Input((2,), name="x" if second else "b"), ingot.Input((2,), name=second)])
        assert caught.value.message == f"two inputs are named {second or 'b'!r}"


class Out(torch.nn.Module):
    """An operator that writes its result into an input."""

    def __init__(self, target):
        super().__init__()
        self.target = target

    def forward(self, *given):
        *operands, out = given
        return self.target(*operands, out=out)


@pytest.mark.parametrize("shared", [{1: "N"}, {0: "M", 1: "N"}], ids=str)
def test_results_written_into_inputs_of_open_sizes(shared):
    model = Out(torch.ops.aten.atan2.out)
    given = ingot.Input(min_shape=(1, 2), opt_shape=(2, 3), max_shape=(2, 4), shared_dims=shared)
    compiled = ingot.compile(model, inputs=[given] * 3, min_block_size=1)
    for shape in ((2, 3), (1, 4), (2, 2)):
        x, y, out = torch.randn(shape), torch.randn(shape), torch.zeros(shape)
        got, eager = compiled(x, y, out), model(x, y, torch.zeros(shape))
        assert got.shape == out.shape == eager.shape and torch.allclose(got, eager, atol=1e-6) and torch.equal(got, out)
    x, out = torch.randn(2, 3), torch.zeros(1, 3)
    with pytest.raises(ingot.InputError):  # eager resizes `out`, with a warning
        compiled(x, x, out)
    assert torch.equal(out, torch.zeros(1, 3))


@pytest.mark.parametrize(
    "name, operands, out",
    [
        ("add.out", [(2, 3), (2, 3)], (2, 3)), ("fmin.out", [(2, 3), (3,)], (2, 3)), ("mul.out", [(2, 3), (2, 1)], (2, 3)), ("exp.out", [(2, 3)], (2, 3)),
        ("mm.out", [(2, 3), (3, 4)], (2, 4)), ("clamp_min.Tensor_out", [(2, 3), (3,)], (2, 3)), ("lerp.Tensor_out", [(2, 3)] * 3, (2, 3)), ("where.self_out", [None, (2, 3), (2, 3)], (2, 3)),
    ],
)  # fmt: skip
@pytest.mark.one_in(2)
def test_results_written_into_inputs(name, operands, out):
    base, overload = name.split(".")
    model = Out(getattr(getattr(torch.ops.aten, base), overload))
    tensors = [torch.randn(shape) if shape else torch.rand(2, 3) > 0.5 for shape in operands]
    expected, place = model(*tensors, torch.zeros(out)), torch.zeros(out)
    got = ingot.compile(model, inputs=[*tensors, torch.zeros(out)], min_block_size=1, fallback="error")(*tensors, place)
    assert torch.allclose(got, expected, atol=1e-6) and torch.equal(got, place)


@dataclass
class Pair:
    a: object
    b: object


torch.utils._pytree.register_dataclass(Pair)


def test_ranges_inside_a_dataclass(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, pairs):
            return Pair(pairs["x"].a * pairs["x"].b, pairs["x"].a + 1)

    size = ingot.Input(min_shape=(1, 4), opt_shape=(3, 4), max_shape=(8, 4), shared_dims={0: "B"})
    module = ingot.compile(Model(), inputs=[{"x": Pair(size, size)}])
    ingot.save(module, tmp_path / "m.ingot")
    for call in (module, ingot.load(tmp_path / "m.ingot")):
        for n in (1, 3, 8):
            given = {"x": Pair(torch.randn(n, 4), torch.randn(n, 4))}
            result, eager = call(given), Model()(given)
            assert isinstance(result, Pair) and torch.equal(result.a, eager.a) and torch.equal(result.b, eager.b)


def test_names_of_results(tmp_path):
    class Two(torch.nn.Module):
        def forward(self, x):
            y = torch.relu(x)
            return {"relu": y, "twice": y + y, "count": 3}

    x = torch.randn(3, 4)
    module = ingot.compile(Two(), inputs=[x], output_names=["relu", "doubled"], min_block_size=1)
    ingot.save(module, tmp_path / "two.ingot")
    assert [o["name"] for o in ingot.load_engine(tmp_path / "two.ingot").outputs()] == ["relu", "doubled"]
    for each in (module, ingot.load(tmp_path / "two.ingot")):
        torch.testing.assert_close(each(x), Two()(x))
    whole = ingot.compile(torch.nn.ReLU(), inputs=[x], output_names=["y"], min_block_size=1)  # its engine is what the file has
    assert [o["name"] for o in whole.engine.outputs()] == ["y"]
    parts = ingot.compile(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sigmoid()), inputs=[x], output_names=["y"], min_block_size=1, torch_executed_ops=["relu"])
    torch.testing.assert_close(parts(x), torch.sigmoid(torch.relu(x)))
    for names, text in ((["a"], "1 output names are given, but the model has 2"), (["a", "a"], "as another one is"), (["a", "x"], "as an input is"), ([1, "a"], "not a name of an output"), (["add", "relu"], "another value of the graph")):
        with pytest.raises(ingot.InputError, match=text):
            ingot.save(ingot.compile(Two(), inputs=[x], output_names=names, min_block_size=1), tmp_path / "no.ingot")


class Written(torch.nn.Module):
    def forward(self, x, y):
        x.add_(1)
        return y * 2


class Weighted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(3))

    def forward(self, x):
        return x * 2 + self.weight


def test_one_tensor_for_two_inputs(no_gradients):
    a, x, y = torch.randn(3), torch.randn(3), torch.randn(3)
    class Mixed(torch.nn.Module):
        def forward(self, x, y, m=None):
            return x * 2 + y - m["a"]

    model = Mixed()
    compiled = ingot.compile(model, inputs=[a, a], kwarg_inputs={"m": {"a": a}})
    torch.testing.assert_close(compiled(x, y, m={"a": y * 3}), model(x, y, m={"a": y * 3}))
    torch.testing.assert_close(compiled(a, a, m={"a": a}), model(a, a, m={"a": a}))


@pytest.mark.parametrize("given", ["a tensor for each", "one tensor"])
def test_one_tensor_for_an_input_that_is_written(given, no_gradients):
    a = torch.randn(3)
    compiled, x, y = ingot.compile(Written(), inputs=[a, a]), torch.randn(3), torch.randn(3)
    x, y = (x, x) if given == "one tensor" else (x, y)
    theirs, same = x.clone(), y.clone()
    expected = Written()(theirs, theirs if y is x else same)
    torch.testing.assert_close(compiled(x, y), expected)
    torch.testing.assert_close(x, theirs)


def test_a_buffer_of_the_model_as_input(no_gradients):
    model = Weighted()
    compiled, x = ingot.compile(model, inputs=[model.weight]), torch.randn(3)
    torch.testing.assert_close(compiled(x), model(x))
    torch.testing.assert_close(compiled(model.weight), model(model.weight))
