"""Numbers that a model's own code reads of its buffers, parameters and constants, on which its branches and sizes depend: they are known ahead of time, and checked in each call."""

import pytest
import torch
import torch.nn.functional as F

import ingot


class Quantised(torch.nn.Module):
    """As vector quantisers that learn their code book at the first call, and convolutions that keep their padding as buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.tensor([True]))
        self.register_buffer("left", torch.tensor(3))
        self.register_buffer("limits", torch.tensor([1.0, 2.0, 5.0]))
        self.scale = torch.nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        if not self.ready:
            return x
        x = F.pad(x, (self.left, int(self.left) + 1))
        if self.limits.max() > 4 and self.scale < 1:
            x = x * self.limits.sum().item()
        return x


class Solver(torch.nn.Module):
    """Steps of Runge and Kutta's method over times that it makes itself, with a loop that compares them."""

    def forward(self, y):
        times = torch.linspace(0, 1, 5)
        assert (times.diff() > 0).all() or (times.diff() < 0).all()
        found, at = [], 0
        for begin, end in zip(times[:-1], times[1:]):
            while at < len(times) and end >= times[at]:
                found.append(y)
                at += 1
            y = y + (end - begin) * torch.tanh(y)
        return torch.stack(found)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("sizes", [dict(shape=(7,)), dict(min_shape=(4,), opt_shape=(8,), max_shape=(16,))], ids=["static", "open"])
@pytest.mark.parametrize("kind", [Quantised, Solver])
def test_known_numbers(kind, sizes, tmp_path, capfd):
    model, x = kind().eval(), torch.randn(7)
    compiled = ingot.compile(model, inputs=[ingot.Input(**sizes)])
    assert compiled.report.whole and "Unable to find" not in capfd.readouterr().err
    ingot.save(compiled, tmp_path / "m.ingot")
    for way in (compiled, ingot.load(tmp_path / "m.ingot")):
        torch.testing.assert_close(way(x), model(x))


@pytest.mark.parametrize("name, value", [("ready", [False]), ("left", 2), ("limits", [0.0, 0, 0]), ("scale", 3.0)])
def test_a_tensor_that_changed_is_refused(name, value):
    model, x = Quantised().eval(), torch.randn(8)
    compiled = ingot.compile(model, inputs=[x])
    before = getattr(model, name).clone()
    getattr(model, name).copy_(torch.tensor(value))
    with pytest.raises(ingot.InputError, match=f"{name} changed: the model was compiled for .* at test_known_values.py:.*compile it again"):
        compiled(x)
    getattr(model, name).copy_(before)
    assert torch.equal(compiled(x), model(x))


class Counts(torch.nn.Module):
    def __init__(self, written):
        super().__init__()
        self.register_buffer("count", torch.tensor(3))
        self.written = written

    def forward(self, x):
        if self.written == "before":
            self.count += 1
        if self.count > 2:
            x = x + 1
        if self.written == "after":
            self.count.view(1)[0] += 1
        return x


@pytest.mark.parametrize("written", ["before", "after"])
def test_buffers_that_calls_write_are_refused(written):
    with pytest.raises(ingot.UnsupportedError, match="reads a number from its buffer 'count'" if written == "after" else "branches on a value"):
        ingot.compile(Counts(written), inputs=[torch.randn(3)])
    assert ingot.compile(Counts("").eval(), inputs=[torch.randn(3)]).report.whole


def test_inputs_and_random_numbers_are_not_known():
    class Asks(torch.nn.Module):
        def forward(self, x):
            return x + 1 if (x if len(x) == 3 else torch.rand(2)).sum() > 1 else x * 2

    for x in (torch.randn(3), torch.randn(2)):
        with pytest.raises(ingot.UnsupportedError, match="branches on a value"):
            ingot.compile(Asks(), inputs=[x])


def test_left_out_by_name(monkeypatch):
    monkeypatch.setenv("INGOT_DISABLE", "known_values")
    with pytest.raises(ingot.UnsupportedError, match="branches on a value"):
        ingot.compile(Solver(), inputs=[torch.randn(3)])
