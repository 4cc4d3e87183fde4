"""Fourier transforms of every length run in engines."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate
from calls import Calls

import ingot

pytestmark = pytest.mark.usefixtures("no_gradients")


def parts(value):
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


LENGTHS = [1, 2, 3, 8, 61, 64, 65, 67, 97, 100, 251, 400, 512, 1021, 1018, 1025, 2039, 4000, 4096, 4097, 5000, 6007, 44100, 65536, 1 << 20]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.one_in(5)
def test_lengths(n):
    """Powers of two, odd lengths, primes, rows of a million elements."""

    def function(x, y):
        z = torch.complex(x, y)
        return tuple(map(parts, (torch.fft.fft(z), torch.fft.ifft(z, norm="ortho"), torch.fft.rfft(x), torch.fft.fft(x, norm="forward")))) + (torch.fft.irfft(z, n=n),)

    x, y = torch.randn(3, n), torch.randn(3, n)
    made = ingot.compile(Calls(function), inputs=[x, y], fallback="error")
    for ours, theirs, exact in zip(made(x, y), function(x, y), function(x.double(), y.double())):
        assert_accurate(ours, theirs, exact, n)


def test_float64():
    def function(x):
        return parts(torch.fft.rfft(x)), torch.fft.irfft(torch.fft.rfft(x, norm="ortho"), n=399, norm="ortho")

    x = torch.randn(2, 400, dtype=torch.float64)
    for ours, theirs in zip(ingot.compile(Calls(function), inputs=[x], fallback="error")(x), function(x)):
        assert (ours - theirs).abs().max() <= 8 * torch.finfo(torch.float64).eps * theirs.abs().max()


SEVERAL = {
    "fft2": (torch.complex64, torch.fft.fft2),
    "fft2 of real": (torch.float32, lambda x: torch.fft.fft2(x, norm="ortho")),
    "ifft2 of real": (torch.float32, torch.fft.ifft2),
    "ifftn": (torch.complex64, torch.fft.ifftn),
    "fftn of real": (torch.float32, lambda x: torch.fft.fftn(x, dim=(0, 2, 3))),
    "four axes": (torch.float32, lambda x: torch.fft.rfftn(x, norm="forward")),
    "back from four axes": (torch.complex64, lambda z: torch.fft.irfftn(z, s=(3, 4, 5, 9))),
    "first axes": (torch.complex64, lambda z: torch.fft.fftn(z, dim=(1, 0))),
    "last axis outside": (torch.float32, lambda x: torch.fft.rfft2(x, dim=(3, 1))),
    "back, last axis outside": (torch.complex64, lambda z: torch.fft.irfft2(z, dim=(3, 1), norm="ortho")),
    "hermitian": (torch.complex64, lambda z: torch.fft.hfft2(z, s=(4, 7))),
    "to hermitian": (torch.float32, lambda x: torch.fft.ihfftn(x, dim=(1, 2, 3), norm="ortho")),
    "cut and filled up": (torch.complex64, lambda z: torch.fft.fft2(z, s=(3, 11))),
}


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.one_in(3)
def test_several_axes(name):
    dtype, function = SEVERAL[name]
    x = torch.randn(3, 4, 5, 6, dtype=dtype)
    wide = x.to(torch.complex128 if dtype.is_complex else torch.float64)
    ours = ingot.compile(Calls(function), inputs=[x], fallback="error")(x)
    assert_accurate(parts(ours), parts(function(x)), parts(function(wide)), x.numel())


class Spectrogram(torch.nn.Module):
    """The logarithm of a mel spectrogram, as audio models begin with."""

    def __init__(self, center=True, power=2.0):
        super().__init__()
        self.center, self.power = center, power
        self.register_buffer("window", torch.hann_window(400))
        self.register_buffer("filters", torch.rand(201, 80))

    def forward(self, x):
        spectrum = torch.stft(x, 400, 160, 400, self.window, center=self.center, pad_mode="reflect", normalized=False, onesided=True, return_complex=True)
        return (spectrum.abs().pow(self.power).transpose(-1, -2) @ self.filters).clamp(min=1e-5).log10()


class RoundTrip(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))

    def forward(self, x):
        spectrum = torch.stft(x, 64, 16, 64, self.window, return_complex=True)
        return torch.istft(spectrum * 0.5, 64, 16, 64, self.window, length=x.shape[-1])


class Mixing(torch.nn.Module):
    """A layer of FNet."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(1600)

    def forward(self, x):
        y = x.reshape(-1, 20, 1600)
        return self.norm(y + torch.fft.fft(torch.fft.fft(y, dim=-1), dim=-2).real)


