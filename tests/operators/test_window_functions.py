"""Window functions of signal processing and frequencies of Fourier transforms, ahead of time and under torch.compile, beside eager in float64."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot

WINDOWS = {
    "bartlett": lambda n, t: torch.bartlett_window(n, dtype=t),
    "bartlett, symmetric": lambda n, t: torch.bartlett_window(n, periodic=False, dtype=t),
    "blackman": lambda n, t: torch.blackman_window(n, dtype=t),
    "blackman, symmetric": lambda n, t: torch.blackman_window(n, periodic=False, dtype=t),
    "hann": lambda n, t: torch.hann_window(n, dtype=t),
    "hann, symmetric": lambda n, t: torch.hann_window(n, periodic=False, dtype=t),
    "hamming": lambda n, t: torch.hamming_window(n, dtype=t),
    "hamming, symmetric": lambda n, t: torch.hamming_window(n, periodic=False, dtype=t),
    "hamming, alpha": lambda n, t: torch.hamming_window(n, True, 0.6, dtype=t),
    "hamming, alpha and beta": lambda n, t: torch.hamming_window(n, False, 0.6, 0.3, dtype=t),
    "fftfreq": lambda n, t: torch.fft.fftfreq(n, dtype=t),
    "fftfreq, distance": lambda n, t: torch.fft.fftfreq(n, 0.3, dtype=t),
    "rfftfreq": lambda n, t: torch.fft.rfftfreq(2 * n - 1, dtype=t),
    "rfftfreq, distance": lambda n, t: torch.fft.rfftfreq(2 * n - 2, 0.3, dtype=t),
    "kaiser": lambda n, t: torch.kaiser_window(n, dtype=t),
    "kaiser, symmetric": lambda n, t: torch.kaiser_window(n, False, dtype=t),
    "kaiser, beta": lambda n, t: torch.kaiser_window(n, True, 5.5, dtype=t),
}


class Windowed(torch.nn.Module):
    def __init__(self, window, dtype):
        super().__init__()
        self.window, self.dtype = window, dtype

    def forward(self, x):
        return x * self.window(x.shape[-1], self.dtype)


@pytest.mark.parametrize("way", ["ahead of time", "just in time"])
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.one_in(4)
def test_window(name, way):
    torch.manual_seed(0)
    for dtype, length in ((torch.float32, 400), (torch.float32, 7), (torch.float32, 2), (torch.float32, 1), (torch.float64, 64), (torch.bfloat16, 33)):
        model, x = Windowed(WINDOWS[name], dtype), torch.randn(3, length, dtype=dtype)
        torch._dynamo.reset()
        with torch.no_grad():
            if way == "ahead of time":
                compiled = ingot.compile(model, inputs=[x], fallback="error")
            else:
                compiled = torch.compile(model, backend="ingot", options={"fallback": "error"})
            assert_accurate(compiled(x), model(x), Windowed(WINDOWS[name], torch.float64)(x.double()), depth=256)  # roundings of the cosine and of a polynomial of the Bessel function


def test_trilinear_of_a_decomposed_program():
    torch.manual_seed(0)
    model, given = torch.nn.Bilinear(5, 6, 7).eval(), (torch.randn(4, 5), torch.randn(4, 6))
    program = torch.export.export(model, given).run_decompositions()
    with torch.no_grad():
        compiled = ingot.compile(program, fallback="error")
        assert_accurate(compiled(*given), model(*given), model.double()(*(t.double() for t in given)), depth=30)
