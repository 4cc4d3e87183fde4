"""Fourier transforms on an NVIDIA GPU compared with eager PyTorch, interleaved in one process.

    python bench/fourier.py [--only "rfft|6304"] [--rounds 30] [--out FILE]

Inputs and results are complex64 or float32 tensors of torch. `us` is the time of a call from Python, of twenty between events on the GPU; `us_graph` of a call in a CUDA graph of ten that torch captured,
without Python. Transforms of two axes are compared with the same along one axis after the other, by ingot too. Figures are medians of all rounds. `error` is the root mean square error relative to the result, against float64. Lines are appended to bench/results/<machine>.jsonl.
"""

import argparse
import datetime
import json
import re
import statistics
from pathlib import Path

import torch

import ingot

SHAPES = [(6, 97), (64, 512), (6304, 768), (6, 4096), (640, 4000), (6, 4097), (1, 1 << 20)]
TRANSFORMS = {
    "fft": (torch.complex64, torch.fft.fft),
    "ifft": (torch.complex64, torch.fft.ifft),
    "rfft": (torch.float32, torch.fft.rfft),
    "irfft": (torch.complex64, torch.fft.irfft),
}
IMAGES = [(64, 64, 64), (16, 256, 256), (8, 512, 512), (2, 1024, 1024), (1, 2048, 2048)]
OF_IMAGES = {
    "fft2": (torch.complex64, torch.fft.fft2),
    "fft2 of real": (torch.float32, torch.fft.fft2),
    "ifft2": (torch.complex64, torch.fft.ifft2),
    "rfft2": (torch.float32, torch.fft.rfft2),
    "irfft2": (torch.complex64, torch.fft.irfft2),
}
# What a row is compared with: the same transform, along one axis after the other.
BY_AXIS = {
    "fft2": lambda z: torch.fft.fft(torch.fft.fft(z), dim=-2),
    "ifft2": lambda z: torch.fft.ifft(torch.fft.ifft(z), dim=-2),
    "rfft2": lambda x: torch.fft.fft(torch.fft.rfft(x), dim=-2),
    "irfft2": lambda z: torch.fft.irfft(torch.fft.ifft(z, dim=-2)),
}
MORE = {
    "fftn 8 x 64 x 64 x 64": ((8, 64, 64, 64), torch.complex64, lambda z: torch.fft.fftn(z, dim=(1, 2, 3))),
    "fft over columns 64 x 512 x 64": ((64, 512, 64), torch.complex64, lambda z: torch.fft.fft(z, dim=1)),
    "stft 16 x 160000": ((16, 160000), torch.float32, lambda x: torch.stft(x, 400, 160, window=torch.hann_window(400, dtype=x.dtype, device=x.device), return_complex=True)),
    "filter 64 x 4096": ((64, 4096), torch.float32, lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x).conj())),
}


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def microseconds(call, times, calls):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / calls


def captured(call, x, calls=10):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call(x) for _ in range(calls)]
    return graph, kept


@torch.no_grad()
def row(name, shape, dtype, function, rounds, by_axis=None):
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=dtype, device="cuda")
    peers = {"ingot": ingot.compile(Call(function), inputs=[x], fallback="error"), "eager": function}
    if by_axis is not None:
        peers["ingot, an axis at a time"] = ingot.compile(Call(by_axis), inputs=[x], fallback="error")
    exact = function(x.to(torch.complex128 if dtype.is_complex else torch.float64))
    times, graphs, errors = {p: [] for p in peers}, {p: [] for p in peers}, {}
    for p, call in peers.items():
        for _ in range(5):
            y = call(x)
        errors[p] = float((y.to(exact.dtype) - exact).abs().square().mean().sqrt() / exact.abs().square().mean().sqrt())
    held = {p: captured(call, x) for p, call in peers.items()}
    for _ in range(rounds):
        for p, call in peers.items():
            times[p].append(microseconds(lambda: call(x), 20, 20))
            graphs[p].append(microseconds(held[p][0].replay, 1, 10))
    return [{"row": name, "peer": p, "us": round(statistics.median(times[p]), 2), "us_graph": round(statistics.median(graphs[p]), 2), "error": errors[p]} for p in peers]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=".", help="rows whose name has this pattern")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    machine = re.sub(r"[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()).strip("-")
    out = arguments.out or Path(__file__).resolve().parent / "results" / f"{machine}.jsonl"
    rows = {f"{name} {' x '.join(map(str, shape))}": (shape, dtype, function) for name, (dtype, function) in TRANSFORMS.items() for shape in SHAPES} | MORE
    for name, (dtype, function) in OF_IMAGES.items():
        rows |= {f"{name} {' x '.join(map(str, shape))}": (shape, dtype, function, BY_AXIS.get(name)) for shape in IMAGES}
    for name, (shape, dtype, function, *by_axis) in rows.items():
        if not re.search(arguments.only, name):
            continue
        lines = row(name, shape, dtype, function, arguments.rounds, *by_axis)
        ours, eager, *others = lines
        print(f"{name:32} ingot {ours['us']:8.2f} us, eager {eager['us'] / ours['us']:5.2f}x; in a graph {ours['us_graph']:8.2f} us, {eager['us_graph'] / ours['us_graph']:5.2f}x;"
              f" error {ours['error']:.1e}, {eager['error']:.1e}" + "".join(f"; {line['peer']} {line['us_graph']:.2f} us" for line in others), flush=True)  # fmt: skip
        with out.open("a") as file:
            for line in lines:
                file.write(json.dumps({**line, "time": str(datetime.date.today()), "command": "python bench/fourier.py"}) + "\n")


if __name__ == "__main__":
    main()
