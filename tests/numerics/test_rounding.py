"""Half-precision values that feed a decision (a comparison, a floor, a remainder) are rounded as in eager, so the results are eager's, bit for bit."""

import pytest
import torch
from torch import nn

import ingot


def nested_remainders(a, b, i):
    return (
        torch.remainder(torch.remainder(a, i), b),
        torch.remainder(i, torch.remainder(a, b)),
        torch.remainder(torch.remainder(a, b), torch.remainder(b, a)),
        torch.fmod(a * b, torch.fmod(b, a)),
    )


def decisions(a, b, i):
    x = a * b + a
    return x > b, torch.floor(x), torch.round(x * b), torch.sign(x - a), torch.where(x.abs() < 100, x, 0).to(torch.int32), x.isinf(), torch.where(x < 0.3, a, b), torch.remainder(x, 0.3), (x - b * a).argmax()


def domains(a, b, i):
    return torch.sqrt(1 - a * a), torch.log(a * b - a), b / (a * b - b), torch.acos(a * 1.001), torch.pow(a * b, i)


def values(dtype, seed):
    torch.manual_seed(seed)
    a, b = ((torch.randn(400) * scale).to(dtype) for scale in (8, 3))
    for t in (a, b):
        t[::17], t[1::23], t[2::29], t[3::31] = 0.0, float("inf"), float("nan"), 1.0
    i = torch.randint(1, 6, (400,))
    return a, b, torch.where(torch.rand(400) < 0.5, -i, i)


def same(got, eager):
    return got.dtype == eager.dtype and torch.equal(got.isnan(), eager.isnan()) and torch.equal(got.nan_to_num(), eager.nan_to_num())


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("function", [nested_remainders, decisions], ids=lambda f: f.__name__)
def test_what_decides_is_eagers(function, dtype, way):
    class Model(nn.Module):
        def forward(self, a, b, i):
            return function(a, b, i)

    with torch.no_grad():
        torch._dynamo.reset()
        call = ingot.compile(Model(), inputs=list(values(dtype, 0)), fallback="error") if way == "compile" else torch.compile(function, backend="ingot")
        for seed in range(6):
            inputs = values(dtype, seed)
            for k, (got, eager) in enumerate(zip(call(*inputs), function(*inputs))):
                assert same(got, eager), f"result {k}, seed {seed}: {(got != eager).logical_and(~eager.isnan()).sum()} differ, {got.isnan().sum()} NaN, eager has {eager.isnan().sum()}"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_ends_of_domains_are_eagers(dtype):
    with torch.no_grad():
        torch._dynamo.reset()
        call = torch.compile(domains, backend="ingot")
        for seed in range(6):
            inputs = values(dtype, seed)
            for k, (got, eager) in enumerate(zip(call(*inputs), domains(*inputs))):
                assert torch.equal(got.isnan(), eager.isnan()), f"result {k}, seed {seed}: {got.isnan().sum()} NaN, eager has {eager.isnan().sum()}"


class Block(nn.Module):
    """Nothing in it jumps."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        h = self.norm(x)
        h = x + nn.functional.scaled_dot_product_attention(h, h, h)
        return nn.functional.softmax(h + self.down(nn.functional.gelu(self.up(h)) * nn.functional.silu(self.up(x))), -1)


def test_bodies_without_decisions_are_as_they_were(monkeypatch):
    model, x, plans = Block().eval().bfloat16(), torch.randn(1, 4, 32, dtype=torch.bfloat16), []
    for disabled in ("", "rounding"):
        monkeypatch.setenv("INGOT_DISABLE", disabled)
        with torch.no_grad():
            plans.append(ingot.compile(model, inputs=[x], fallback="error").engine.graph)
    assert plans[0] == plans[1]


CHAINS = {
    "square": lambda a, b: (a * a).float(),
    "quotient": lambda a, b: a * b / b,
    "far apart": lambda a, b: a + 2048 - 2048,
    "exponent": lambda a, b: a.exp().log(),
    "mean": lambda a, b: (a * a).clamp(max=4).mean(-1, keepdim=True).sqrt() * b,
    "cast": lambda a, b: (a.float().to(a.dtype) * 1).float(),
    "residual": lambda a, b: (a + b) * a - b,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("chain", CHAINS)
def test_every_result_is_rounded_on_demand(chain, dtype):
    model = type("Model", (nn.Module,), {"forward": lambda self, a, b: CHAINS[chain](a, b)})()
    with torch.no_grad():
        a, b, _ = values(dtype, 3)
        call = ingot.compile(model, inputs=[a, b], fallback="error", rounding="eager")
        for seed in range(3):
            a, b, _ = values(dtype, seed)
            assert same(call(a, b), model(a, b))


def test_rounding_is_one_of_two():
    with pytest.raises(ingot.OptionError, match='rounding'):
        ingot.compile(nn.Linear(2, 2), inputs=[torch.ones(1, 2)], rounding="half")
