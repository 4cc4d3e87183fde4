import pytest
import torch
from graphs import exported, fixed, is_unwanted, of_dynamo

import ingot
from ingot.capture.fixes import overlap


def of_a_row(x):
    y = x.sin().expand(3, 4)
    y[0].fill_(1)
    return y


def test_the_write_goes_to_the_tensor_behind():
    traced, x = exported(of_a_row, torch.randn(1, 4)), torch.randn(1, 4)
    assert overlap.wanted(of_dynamo(of_a_row, x))
    (fill,) = (n for n in traced.graph.nodes if n.target is torch.ops.aten.fill_.Scalar)
    assert fill.args[0].args[0].target is torch.ops.aten.expand.default
    fixed("overlap", traced)
    (fill,) = (n for n in traced.graph.nodes if n.target is torch.ops.aten.fill_.Scalar)
    assert fill.args[0].target is torch.ops.aten.select.int and fill.args[0].args[0].target is torch.ops.aten.sin.default
    assert traced.program().module()(x).equal(of_a_row(x))


def test_what_eager_refuses():
    traced = exported(lambda x: x.sin().expand(3, 4).add_(1), torch.randn(1, 4))
    assert overlap.wanted(traced)
    with pytest.raises(ingot.UnsupportedError, match="PyTorch refuses that too"):
        overlap.apply(traced)


def test_reads_do_not_count():
    assert not overlap.wanted(exported(lambda x: x.sin().expand(3, 4) + x.clone().add_(1), torch.randn(1, 4)))


def test_other_graphs():
    assert is_unwanted("overlap")
