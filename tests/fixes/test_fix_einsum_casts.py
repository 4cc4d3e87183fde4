import torch
from graphs import exported, fixed, is_unwanted, targets

from ingot.capture.fixes import einsum_casts


def product(x):
    return torch.einsum("ij,kj->ik", x, x)


def test_operands_are_cast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        traced = exported(product, torch.randn(2, 3))
    fixed("einsum_casts", traced)
    assert targets(traced) == ["aten.to.dtype", "aten.to.dtype", "aten.einsum.default"]
    assert traced.program().module()(torch.randn(2, 3)).dtype is torch.bfloat16


def test_no_autocast():
    assert not einsum_casts.wanted(exported(product, torch.randn(2, 3)))


def test_other_graphs():
    assert is_unwanted("einsum_casts")
