"""Prepares a build for systems older than this one: compilers for glibc 2.28 (PyPI's zig), and the libraries that ingot compiles in.

    python tools/portable.py --out build/portable       writes build/portable/toolchain.cmake

`make portable` then builds dist/torch_ingot-*-manylinux_2_28_x86_64.whl with it. fmt, flatbuffers and CLI11 are headers: those of this system are taken. simdjson is a library of the system's
C++; it is built from the sources that Debian distributes.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = "x86_64-linux-gnu.2.28"
HEADERS = ("fmt", "flatbuffers", "CLI")
SIMDJSON = "http://deb.debian.org/debian/pool/main/s/simdjson/simdjson_3.0.1.orig.tar.gz"
SIMDJSON_SHA256 = "156b1bc5eb0561b2bd166b46d191fd3d95a3e709cc63761477d3b7aec2b6e9ed"


def tools(folder: Path):
    """CMake and ccache take a compiler of one word."""
    import ziglang

    zig = Path(ziglang.__file__).parent / "zig"
    folder.mkdir(parents=True, exist_ok=True)
    for name, options in {"cc": f"-target {TARGET}", "c++": f"-target {TARGET}", "ar": "", "ranlib": ""}.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{zig}" {name} {options} "$@"\n')
        script.chmod(0o755)


def headers(folder: Path):
    folder.mkdir(parents=True, exist_ok=True)
    for name in HEADERS:
        found = next((p / name for p in map(Path, ("/usr/include", "/usr/local/include")) if (p / name).is_dir()), None)
        if found is None:
            sys.exit(f"the headers of {name} are not installed: make setup")
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(found)


def simdjson(toolchain: Path, prefix: Path):
    if (prefix / "lib/libsimdjson.a").exists():
        return
    with urllib.request.urlopen(SIMDJSON) as answer:
        sources = answer.read()
    if hashlib.sha256(sources).hexdigest() != SIMDJSON_SHA256:
        sys.exit(f"{SIMDJSON} has another checksum than {SIMDJSON_SHA256}")
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch, "simdjson.tar.gz")
        archive.write_bytes(sources)
        with tarfile.open(archive) as files:
            files.extractall(scratch, filter="data")
        (folder,) = Path(scratch).glob("simdjson-*")
        settings = ["CMAKE_BUILD_TYPE=Release", "BUILD_SHARED_LIBS=OFF", "CMAKE_POSITION_INDEPENDENT_CODE=ON", "SIMDJSON_DEVELOPER_MODE=OFF", f"CMAKE_TOOLCHAIN_FILE={toolchain}", f"CMAKE_INSTALL_PREFIX={prefix}"]
        for command in (["-G", "Ninja", "-S", folder, "-B", folder / "build", *(f"-D{s}" for s in settings)], ["--build", folder / "build"], ["--install", folder / "build"]):
            subprocess.run(["cmake", *command], check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build/portable")
    out = parser.parse_args().out.resolve()
    tools(out / "tools")
    headers(out / "prefix/include")
    toolchain = out / "toolchain.cmake"
    text = (ROOT / "cmake/portable.cmake.in").read_text()
    toolchain.write_text(text.replace("@TOOLS@", str(out / "tools")).replace("@PREFIX@", str(out / "prefix")))
    simdjson(toolchain, out / "prefix")
    print(toolchain)


if __name__ == "__main__":
    main()
