"""Runs the wheel's command and a program in C under Debian 11, whose glibc is 2.31, on a plan that this Python compiles with the same wheel.

    make wheel-portable
    sudo .venv/bin/python tests/wheel/debian_11.py dist/torch_ingot-*-manylinux_2_28_x86_64.whl --root /var/tmp/debian_11

The root is made by debootstrap if it is not there. The numbers that come back are judged by tests/accuracy.py.
"""

import argparse
import os
import shutil
import sys
import zipfile
from pathlib import Path

import roots

ROOT = Path(__file__).resolve().parents[2]


def unpacked(wheel: Path, folder: Path):
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (folder / "ingot/lib/ingot").chmod(0o755)


def model_into(folder: Path):
    """A plan with convolution, normalization and products, the model as an exported program, its input, and eager's answers in float32 and float64."""
    import numpy
    import torch

    import ingot

    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(16 * 36, 32), torch.nn.LayerNorm(32), torch.nn.Softmax(-1)
    model = torch.nn.Sequential(*layers).eval().requires_grad_(False)
    x = torch.randn(5, 3, 8, 8)
    ingot.save(ingot.compile(model, inputs=[ingot.Input(shape=(5, 3, 8, 8), name="x")], fallback="error", cache="off"), folder / "model.ingot")
    torch.export.save(torch.export.export(model, (x,)), folder / "model.pt2")
    numpy.save(folder / "x.npy", x.numpy())
    return model(x), model.double()(x.double())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--mirror", default=roots.MIRROR)
    args = parser.parse_args()
    root = args.root.resolve()
    roots.make(root, "bullseye", "gcc,libc6-dev", args.mirror)
    here = root / "reader"
    unpacked(args.wheel, here)
    os.environ.pop("INGOT_LIBRARY_DIR", None)
    sys.path[:0] = [str(here), str(ROOT / "tests")]
    eager, exact = model_into(here)
    shutil.copy(ROOT / "examples/c/run_plan.c", here)
    (here / "out").mkdir()
    lines = (
        "ldd --version | grep -q 2.31",
        "ingot/lib/ingot --version",
        "ingot/lib/ingot doctor | grep 'instruction set'",
        "ingot/lib/ingot run model.ingot -i x=x.npy -o out",
        "cc -std=c11 run_plan.c -o run_plan -Iingot/include -Lingot/lib -Wl,-rpath,/reader/ingot/lib -lingot_runtime",
        "./run_plan model.ingot 5,3,8,8 | grep 'output 0 \\[5, 32\\]'",
    )
    good = all([roots.works(root, line, "cd /reader") for line in lines])
    if good:
        import numpy
        import torch
        from accuracy import assert_accurate

        (made,) = (here / "out").iterdir()
        assert_accurate(torch.from_numpy(numpy.load(made)), eager, exact, 16 * 36)
        print("ok    the numbers are eager's")
    sys.exit(not good)


if __name__ == "__main__":
    main()
