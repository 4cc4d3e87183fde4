"""Kernels read inside their operands alone: inputs beside pages that may not be touched, in a process of their own, which a read outside would end."""

import os
import subprocess
import sys
from pathlib import Path

import torch
from guarded import guarded

import ingot

nn = torch.nn
LAYERS = {
    "few columns, whole vectors of channels": (nn.Conv2d(32, 3, 5, padding=2), (1, 32, 12, 12)),
    "few columns of a line": (nn.Conv1d(64, 2, 7, padding=3), (2, 64, 70)),
    "windows by Winograd's transformation": (nn.Conv2d(32, 32, 3, padding=1), (1, 32, 17, 15)),
    "groups by Winograd's transformation": (nn.Conv2d(64, 64, 3, padding=1, groups=2), (1, 64, 16, 16)),
    "narrow groups": (nn.Conv2d(20, 20, 3, padding=1, groups=5), (1, 20, 11, 13)),
    "depthwise, few channels": (nn.Conv2d(3, 3, 3, padding=1, groups=3), (1, 3, 20, 20)),
    "depthwise, with a stride": (nn.Conv2d(24, 24, 5, 2, 2, groups=24), (2, 24, 20, 21)),
    "a first layer": (nn.Conv2d(3, 16, 7, 2, 3), (1, 3, 25, 48)),
    "planes outside": (nn.Conv3d(3, 8, (3, 7, 7), (1, 2, 2), (1, 3, 3)), (1, 3, 4, 17, 48)),
    "places alone": (nn.Conv2d(8, 16, 1), (1, 8, 6, 37)),
    "transposed": (nn.ConvTranspose2d(8, 6, 4, 2, 1), (1, 8, 7, 9)),
    "pooling": (nn.MaxPool2d(3, 2, 1), (1, 24, 13, 14)),
}


def run():
    torch.manual_seed(0)
    for name, (layer, shape) in LAYERS.items():
        print(name, flush=True)
        model, x = layer.eval().requires_grad_(False), torch.randn(shape)
        for given in (x, x.movedim(1, -1).contiguous().movedim(-1, 1)):
            compiled = ingot.compile(model, inputs=[given], fallback="error")
            for at_end in (False, True):
                assert torch.equal(compiled(guarded(given, at_end)), compiled(given))


def test_reads_inside_inputs():
    search = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    child = subprocess.run([sys.executable, __file__], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": search})
    assert child.returncode == 0, f"exit status {child.returncode}; the last of these ended it:\n{child.stdout}{child.stderr}"


if __name__ == "__main__":
    run()
