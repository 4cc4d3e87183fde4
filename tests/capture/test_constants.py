"""Values that a model computes from numbers, indices and sizes alone: each operator is rounded once, and values without sizes are computed once."""

import copy
import math
import sys
from pathlib import Path

import pytest
import torch
from torch.export import Dim

import ingot

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate


class Timesteps(torch.nn.Module):
    """Sines and cosines of a timestep, as diffusion models have them: the frequencies times 1,000."""

    def forward(self, t):
        half = 160
        exponent = -math.log(10000) * torch.arange(0, half, dtype=t.dtype, device=t.device) / half
        angles = 1000 * t[:, None] * torch.exp(exponent)[None, :]
        return torch.cat([angles.cos(), angles.sin()], -1)

    inputs = staticmethod(lambda n: (torch.linspace(0.03, 1, n),))


class Rope(torch.nn.Module):
    def forward(self, x):
        d = x.shape[-1]
        inverse = 1.0 / (10000.0 ** (torch.arange(0, d, 2, dtype=x.dtype) / d))
        angles = torch.outer(torch.arange(x.shape[1], dtype=x.dtype), inverse)
        angles = torch.cat([angles, angles], -1)
        turned = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], -1)
        return x * angles.cos() + turned * angles.sin()

    inputs = staticmethod(lambda n: (torch.randn(2, 64 * n, 32),))


class Alibi(torch.nn.Module):
    def forward(self, q, k, v):
        heads, n = q.shape[1], q.shape[2]
        slopes = torch.pow(2.0, -8.0 * torch.arange(1, heads + 1, dtype=q.dtype) / heads)
        at = torch.arange(n, dtype=q.dtype)
        bias = slopes[:, None, None] * (at[None, :] - at[:, None])
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    inputs = staticmethod(lambda n: tuple(torch.randn(3, 1, 4, 16 * n, 16)))


class Sinusoids(torch.nn.Module):
    def forward(self, x):
        n, d = x.shape[1], x.shape[2]
        rate = torch.exp(torch.arange(0, d, 2, dtype=x.dtype) * (-math.log(10000.0) / d))
        at = torch.arange(n, dtype=x.dtype)[:, None]
        return x + torch.stack([torch.sin(at * rate), torch.cos(at * rate)], -1).reshape(n, d)

    inputs = staticmethod(lambda n: (torch.randn(2, 50 * n, 24),))


class Buckets(torch.nn.Module):
    """Relative positions by the logarithm of their distance."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(32, 4)

    def forward(self, x):
        at = torch.arange(x.shape[1])
        distance = (at[:, None] - at[None, :]).abs()
        far = 8 + (torch.log(distance.clamp(min=1).float() / 8) / math.log(128 / 8) * 24).long()
        bucket = torch.where(distance < 8, distance, far.clamp(max=31))
        return x[..., None] + self.table(bucket)

    inputs = staticmethod(lambda n: (torch.randn(40 * n, 40 * n),))


MODELS = [Timesteps, Rope, Alibi, Sinusoids, Buckets]
AXES = {Timesteps: ({0: Dim.AUTO},), Rope: ({1: Dim.AUTO},), Alibi: ({2: Dim.AUTO},) * 3, Sinusoids: ({1: Dim.AUTO},), Buckets: ({0: Dim.AUTO, 1: Dim.AUTO},)}


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def check(model, call, inputs):
    exact = copy.deepcopy(model).double()(*[x.double() for x in inputs])
    assert_accurate(call(*inputs), model(*inputs), exact)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("kind", MODELS, ids=lambda m: m.__name__)
@pytest.mark.one_in(3)
def test_no_further_from_exact_than_eager(kind, dynamic):
    torch.manual_seed(1)
    model = kind().eval()
    compiled = ingot.compile(model, inputs=list(kind.inputs(3)), dynamic_shapes=AXES[kind] if dynamic else None)
    assert len(compiled.report.segments) == 1
    for n in (3, 5) if dynamic else (3,):
        check(model, compiled, kind.inputs(n))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("kind", MODELS, ids=lambda m: m.__name__)
@pytest.mark.one_in(4)
def test_under_torch_compile(kind, dynamic):
    torch.manual_seed(1)
    torch._dynamo.reset()
    model = kind().eval()
    check(model, torch.compile(kind().eval(), backend="ingot", dynamic=dynamic), kind.inputs(3))


class Frequencies(torch.nn.Module):
    """Every function of constants that models have, and nothing else."""

    def forward(self, x):
        at = torch.arange(1, 1001, dtype=torch.float32)
        f = [torch.exp(-at / 100), torch.pow(10000.0, -at / 1000), torch.rsqrt(at), torch.sin(at), torch.tanh(at / 500), torch.log(at) / 3, 1 / at.sqrt()]
        return torch.stack(f) + x


def test_each_operator_is_rounded_once():
    """The result equals double arithmetic rounded to float32 after each operator."""
    at = torch.arange(1, 1001, dtype=torch.float64)
    once = lambda v: v.float().double()  # noqa: E731
    wanted = [
        torch.exp(once(-at / 100)),
        torch.pow(10000.0, once(-at / 1000)),
        torch.rsqrt(at),
        torch.sin(at),
        torch.tanh(once(at / 500)),
        once(torch.log(at)) / 3,
        1 / once(at.sqrt()),
    ]
    wanted = torch.stack(wanted).float()
    x = torch.zeros(7, 1000)
    assert torch.equal(ingot.compile(Frequencies(), inputs=[x])(x), wanted)


def test_computed_once():
    """No step of the call computes the frequencies or RoPE's factors."""
    for kind, steps in ((Timesteps, ["mul + cos", "mul + sin"]), (Rope, ["mul + lt + pad + neg + select + add"]), (Sinusoids, ["add"])):
        compiled = ingot.compile(kind(), inputs=list(kind.inputs(3)))
        assert [step["label"] for step in compiled.profile(*kind.inputs(3), runs=1)] == steps


def test_a_number_of_a_type_is_what_the_type_holds_of_it():
    class Numbers(torch.nn.Module):
        def forward(self, x):
            return x + torch.full((3,), 0.1).double(), x + torch.full((3,), 0.1, dtype=torch.float16).double(), x * 0.1

    x = torch.ones(3, dtype=torch.float64)
    for got, eager in zip(ingot.compile(Numbers(), inputs=[x])(x), Numbers()(x)):
        assert torch.equal(got, eager)
