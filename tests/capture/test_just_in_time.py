"""torch.compile(backend="ingot"): what Dynamo passes besides plain graphs, and what it guards."""

import copy
import logging
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot.backend import ingot_backend


class Counted:
    """torch.compile with ingot's backend. `graphs`: the compiled graphs, in order."""

    def __init__(self, model, options=None, **arguments):
        torch._dynamo.reset()
        self.graphs = []

        def backend(graph, examples):
            self.graphs.append(ingot_backend(graph, examples, options=options))
            return self.graphs[-1]

        self.call = torch.compile(model, backend=backend, **arguments)

    def __call__(self, *arguments, **keywords):
        return self.call(*arguments, **keywords)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("scale", torch.full((8,), 2.0))

    def forward(self, x, n=1):
        return torch.nn.functional.gelu(self.linear(x)) * self.scale * n


def check(compiled, model, *arguments, exact=None):
    exact = copy.deepcopy(exact or model).double()
    wide = [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments]
    with torch.no_grad():
        for got, eager, truth in zip(*(t if isinstance(t, tuple) else (t,) for t in (compiled(*arguments), model(*arguments), exact(*wide)))):
            assert_accurate(got, eager, truth, depth=64)


@pytest.fixture
def model():
    return Scaled().eval()


def breaks_torch(mode, release):
    """A case that breaks torch itself in this release, backend "aot_eager" too, and all tests behind it in the process."""
    return pytest.param(mode, marks=pytest.mark.skipif(torch.__version__.startswith(release), reason=f"torch {release} cannot run it with any backend of AOTAutograd"))


@pytest.mark.parametrize("mode", [torch.no_grad, breaks_torch(torch.inference_mode, "2.11.")])
def test_regions_without_gradients(mode):
    class Regions(Scaled):
        def forward(self, x):
            with mode():
                y = self.linear(x)
                v = x.view(5, 2, 4).transpose(1, 2)
            with torch.no_grad():
                z = torch.nn.functional.gelu(y)
            return z * self.scale, y, v

    model = Regions().eval().requires_grad_(False)
    x = torch.randn(5, 8)
    compiled = Counted(model)
    check(compiled, model, x)
    assert [g.report.in_torch for g in compiled.graphs] == [0] * len(compiled.graphs)
    exact = copy.deepcopy(model).double()(x.double())
    ahead = ingot.compile(model, inputs=[x])
    for got, eager, truth in zip(ahead(x), model(x), exact):
        assert_accurate(got, eager, truth, depth=64)
    assert ahead.report.in_torch == 0
    with mode():
        assert torch.equal(ahead(x)[0], compiled(x)[0])
    assert torch.nn.Linear(2, 2)(x[:, :2]).requires_grad == torch.is_grad_enabled()  # the thread is in the mode that it was in
    assert not torch.is_inference_mode_enabled()


@torch.enable_grad()
def test_gradients_that_a_region_does_not_need():
    """The parameters ask for gradients; a call inside no_grad needs none, the same call outside runs, and its results refuse to give any."""
    model, x = Scaled().eval(), torch.randn(5, 8)
    compiled = Counted(model)
    check(compiled, model, x)
    result = compiled(x)
    assert_accurate(result.detach(), model(x).detach(), copy.deepcopy(model).double()(x.double()).detach(), depth=64)
    assert result.requires_grad
    with pytest.raises(ingot.UnsupportedError):
        result.sum().backward()
    check(compiled, model, x)


def test_dynamic(model):
    """All sizes are symbols from the first call on, and so are numbers."""
    body = torch.nn.Sequential(model.linear, torch.nn.GELU(), torch.nn.Softmax(-1))
    compiled = Counted(body, dynamic=True)
    for rows in (3, 7, 64, 2):
        check(compiled, body, torch.randn(rows, 8))
    assert len(compiled.graphs) == 1 and compiled.graphs[0].report.in_torch == 0


def test_marked_sizes_hold_their_range(model):
    compiled = Counted(model)
    for rows in (4, 9, 16):
        x = torch.randn(rows, 8)
        torch._dynamo.mark_dynamic(x, 0, min=4, max=16)
        check(compiled, model, x)
    assert len(compiled.graphs) == 1
    (size,) = {d for d in compiled.graphs[0].engine.inputs()[0]["dims"] if isinstance(d, str)}
    symbols = {s["name"]: s for s in compiled.graphs[0].engine.inspect()["functions"][0]["symbols"]}
    assert (symbols[size]["min"], symbols[size]["max"]) == (4, 16)
    check(compiled, model, torch.randn(17, 8))  # outside: Dynamo makes another graph
    assert len(compiled.graphs) == 2


@pytest.mark.parametrize("options", [None, {"torch_executed_ops": ["gelu"], "min_block_size": 1}], ids=["one engine", "gelu in torch"])
def test_a_number_that_changes(model, options):
    """A number among the arguments: fixed at first, a symbol (SymInt) from the second value on."""
    compiled = Counted(model, options)
    for n in (3, 5, 11, 2):
        check(compiled, model, torch.randn(4, 8), n)
    assert len(compiled.graphs) == 2
    window = Windowed()
    compiled = Counted(window, options={"min_block_size": 1})
    for start, length in ((1, 3), (2, 5), (0, 7), (4, 2)):
        check(compiled, window, torch.randn(9, 8), start, length)
    assert len(compiled.graphs) <= 4 and all(g.report.in_torch == 0 for g in compiled.graphs)


