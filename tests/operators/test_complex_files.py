"""Complex numbers in files: the command line reads them without torch, as pairs of real numbers."""

import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate
from calls import Calls
from test_fourier import MODELS, TRANSFORMS, _exactly, parts

import ingot
from ingot.engine import _library


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def told(*arguments):
    done = subprocess.run([_library.find("ingot"), *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stderr


def compiled(model, inputs, folder, decomposed=False, **dynamic):
    """The plan of a program's file, made by the command line."""
    program = torch.export.export(model, inputs, **dynamic)
    torch.export.save(program.run_decompositions() if decomposed else program, folder / "m.pt2")
    code, said = told("compile", folder / "m.pt2", "-o", folder / "m.ingot")
    assert code == 0, said
    return folder / "m.ingot"


def run(plan, inputs):
    """The results of the command line's run; those that are complex have one more axis, as the inputs have."""
    (folder := plan.parent / "out").mkdir(exist_ok=True)
    described = ingot.load(plan).engine
    given = []
    for name, x in zip(described.input_names, inputs):
        numpy.save(folder / f"{name}_in.npy", parts(x).numpy())
        given += ["-i", f"{name}={folder / name}_in.npy"]
    code, said = told("run", plan, *given, "-o", folder)
    assert code == 0, said
    return [torch.from_numpy(numpy.load(folder / f"{name}.npy")) for name in described.output_names]


def as_tuple(made):
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def check(model, inputs, folder, terms, decomposed=False, **accuracy):
    ours = run(compiled(model, inputs, folder, decomposed), inputs)
    theirs, exact = as_tuple(model(*inputs)), as_tuple(_exactly(model, *inputs))
    assert len(ours) == len(theirs)
    for a, b, c in zip(ours, theirs, exact):
        assert_accurate(a, parts(b), parts(c), terms, **accuracy)


@pytest.mark.parametrize("decomposed", [False, True], ids=["as written", "decomposed"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.one_in(4)
def test_models(name, decomposed, tmp_path):
    check(MODELS[name]().eval(), (torch.randn(4, 32000),), tmp_path, 1600, decomposed, log_of_sum=True)


@pytest.mark.parametrize("decomposed", [False, True], ids=["as written", "decomposed"])
def test_transforms(decomposed, tmp_path):
    """Every operator of torch.fft, in one file, and in float64."""
    model = Calls(lambda x: tuple(function(x) for function in TRANSFORMS.values()))
    check(model, (torch.randn(3, 5, 16),), tmp_path, 240, decomposed)
    x = torch.randn(3, 5, 16, dtype=torch.float64)
    for ours, theirs in zip(run(compiled(model, (x,), tmp_path), (x,)), model(x)):
        assert (ours - theirs).abs().max() <= 8 * torch.finfo(torch.float64).eps * theirs.abs().max()


def _writes(z, w):
    made, shifted = torch.zeros(4, 4, dtype=z.dtype).add_(z).mul_(w), z * 2
    before = shifted.real + 1
    shifted[1:, ::2] = w[1:, ::2]
    shifted.t()[0].mul_(1j)
    return made, before, shifted, shifted.conj(), shifted.imag


OPERATORS = {
    "products": lambda z, w: (z * w, z * 2.5, z / w, z / 3, 1 / z, z @ w, torch.einsum("ij,kj->ik", z, w), torch.addmm(z, w, z), z * w.real, z.real / w, torch.vdot(z[0], w[0])),
    "numbers": lambda z, w: (z + 2j, z * 1j, 1.5 - z, z - w * (2 - 1j), torch.where(z.real > 0, z, w), z.masked_fill(w.real > 0, 2.0)),
    "parts": lambda z, w: (z.real, w.imag, z.conj() * w, z.abs(), z.angle(), torch.polar(z.abs(), w.angle()), torch.complex(w.imag, z.real), z.mH, torch.view_as_real(z) + 1),
    "functions": lambda z, w: (z.exp(), z.log(), z.sqrt(), z.sin(), z.cos(), z.tan(), z.sinh(), z.cosh(), z.tanh(), z**2, z**3.0, z**0.5, torch.pow(z, w), z.sgn(), z.square(), z.log10()),
    "inverse functions": lambda z, w: (z.asin(), z.acos(), z.atan(), z.asinh(), z.acosh(), z.atanh(), z.expm1(), z.log1p(), z.sigmoid(), torch.nn.functional.silu(z)),
    "reductions": lambda z, w: (z.var(1), (z * (z.real > 0)).any(1).float(), z.all().float(), torch.logical_not(w).float(), z.isfinite().float(), z.sum(0), z.mean(1)),
    "views": lambda z, w: (z.t(), z[1:, ::2], torch.cat([z, w], 1), torch.stack([z, w.real]), z.flip(0), z.roll(1, 0), z[torch.tensor([2, 0])], z.expand(2, 4, 4).sum(1), w.mean(), w.cumsum(0)),
    "writes": _writes,
    "comparisons": lambda z, w: ((z == w).float(), (z != z.conj()).float(), z.isnan().float(), torch.linalg.vector_norm(z, dim=1)),
    "linear": lambda z, w: torch.nn.functional.linear(z, w, w[0]),
    "running products": lambda z, w: (z.prod(1), w.prod(0, keepdim=True), z.prod(), z[:, :3].prod(1), z[:, :0].prod(1), w.cumprod(1), z[:3].cumprod(0), z[0, 0].cumprod(0), z.real.prod(0, dtype=torch.complex64)),
    "spread": lambda z, w: (z.std(), w.std(0), *torch.var_mean(z, 1), *torch.std_mean(w, 0, correction=0), z.norm(), torch.linalg.norm(z, dim=1), torch.linalg.norm(w, 1), torch.linalg.matrix_norm(z)),
    "powers of two and units": lambda z, w: (z.exp2(), torch.eye(4, dtype=z.dtype) @ z, torch.eye(2, 4, dtype=z.dtype) @ w),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, tmp_path):
    """Complex inputs and results are real tensors with one more axis."""
    z, w = torch.randn(2, 4, 4, dtype=torch.complex64)
    model = Calls(OPERATORS[name])
    plan = compiled(model, (z, w), tmp_path)
    exact = as_tuple(model(z.to(torch.complex128), w.to(torch.complex128)))
    for call in (lambda: run(plan, (z, w)), lambda: as_tuple(ingot.load(plan)(parts(z), parts(w)))):
        ours, theirs = call(), as_tuple(model(z, w))
        assert len(ours) == len(theirs)
        for a, b, c in zip(ours, theirs, exact):
            assert_accurate(a.float(), parts(b), parts(c), 4)


def test_what_functions_do_at_the_ends_of_the_range(tmp_path):
    z = torch.tensor([0, 1, -1, 1j, -4 + 0j, 1e30 + 1e30j, 1e-30j, 3 - 4j, -1e20, 50 + 1j], dtype=torch.complex64)
    model = Calls(lambda z: (z / (1e30 + 1e30j), z.sqrt(), z.abs(), z.tanh(), z.sgn(), z**2.5))
    for a, b in zip(run(compiled(model, (z,), tmp_path), (z,)), model(z)):
        finite = parts(b).isfinite()
        assert torch.allclose(a[finite], parts(b)[finite], rtol=1e-5, atol=0 if a.dim() == 1 else 1e-35)


ENDS = [0.0, -0.0, 1.0, -2.0, float("inf"), -float("inf"), float("nan")]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_infinities_and_nans_are_where_torch_has_them(dtype, tmp_path):
    every = torch.tensor([complex(a, b) for a in ENDS for b in ENDS], dtype=dtype)
    z, w = every[:, None].expand(49, 49).contiguous(), every.expand(49, 49).contiguous()
    model = Calls(lambda z, w: (z / w, w.reciprocal(), z.exp(), z * w))
    for ours, theirs in zip(run(compiled(model, (z, w), tmp_path), (z, w)), model(z, w)):
        theirs = parts(theirs)
        assert torch.equal(ours.isnan(), theirs.isnan())
        assert torch.allclose(ours, theirs, rtol=1e-5, equal_nan=True)


def test_windows_of_complex_signals(tmp_path):
    def model(z):
        window = torch.hann_window(12, dtype=z.real.dtype)
        spectra = torch.stft(z, 16, 4, 12, window, return_complex=True)
        return spectra, torch.stft(z[0], 16, 8, center=False, normalized=True, onesided=False, return_complex=True), torch.istft(spectra, 16, 4, 12, window, return_complex=True)

    z = torch.randn(2, 64, dtype=torch.complex64)
    ours, theirs, exact = run(compiled(Calls(model), (z,), tmp_path), (z,)), model(z), model(z.to(torch.complex128))
    for a, b, c in zip(ours, theirs, exact, strict=True):
        assert_accurate(a, parts(b), parts(c), 240)


def test_products_of_open_sizes_stay_in_torch():
    model = Calls(lambda z: z.prod(0) + z.cumprod(0)[-1])
    made = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 3), opt_shape=(4, 3), max_shape=(8, 3), dtype=torch.complex64)])
    assert {n["target"] for n in made.report.nodes if "axis of open size" in n["reason"]} == {"aten.prod.dim_int", "aten.cumprod.default"}
    for n in (1, 7):
        z = torch.randn(n, 3, dtype=torch.complex64)
        assert torch.allclose(made(z), model(z), atol=1e-5)


