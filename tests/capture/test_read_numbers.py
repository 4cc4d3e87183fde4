"""Floats that a model reads from tensors of one element: no engine ends for them, and what has no form for a tensor runs in torch."""

import pytest
import torch

import ingot
from ingot.backend import ingot_backend


class Anchors(torch.nn.Module):
    """As detectors fill a column for each of their scales."""

    def __init__(self):
        super().__init__()
        self.register_buffer("strides", torch.tensor([8.0, 16.5]))

    def forward(self, x):
        columns = [torch.full((3, 1), s) for s in self.strides] + [x.new_full((2, 1), self.strides[1].item(), dtype=torch.float64).float()]
        return torch.cat(columns) * x.sin()


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.37]))

    def forward(self, x):
        scale = self.scale.exp().item()
        return x.sin() * scale, x.half() / scale, (x > 0).int() + scale, x.exp() - scale


class Clamped(torch.nn.Module):
    """clamp takes two numbers, which engines have as constants alone."""

    def __init__(self):
        super().__init__()
        self.register_buffer("limits", torch.tensor([0.3, 0.9]))

    def forward(self, x):
        limits = self.limits.exp() - 1
        return x.sin().clamp(limits[0].item(), limits[1].item()).exp() + limits.sum()


MODELS = {"anchors": (Anchors, 0), "scaled": (Scaled, 0), "clamped": (Clamped, 1)}


def close(got, eager):
    got, eager = (r if isinstance(r, tuple) else (r,) for r in (got, eager))
    torch.testing.assert_close(got, eager)
    assert [r.stride() for r in got] == [r.stride() for r in eager]


@pytest.mark.parametrize("is_open", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.one_in(2)
def test_ahead_of_time(name, is_open):
    kind, in_torch = MODELS[name]
    model = kind().eval()
    given = ingot.Input(min_shape=(8, 2), opt_shape=(8, 4), max_shape=(8, 9)) if is_open else torch.randn(8, 4)
    compiled = ingot.compile(model, inputs=[given], min_block_size=1)
    assert compiled.report.in_torch == in_torch, compiled.report
    for columns in (4, 7) if is_open else (4,):
        x = torch.randn(8, columns)
        close(compiled(x), model(x))
    with torch.no_grad():
        for buffer in model.buffers():  # they are read anew
            buffer.mul_(0.5)
    x = torch.randn(8, 4)
    close(compiled(x), model(x))


@pytest.mark.parametrize("name", MODELS)
@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_just_in_time(name):
    torch._dynamo.reset()
    kind, in_torch = MODELS[name]
    model, x, reports = kind().eval(), torch.randn(8, 4), []

    def backend(module, examples):
        made = ingot_backend(module, examples, options={"min_block_size": 1})
        reports.append(made.report)
        return made

    with torch.no_grad():
        compiled = torch.compile(model, backend=backend)
        close(compiled(x), model(x))
    assert [r.in_torch for r in reports] == [in_torch], "\n".join(map(str, reports))


class ViewsBySizesFromData(torch.nn.Module):
    def forward(self, x, a):
        y = x * 2
        return y, y[a[0].item() :], y[:, : a.max().item()], torch.arange(10)[: a[1].item()], *torch.tensor_split(x + 1, a)


@pytest.mark.parametrize("compiled", [lambda m, args: ingot.compile(m, inputs=args), lambda m, args: torch.compile(m, backend="ingot")], ids=["ahead of time", "torch.compile"])
def test_views_of_results_by_sizes_from_data(compiled):
    model, x = ViewsBySizesFromData(), torch.randn(8, 8)
    made = compiled(model, (x, torch.tensor([2, 5])))
    for numbers in ([2, 5], [1, 7], [0, 3]):
        args = (x, torch.tensor(numbers))
        for mine, theirs in zip(made(*args), model(*args), strict=True):
            assert torch.equal(mine, theirs) and mine.stride() == theirs.stride()
