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
@pytest.mark.one_in(3)
def test_batch(make, arguments):
    module, x = make(*arguments)
    assert all(same(compiled(module, x, deterministic="batch"), x))


def test_off():
    """Nothing on a CPU adds in the order in which threads come, so the option changes nothing there; tests/modules/test_cuda.py has it on a GPU."""
    module, x = linears()
    with torch.no_grad():
        assert torch.equal(compiled(module, x, deterministic="off")(x), compiled(module, x)(x))


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


# Functions of [.., batch], with the batch last in the result, and the sizes before it. A sum of a column reads elements that lie a batch apart.
INNERMOST = {
    "sum": (lambda x: x.sum(0), (784,)),
    "short sum": (lambda x: x.sum(0), (98,)),
    "sum of squares": (lambda x: (x * x).sum(0), (400,)),
    "sums of two axes": (lambda x: x.sum((0, 1)), (31, 40)),
    "sums of the middle axis": (lambda x: x.sum(1), (3, 500)),
    "norm": (lambda x: x.norm(dim=0), (300,)),
    "softmax": (lambda x: x.softmax(0), (200,)),
    "layer norm": (lambda x: torch.nn.functional.layer_norm(x.t(), (300,)).t(), (300,)),
    "instance norm": (lambda x: torch.nn.functional.instance_norm(x.permute(2, 0, 1)).permute(1, 2, 0), (4, 300)),
    "logsumexp": (lambda x: x.logsumexp(0), (300,)),
    "product with a vector": (lambda x: x.t() @ torch.ones(300, dtype=x.dtype), (300,)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", INNERMOST)
@pytest.mark.one_in(4)
def test_batch_innermost(name, dtype):
    function, shape = INNERMOST[name]
    torch.manual_seed(0)
    x = (torch.randn(*shape, 150) * torch.exp(30 * torch.randn(*shape, 150).clamp(-2, 2))).to(dtype)  # sums in another order have other bits
    inputs = [ingot.Input(min_shape=(*shape, 1), opt_shape=(*shape, 8), max_shape=(*shape, 150), dtype=str(dtype).removeprefix("torch."))]
    compiled = ingot.compile(Function(function), inputs, deterministic="batch", fallback="error")
    whole = compiled(x)
    for n in (*SIZES, 20, 21, 22):
        torch.testing.assert_close(compiled(x[..., :n].contiguous()), whole[..., :n], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads(threads):
    module, x = linears()
    with torch.no_grad():
        assert torch.equal(compiled(module, x, deterministic="batch", threads=threads)(x), compiled(module, x, deterministic="batch")(x))


def test_depthwise_of_few_channels():
    """Vectors of several outputs: which ones does not depend on how workers share the lines of a batch."""
    torch.manual_seed(0)
    conv = torch.nn.Conv1d
    module, x = torch.nn.Sequential(conv(4, 5, 1), torch.nn.ReLU(), conv(5, 5, 9, padding=4, groups=5), torch.nn.ReLU(), conv(5, 4, 1)).eval(), torch.randn(5, 4, 1000)
    with torch.no_grad():
        alone = compiled(module, x[:1], deterministic="batch", threads=1)(x[:1])
        assert torch.equal(compiled(module, x, deterministic="batch", threads=2)(x)[:1], alone)


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
    with pytest.raises(ingot.UnsupportedError, match='deterministic="batch" is not available on cuda:sm_90') as caught:
        ingot.compile(torch.nn.Linear(3, 4), inputs=[ingot.Input((2, 3))], target="cpu,cuda:sm_90", deterministic="batch")
    assert 'deterministic="run"' in str(caught.value.remedy)
