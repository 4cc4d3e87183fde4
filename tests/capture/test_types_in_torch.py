"""Tensors of types that engines lack (float8, quantised) or hold otherwise (complex): operators that only torch has run in torch, the rest of the model in engines."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate  # noqa: E402

import ingot  # noqa: E402
from ingot.backend import ingot_backend  # noqa: E402


class Rotated(torch.nn.Module):
    """A complex buffer between two products."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)
        self.register_buffer("turn", torch.polar(torch.ones(8), torch.rand(8)))

    def forward(self, x):
        pairs = torch.view_as_complex(torch.relu(self.one(x)).unflatten(-1, (8, 2)))
        return torch.relu(self.two(torch.view_as_real(pairs * self.turn).flatten(-2)))


class Spectrum(torch.nn.Module):
    """A complex input, and a complex result."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, z):
        return self.two(torch.nn.functional.gelu(self.one(z.abs()))), z * 2, z


class ComplexWeight(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.weight = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8, dtype=torch.complex64)

    def forward(self, x):
        y = torch.relu(self.one(x))
        return self.one(self.weight(torch.complex(y, y)).abs()).relu()


class Cast(torch.nn.Module):
    """An input of another type, read by one cast."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.one(x.to(self.one.weight.dtype))).softmax(-1)


class Held(torch.nn.Module):
    """A buffer of another type, and one written in place."""

    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(0)
        self.one = torch.nn.Linear(8, 8)
        self.register_buffer("scale", torch.arange(1, 9).to(torch.float32).to(dtype))
        self.register_buffer("seen", torch.zeros(8, dtype=torch.complex64))

    def forward(self, x):
        y = torch.relu(self.one(x) * self.scale.to(x.dtype))
        self.seen.add_(torch.complex(y.sum(0), y.sum(0)))
        return y.softmax(-1)


def both_ways(model, inputs, **option):
    """Compiled calls with their reports."""
    if any(isinstance(i, ingot.Input) for i in inputs):
        compiled = ingot.compile(model, inputs=inputs, min_block_size=1, **option)
        yield compiled, lambda: [compiled.report]
        return
    compiled = ingot.compile(model, inputs=list(inputs), min_block_size=1, **option)
    yield compiled, lambda: [compiled.report]
    torch._dynamo.reset()
    reports = []

    def backend(graph, examples):
        made = ingot_backend(graph, examples, options={"min_block_size": 1, **option})
        reports.append(made.report)
        return made

    yield torch.compile(model, backend=backend), lambda: reports


def double(model):
    """In float64, complex parts in complex128."""
    for module in model.modules():
        for store in (module._parameters, module._buffers):
            for name, value in store.items():
                if value is not None and value.dtype in (torch.float32, torch.complex64):
                    wide = value.detach().to(torch.float64 if value.dtype is torch.float32 else torch.complex128)
                    store[name] = torch.nn.Parameter(wide) if isinstance(value, torch.nn.Parameter) else wide
    return model


def wide(value):
    return value.to({torch.float32: torch.float64, torch.complex64: torch.complex128}.get(value.dtype, value.dtype))


def real(value):
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def assert_same(results, eager, exact):
    for got, want, true in zip(*([r] if isinstance(r, torch.Tensor) else r for r in (results, eager, exact)), strict=True):
        assert_accurate(real(got), real(want), real(true), depth=64)


def check(make, inputs, said, engines):
    exact, eager = double(make())(*map(wide, inputs)), make()(*inputs)
    for call, reports in both_ways(make().eval(), inputs):
        with torch.no_grad():
            assert_same(call(*inputs), eager, exact)
        assert sum(len(r.segments) for r in reports()) == engines
        reasons = " ".join(n["reason"] for r in reports() for n in r.nodes if n["segment"] is None)
        assert said in reasons, reasons


def test_a_complex_buffer():
    with torch.no_grad():
        check(Rotated, [torch.randn(3, 16)], "", 1)


def test_a_complex_input():
    z = torch.randn(4, 8, dtype=torch.complex64)
    with torch.no_grad():
        check(Spectrum, [z], "", 1)
        check(Spectrum, [z.conj()], "", 1)
        check(Spectrum, [torch.randn(8, 4, dtype=torch.complex64).t()], "", 1)


