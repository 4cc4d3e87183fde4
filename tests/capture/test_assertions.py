"""torch._assert_async is checked when the model runs: by the engine, in a file, on the command line, and by torch where torch runs a part of the model."""

import copy
import subprocess

import numpy as np
import pytest
import torch

import ingot
from ingot.engine._library import find

GOOD, BAD = torch.ones(2, 4), -torch.ones(2, 4)


class Checked(torch.nn.Module):
    def __init__(self, views=False, counts=False):
        super().__init__()
        self.linear, self.views, self.counts = torch.nn.Linear(4, 4), views, counts
        self.linear.weight.data.fill_(1)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        torch._assert_async((x > 0).all(), "x must be positive")
        y = self.linear(x).relu()
        torch._assert_async((y < 100).all().reshape(1))
        if self.counts:
            self.calls.add_(1)
            y = y + self.calls
        return (y, y.view(-1)) if self.views else y


pytestmark = pytest.mark.usefixtures("no_gradients")


def fails(call, text, kind=ingot.InputError):
    with pytest.raises(kind) as caught:
        call(BAD)
    assert text in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("jit", [False, True], ids=["aot", "jit"])
@pytest.mark.parametrize("form", [{}, {"views": True}, {"counts": True}], ids=lambda form: "-".join(form) or "plain")
def test_the_engine_checks(form, jit):
    model = Checked(**form).eval()
    given = torch.compile(model, backend="ingot", options={"min_block_size": 1}) if jit else ingot.compile(model, inputs=[GOOD], min_block_size=1)
    given(GOOD)
    said = fails(given, "an assertion of the model failed: x must be positive")
    assert "torch._assert_async" in said and "give inputs for which it holds" in said
    calls = model.calls.item()
    given(GOOD)
    assert model.calls.item() == calls + form.get("counts", False) == 2 * form.get("counts", False)  # the call that failed wrote nothing
    if not jit and not model.counts:  # torch drops assertions without a message where it traces a graph again
        with pytest.raises(ingot.InputError, match="an assertion of the model failed: it has no message"):
            given(1000 * GOOD)


@pytest.mark.parametrize("form", [{}, {"views": True}, {"counts": True}], ids=lambda form: "-".join(form) or "plain")
def test_torch_checks_beside_engines(form):
    model = Checked(**form).eval()
    compiled = ingot.compile(model, inputs=[GOOD], min_block_size=1, torch_executed_ops=["relu"])
    assert not compiled.report.whole
    torch.testing.assert_close(compiled(GOOD), copy.deepcopy(model)(GOOD) if not model.counts else model.linear(GOOD) + 1)
    fails(compiled, "x must be positive", RuntimeError)


def test_numbers_and_branches_are_not_checked():
    class Model(torch.nn.Module):
        def forward(self, x):
            torch._assert_async(x.sum() * 0)  # a float

            def checked(x):
                torch._assert_async((x > 5).all(), "in a branch")
                return x + 1

            return torch.cond(x.sum() > 0, checked, lambda x: x - 1, (x,))

    compiled = ingot.compile(Model(), inputs=[GOOD], min_block_size=1)
    torch.testing.assert_close(compiled(GOOD), GOOD + 1)


def test_files_and_the_command_line(tmp_path):
    model = Checked().eval()
    ingot.save(ingot.compile(model, inputs=[GOOD], min_block_size=1), tmp_path / "model.ingot")
    fails(ingot.load(tmp_path / "model.ingot"), "an assertion of the model failed: x must be positive")
    torch.export.save(torch.export.export(model, (GOOD,)), tmp_path / "model.pt2")
    command = find("ingot")
    subprocess.run([command, "compile", tmp_path / "model.pt2", "-o", tmp_path / "other.ingot"], check=True)
    for name, value in (("good", GOOD), ("bad", BAD)):
        np.save(tmp_path / f"{name}.npy", value.numpy())
    run = lambda name: subprocess.run([command, "run", tmp_path / "other.ingot", "-i", f"x={tmp_path / name}.npy"], capture_output=True, text=True)  # noqa: E731
    assert run("good").returncode == 0
    assert run("bad").returncode != 0 and "an assertion of the model failed: x must be positive" in run("bad").stderr


class Refusing(torch.nn.Module):
    """Statements of Python that only raise for some data."""

    def forward(self, x):
        assert (x > 0).all() and (x < 100).all(), "out of range"
        if torch.isnan(x).any() or (x == 50).any():
            message = "fifty"
            raise ValueError(message)
        total = x.sum()
        if not total > 8:
            raise ValueError(f"only {total}")
        elif not 0 < x.min() < 70:
            raise ValueError("large")
        if total:
            return torch.nn.functional.gaussian_nll_loss(x, x + 1, x - 1)
        else:
            raise RuntimeError


@pytest.mark.parametrize("value, said", [(-1, "'out of range'"), (100, "'out of range'"), (50, "raise ValueError(message)"), (0.5, "only {total}"), (80, "'large'")])
@pytest.mark.parametrize("saved", [False, True], ids=["compiled", "saved"])
@pytest.mark.one_in(2)
def test_branches_that_only_raise(value, said, saved, tmp_path):
    model, good = Refusing(), torch.full((2, 4), 2.0)
    compiled = ingot.compile(model, inputs=[good])
    assert compiled.report.whole, compiled.report
    if saved:
        ingot.save(compiled, tmp_path / "model.ingot")
        compiled = ingot.load(tmp_path / "model.ingot")
    torch.testing.assert_close(compiled(good), model(good))
    with pytest.raises((AssertionError, ValueError)):
        model(torch.full((2, 4), float(value)))
    with pytest.raises(ingot.InputError) as caught:
        compiled(torch.full((2, 4), float(value)))
    assert said in str(caught.value)
    with pytest.raises(ingot.InputError, match="var has negative"):
        compiled(torch.full((2, 4), 0.9).fill_diagonal_(5))


@pytest.mark.parametrize(
    "condition", ["x[0] > 1 and not x[1] > 1", "max(x[0], x[1]) > 1", "x[0] in (1, 2)", "0 < x[0] < 1", "any(t > 1 for t in x)", "x[0] > 1 if x[1] > 1 else x[0] > 2"]
)
def test_conditions_that_ask_for_more_are_refused(condition, tmp_path):
    """Each may be true although one of the tensors that it asks about is false, or the other way round."""
    (tmp_path / "asking.py").write_text(f"def asked(x):\n    if {condition}:\n        raise ValueError\n    return x + 1\n")
    names = {}
    exec(compile((tmp_path / "asking.py").read_text(), str(tmp_path / "asking.py"), "exec"), names)

    class Model(torch.nn.Module):
        def forward(self, x):
            return names["asked"](x)

    with pytest.raises(ingot.UnsupportedError, match="branches on a value that is known only when it runs"):
        ingot.compile(Model(), inputs=[torch.tensor([0.5, 0.25])])
