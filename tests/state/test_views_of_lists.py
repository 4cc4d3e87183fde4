"""Results that share memory with an input although no schema says so, or that are parts of a list: they are views of it by every way, as in eager."""

import pytest
import torch
from calls import Calls

import ingot

MODELS = {
    "diagonal": lambda x: torch.einsum("bii->bi", x),
    "axes": lambda x: torch.einsum("bij->jib", x),
    "sum": lambda x: torch.einsum("bij->bj", x),
    "grid": lambda x: torch.meshgrid(x[0, 0], x[0, 1], indexing="ij"),
    "grid of images": lambda x: torch.meshgrid(x[0, 0], x[0, 1], x[1, 2], indexing="xy"),
    "grid that is computed with": lambda x: [g + 1 for g in torch.meshgrid(x[0, 0], x[0, 1], indexing="ij")],
    "broadcast": lambda x: torch.broadcast_tensors(x, x[0], x.sum()),
}


@pytest.mark.parametrize("way", ["compile", "just in time", "open sizes just in time"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.one_in(2)
def test_shares_memory_as_in_eager(name, way, no_gradients):
    model, x = Calls(MODELS[name]), torch.randn(3, 4, 4)
    compiled = ingot.compile(model, inputs=[x]) if way == "compile" else torch.compile(model, backend="ingot", dynamic=way.startswith("open") or None)
    made, expected = compiled(x), model(x)
    memory = x.untyped_storage().data_ptr()
    for ours, theirs in zip(made, expected, strict=True) if isinstance(expected, (list, tuple)) else [(made, expected)]:
        torch.testing.assert_close(ours, theirs)
        assert (ours.untyped_storage().data_ptr() == memory) == (theirs.untyped_storage().data_ptr() == memory)
        assert ours.stride() == theirs.stride()
