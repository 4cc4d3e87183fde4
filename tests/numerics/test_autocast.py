"""Regions of torch.autocast, inside the model and around it: dtypes and results are those of eager under the same autocast."""

import contextlib
import copy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot.backend import ingot_backend

HALF = lambda: torch.autocast("cpu", dtype=torch.bfloat16)  # noqa: E731


class Region(torch.nn.Module):
    """A region of autocast, a nested region with autocast off, and the model's own casts."""

    def __init__(self):
        super().__init__()
        self.inside, self.off, self.outside = (torch.nn.Linear(16, 16) for _ in range(3))
        self.norm = torch.nn.LayerNorm(16)
        self.chain = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))

    def forward(self, x):
        with HALF():
            a = self.chain(torch.nn.functional.gelu(self.inside(x)))
            b = torch.nn.functional.scaled_dot_product_attention(a[None, None], a[None, None], a[None, None])[0, 0]
            with torch.autocast("cpu", enabled=False):
                c = torch.nn.functional.gelu(self.off(x))
            d = self.norm(b + c).softmax(-1)
        return a, b, c, d, self.outside(d)


class Plain(torch.nn.Module):
    """Operators that autocast around a model affects, and others that it does not."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.full = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16), torch.nn.Linear(16, 16)

    def forward(self, x):
        y = self.down(torch.nn.functional.gelu(self.up(x)))
        with torch.autocast("cpu", enabled=False):
            z = self.full(x)
        return y, y.softmax(-1), z


def ahead(model, x, **options):
    return ingot.compile(model, inputs=[x], **options)


def just_in_time(model, x, **options):
    torch._dynamo.reset()
    reports = []

    def backend(graph, examples):
        made = ingot_backend(graph, examples, options=options)
        reports.append(made.report)
        return made

    compiled = torch.compile(model, backend=backend)
    compiled(x)
    compiled.report, = reports
    return compiled


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def check(got, eager, exact):
    assert [t.dtype for t in got] == [t.dtype for t in eager]
    for result, expected, truth in zip(got, eager, exact):
        assert_accurate(result, expected, truth, depth=64)


def exactly(model, x):
    """In float64, without the rounding of autocast."""
    exact = copy.deepcopy(model).double()
    if torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            return exactly(model, x)
    region = torch.autocast.__enter__
    torch.autocast.__enter__ = lambda self: self
    leave, torch.autocast.__exit__ = torch.autocast.__exit__, lambda *_: None
    try:
        return exact(x.double())
    finally:
        torch.autocast.__enter__, torch.autocast.__exit__ = region, leave


WAYS = pytest.mark.parametrize("way", [ahead, just_in_time], ids=["ahead of time", "just in time"])
OPTIONS = pytest.mark.parametrize("options", [{}, {"torch_executed_ops": ["gelu"], "min_block_size": 1}], ids=["one engine", "gelu in torch"])


@WAYS
@OPTIONS
def test_a_region_inside(way, options):
    torch.manual_seed(0)
    model, x = Region().eval(), torch.randn(9, 16)
    compiled, eager = way(model, x, **options), model(x)
    assert [t.dtype for t in eager] == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32, torch.float32]
    assert compiled.report.in_torch == (2 if options else 0), compiled.report
    check(compiled(x), eager, exactly(model, x))


@WAYS
@pytest.mark.parametrize("options", [{}, {"torch_executed_modules": ["Linear"], "min_block_size": 1}], ids=["one engine", "linear in torch"])
def test_a_region_around(way, options):
    """Operators that stay in torch run with the casts of the capture; the region does not cast again."""
    torch.manual_seed(0)
    model, x = Plain().eval(), torch.randn(9, 16)
    with HALF():
        compiled, eager = way(model, x, **options), model(x)
        assert [t.dtype for t in eager][0] == torch.bfloat16 and eager[2].dtype == torch.float32
        assert bool(compiled.report.in_torch) == bool(options), compiled.report
        got = compiled(x)
    check(got, eager, exactly(model, x))


class Einsums(torch.nn.Module):
    """Products of float32 weights, of values of both types, and multiplications alone, which autocast leaves in the wider type."""

    def __init__(self, region):
        super().__init__()
        self.linear, self.region = torch.nn.Linear(16, 16), region
        self.experts, self.keys = torch.nn.Parameter(torch.randn(3, 16, 8)), torch.nn.Parameter(torch.randn(16, 16))

    def forward(self, x):
        with HALF() if self.region else contextlib.nullcontext():
            y = self.linear(x)
            out = torch.einsum("nc,ech->enh", y, self.experts), torch.einsum("nc,ech->enh", x, self.experts), torch.einsum("nc,ech,eh->nh", y, self.experts, self.experts[:, 0])
            return *out, torch.einsum("nc,hc->nhc", y, self.keys), torch.einsum("nc->cn", y)


@WAYS
@pytest.mark.parametrize("inside", [True, False], ids=["a region inside", "a region around"])
def test_einsum_casts_as_the_products_it_is_made_of(way, inside):
    torch.manual_seed(0)
    model, x = Einsums(inside).eval(), torch.randn(9, 16)
    with contextlib.nullcontext() if inside else HALF():
        compiled, eager = way(model, x), model(x)
        assert [t.dtype for t in eager] == [torch.bfloat16] * 3 + [torch.float32, torch.bfloat16]
        assert compiled.report.whole, compiled.report
        check(compiled(x), eager, exactly(model, x))


class Composites(torch.nn.Module):
    """Operators made of others that autocast casts, of which it knows only these. `regions`: whether autocast is on in regions, each inside the one before."""

    def __init__(self, regions):
        super().__init__()
        self.lstm, self.gru, self.rnn = torch.nn.LSTMCell(16, 16), torch.nn.GRUCell(16, 16), torch.nn.RNNCell(16, 16)
        self.regions = regions

    def forward(self, x):
        return self.inside(x, *self.regions)

    def inside(self, x, *regions):
        if not regions:
            made = torch.tensordot(x, x, ([0], [0])), torch.chain_matmul(x, x.t(), x), torch.linalg.multi_dot([x, x.t(), x]), torch.einsum("nc,hc->nh", x, x)
            return *self.lstm(x), self.gru(x), self.rnn(x), *made
        with torch.autocast("cpu", torch.bfloat16, enabled=regions[0]):
            return *self.inside(x), *self.inside(x, *regions[1:])


@WAYS
@pytest.mark.one_in(8)
@pytest.mark.parametrize("around", [None, True, False])
@pytest.mark.parametrize("regions", [(), (True,), (False,), (True, False), (False, True)], ids=str)
def test_parts_of_composites_are_cast(way, around, regions):
    torch.manual_seed(0)
    model, x = Composites(regions).eval(), torch.randn(9, 16)
    with contextlib.nullcontext() if around is None else torch.autocast("cpu", torch.bfloat16, enabled=around):
        compiled, eager = way(model, x), model(x)
        assert compiled.report.whole, compiled.report
        check(compiled(x), eager, exactly(model, x))


@pytest.mark.parametrize("kind", ["program", "file"])
def test_an_exported_program_follows_the_region_around_compile(kind, tmp_path):
    """As the program's own module, it casts by the autocast of the call."""
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16)).eval(), torch.randn(9, 16)
    program = torch.export.export(model, (x,))
    torch.export.save(program, tmp_path / "model.pt2")
    with HALF():
        compiled, eager = ingot.compile(program if kind == "program" else tmp_path / "model.pt2"), program.module()(x)
        assert eager.dtype == torch.bfloat16 and compiled.report.in_torch == 0
        check([compiled(x)], [eager], [exactly(model, x)])