class SpectralConvolution(torch.nn.Module):
    """Low frequencies of an image times complex weights, as neural operators have it."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1, 3, 8, 8, dtype=torch.complex64))

    def forward(self, x):
        image = x.reshape(-1, 1, 160, 200)
        low = torch.fft.rfft2(image)[:, :, :8, :8]
        spectrum = torch.zeros(image.shape[0], 3, 160, 101, dtype=low.dtype)
        spectrum[:, :, :8, :8] = torch.einsum("bixy,ioxy->boxy", low, self.weight)
        return torch.fft.irfft2(spectrum, s=image.shape[-2:])


MODELS = {
    "spectrogram": Spectrogram,
    "magnitudes without padding": lambda: Spectrogram(center=False, power=1.0),
    "round trip": RoundTrip,
    "mixing": Mixing,
    "spectral convolution": SpectralConvolution,
    "filter": lambda: Calls(lambda x: torch.fft.irfft(torch.fft.rfft(x[:, :1600]) * torch.fft.rfft(x[:, 1600:3200]).conj(), n=1600)),
    "volume": lambda: Calls(lambda x: torch.fft.fftshift(torch.fft.fftn(x.reshape(-1, 20, 40, 40), dim=(1, 2, 3))).abs()),
    "hermitian": lambda: Calls(lambda x: torch.fft.hfft(x, n=101) + torch.fft.ihfft(x, n=200).abs()),
    "real pairs": lambda: Calls(lambda x: torch.view_as_real(torch.stft(x, 100, return_complex=True, onesided=False, normalized=True))),
}


@pytest.mark.parametrize("door", ["static", "open", "torch.compile", "torch.compile, open"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.one_in(10)
def test_models_are_one_engine(name, door):
    model, x = MODELS[name]().eval(), torch.randn(4, 32000)
    if door.startswith("torch.compile"):
        made = torch.compile(model, backend="ingot", options={"fallback": "error"})
        if door.endswith("open"):
            torch._dynamo.mark_dynamic(x, 0)
    else:
        made = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 32000), opt_shape=(4, 32000), max_shape=(9, 32000)) if door == "open" else x], fallback="error")
    for batch in (4, 1, 7) if door.endswith("open") else (4,):
        x = x if batch == 4 else torch.randn(batch, 32000)
        ours, theirs, exact = made(x), model(x), _exactly(model, x)
        assert_accurate(ours, theirs, exact, 1600, log_of_sum=True)


def _exactly(model, x):
    import copy

    wide = copy.deepcopy(model)
    for owner in wide.modules():
        for table in (owner._parameters, owner._buffers):
            for name, value in table.items():
                made = value.detach().to(torch.complex128 if value.is_complex() else torch.float64)
                table[name] = torch.nn.Parameter(made) if table is owner._parameters else made
    return wide(x.double())


def test_complex_weights_are_followed():
    model, x = SpectralConvolution(), torch.randn(2, 32000)
    made = ingot.compile(model, inputs=[x], fallback="error")
    for change in (lambda: model.weight.mul_(2), lambda: setattr(model, "weight", torch.nn.Parameter(model.weight.detach().conj().resolve_conj()))):
        change()
        assert_accurate(made(x), model(x), _exactly(model, x), 1600)
    made.update_weights({"weight": torch.zeros_like(model.weight)})
    assert not made(x).any()


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.one_in(2)
def test_files(tmp_path, decomposed):
    """A program in a file, and the same that torch has written out of others, are one engine, which is saved."""
    model, x = SpectralConvolution(), torch.randn(2, 32000)
    program = torch.export.export(model, (x,))
    torch.export.save(program.run_decompositions() if decomposed else program, tmp_path / "m.pt2")
    made = ingot.compile(str(tmp_path / "m.pt2"), fallback="error")
    ingot.save(made, tmp_path / "m.ingot")
    for call in (made, ingot.load(tmp_path / "m.ingot")):
        assert_accurate(call(x), model(x), _exactly(model, x), 1600)


TRANSFORMS = {
    "pairs": lambda x: parts(torch.fft.fft(torch.complex(x, x.flip(-1) * 2))),
    "inverse": lambda x: parts(torch.fft.ifft(torch.complex(x, x.cos()))),
    "unitary": lambda x: parts(torch.fft.fft(x, norm="ortho")),
    "scaled": lambda x: parts(torch.fft.rfft(x, norm="forward")),
    "to real": lambda x: torch.fft.irfft(torch.complex(x, x.sin())),
    "to an odd real": lambda x: torch.fft.irfft(torch.complex(x, x.sin()), n=2 * x.shape[-1] - 1, norm="ortho"),
    "hermitian": lambda x: torch.fft.hfft(torch.complex(x, x.sin()), norm="ortho"),
    "inverse hermitian": lambda x: parts(torch.fft.ihfft(x)),
    "longer": lambda x: parts(torch.fft.fft(x, n=x.shape[-1] + 3)),
    "shorter": lambda x: parts(torch.fft.rfft(x, n=x.shape[-1] // 2)),
    "two axes": lambda x: parts(torch.fft.fft2(x)),
    "two axes of real numbers": lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * 2, s=x.shape[-2:], norm="ortho"),
    "all axes": lambda x: parts(torch.fft.fftn(x)),
    "another axis": lambda x: parts(torch.fft.rfft(x, dim=1)),
    "known and open": lambda x: parts(torch.fft.ifftn(x, dim=(0, 2))),
    "both halves": lambda x: parts(torch.fft.fftshift(torch.fft.fft(x))),
    "filter": lambda x: torch.fft.irfft(torch.fft.rfft(x).conj() * torch.fft.rfft(x), n=x.shape[-1]),
}


@pytest.mark.parametrize("door", ["ingot.compile", "torch.compile", "a plan"])
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.one_in(10)
def test_open_lengths_are_one_engine(name, door, tmp_path):
    function, shapes = TRANSFORMS[name], [(3, 5, 16), (3, 8, 3), (3, 5, 97), (3, 2, 64), (3, 61, 210)]
    model = Calls(function)
    if door == "torch.compile":
        made, x = torch.compile(model, backend="ingot", dynamic=True, options={"fallback": "error"}), torch.randn(3, 6, 24)
        for axis in (1, 2):
            torch._dynamo.mark_dynamic(x, axis)
        made(x)
    else:
        made = ingot.compile(model, inputs=[ingot.Input(min_shape=(3, 2, 3), opt_shape=(3, 8, 64), max_shape=(3, 64, 400))], fallback="error")
    if door == "a plan":
        ingot.save(made, tmp_path / "m.ingot")
        made = ingot.load(tmp_path / "m.ingot")
    for shape in shapes:
        x = torch.randn(shape)
        assert_accurate(made(x), function(x), function(x.double()), x.numel())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sizes_one_and_none(dtype):
    """A length of 1, no rows, which MKL refuses, and a length of 0, which eager refuses too."""
    model = Calls(lambda x: (parts(torch.fft.rfft(x)), parts(torch.fft.fft(x, norm="ortho")), torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1])))
    made = ingot.compile(model, inputs=[ingot.Input(min_shape=(0, 1), opt_shape=(4, 64), max_shape=(9, 100), dtype=dtype)], fallback="error")
    assert [list(y.shape) for y in made(torch.randn((0, 7), dtype=dtype))] == [[0, 4, 2], [0, 7, 2], [0, 7]]
    for shape in ((4, 1), (1, 2), (9, 31)):
        x = torch.randn(shape, dtype=dtype)
        for ours, theirs in zip(made(x), model(x)):
            assert ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    with pytest.raises(Exception, match="1..100|Fourier"):
        made(torch.randn((3, 0), dtype=dtype))


@pytest.mark.parametrize("name", ["spectrogram", "magnitudes without padding", "whole round trip"])
def test_signals_of_open_length(name):
    class Whole(RoundTrip):
        def forward(self, x):
            spectrum = torch.stft(x, 64, 16, 64, self.window, return_complex=True)
            return torch.istft(spectrum * 0.5, 64, 16, 64, self.window)

    model = Whole() if name.startswith("whole") else MODELS[name]()
    made = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 800), opt_shape=(4, 16000), max_shape=(4, 48000))], fallback="error")
    for shape in ((4, 16000), (1, 800), (2, 12345)):
        x = torch.randn(shape)
        assert_accurate(made(x), model(x), _exactly(model, x), 1600, log_of_sum=True)


def test_between_engines():
    """A transform that stays in torch takes complex numbers from an engine, and gives it some."""
    model, x = Calls(TRANSFORMS["two axes of real numbers"]), torch.randn(3, 4, 6007)
    made = ingot.compile(model, inputs=[x], torch_executed_ops=["_fft_r2c", "_fft_c2r"], min_block_size=1)
    assert made.report.in_torch == 2 and made.report.segments
    assert_accurate(made(x), model(x), model(x.double()), 6007)


def test_views_of_complex_inputs_stay_views():
    model, z = Calls(lambda z: (z.transpose(0, 1), z * 2)), torch.randn(3, 4, dtype=torch.complex64)
    made = ingot.compile(model, inputs=[z])
    view, twice = made(z)
    assert view.untyped_storage().data_ptr() == z.untyped_storage().data_ptr() and torch.equal(view, z.transpose(0, 1)) and torch.equal(twice, z * 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_refused_as_in_eager(dtype):
    model, x = Calls(lambda x: torch.fft.rfft(x).abs()), torch.randn(2, 16).to(dtype)
    with pytest.raises(RuntimeError):
        model(x)
    with pytest.raises(Exception, match=r"(?i)unsupported dtype"):
        ingot.compile(model, inputs=[x])(x)


WINDOWS = [(0, 5, 3), (1, 7, 2), (-1, 4, 6), (1, 3, 3)]


@pytest.mark.parametrize("dim, size, step", WINDOWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_windows_add_up(dim, size, step, dtype):
    shape = [20, 23, 21]
    windows = torch.randn(shape).unfold(dim, size, step).to(dtype)
    model = Calls(lambda w: torch.ops.aten.unfold_backward(w, shape, dim, size, step))
    made = ingot.compile(model, inputs=[windows], fallback="error")
    assert_accurate(made(windows), model(windows), model(windows.double()), size)
