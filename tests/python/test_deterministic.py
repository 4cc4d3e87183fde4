"""deterministic="batch": a sample's results do not depend, bit by bit, on what else is in the batch."""

import pytest
import torch

import ingot

SIZES = (1, 2, 3, 5, 14, 31, 33, 64, 127, 150)


class Block(torch.nn.Module):
    """A feature-forward block and attention of few and of many queries."""

    def __init__(self):
        super().__init__()
        self.qkv, self.up, self.down, self.norm = torch.nn.Linear(96, 3 * 96), torch.nn.Linear(96, 500), torch.nn.Linear(500, 96), torch.nn.LayerNorm(96)

    def forward(self, x):
        q, k, v = self.qkv(x).view(x.shape[0], x.shape[1], 3, 6, 16).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        return self.norm(x + self.down(torch.nn.functional.gelu(self.up(y)))).softmax(-1)


def linears():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(768, 1000), torch.nn.GELU(), torch.nn.Linear(1000, 301), torch.nn.LayerNorm(301)), torch.randn(150, 768)


def attention(sequence):
    torch.manual_seed(0)
    return Block(), torch.randn(150, sequence, 96)


def compiled(module, x, **option):
    shape = tuple(x.shape[1:])
    return ingot.compile(module.eval(), inputs=[ingot.Input(min_shape=(1, *shape), opt_shape=(8, *shape), max_shape=(150, *shape))], **option)


def same(module, x):
    with torch.no_grad():
        whole = module(x)
        return [torch.equal(module(x[:n]), whole[:n]) for n in SIZES]


@pytest.mark.parametrize("make, arguments", [(linears, ()), (attention, (1,)), (attention, (2,)), (attention, (19,))], ids=["linears", "one", "two", "nineteen"])
def test_batch(make, arguments):
    module, x = make(*arguments)
    assert all(same(compiled(module, x, deterministic="batch"), x))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads(threads):
    module, x = linears()
    with torch.no_grad():
        assert torch.equal(compiled(module, x, deterministic="batch", threads=threads)(x), compiled(module, x, deterministic="batch")(x))


def test_default():
    """One row alone is summed in several parts at once, which is faster; the same inputs give the same bits."""
    module, x = linears()
    fast = compiled(module, x)
    with torch.no_grad():
        assert not all(same(fast, x)) and torch.equal(fast(x), fast(x))


def test_plan_tells():
    module, x = linears()
    assert compiled(module, x, deterministic="batch").engine.inspect()["provenance"]["deterministic"] == "batch"


def test_gpu_refused():
    with pytest.raises(ingot.UnsupportedError, match='deterministic="batch" is not to be had on cuda:sm_90') as caught:
        ingot.compile(torch.nn.Linear(3, 4), inputs=[ingot.Input((2, 3))], target="cpu,cuda:sm_90", deterministic="batch")
    assert 'deterministic="run"' in str(caught.value.remedy)
