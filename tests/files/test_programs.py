"""Programs of torch.export in files, as the command line reads them: without torch, so that each operator needs its definition."""

import pytest
import torch
import torch.nn.functional as F

from ingot.engine import _engine, _library


def in_engine(forward, *inputs, folder):
    """The results of the file's engine. UnsupportedError if an operator has no definition."""
    module = type("Model", (torch.nn.Module,), {"forward": lambda self, *inputs: forward(*inputs)})()
    torch.export.save(torch.export.export(module, inputs), folder / "program.pt2")
    plan = _library.Model.open(str(folder / "program.pt2")).compile({"fallback": "error"})
    return [torch.from_numpy(made) for made in _engine.Engine(plan).session().run(*[x.numpy() for x in inputs])]


def rows(x):
    return (x * 2).as_strided((2, 3), (6, 2), 6) + 1


def windows(x):
    return (x * 2).as_strided((5, 4), (3, 2), 1) + 1


def turned(x):
    return (x * 2).t().as_strided((3, 2), (6, 1), 2) + 1


def windows_of_turned(x):
    return (x * 2).t().as_strided((5, 4), (3, 2), 1) + 1


def gaps(x):
    return (x * 2)[:, ::2].as_strided((3, 2), (6, 2), 6) + 1


def repeated(x):
    return (x[:1] * 2).expand(3, 6).as_strided((3, 3), (0, 2), 1) + 1


def copied(x):
    return torch.as_strided_copy(x * 2, (2, 3), (6, 2), 6) + 1


def written_through(x):
    y = x * 2
    y.as_strided((2, 3), (6, 1), 1).add_(5)
    return y + 1


def dropped_in_place(x):
    y = x * 2
    return F.dropout(y, 0.5, training=False, inplace=True).add_(1), y, torch.dropout_(x + 1, 0.0, True)


def dropped(x):
    y = x * 2
    z = torch.feature_dropout(y, 0.5, False)
    z.add_(1)
    return y, torch.alpha_dropout(x, 0.5, False), torch.feature_alpha_dropout(x, 0.5, False) + 1, torch.feature_alpha_dropout_(x + 1, 0.5, False)


def unread_numbers(x):
    torch.rand([]), torch.randint(5, (3,)), torch.randperm(4)
    return x + 1


@pytest.mark.parametrize("forward", [rows, windows, turned, windows_of_turned, gaps, repeated, copied, written_through, dropped_in_place, dropped, unread_numbers], ids=lambda f: f.__name__)
def test_an_engine_runs_it(forward, tmp_path):
    x = torch.arange(24.0).view(4, 6)
    made, expected = in_engine(forward, x, folder=tmp_path), forward(x)
    for result, eager in zip(made, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert torch.equal(result, eager)
