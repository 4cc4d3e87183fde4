"""Models whose Python code branches on several open sizes: right where the branch of the trace is taken, and refused elsewhere."""

import numpy as np
import pytest
import torch

import ingot


class Branching(torch.nn.Module):
    def __init__(self, question):
        super().__init__()
        self.question = question

    def forward(self, x):
        if self.question(*x.shape):
            return torch.relu(x) + 1
        return x - 100


QUESTIONS = {
    "product": lambda n, m: n * m >= 12,
    "least": lambda n, m: min(n, m - 1) >= 3,
    "unequal": lambda n, m: n != m,
    "not equal": lambda n, m: not n == m,
    "remainder is a number": lambda n, m: bool(n * m - 2),
    "as a number": lambda n, m: int(n * m) == 20,
}
ASKED = dict(min_shape=(1, 1), opt_shape=(4, 5), max_shape=(64, 64), name="x", shared_dims={0: "n", 1: "m"})
SIZES = [(4, 5), (5, 4), (2, 10), (2, 2), (3, 3), (1, 2), (1, 1), (64, 64)]


def agrees(model, compiled, sizes=SIZES):
    """Counts the sizes that are refused. All others have eager's results."""
    refused = 0
    for size in sizes:
        x = torch.randn(size)
        try:
            y = compiled(x)
        except ingot.InputError as problem:
            refused += 1
            assert "test_branches.py:" in str(problem)
            assert size != (4, 5)
            continue
        torch.testing.assert_close(y, model(x))
    return refused


@pytest.mark.parametrize("torch_runs", [(), ("aten.relu.default",), ("aten.relu.default", "aten.add.Tensor")], ids=["engine", "mixed", "torch"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_branch_of_the_trace_or_none(question, torch_runs):
    model = Branching(QUESTIONS[question]).eval()
    compiled = ingot.compile(model, inputs=[ingot.Input(**ASKED)], torch_executed_ops=list(torch_runs), min_block_size=1)
    wrong = [size for size in SIZES if bool(QUESTIONS[question](*size)) != bool(QUESTIONS[question](4, 5))]
    refused = agrees(model, compiled)
    assert wrong and (refused == len(wrong) if question != "as a number" else refused >= len(wrong))


def test_strict_exports_are_checked_too():
    model = Branching(QUESTIONS["product"]).eval()
    compiled = ingot.compile(model, inputs=[ingot.Input(**ASKED)], strict=True)
    torch.testing.assert_close(compiled(torch.ones(4, 5)), model(torch.ones(4, 5)))
    with pytest.raises(ingot.InputError):
        compiled(torch.ones(2, 2))


def test_files_are_checked_too(tmp_path):
    model = Branching(QUESTIONS["unequal"]).eval()
    compiled = ingot.compile(model, inputs=[ingot.Input(**ASKED)], fallback="error")
    ingot.save(compiled, tmp_path / "m.ingot")
    loaded = ingot.load(tmp_path / "m.ingot")
    assert agrees(model, loaded) == 4
    ingot.save(compiled, tmp_path / "m.pt2", format="exported_program")
    with pytest.raises(ingot.InputError):
        ingot.load(tmp_path / "m.pt2")(torch.ones(3, 3))
    again = torch.export.load(tmp_path / "m.pt2").module()
    np.testing.assert_array_equal(again(torch.ones(3, 4)), model(torch.ones(3, 4)))
    with pytest.raises(AssertionError, match="Guard failed"):  # by torch
        again(torch.ones(3, 3))


def test_sizes_that_follow_from_others():
    class Halves(torch.nn.Module):
        def forward(self, x, y):
            pairs = x.reshape(2, -1)
            return pairs + 1 if x.shape[0] * y.shape[0] > 20 else pairs - 1

    model = Halves().eval()
    inputs = [ingot.Input(min_shape=(2,), opt_shape=(8,), max_shape=(64,), name="x"), ingot.Input(min_shape=(1,), opt_shape=(3,), max_shape=(64,), name="y")]
    compiled = ingot.compile(model, inputs=inputs)
    for n, m, held in [(8, 3, True), (10, 3, True), (10, 2, False), (4, 11, True)]:
        x, y = torch.randn(n), torch.randn(m)
        if held:
            torch.testing.assert_close(compiled(x, y), model(x, y))
        else:
            with pytest.raises(ingot.InputError, match="these input sizes do not fit the model"):
                compiled(x, y)


def test_asserts_of_the_model_hold():
    class Asserting(torch.nn.Module):
        def forward(self, x, y):
            assert x.shape[0] <= y.shape[0], "too many"
            return x.sum(0) + y.sum(0)

    inputs = [ingot.Input(min_shape=(1, 4), opt_shape=(3, 4), max_shape=(64, 4), name=name) for name in ("x", "y")]
    compiled = ingot.compile(Asserting().eval(), inputs=inputs)
    compiled(torch.ones(3, 4), torch.ones(3, 4))
    with pytest.raises(ingot.InputError, match="test_branches.py:"):
        compiled(torch.ones(4, 4), torch.ones(3, 4))


def test_layouts_of_single_elements_are_no_branches():
    """torch asks whether a diagonal has one element, which decides nothing: the whole range is taken, also where torch runs the model."""

    class Written(torch.nn.Module):
        def forward(self, x, y):
            torch.ops.aten.asin_.default(torch.ops.aten.diagonal.default(x, 1))
            return (y,)

    inputs = [ingot.Input(min_shape=(1, 1), opt_shape=(4, 5), max_shape=(64, 64), name=name, shared_dims={0: "n", 1: "m"}) for name in ("x", "y")]
    compiled = ingot.compile(Written().eval(), inputs=inputs, min_block_size=1)
    for size in [(4, 5), (2, 2), (1, 1), (1, 3), (3, 1)]:
        x = torch.rand(size)
        expected = x.clone()
        expected.diagonal(1).asin_()
        compiled(x, torch.rand(size))
        torch.testing.assert_close(x, expected)
