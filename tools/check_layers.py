"""Who may include whom: the rooms of src/ and the third-party headers each may see. Run by `make lint`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# room -> rooms it may include; "x/y.h" allows one header. base is allowed everywhere.
ALLOWED = {
    "base": [],
    "ir": [],
    "ops": ["ir"],
    "backend": ["ir", "kernels/attention/attention_args.h", "kernels/attention/attention_cuda_args.h", "kernels/fused/fused_args.h", "kernels/fused/fused_cuda_args.h", "kernels/matmul/matmul_args.h", "kernels/matmul/matmul_cuda_args.h", "kernels/elements_cuda.h", "kernels/numbers_cuda_args.h", "kernels/matmul/matmul_map_cuda.h", "kernels/matmul/matmul_map_cuda_args.h", "kernels/scan/scan_args.h", "kernels/scan/scan_cuda.h", "kernels/scatter/scatter_args.h", "kernels/scatter/scatter_cuda.h", "kernels/sort/sort_args.h", "kernels/sort/sort_cuda.h", "kernels/windows/windows_args.h"],
    "backend_run": ["ir/dtype.h", "ir/op.h", "backend/device.h", "backend/cpu/isa.h", "kernels/attention/attention_cuda_run.h", "kernels/fused/fused_cuda_args.h", "kernels/fused/fused_cuda_run.h", "kernels/matmul/matmul_cuda_args.h", "kernels/launches_cuda_run.h", "kernels/matmul/matmul_map_cuda_run.h", "kernels/scan/scan_cuda_run.h", "kernels/scan/scan_run.h", "kernels/scatter/scatter_cuda_run.h", "kernels/scatter/scatter_run.h", "kernels/sort/sort_cuda_run.h", "kernels/sort/sort_run.h"],
    "kernels": ["ir"],
    "kernels_run": ["ir/dtype.h", "ir/op.h", "ir/half.h", "ir/scalar_functions.h", "backend/device.h", "backend/cpu/isa.h"],
    "capture": ["ir", "ops"],
    "partition": ["ir"],
    "lower": ["ir", "ops"],
    "plan": ["ir/dtype.h"],
    "compile": ["ir", "ops", "kernels", "backend", "plan"],
    "runtime": ["ir/dtype.h", "plan", "backend/device.h"],
    "api": ["ir", "ops", "capture", "lower", "compile", "plan", "runtime", "pipeline.h", "backend/cpu/isa.h", "backend/device.h", "ingot"],
    "pipeline": ["ir", "capture", "partition", "lower", "compile", "plan", "runtime"],
    "cli": ["ingot"],
    "torch": ["ingot"],
}
THIRD_PARTY = {
    "fmt": None,  # any room
    "flatbuffers": {"plan"},
    "simdjson": {"capture", "cli"},
    "CLI": {"cli"},
    "torch": {"torch"},
    "gtest": None,
}
RUN_FILE = re.compile(r"(_cpu|_cpu_[a-z0-9]+|_run|/device[a-z_]*|/isa|/symbols|/driver|/program[a-z_]*|/block[a-z0-9_]*|/tile[a-z0-9_]*|_args|/elements|/functions)\.(cpp|h|inc|def)$")


# Backends do not know one another (tests compare them).
BACKENDS = ("cpu", "cuda")


def backend_of(path: str) -> str | None:
    parts = path.split("/")
    if parts[0] == "backend" and len(parts) > 2 and parts[1] in BACKENDS:
        return parts[1]
    kernel = re.search(r"_(cpu|cuda)(_[a-z0-9]+)*\.(cpp|h|inc)$", path)
    return kernel.group(1) if parts[0] == "kernels" and kernel else None


def room_of(path: str) -> str:
    head = path.split("/")[0]
    if head.startswith("pipeline"):
        return "pipeline"
    if head in ("kernels", "backend") and RUN_FILE.search("/" + path):
        return head + "_run"
    return head


def violations(path: str, text: str) -> list[str]:
    room, found = room_of(path), []
    if path.endswith(("_test.cpp", "_test.h")):
        return found
    for line, (kind, name) in enumerate(re.findall(r'^\s*#include\s+([<"])([^>"]+)[>"]', text, re.M), 1):
        head = name.split("/")[0]
        if kind == "<":
            third = head.removesuffix(".h")
            if third in THIRD_PARTY and THIRD_PARTY[third] is not None and room not in THIRD_PARTY[third]:
                found.append(f"src/{path}: room {room} may not include <{name}>")
            continue
        if "/" not in name and not name.startswith("pipeline"):
            continue  # a neighbour, or generated
        own = room.removesuffix("_run")
        mine, theirs = backend_of(path), backend_of(name)
        if mine is not None and theirs is not None and mine != theirs:
            found.append(f"src/{path}: backend {mine} may not include \"{name}\"")
            continue
        if head == "base" or name == f"{own}.h" or (head == own and not (room.endswith("_run") and room_of(name) == own)):
            continue
        if not any(name == a or name.startswith(a + "/") for a in ALLOWED[room]) and not (head == own and room == own):
            found.append(f"src/{path}: room {room} may not include \"{name}\"")
    return found


def self_test():
    assert violations("base/x.cpp", '#include "ir/graph.h"\n')
    assert violations("runtime/x.cpp", '#include "ir/graph.h"\n') and not violations("runtime/x.cpp", '#include "ir/dtype.h"\n')
    assert violations("kernels/fused/fused_cpu.cpp", '#include "ir/graph.h"\n')
    assert violations("kernels/fused/fused_cuda_run.cpp", '#include "backend/body.h"\n')
    assert violations("backend/cuda/device.cpp", '#include "backend/body.h"\n') and violations("backend/cuda/device.cpp", '#include "ir/graph.h"\n')
    assert not violations("backend/cuda/device.cpp", '#include "backend/cuda/driver.h"\n') and violations("backend/cuda/emitter.cpp", '#include "backend/cpu/isa.h"\n')
    assert violations("ir/x.cpp", "#include <simdjson.h>\n") and not violations("capture/x.cpp", "#include <simdjson.h>\n")


def main():
    self_test()
    found = []
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in (".h", ".cpp", ".inc"):
            found += violations(str(path.relative_to(ROOT / "src")), path.read_text())
    print("\n".join(found) or "every room includes only what it may")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
