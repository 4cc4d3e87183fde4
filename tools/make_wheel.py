"""Packages ingot for Python: one wheel for every Python 3 and every torch from 2.10, a small one for the name torch_tensorrt, or a link for developers.

    python tools/make_wheel.py --build build/release --out dist      dist/ingot-0.1.0-py3-none-manylinux_2_35_x86_64.whl
    python tools/make_wheel.py --torch-tensorrt --out dist           dist/ingot_torch_tensorrt-0.1.0-py3-none-any.whl
    python tools/make_wheel.py --build build/release --develop       the .venv imports python/ of this checkout
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.search(r'__version__ = "(.*)"', (ROOT / "python/ingot/__init__.py").read_text()).group(1)
METADATA = f"""Metadata-Version: 2.1
Name: ingot
Version: {VERSION}
Summary: An inference compiler and runtime for PyTorch models
License: Apache-2.0
Requires-Python: >=3.10
Provides-Extra: torch
Requires-Dist: torch>=2.10; extra == "torch"
"""
LIBSTDCXX = {24: 28, 28: 31, 29: 34, 30: 35, 33: 39}  # the newest GLIBCXX_3.4.x: x of the first manylinux_2_x that has it
ENTRY_POINTS = """[torch_dynamo_backends]
ingot = ingot.backend:ingot_backend

[console_scripts]
ingot = ingot._cli:main
"""

TORCH_TENSORRT_METADATA = f"""Metadata-Version: 2.1
Name: ingot-torch-tensorrt
Version: {VERSION}
Summary: import torch_tensorrt runs on ingot, where NVIDIA's package is not installed
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: ingot[torch]=={VERSION}
"""


def develop():
    site = Path(sysconfig.get_paths()["purelib"])
    (site / "ingot-develop.pth").write_text(str(ROOT / "python") + "\n")
    info = site / f"ingot-{VERSION}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (info / "INSTALLER").write_text("make\n")
    (info / "RECORD").write_text("")
    script = Path(sysconfig.get_paths()["scripts"]) / "ingot"
    script.write_text(f"#!{sys.executable}\nfrom ingot._cli import main\n\nmain()\n")
    script.chmod(0o755)


def libraries(build: Path, folder: Path):
    """The libraries and the command, stripped, with a run path to their own folder."""
    simdjson = None
    for line in subprocess.run(["ldd", build / "libingot.so"], capture_output=True, text=True, check=True).stdout.splitlines():
        if "libsimdjson" in line:
            simdjson = Path(line.split("=>")[1].split()[0])
    files = [build / n for n in ("libingot.so", "libingot_torch.so", "ingot")] + [simdjson]
    for file in files:
        if file is None or not file.exists():
            raise SystemExit(f"{file} is missing: `make build` first")
        target = folder / (os.path.basename(file) if file is not simdjson else _soname(file))
        shutil.copy(file, target)
        subprocess.run(["strip", "--strip-unneeded", target], check=True)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", target], check=True)


def platform_tag(folder: Path) -> str:
    """The oldest manylinux that has every symbol of glibc and libstdc++ that the libraries need (GLIBC_2.35: manylinux_2_35)."""
    wanted = "".join(subprocess.run(["objdump", "-T", file], capture_output=True, text=True, check=True).stdout for file in sorted(folder.iterdir()))
    least = max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", wanted))
    for minor in map(int, re.findall(r"GLIBCXX_3\.4\.(\d+)", wanted)):
        if minor > max(LIBSTDCXX):
            raise SystemExit(f"GLIBCXX_3.4.{minor} is newer than the table in tools/make_wheel.py: add the glibc of the first manylinux that has it")
        least = max(least, next(glibc for newest, glibc in LIBSTDCXX.items() if minor <= newest))
    return f"manylinux_2_{least}_{platform.machine()}"


def _soname(path: Path) -> str:
    return subprocess.run(["patchelf", "--print-soname", path], capture_output=True, text=True, check=True).stdout.strip()


def wheel(build: Path, out: Path):
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        shutil.copytree(ROOT / "python/ingot", root / "ingot", ignore=shutil.ignore_patterns("__pycache__", "README.md"))
        shutil.copytree(ROOT / "include", root / "ingot/include")  # users' kernels are compiled with it
        (root / "ingot/lib").mkdir()
        libraries(build, root / "ingot/lib")
        pack(root, out, "ingot", f"py3-none-{platform_tag(root / 'ingot/lib')}", METADATA, ENTRY_POINTS)


def torch_tensorrt_wheel(out: Path):
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        shutil.copy(ROOT / "python/ingot_torch_tensorrt.py", root)
        (root / "ingot_torch_tensorrt.pth").write_text("import ingot_torch_tensorrt; ingot_torch_tensorrt.install()\n")
        pack(root, out, "ingot_torch_tensorrt", "py3-none-any", TORCH_TENSORRT_METADATA)


def pack(root: Path, out: Path, package: str, tag: str, metadata: str, entry_points: str = ""):
    """Writes a wheel of a folder's content, with the same bytes each time."""
    out.mkdir(parents=True, exist_ok=True)
    name = out / f"{package}-{VERSION}-{tag}.whl"
    info = root / f"{package}-{VERSION}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata)
    (info / "licenses").mkdir()
    shutil.copy(ROOT / "LICENSE", info / "licenses")
    if entry_points:
        (info / "entry_points.txt").write_text(entry_points)
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: ingot\nRoot-Is-Purelib: {str(tag.endswith('any')).lower()}\nTag: {tag}\n")
    files = sorted(p for p in root.rglob("*") if p.is_file())
    record = ""
    for p in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(p.read_bytes()).digest()).rstrip(b"=").decode()
        record += f"{p.relative_to(root)},sha256={digest},{p.stat().st_size}\n"
    (info / "RECORD").write_text(record + f"{info.name}/RECORD,,\n")
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
        for p in files + [info / "RECORD"]:
            entry = zipfile.ZipInfo(str(p.relative_to(root)), (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (stat.S_IMODE(p.stat().st_mode) | stat.S_IFREG) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, p.read_bytes(), compresslevel=9)
    print(f"{name} ({name.stat().st_size / 1e6:.3f} MB)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--develop", action="store_true")
    parser.add_argument("--torch-tensorrt", action="store_true")
    arguments = parser.parse_args()
    if arguments.develop:
        develop()
    elif arguments.torch_tensorrt:
        torch_tensorrt_wheel(arguments.out)
    else:
        wheel(arguments.build, arguments.out)


if __name__ == "__main__":
    main()
