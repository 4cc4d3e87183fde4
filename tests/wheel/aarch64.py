"""Runs the wheel for AArch64 under qemu: its command on a plan that this machine compiled and on one that it compiles itself, and the engine with numpy.

    make wheel-portable ARCH=aarch64
    .venv/bin/python tests/wheel/aarch64.py dist/torch_ingot-*-manylinux_2_28_aarch64.whl --root build/portable-tools-aarch64/root

The root, with Debian 12's python3-numpy for arm64, is made if it is not there; it needs no rights. `--root-only` makes it and ends. The numbers that come back are judged by tests/accuracy.py.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import debian_11
import roots

ROOT = Path(__file__).resolve().parents[2]
QEMU = "qemu-aarch64-static"  # Debian's package qemu-user-static

ENGINE = """
import numpy, platform, ingot
assert platform.machine() == "aarch64", platform.machine()
session = ingot.load_engine("model.ingot").session()
numpy.save("engine.npy", session.run([numpy.load("x.npy")])[0])
"""


def make_root(root: Path, mirror: str):
    """Packages of arm64 unpacked, without their scripts: nothing of another processor runs while it is made."""
    if (root / "made").exists():
        return
    state = root / "apt"
    (state / "lists/partial").mkdir(parents=True, exist_ok=True)
    (state / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "debian.list").write_text(f"deb [arch=arm64] {mirror} bookworm main\n")
    settings = {
        "Dir::Etc::SourceList": state / "debian.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "1",
    }
    apt = ["apt-get", "-qq", *(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "install", "-y", "--download-only", "--no-install-recommends", "python3-numpy"], check=True, stdout=subprocess.DEVNULL)
    for package in (state / "cache/archives").glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    shutil.rmtree(state)
    for name in ("blas", "lapack"):  # what the packages' scripts link
        (library,) = root.glob(f"usr/lib/*/{name}/lib{name}.so.3")
        (library.parents[1] / library.name).symlink_to(f"{name}/{library.name}")
    (root / "made").touch()


def works(root: Path, *command, cwd: Path, **environment) -> bool:
    inside = [QEMU, "-L", root, *(part for name, value in environment.items() for part in ("-E", f"{name}={value}"))]
    begin = time.monotonic()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("INGOT", "PYTHON"))}
    done = subprocess.run([*inside, *command], cwd=cwd, capture_output=True, text=True, env=clean)
    shown = " ".join(Path(part).name if i == 0 else str(part).strip().split("\n")[0] for i, part in enumerate(command))
    print("ok   " if done.returncode == 0 else "FAILS", f"{shown} ({time.monotonic() - begin:.1f} s)", flush=True)
    if done.returncode:
        print(done.stdout + done.stderr, flush=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path, nargs="?")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--root-only", action="store_true")
    parser.add_argument("--mirror", default=roots.MIRROR)
    args = parser.parse_args()
    root = args.root.resolve()
    make_root(root, args.mirror)
    if args.root_only:
        return
    sys.path[:0] = [str(ROOT / "tests")]
    os.environ["INGOT_CACHE"] = "off"
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        debian_11.unpacked(args.wheel, here / "wheel")
        eager, exact = debian_11.model_into(here)
        ingot, python = here / "wheel/ingot/lib/ingot", root / "usr/bin/python3.11"
        packages = f"{here / 'wheel'}:{root / 'usr/lib/python3/dist-packages'}"
        good = all(
            [
                works(root, ingot, "--version", cwd=here),
                works(root, ingot, "doctor", cwd=here),
                works(root, ingot, "run", "model.ingot", "-i", "x=x.npy", "-o", "run", cwd=here),
                works(root, ingot, "compile", "model.pt2", "-o", "made.ingot", cwd=here),
                works(root, ingot, "run", "made.ingot", "-i", "input=x.npy", "-o", "made", cwd=here),
                works(root, python, "-c", ENGINE, cwd=here, PYTHONHOME=root / "usr", PYTHONPATH=packages),
            ]
        )
        if good:
            import numpy
            import torch
            from accuracy import assert_accurate

            for made in (*here.glob("run/*"), *here.glob("made/*"), here / "engine.npy"):
                assert_accurate(torch.from_numpy(numpy.load(made)), eager, exact, 16 * 36)
            print("ok    the numbers are eager's")
    sys.exit(not good)


if __name__ == "__main__":
    main()
