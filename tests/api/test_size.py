"""libingot_runtime.so is small enough to ship with an application."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("INGOT_BUILD", "build/release")
BAR = 4_030_000  # docs/performance-notes/memory.md, 0058. What raised it since: 0107, 0112, 0120, 0121, 0128, 0129 (193 KB: loops over elements as they are, for each instruction set), 0137 (25 KB: signatures, XXH3), 0140 (16 KB: attention over pages), 0145 (57 KB: loops of double functions, functions of float32, tiles of few columns), 0146 (12 KB: keys of int8), 0148 (57 KB: weights of 4 bits), 0152 (41 KB: products of few terms), 0154 (12 KB: packed weights on a GPU)


def test_runtime_is_small(tmp_path):
    stripped = tmp_path / "libingot_runtime.so"
    subprocess.run(["strip", "-o", stripped, BUILD / "libingot_runtime.so"], check=True)
    size = stripped.stat().st_size
    assert size <= BAR, (
        f"libingot_runtime.so has {size} bytes stripped, {size - BAR} over the bar. To see what grew, compare the lists of `python tools/size_by_file.py --build FOLDER` "
        "of this build and one of before; for one file's functions: nm -S --size-sort --demangle FILE.cpp.o"
    )


def test_sizes_of_files_add_up():
    """The list says where the bytes are: all of the code, file by file."""
    done = subprocess.run([sys.executable, ROOT / "tools/size_by_file.py", "--build", BUILD, "--top", "1000"], capture_output=True, text=True, check=True)
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()[1:]]
    code = {source: int(text) for _, text, source in lines}
    sections = subprocess.run([shutil.which("size"), "-A", BUILD / "libingot_runtime.so"], capture_output=True, text=True, check=True).stdout
    text = next(int(line.split()[1]) for line in sections.splitlines() if line.startswith(".text "))
    assert sum(n for source, n in code.items() if source != "all") == code["all"]
    assert 0.98 * text <= code["all"] <= text
    assert code["src/backend/cpu/kernels/matmul/run/tile_avx2.cpp"] > 10_000