def test_python_keeps_complex_inputs_and_results_of_a_file(tmp_path):
    model, z = Calls(lambda z: (z * 2, z.abs())), torch.randn(3, 4, dtype=torch.complex64)
    torch.export.save(torch.export.export(model, (z,)), tmp_path / "m.pt2")
    for ours, theirs in zip(ingot.compile(str(tmp_path / "m.pt2"))(z), model(z)):
        assert ours.dtype == theirs.dtype and torch.allclose(ours, theirs, atol=1e-6)


class Rotary(torch.nn.Module):
    """A rotary embedding with complex frequencies, which are a buffer, of an open length."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.polar(torch.ones(64, 8), torch.outer(torch.arange(64.0), 0.5 ** torch.arange(8.0))))

    def forward(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.frequencies[: x.shape[1]]).flatten(2)


def test_a_complex_buffer_and_open_sizes(tmp_path):
    model, length = Rotary(), torch.export.Dim("length", min=2, max=64)
    plan = compiled(model, (torch.randn(2, 5, 16),), tmp_path, dynamic_shapes=({1: length},))
    for n in (2, 5, 64):
        x = torch.randn(2, n, 16)
        (ours,) = run(plan, (x,))
        assert_accurate(ours, model(x), _exactly(model, x), 2)


def test_complex_inputs_of_other_strides_and_open_sizes(tmp_path):
    model, z = Calls(lambda z: (z.t() * 2, (z @ z.mH).real)), torch.randn(6, 4, dtype=torch.complex64).t()
    plan = compiled(model, (z,), tmp_path, dynamic_shapes={"inputs": ({1: torch.export.Dim("n", min=2, max=64)},)})
    for z in (z, torch.randn(4, 9, dtype=torch.complex64)):
        for ours, theirs in zip(ingot.load(plan)(parts(z)), model(z)):
            assert torch.allclose(ours, parts(theirs), atol=1e-5)


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4, dtype=torch.complex64))

    def forward(self, z):
        self.seen.add_(z.sum(0))
        return self.seen * 2


def test_a_complex_buffer_that_is_written(tmp_path):
    z = torch.randn(3, 4, dtype=torch.complex64)
    made = ingot.load(compiled(Counts(), (z,), tmp_path))
    for times in (2, 4):
        assert torch.allclose(made(parts(z)), parts(z.sum(0) * times), atol=1e-5)


class Chosen(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: torch.fft.fft(x).abs(), lambda x: torch.fft.rfft(x, n=14).real.contiguous(), (x,))


def test_inside_branches(tmp_path):
    plan = compiled(Chosen(), (torch.ones(3, 8),), tmp_path)
    for x in (torch.rand(3, 8), -torch.rand(3, 8)):
        assert_accurate(run(plan, (x,))[0], Chosen()(x), Chosen()(x.double()), 8)


@pytest.mark.parametrize(
    "function",
    [lambda z: z.real.mul_(2).sum() + z.abs().sum(), lambda z: torch.view_as_real(z).zero_().sum() + z.abs().sum(), lambda z: z.conj()[0].mul_(2j).abs().sum() + z.abs().sum()],
    ids=["a part", "parts", "a conjugate"],
)
def test_writes_to_parts_are_refused(function, tmp_path):
    torch.export.save(torch.export.export(Calls(lambda z: function(z * 2)), (torch.randn(3, 4, dtype=torch.complex64),)), tmp_path / "m.pt2")
    code, said = told("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.ingot")
    assert code != 0 and "writes in place through a view that is not followed" in said

