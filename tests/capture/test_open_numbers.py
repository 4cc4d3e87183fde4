"""Functions whose numbers follow from open sizes: one plan for all sizes, ahead of time and under torch.compile."""

import functools

import pytest
import torch
import torch.nn.functional as F

import ingot
from ingot.backend import ingot_backend


def of(function):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    return Model()


FUNCTIONS = {
    "linspace": lambda x: torch.linspace(-1, 1, x.shape[0]) * x[:, 0],
    "linspace half": lambda x: torch.linspace(0.1, 3, x.shape[0] // 2 + 1, dtype=torch.bfloat16),
    "linspace to a size": lambda x: (torch.linspace(0, x.shape[0] - 1, x.shape[0]), torch.linspace(-x.shape[0] / 2, x.shape[0] / 2, 5)),
    "logspace": lambda x: torch.logspace(0, 2, x.shape[0]),
    "bartlett": lambda x: torch.bartlett_window(x.shape[0]),
    "hann": lambda x: torch.hann_window(x.shape[0], periodic=False, dtype=torch.float64),
    "hamming": lambda x: torch.hamming_window(x.shape[0], True, 0.6, 0.4),
    "blackman": lambda x: torch.blackman_window(x.shape[0]),
    "kaiser": lambda x: torch.kaiser_window(x.shape[0], True, 8.0),
    "tril_indices": lambda x: (torch.tril_indices(x.shape[0], x.shape[0]), torch.tril_indices(x.shape[0], x.shape[1], -1), torch.tril_indices(3, x.shape[0], 1, dtype=torch.int32)),
    "triu_indices": lambda x: (torch.triu_indices(x.shape[0], x.shape[0], 1), torch.triu_indices(x.shape[0], x.shape[1]), torch.triu_indices(4, x.shape[0], -2)),
    "one_hot": lambda x: F.one_hot(torch.tensor([[0, 1], [1, 0]]), x.shape[0] + 1),
    "max_pool1d": lambda x: F.max_pool1d(x[None], x.shape[1]),
    "max_pool2d": lambda x: F.max_pool2d(x[None], kernel_size=x.shape),
    "avg_pool1d": lambda x: F.avg_pool1d(x, (x.shape[1],)),
    "avg_pool2d": lambda x: F.avg_pool2d(x[None, None], x.shape[:2]),
}
SIZES = ((5, 4), (7, 2), (2, 3), (20, 9), (1, 1))


def same(ours, theirs):
    for a, b in zip(torch.utils._pytree.tree_leaves(ours), torch.utils._pytree.tree_leaves(theirs), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-6 if b.dtype is not torch.bfloat16 else 8e-3)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.one_in(6)
def test_ahead_of_time(name):
    function = FUNCTIONS[name]
    compiled = ingot.compile(of(function), inputs=[ingot.Input(min_shape=(1, 1), opt_shape=(5, 4), max_shape=(20, 9))], fallback="error")
    for sizes in SIZES:
        x = torch.randn(sizes)
        same(compiled(x), function(x))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.one_in(6)
def test_torch_compile(name, no_gradients):
    torch._dynamo.reset()
    function, reports = FUNCTIONS[name], []

    @functools.wraps(ingot_backend)
    def backend(graph, examples):
        made = ingot_backend(graph, examples, options={"fallback": "error"})
        reports.append(made.report)
        return made

    compiled = torch.compile(of(function), backend=backend, dynamic=True)
    for sizes in SIZES[:-1]:
        x = torch.randn(sizes)
        same(compiled(x), function(x))
    assert len(reports) <= 2, "a graph for each size"  # rectangles that are wide and that are high have one each


def test_other_backends_and_forms_keep_torchs(no_gradients):
    """A form that is not written out, and a trace for another backend."""
    torch._dynamo.reset()
    model = of(lambda x: torch.linspace(0, 9, x.shape[0], dtype=torch.int64) + torch.hann_window(4).sum())
    same(ingot.compile(model, inputs=[torch.ones(5, 4)], fallback="error")(torch.ones(5, 4)), model(torch.ones(5, 4)))
    graphs = []
    torch.compile(of(lambda x: torch.linspace(0, 1, x.shape[0])), backend=lambda graph, _: graphs.append(graph) or graph, dynamic=True)(torch.ones(5, 4))
    assert any(node.target is torch.linspace for node in graphs[0].graph.nodes)


def test_without_the_switch(monkeypatch):
    monkeypatch.setenv("INGOT_DISABLE", "open_numbers")
    with pytest.raises(ingot.InputError, match="fixes axis 0"):
        ingot.compile(of(FUNCTIONS["linspace"]), inputs=[ingot.Input(min_shape=(1, 1), opt_shape=(5, 4), max_shape=(20, 9))])
