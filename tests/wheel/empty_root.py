"""Installs the wheel into an empty Debian, by README's lines, and runs README and pages there as a reader types them.

    sudo .venv/bin/python tests/wheel/empty_root.py                      with what build/release has (`make build`)
    sudo .venv/bin/python tests/wheel/empty_root.py --dist dist          with a release's packages
    sudo .venv/bin/python tests/wheel/empty_root.py --suite bullseye     an older Debian: the command and a C program alone

The root is made by debootstrap if it is not there (--root, 1 GB). torch, transformers and what they need come from the packages of this Python, so nothing else is fetched. The tarball is
unpacked in /opt/ingot, for the pages with C++.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import roots
from repacked import repack, with_what_they_need
from test_readme import lines_that_install

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("INGOT_BUILD", "build/release")
WITH_PYTHON = "bookworm"
TUTORIALS = ("torch_compile", "hugging_face", "diffusion", "from_torch_tensorrt", "state", "vision_cpp", "without_python")
PAGES = ("README.md", *(f"docs/tutorials/{name}.md" for name in TUTORIALS), "docs/llm.md")
PACKAGES = "python3,python3-venv,ca-certificates,g++,cmake,make,pkg-config"
SETTINGS = "export HOME=/reader PATH=/reader/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PKG_CONFIG_PATH=/opt/ingot/lib/pkgconfig LD_LIBRARY_PATH=/opt/ingot/lib CMAKE_PREFIX_PATH=/opt/ingot"
DRIVER = """
import os, sys, tempfile
from pathlib import Path
sys.path.insert(0, "/reader/pages")
import blocks
folder = Path(tempfile.mkdtemp())
os.chdir(folder)
sys.path.insert(0, str(folder))
os.environ["INGOT_CACHE_DIR"] = str(folder / "cache")
blocks.run(Path("/reader/pages") / sys.argv[1], folder)
"""
EXPORT = """
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()
torch.export.save(torch.export.export(model, (torch.randn(5, 16),)), sys.argv[1])
"""


def made(folder: Path) -> Path:
    """A folder with the packages of build/release."""
    for kind in ([], ["--tarball"]):
        subprocess.run([sys.executable, ROOT / "tools/make_wheel.py", "--build", BUILD, "--out", folder, *kind], check=True)
    return folder


def shell(root: Path, line: str) -> bool:
    return roots.works(root, line, f"export LANG=C.UTF-8; {SETTINGS}; cd /reader")


def prepare(root: Path, dist: Path, suite: str, mirror: str) -> None:
    """An empty Debian with the compiler of the C++ pages, the tarball in /opt/ingot, and /reader/dist with the wheel."""
    roots.make(root, suite, PACKAGES, mirror)
    for folder in ("wheels", "reader", "opt/ingot"):
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir(parents=True)
    (root / "reader/dist").mkdir()
    (wheel,), (tarball,) = dist.glob("torch_ingot-*.whl"), dist.glob("ingot-*-linux-*.tar.gz")
    shutil.copy(wheel, root / "reader/dist")
    subprocess.run(["tar", "-xzf", tarball, "-C", root / "opt/ingot", "--strip-components=1"], check=True)


def python_and_pages(root: Path) -> bool:
    """README's lines that install, then each page."""
    for name in with_what_they_need("numpy", "torch", "transformers"):
        repack(name, root / "wheels")
    (root / "reader/pages").mkdir()
    for page in (*PAGES, "tests/docs/blocks.py"):
        shutil.copy(ROOT / page, root / "reader/pages")
    (root / "reader/driver.py").write_text(DRIVER)
    lines = ("python3 -m venv venv", *lines_that_install(), "python -c 'import ingot; print(ingot.__file__)'", "pip install -q transformers")
    return all(shell(root, line) for line in lines) and all([shell(root, f"INGOT_BUILD=/reader/venv/bin python -W ignore driver.py {Path(page).name}") for page in PAGES])


def command_and_c(root: Path) -> bool:
    """The command makes and runs a plan of a program of torch.export, and so does a C program that is compiled there. The program is exported by the Python that runs this."""
    subprocess.run([sys.executable, "-c", EXPORT, root / "reader/model.pt2"], check=True)
    shutil.copy(ROOT / "examples/c/run_plan.c", root / "reader")
    lines = (
        "/opt/ingot/bin/ingot --version",
        "/opt/ingot/bin/ingot compile model.pt2 -o model.ingot",
        "/opt/ingot/bin/ingot run model.ingot --shape input=5,16 -o results",
        "cc -std=c11 run_plan.c -o run_plan $(pkg-config --cflags --libs ingot_runtime)",
        "./run_plan model.ingot 5,16",
    )
    return all(shell(root, line) for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dist", type=Path, help="a folder with the wheel and the tarball; by default they are made of build/release")
    parser.add_argument("--suite", default=WITH_PYTHON, help=f"Debian's release; pages run in {WITH_PYTHON} alone, whose Python is that of .venv")
    parser.add_argument("--root", type=Path, help="by default /var/tmp/ingot-root-SUITE")
    parser.add_argument("--mirror", default=roots.MIRROR)
    args = parser.parse_args()
    root = (args.root or Path("/var/tmp") / f"ingot-root-{args.suite}").resolve()
    with tempfile.TemporaryDirectory() as scratch:
        prepare(root, args.dist or made(Path(scratch)), args.suite, args.mirror)
    good = command_and_c(root)
    if args.suite == WITH_PYTHON:
        good = python_and_pages(root) and good
    sys.exit(not good)


if __name__ == "__main__":
    main()
