import operator

import pytest
import torch
from graphs import exported, fixed, is_unwanted
from torch import nn
from torch._higher_order_ops import scan

import ingot
from ingot.capture.traced import Traced


class Cell(nn.Module):
    """A recurrent cell of the user's own, whose weights each step reads."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, h):
        def step(h, x):
            h = torch.tanh(self.linear(x) + h)
            return h, h * 2

        return scan(step, h, x)


class Reversed(nn.Module):
    """Two carried values and two results of other sizes, from the last element of axis 1 on."""

    def forward(self, x, h):
        def step(carried, x):
            a, b = carried
            return (a + x, b * 0.5 + x.sum()), (a * x, torch.stack([b, b.exp()]))

        return scan(step, (h, h.sum()), x.movedim(0, 1), dim=1, reverse=True)


class Chosen(nn.Module):
    """A branch in each step, and a scan in each step of a scan."""

    def forward(self, x, h):
        def inner(h, row):
            h = torch.cond(row.sum() > 0, lambda h, row: h + row, lambda h, row: h - row, (h, row))
            return h, h + 1

        def step(h, x):
            h, rows = scan(inner, h, torch.stack([x[0], x[0] * 2]))
            return h, rows

        return scan(step, h[0], x)


MODELS = [Cell, Reversed, Chosen]


def flat(tree):
    return torch.utils._pytree.tree_leaves(tree)


def same(ours, theirs, strides=True):
    for a, b in zip(flat(ours), flat(theirs), strict=True):
        assert not strides or [s for s, n in zip(a.stride(), a.shape) if n > 1] == [s for s, n in zip(b.stride(), b.shape) if n > 1]
        torch.testing.assert_close(a, b)


def given(steps, rows):
    generator = torch.Generator().manual_seed(steps)
    return torch.randn(steps, rows, 4, generator=generator), torch.randn(rows, 4, generator=generator)


def test_a_scan_becomes_a_loop():
    traced = exported(Cell(), *given(5, 3))
    fixed("scans", traced)
    (loop,) = (n for n in traced.graph.nodes if isinstance(n.target, torch._ops.HigherOrderOperator))
    assert loop.target is torch.ops.higher_order.while_loop and [list(v.shape) for v in loop.meta["val"]] == [[], [3, 4], [5, 3, 4]]


@pytest.mark.parametrize("kind", MODELS)
def test_ahead_of_time(kind, tmp_path, no_gradients):
    model = kind().eval()
    inputs = [ingot.Input(min_shape=(1, 2, 4), opt_shape=(5, 3, 4), max_shape=(9, 6, 4), shared_dims={1: "rows"}), ingot.Input(min_shape=(2, 4), opt_shape=(3, 4), max_shape=(6, 4), shared_dims={0: "rows"})]
    compiled = ingot.compile(model, inputs=inputs, fallback="error")
    ingot.save(compiled, tmp_path / "model.ingot")
    for call in (compiled, ingot.load(tmp_path / "model.ingot")):
        for steps, rows in ((1, 2), (5, 3), (9, 6)):
            same(call(*given(steps, rows)), model(*given(steps, rows)), strides=call is compiled)  # results of a plan from a file are row-major


@pytest.mark.parametrize("kind", MODELS)
def test_torch_compile(kind, no_gradients):
    torch._dynamo.reset()
    model = kind().eval()
    compiled = torch.compile(model, backend="ingot", options={"fallback": "error"})
    for steps in (4, 6, 1):
        same(compiled(*given(steps, 3)), model(*given(steps, 3)))


def test_an_associative_scan_becomes_a_loop():
    """On the CPU torch traces only `combine_mode="generic"`, which it writes out itself."""
    step = torch.fx.symbolic_trace(lambda a, b: (a * b,))  # of ATen's operators below
    fake = torch._subclasses.FakeTensorMode()
    with fake:
        x = torch.empty(6, 3)
    for node in step.graph.nodes:
        if node.op == "call_function":
            node.target = torch.ops.aten.mul.Tensor
        node.meta["val"] = x[0]
    module = torch.fx.GraphModule({}, torch.fx.Graph())
    module.step, graph = step, module.graph
    given = graph.placeholder("x")
    made = graph.call_function(torch.ops.higher_order.associative_scan, (graph.get_attr("step"), [given], ()))
    given.meta["val"], made.meta["val"] = x, (x,)
    part = graph.call_function(operator.getitem, (made, 0))
    part.meta["val"] = x
    graph.output((part,))
    run = fixed("scans", Traced(module))
    real = torch.rand(6, 3)
    torch.testing.assert_close(run(real)[0], real.cumprod(0))


def test_graphs_without_scans():
    assert is_unwanted("scans")
