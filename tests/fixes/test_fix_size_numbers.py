import math

import pytest
import torch
from graphs import Of, exported, fixed, is_unwanted

import ingot
from ingot.capture.fixes import size_numbers

OPEN = ({0: torch.export.Dim("n", min=1, max=20)},)


def scaled(x):
    n = x.shape[0]
    return x * n**-0.5, x - n / 7, x ** (n / 9 + 3), x.sum() * (1.0 / x.numel()), torch.full((3,), n / 2), x.int() * (n / 4)


def test_a_number_becomes_a_tensor():
    traced = exported(scaled, torch.rand(4, 6), dynamic_shapes={"inputs": OPEN})
    fixed("size_numbers", traced)
    assert not [n for n in traced.graph.nodes if isinstance(n.target, torch._ops.OpOverload) and any(isinstance(a.meta.get("val"), torch.SymFloat) for a in n.all_input_nodes)]
    x = torch.rand(7, 6)
    for made, expected in zip(traced.program().module()(x), scaled(x), strict=True):
        assert made.dtype == expected.dtype
        torch.testing.assert_close(made, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_engines_take_them(dtype, no_gradients):
    name = str(dtype).removeprefix("torch.")
    compiled = ingot.compile(Of(scaled), inputs=[ingot.Input(min_shape=(1, 6), opt_shape=(4, 6), max_shape=(20, 6), dtype=name)], **({"fallback": "error"} if dtype.itemsize > 2 else {}))
    for n in (1, 4, 20):
        x = torch.rand(n, 6).to(dtype)
        for made, expected in zip(compiled(x), scaled(x), strict=True):
            assert made.dtype == expected.dtype
            torch.testing.assert_close(made, expected)


def test_square_roots_of_dynamo(no_gradients):
    reports = []

    def backend(graph, examples):
        made = ingot.ingot_backend(graph, examples)
        reports.append(made.report)
        return made

    attend = torch.compile(lambda q: (q @ q.mT / math.sqrt(q.shape[-1])).softmax(-1) @ q, backend=backend, dynamic=True)
    for size in (4, 9):
        q = torch.randn(2, 5, size)
        torch.testing.assert_close(attend(q), (q @ q.mT / math.sqrt(size)).softmax(-1) @ q)
    assert [r.whole for r in reports] == [True]


def test_square_roots_ahead_of_time(no_gradients):
    attend = lambda q: (q @ q.mT / math.sqrt(q.shape[-1])).softmax(-1) * math.sqrt(q.shape[0] / 2)
    compiled = ingot.compile(Of(attend), inputs=[ingot.Input(min_shape=(1, 5, 1), opt_shape=(2, 5, 8), max_shape=(4, 5, 16))], fallback="error")
    for shape in ((1, 5, 1), (2, 5, 8), (3, 5, 13)):
        q = torch.randn(shape)
        torch.testing.assert_close(compiled(q), attend(q))


@pytest.mark.parametrize("fixing", [lambda x: x.new_ones(int(math.sqrt(x.shape[0] * 4))), lambda x: x * math.log(x.shape[0])], ids=["a root that is a size", "log"])
def test_what_still_fixes_a_size_is_named(fixing):
    model = Of(lambda x: (x / math.sqrt(x.shape[1]), fixing(x)))
    with pytest.raises(ingot.InputError, match="the model's code fixes axis 0 of inputs\\[0\\] to 4"):
        ingot.compile(model, inputs=[ingot.Input(min_shape=(2, 6), opt_shape=(4, 6), max_shape=(20, 6))])


def test_square_roots_are_left_out(monkeypatch):
    monkeypatch.setenv("INGOT_DISABLE", "square_roots")
    with pytest.raises(ingot.InputError, match="fixes axis 0"):
        ingot.compile(Of(lambda x: x / math.sqrt(x.shape[0])), inputs=[ingot.Input(min_shape=(2, 6), opt_shape=(4, 6), max_shape=(20, 6))])


def test_numbers_that_are_read():
    assert not size_numbers.wanted(exported(lambda x: x * x[0].item(), torch.rand(3)))


def test_other_graphs():
    assert is_unwanted("size_numbers")
