"""Values that depend on weights and on a varying size are computed in each call; values that depend on weights alone are prepared once."""

import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import models as architectures
from accuracy import assert_accurate

import ingot

torch.manual_seed(0)
W16, W3, SQUARE = torch.randn(16, 3), torch.randn(3), torch.randn(3, 3)


class Model(torch.nn.Module):
    """A model whose forward is `f(self, x)`, with its own weights."""

    def __init__(self, f):
        super().__init__()
        self.f = f
        self.rows, self.row, self.square = (torch.nn.Parameter(t.clone(), requires_grad=False) for t in (W16, W3, SQUARE))
        self.register_buffer("table", torch.randn(31, 2, generator=torch.Generator().manual_seed(1)))

    def forward(self, x):
        return self.f(self, x)


def alibi(m, x):
    n = x.shape[0]
    distance = torch.arange(n)[None, :] - torch.arange(n)[:, None]
    slopes = m.row.abs()[:, None, None]
    return torch.softmax((x @ x.T)[None] + slopes * distance, -1) @ x


def relative_bias(m, x):
    n = x.shape[0]
    position = torch.arange(n)[None, :] - torch.arange(n)[:, None] + n - 1
    bias = m.table[15 - n + 1 : 15 + n][position].permute(2, 0, 1)
    return torch.softmax((x @ x.T)[None] + bias, -1) @ x


PROGRAMS = {
    "index % n": lambda m, x: torch.index_select(x.exp(), 0, torch.tensor([0]).remainder(x.shape[0])),
    "w * n": lambda m, x: x + m.row * x.shape[0],
    "w / n": lambda m, x: x + m.row / x.shape[0],
    "x @ (w / n)": lambda m, x: x @ (m.square / x.shape[0]),
    "(x @ w) * (v * n)": lambda m, x: (x @ m.square) * (m.row * x.shape[0]),
    "(x @ w + b) / n": lambda m, x: torch.nn.functional.linear(x, m.square, m.row) / x.shape[0],
    "x[constants % n]": lambda m, x: x[torch.tensor([0, -1]) % x.shape[0]],
    "w[:n].cumsum": lambda m, x: x + m.rows[: x.shape[0]].cumsum(0),
    "w[:n].sum": lambda m, x: x + m.rows[: x.shape[0]].sum(0),
    "(w * 2)[:n].sum": lambda m, x: x + (m.rows * 2)[: x.shape[0]].sum(),
    "w[n:].amax": lambda m, x: x + torch.cat([m.rows, m.row[None]])[x.shape[0] :].amax(0),
    "w.expand.cumsum": lambda m, x: (x + m.row.expand(x.shape[0], 3).cumsum(0)).exp(),
    "w.expand.sort": lambda m, x: x + torch.sort(m.row.expand(x.shape[0], 3) * 2, 0)[0],
    "w.repeat": lambda m, x: x + m.row.repeat(x.shape[0]).view(-1, 3).cumsum(0),
    "w.roll": lambda m, x: x + m.rows.roll(3, 0)[: x.shape[0]],
    "arange * w": lambda m, x: x + torch.arange(x.shape[0])[:, None] * m.row,
    "exp(arange * w)": lambda m, x: x * torch.exp(-torch.arange(x.shape[0])[:, None] * m.row.abs()),
    "pad by n": lambda m, x: x + torch.nn.functional.pad(m.row, (0, x.shape[0]))[:3],
    "x @ (w[:n].T w[:n])": lambda m, x: x @ (m.rows[: x.shape[0]].T @ m.rows[: x.shape[0]]),
    "qkv, one scaled": lambda m, x: (x @ m.square) + (x @ (m.square * x.shape[0])) + (x @ m.square.T),
    "full(n) * w": lambda m, x: x + torch.full((x.shape[0], 1), 2.0).cumsum(0) * m.row,
    "alibi": alibi,
    "relative bias": relative_bias,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.one_in(4)
def test_program(name, tmp_path):
    model = Model(PROGRAMS[name]).eval()
    exact = copy.deepcopy(model).double()
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(2, 3), opt_shape=(4, 3), max_shape=(15, 3), name="x")], fallback="error")
    ingot.save(compiled, tmp_path / "m.ingot")
    ways = [compiled, ingot.load(tmp_path / "m.ingot")]
    if name in ("x @ (w / n)", "w[:n].cumsum", "alibi"):
        torch._dynamo.reset()
        ways.append(torch.compile(model, backend="ingot", dynamic=True))
    with torch.no_grad():
        for n in (4, 2, 15, 4):
            x = torch.randn(n, 3, generator=torch.Generator().manual_seed(n))
            want, truth = model(x), exact(x.double())
            for way in ways:
                assert_accurate(way(x), want, truth, depth=64)


def steps(compiled):
    plan = compiled.engine.inspect()
    return [s["kernel"] for s in plan["functions"][0]["programs"][0]["steps"]], [s["kernel"] for s in plan["targets"][0]["prepare"]["steps"]]


@pytest.mark.parametrize("program, packs", [("w * n", 0), ("x @ (w / n)", 0), ("(x @ w) * (v * n)", 1), ("(x @ w + b) / n", 1)])
def test_weights_of_products_stay_packed(program, packs):
    """A product's result that is scaled by a size does not take its weights out of prepare; a weight that is scaled itself is made with each call."""
    compiled = ingot.compile(Model(PROGRAMS[program]).eval(), inputs=[ingot.Input(min_shape=(2, 3), opt_shape=(4, 3), max_shape=(15, 3))])
    assert steps(compiled)[1].count("matmul_pack") == packs


@pytest.mark.parametrize("name, static, dynamic", [("bert", (15, 22), (15, 20)), ("gpt2", (15, 8), (15, 8)), ("llama", (19, 21), (22, 18))])
@pytest.mark.one_in(3)
def test_nothing_of_plain_models_leaves_prepare(name, static, dynamic):
    ranges = dict(min_shape=(1, 1), opt_shape=(2, 16), max_shape=(8, 64), dtype=torch.int64, shared_dims={0: "B", 1: "S"})
    module = architectures.SMALL[name]()
    for want, sizes in ((static, dict(shape=(2, 9), dtype=torch.int64)), (dynamic, ranges)):
        forward, prepare = steps(ingot.compile(module, inputs=[ingot.Input(**sizes) for _ in range(2)]))
        assert (len(forward), len(prepare)) == want
