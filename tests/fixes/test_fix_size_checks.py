import pytest
import sympy
import torch
from graphs import exported, is_unwanted, targets
from torch.export import Dim

from ingot.capture.fixes import size_checks
from ingot.capture.switches.branches import Branch, size_of

ROWS, COLUMNS = size_of(0, 0), size_of(0, 1)


def checked(*conditions):
    traced = exported(lambda x: x * 2, torch.randn(3, 4), dynamic_shapes=(({0: Dim("n", min=2, max=9), 1: Dim("m", min=2, max=9)},),))
    traced.conditions, traced.names = [Branch(c, "model.py:7") for c in conditions], {"inputs_0": "image"}
    assert size_checks.wanted(traced)
    size_checks.apply(traced)
    traced.graph.lint()
    traced.module.recompile()
    return traced


def test_a_condition_is_checked():
    traced = checked(ROWS * COLUMNS >= 12)
    assert targets(traced)[-2:] == ["aten._assert_scalar.default", "aten.mul.Tensor"]
    (check,) = (n for n in traced.graph.nodes if n.target is torch.ops.aten._assert_scalar.default)
    assert "image.shape[0]*image.shape[1] >= 12" in check.args[1] and "at model.py:7" in check.args[1]
    interpreter = torch.fx.Interpreter(traced.module)
    assert interpreter.run(torch.ones(3, 4))[0].shape == (3, 4)
    with pytest.raises(RuntimeError, match="do not fit the model"):
        torch.fx.Interpreter(traced.module).run(torch.ones(2, 4))


def test_a_condition_that_the_ranges_imply_is_not():
    assert targets(checked(sympy.Ge(ROWS + COLUMNS, 4))) == ["aten.mul.Tensor"]


def test_other_graphs():
    assert is_unwanted("size_checks")
