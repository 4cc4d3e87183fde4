import pytest
import torch
from graphs import Of, exported, fixed, is_unwanted, targets

import ingot


class Cache(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 3, dtype=dtype))
        self.register_buffer("best", torch.zeros((), dtype=torch.int32))

    def forward(self, x):
        self.kept.copy_(x)
        self.best[...] = x.argmax()
        return self.kept + 1, self.best


def test_a_cast_comes_before_the_copy():
    model = lambda x: (y := x.sin(), y.copy_(x.half()), y + 1)[-1]
    traced, x = exported(model, torch.randn(2, 3)), torch.randn(2, 3)
    fixed("copied_types", traced)
    at = targets(traced).index("aten.copy_.default")
    assert targets(traced)[at - 1] == "aten._to_copy.default"
    assert traced.program().module()(x).equal(model(x))


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_one_engine_keeps_the_type(dtype, way, no_gradients):
    ours, theirs, reports = Cache(dtype), Cache(dtype), []

    def backend(graph, examples):
        made = ingot.ingot_backend(graph, examples)
        reports.append(made.report)
        return made

    x = torch.randn(2, 3) * 3
    compiled = ingot.compile(ours, inputs=[x]) if way == "compile" else torch.compile(ours, backend=backend)
    for _ in range(2):
        x = torch.randn(2, 3) * 3
        for made, expected in zip(compiled(x), theirs(x), strict=True):
            assert made.dtype == expected.dtype and made.equal(expected)
        assert ours.kept.equal(theirs.kept) and ours.best.equal(theirs.best)
    assert all(r.whole for r in (reports or [compiled.report]))


def test_partial_copies_and_other_shapes(no_gradients):
    def model(x):
        y = x.clone()
        y[:1].copy_(x[1:].double())
        y[1].copy_(x[0, 0].double())
        return y

    x = torch.randn(2, 3)
    torch.testing.assert_close(ingot.compile(Of(model), inputs=[x], fallback="error")(x), model(x))


def test_other_graphs():
    assert is_unwanted("copied_types")
