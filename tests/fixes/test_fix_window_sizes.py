"""Kernels, groups and pools whose sizes dynamic=True leaves open."""

import pytest
import torch
import torch.nn.functional as F
from graphs import fixed, is_unwanted, of_dynamo, result

from ingot.backend import ingot_backend

MODELS = {
    "groups": (lambda x, w: F.conv2d(x, w, groups=x.shape[1]), (torch.randn(2, 3, 9, 9), torch.randn(3, 1, 3, 3))),
    "kernel": (lambda x, w: F.conv2d(x, w, padding=w.shape[-1] // 2), (torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3))),
    "transposed": (lambda x, w: F.conv_transpose1d(x, w, stride=w.shape[2] - 1), (torch.randn(2, 3, 9), torch.randn(3, 4, 3))),
    "pool": (lambda x, y: F.avg_pool2d(x, y.shape[0]), (torch.randn(2, 3, 8, 8), torch.randn(4))),
    "maximum": (lambda x, y: F.max_pool1d(x, y.shape[0]), (torch.randn(2, 3, 8), torch.randn(4))),
}


def test_the_number_is_the_examples():
    function, inputs = MODELS["groups"]

    def then(traced):
        assert isinstance(result(traced).kwargs["groups"], torch.fx.Node)
        fixed("window_sizes", traced)
        assert result(traced).kwargs["groups"] == 3

    of_dynamo(function, *inputs, dynamic=True, then=then)


def test_other_graphs():
    assert is_unwanted("window_sizes")


@pytest.mark.parametrize("name", MODELS)
def test_nothing_stays_in_torch(name, no_gradients):
    torch._dynamo.reset()
    (function, inputs), reports = MODELS[name], []

    def backend(graph, examples):
        compiled = ingot_backend(graph, examples, options={"fallback": "error"})
        reports.append(compiled.report)
        return compiled

    fast = torch.compile(function, backend=backend, dynamic=True)
    for batch in (2, 5):  # one graph: the other sizes stay open
        given = (torch.randn(batch, *inputs[0].shape[1:]), inputs[1])
        assert torch.allclose(fast(*given), function(*given), atol=1e-5)
    assert len(reports) == 1


def test_another_size_is_another_graph(no_gradients):
    torch._dynamo.reset()
    fast = torch.compile(MODELS["groups"][0], backend="ingot", dynamic=True)
    for channels in (3, 5):
        x, w = torch.randn(2, channels, 9, 9), torch.randn(channels, 1, 3, 3)
        assert torch.allclose(fast(x, w), F.conv2d(x, w, groups=channels), atol=1e-5)
