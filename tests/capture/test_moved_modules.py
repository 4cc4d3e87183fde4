"""`module.to(..)` in a forward, of a module that is there already."""

import functools

import pytest
import torch

import ingot
from ingot.backend import ingot_backend


class Moving(torch.nn.Module):
    def __init__(self, *to):
        super().__init__()
        self.experts, self.to_ = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2)), to

    def forward(self, x):
        return sum(expert.to(x.device, *self.to_)(x) for expert in self.experts)


@pytest.mark.parametrize("to", [(), (torch.float32,)])
def test_ahead_of_time(to, no_gradients):
    model, x, code = Moving(*to).eval(), torch.randn(3, 4), torch.nn.Module.to.__code__
    parameters = list(map(id, model.parameters()))
    assert torch.allclose(ingot.compile(model, inputs=[x], fallback="error")(x), model(x), atol=1e-6)
    assert list(map(id, model.parameters())) == parameters and torch.nn.Module.to.__code__ is code


def test_just_in_time(no_gradients):
    torch._dynamo.reset()
    model, x, reports = Moving().eval(), torch.randn(3, 4), []

    @functools.wraps(ingot_backend)
    def backend(graph, examples):
        made = ingot_backend(graph, examples)
        reports.append(made.report)
        return made

    assert torch.allclose(torch.compile(model, backend=backend)(x), model(x), atol=1e-6)
    assert [report.whole for report in reports] == [True]


def test_a_change_is_torchs(no_gradients):
    """In the forward of a model in float64 a layer becomes float32."""
    torch._dynamo.reset()
    x = torch.randn(3, 4)
    assert torch.compile(Moving(torch.float32).double().eval(), backend="ingot")(x).dtype == torch.float32
    with pytest.raises(ingot.Error):
        ingot.compile(Moving(torch.float32).double().eval(), inputs=[x])