class Numbered(torch.nn.Module):
    def forward(self, x, n):
        return x + n, x * (n // 2), x * (n % 3), x - (3 * n + 1), x * max(n, 2), x + min(n, -1), x * abs(n), torch.full_like(x, n), torch.arange(4) + n


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("options", [None, {"torch_executed_ops": ["full_like"], "min_block_size": 1}], ids=["one engine", "full_like in torch"])
def test_a_number_that_may_be_negative(options, dynamic):
    compiled = Counted(Numbered(), options=options, dynamic=dynamic)
    for n in (5, 9, -12, -3, -2, 1, 0, -7, 10**12, -(10**12)):
        check(compiled, Numbered(), torch.randn(3, 4), n)
    assert all(g.report.in_torch == (options is not None) for g in compiled.graphs)


class Windowed(torch.nn.Module):
    def forward(self, x, start, length):
        return torch.nn.functional.gelu(x[start : start + length]) * length, x.new_zeros(length, 2) + start


def test_graph_breaks(model):
    """Python between the pieces runs with each call; each piece is an engine."""
    lines = []

    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = model, Scaled()
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            y = self.first(x)
            self.calls += 1
            torch._dynamo.graph_break()
            lines.append(y.shape)
            return self.second(y), self.calls + 0

    broken = Broken().eval()
    eager = copy.deepcopy(broken)
    compiled = Counted(broken)
    with torch.no_grad():
        exact = copy.deepcopy(eager).double()
        for number in range(3):
            x = torch.randn(4, 8)
            lines.clear()
            (y, calls), (expected, counted), (truth, _) = compiled(x), eager(x), exact(x.double())
            assert_accurate(y, expected, truth, depth=64)
            assert calls == counted == number + 1 and broken.calls == number + 1 and len(lines) == 3
    assert len(compiled.graphs) == 2 and all(g.report.in_torch == 0 for g in compiled.graphs)
    # The buffer that one piece writes is an input of the other, whose weights are prepared once.
    assert any(b["name"].endswith("calls']") for b in compiled.graphs[1].engine.inputs()) and not compiled.graphs[1].engine._values


def test_parameters_and_buffers_that_are_replaced(model):
    """Another tensor, other values in place, and one of another size: each call is eager's."""
    compiled = Counted(model)
    x = torch.randn(4, 8)
    check(compiled, model, x)
    with torch.no_grad():
        model.linear.weight = torch.nn.Parameter(torch.randn(8, 8))
        check(compiled, model, x)
        model.linear.bias.mul_(-3)
        check(compiled, model, x)
        model.scale = torch.rand(8)
        check(compiled, model, x)
        model.scale.add_(1)
        check(compiled, model, x)
        model.linear.weight.data = torch.randn(8, 8)
        check(compiled, model, x)
        model.linear.weight, model.linear.bias = torch.nn.Parameter(torch.randn(4, 8)), torch.nn.Parameter(torch.randn(4))
        model.scale = torch.rand(4)
        check(compiled, model, x)


class Padded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(torch.cat([x, torch.Tensor(torch.zeros(x.shape[0], 3, 8)).type(x.type())], 1))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_tensor_made_of_a_tensor(dynamic):
    """torch's trace before dispatch has it as a constant without values."""
    model, x, reports = Padded().eval().requires_grad_(False), torch.randn(2, 5, 8), []

    def backend(graph, examples):
        made = ingot_backend(graph, examples)
        reports.append(made.report)
        return made

    torch._dynamo.reset()
    result = torch.compile(model, backend=backend, dynamic=dynamic)(x)
    assert [report.whole for report in reports] == [True]
    assert_accurate(result, model(x), copy.deepcopy(model).double()(x.double()), depth=8)


def test_a_check_is_an_effect():
    """torch adds a token, which orders effects, to a graph with an effect: here the check for singular matrices, which still raises."""
    call, x = Counted(lambda x: torch.linalg.inv(x) * 2), torch.eye(4) * 3
    with torch.no_grad():
        assert torch.allclose(call(x), torch.linalg.inv(x) * 2)
        with pytest.raises(torch.linalg.LinAlgError, match="singular"):
            call(torch.zeros(4, 4))
    assert call.graphs[0].report.whole


def test_effects_keep_their_order_in_torch():
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    said = []
    op = torch.library.custom_op("ingot_tests::say", lambda x: said.append(1) or x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(torch.empty_like)
    _register_effectful_op(torch.ops.ingot_tests.say.default, _EffectType.ORDERED)
    call, x = Counted(lambda x: torch.ops.ingot_tests.say(x * 2) * 3), torch.randn(4)
    with torch.no_grad():
        assert torch.equal(call(x), (x * 2 + 1) * 3)
    assert said == [1] and {n["reason"] for n in call.graphs[0].report.nodes} == {"it has effects whose order torch keeps"}


def test_what_stays_in_torch_is_told(caplog):
    class Partly(Scaled):
        def forward(self, x):
            return torch.special.airy_ai(super().forward(x))

    model = Partly().eval()
    compiled = Counted(model)
    with caplog.at_level(logging.WARNING, "ingot"):
        check(compiled, model, torch.randn(4, 8))
    assert "operators run in torch (aten.special_airy_ai.default); ingot.explain(model, inputs) says why" in caplog.text
    with torch.no_grad(), pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="aten.special_airy_ai.default: the operator table has no definition of it"):
        Counted(model, {"fallback": "error"})(torch.randn(4, 8))
