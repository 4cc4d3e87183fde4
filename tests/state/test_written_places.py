"""Writes to places that are integer tensors without axes, ahead of time: one engine, with eager's values."""

import pytest
import torch

import ingot
from ingot.errors import Error


class Ring(torch.nn.Module):
    """The last four rows that it was given."""

    def __init__(self, write):
        super().__init__()
        self.write = write
        self.register_buffer("rows", torch.zeros(4, 3, 3))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.write(self.rows, self.count % 4, x)
        self.count += 1
        return self.rows.sum(0)


def row(rows, i, x):
    rows[i] = x


def part(rows, i, x):
    rows[i, 1:] = x[:2]


def behind(rows, i, x):
    rows[..., i - 4, :2] = x[None, None, 0, :2].double()


def number(rows, i, x):
    rows[i] = 0.5


def added(rows, i, x):
    rows[i] += x


WRITES = (row, part, number, added)


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", ["compiled", "saved"])
@pytest.mark.one_in(3)
def test_equals_eager(write, way, tmp_path, no_gradients):
    x = torch.randn(3, 3)
    compiled, model = ingot.compile(Ring(write), inputs=[x]), Ring(write)
    assert compiled.report.whole
    if way == "saved":
        ingot.save(compiled, tmp_path / "ring.pt2", format="exported_program")
        compiled = ingot.load(tmp_path / "ring.pt2")
    for _ in range(6):
        x = torch.randn(3, 3)
        torch.testing.assert_close(compiled(x), model(x))


def test_values_are_cast_and_broadcast(no_gradients):
    def model(x, i):
        y = x.clone()
        behind(y, i, x[0])
        y[:, i] = 7
        return y

    class Of(torch.nn.Module):
        def forward(self, x, i):
            return model(x, i)

    x, i = torch.randn(2, 3, 4), torch.tensor(2)
    compiled = ingot.compile(Of(), inputs=[x, i])
    assert compiled.report.whole
    for i in (1, 2):
        torch.testing.assert_close(compiled(x, torch.tensor(i)), model(x, torch.tensor(i)), rtol=0, atol=0)


def test_a_place_that_is_not_there(no_gradients):
    class Of(torch.nn.Module):
        def forward(self, x, i):
            y = x.clone()
            y[i] = 0
            return y

    compiled = ingot.compile(Of(), inputs=[torch.randn(4, 3), torch.tensor(2)])
    with pytest.raises(Error, match="4"):
        compiled(torch.randn(4, 3), torch.tensor(4))


def test_the_switch_is_left_out(monkeypatch):
    monkeypatch.setenv("INGOT_DISABLE", "written_places")
    with pytest.raises(ingot.UnsupportedError, match="reads a number from its buffer"):
        ingot.compile(Ring(row), inputs=[torch.randn(3, 3)])