@pytest.mark.parametrize("around", [torch.no_grad, lambda: torch.autocast("cpu", dtype=torch.float16)], ids=["nothing", "float16"])
def test_a_program_exported_under_autocast_is_for_the_region_around_compile(around):
    """Its graph holds no casts: its own module casts as the region around the call says, not as that around the export did."""
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16)).eval(), torch.randn(9, 16)
    with HALF():
        program = torch.export.export(model, (x,))
    with around():
        compiled, eager = ingot.compile(program), program.module()(x)
        assert eager.dtype == (torch.float32 if around is torch.no_grad else torch.float16) and compiled.report.in_torch == 0
        check([compiled(x)], [eager], [exactly(model, x)])


def test_torch_compile_follows_the_region_around_a_call():
    torch.manual_seed(0)
    model, x = Plain().eval(), torch.randn(9, 16)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="ingot")
    for _ in range(2):
        check(compiled(x), model(x), exactly(model, x))
        with HALF():
            check(compiled(x), model(x), exactly(model, x))


@OPTIONS
def test_a_module_is_for_the_autocast_it_was_compiled_under(options, tmp_path):
    model, x = Plain().eval(), torch.randn(9, 16)
    compiled = ahead(model, x, **options)
    off, on = 'under torch.autocast("cpu", enabled=False)', 'under torch.autocast("cpu", dtype=torch.bfloat16)'
    with HALF(), pytest.raises(ingot.InputError) as caught:
        compiled(x)
    assert str(caught.value) == (
        f"the module was compiled {off}, but is called {on}, where the model would compute something else\n  remedy: compile it {on}, or call it {off}"
    )
    with HALF():
        under = ahead(model, x, **options)
        with torch.autocast("cpu", enabled=False):
            assert [t.dtype for t in compiled(x)] == [torch.float32] * 3
    with pytest.raises(ingot.InputError, match="the module was compiled under torch.autocast\\(\"cpu\", dtype=torch.bfloat16\\), but is called under"):
        under(x)
    with torch.autocast("cpu", dtype=torch.float16), pytest.raises(ingot.InputError, match="dtype=torch.bfloat16\\), but is called under torch.autocast\\(\"cpu\", dtype=torch.float16"):
        under(x)
    # A file holds the casts: it is the same program wherever it is called.
    with HALF():
        expected = under(x)
        ingot.save(under, tmp_path / "m.pt2", format="exported_program")
        ingot.save(under, tmp_path / "m.ingot")
    for name in ("m.pt2", "m.ingot"):
        loaded = ingot.load(tmp_path / name)
        for got, want in zip(loaded(x), expected):
            assert got.dtype == want.dtype and torch.allclose(got.float(), want.float(), atol=1e-2)
