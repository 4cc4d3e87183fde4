"""Two sizes that the model needs equal, and a compiled module that is exported again with open sizes."""

import logging
import sys
from pathlib import Path

import pytest
import torch
from torch.export import Dim

import ingot

sys.path.insert(0, str(Path(__file__).parents[1]))
from accuracy import assert_accurate


class Least(torch.nn.Module):
    def forward(self, x, y):
        return torch.minimum(x, y)


def ranged(**more):
    return ingot.Input(min_shape=(1, 3), opt_shape=(2, 3), max_shape=(4, 3), **more)


def test_two_sizes_that_the_model_needs_equal(caplog):
    caplog.set_level(logging.WARNING, "ingot")
    compiled = ingot.compile(Least(), inputs=[ranged(name="x"), ranged(name="y")], min_block_size=1)
    assert caplog.messages == ["the model needs axis 0 of input 'y' to have the size of axis 0 of input 'x', which is what the compiled module takes; shared_dims={0: \"B\"} in their Inputs says so"]
    for n in range(1, 5):
        x, y = torch.randn(n, 3), torch.randn(n, 3)
        assert torch.equal(compiled(x, y), torch.minimum(x, y))
    with pytest.raises(ingot.InputError, match="has size 3, but the sizes of the other inputs make it"):
        compiled(torch.randn(2, 3), torch.randn(3, 3))
    caplog.clear()
    ingot.compile(Least(), inputs=[ranged(shared_dims={0: "B"}), ranged(shared_dims={0: "B"})], min_block_size=1)
    assert not caplog.messages


@pytest.mark.parametrize("kept", [[], ["aten.minimum.default"]])
def test_a_module_is_exported_again(kept):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return torch.relu(torch.minimum(x, y).exp()) * 0.5

    class Around(torch.nn.Module):
        def __init__(self, compiled):
            super().__init__()
            self.compiled = compiled

        def forward(self, x, y):
            return self.compiled(x, y)

    shared = [ranged(shared_dims={0: "B"}), ranged(shared_dims={0: "B"})]
    compiled, d = ingot.compile(Model(), inputs=shared, min_block_size=1, torch_executed_ops=kept), Dim("d", min=1, max=4)
    program = torch.export.export(Around(compiled), (torch.randn(2, 3), torch.randn(2, 3)), dynamic_shapes={"x": {0: d}, "y": {0: d}})
    for n in (1, 2, 4):
        x, y = torch.randn(n, 3), torch.randn(n, 3)
        assert torch.allclose(program.module()(x, y), Model()(x, y)) and torch.allclose(compiled(x, y), Model()(x, y))


@pytest.mark.parametrize("kept", [[], ["aten.atan2.default"]], ids=["engine", "torch"])
def test_sizes_of_one_and_two(kept, caplog):
    """torch traces sizes from 2 on, so 1..2 must not become the constant 2; the module takes both all the same, and no more."""

    class Into(torch.nn.Module):
        def forward(self, x, y, out):
            return torch.ops.aten.atan2.out(x, y, out=out)

    small = ingot.Input(min_shape=(1, 2), opt_shape=(2, 3), max_shape=(2, 4))
    compiled = ingot.compile(Into(), inputs=[small, small, small], min_block_size=1, torch_executed_ops=kept)
    assert sum(" the model needs axis 0 " in f" {message}" for message in caplog.messages) == 2
    for n in (1, 2):
        x, y, out = torch.randn(n, 3), torch.randn(n, 3), torch.empty(n, 3)
        given = compiled(x, y, out)
        assert_accurate(given, Into()(x, y, torch.empty(n, 3)), torch.atan2(x.double(), y.double()))
        assert given is out
    with pytest.raises(ingot.InputError, match=r"outside the range 1\.\.2"):
        compiled(torch.randn(3, 3), torch.randn(3, 3), torch.empty(3, 3))