def test_a_complex_weight():
    with torch.no_grad():
        check(ComplexWeight, [torch.randn(4, 8)], "", 1)


@pytest.mark.parametrize("dtype", ["complex32", "complex128", "float8_e4m3fn", "float8_e5m2"])
def test_other_types(dtype):
    kind = getattr(torch, dtype)
    x = torch.arange(1, 25).reshape(3, 8).float().to(kind)
    with torch.no_grad():
        if not kind.is_complex:
            check(Cast, [x], f"has dtype {dtype}, which is not supported", 1)
            check(lambda: Held(kind), [torch.randn(3, 8)], f"has dtype {dtype}, which is not supported", 1)
        for compiled in (ingot.compile(Passes(), inputs=[x, x]), torch.compile(Passes(), backend="ingot")):
            a, b = compiled(x, x)
            assert a.dtype is kind and b.dtype is kind and torch.equal(real(a.to(torch.complex64)) if kind.is_complex else a.float(), real(x.to(torch.complex64)) if kind.is_complex else x.float())
        torch._dynamo.reset()


class Passes(torch.nn.Module):
    def forward(self, x, y):
        return y, x.view(8, 3)


def test_open_sizes():
    z = ingot.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(9, 8), dtype=torch.complex64, name="z")
    compiled = ingot.compile(Spectrum().eval(), inputs=[z], min_block_size=1)
    for n in (1, 5, 9):
        x = torch.randn(n, 8, dtype=torch.complex64)
        with torch.no_grad():
            assert_same(compiled(x), Spectrum()(x), double(Spectrum())(wide(x)))
    with pytest.raises(ingot.InputError, match="axis 0 of input 'z' has size 10, outside the range 1..9"):
        compiled(torch.randn(10, 8, dtype=torch.complex64))


def test_saved(tmp_path):
    z = torch.randn(4, 8, dtype=torch.complex64)
    compiled = ingot.compile(Spectrum().eval(), inputs=[z], min_block_size=1)
    ingot.save(compiled, tmp_path / "m.pt2", format="exported_program")
    with torch.no_grad():
        assert_same(ingot.load(tmp_path / "m.pt2")(z), Spectrum()(z), double(Spectrum())(wide(z)))
    with pytest.raises(ingot.UnsupportedError, match="z is complex64, and a plan takes, gives and keeps real tensors"):
        ingot.save(compiled, tmp_path / "m.ingot")


def test_a_file(tmp_path):
    for model, inputs in ((Held(torch.float8_e5m2), [torch.randn(3, 8)]), (Cast(), [torch.ones(3, 8).to(torch.float8_e4m3fn)])):
        torch.export.save(torch.export.export(model.eval(), tuple(inputs)), tmp_path / "m.pt2")
        with torch.no_grad():
            compiled, eager = ingot.compile(str(tmp_path / "m.pt2"), min_block_size=1), model(*inputs)
            assert compiled.report.segments
            assert_same(compiled(*inputs), eager, double(model)(*map(wide, inputs)))


def test_refused_by_name():
    z = torch.randn(4, 8, dtype=torch.complex64)
    assert ingot.compile(Spectrum(), inputs=[z], fallback="error").report.in_torch == 0
    assert ingot.compile(Passes(), inputs=[torch.randn(3, 8, dtype=torch.complex64)] * 2, fallback="error").report.operators == 0  # nothing is missing
    with pytest.raises(ingot.UnsupportedError) as caught:
        ingot.compile(Held(torch.float8_e4m3fn), inputs=[torch.randn(3, 8)], fallback="error")
    assert "b_scale has dtype float8_e4m3fn, which is not supported" in caught.value.message


def test_quantised():
    """Tensors for which torch.export has no fake tensors are refused in plain words ahead of time, and run under torch.compile."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x.dequantize()) * 2

    x = torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8)
    with pytest.raises(ingot.UnsupportedError, match="quantised|quantized|QuantizedCPU|torch.export does not take"):
        ingot.compile(Model(), inputs=[x])
    with torch.no_grad():
        assert torch.equal(torch.compile(Model(), backend="ingot")(x), Model()(x))
