"""Checks the include rule: which rooms of src/ and which third-party headers each room may include. Run by `make lint`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# room -> folders that it may include. "x/y.h" allows one header, "*" matches one folder. base is allowed everywhere. Only the runtime links files in a folder named run/: of their own room
# they may include only such files, and their line here is "room/run".
ALLOWED = {
    "base": [],
    "ir": [],
    "ops": ["ir"],
    "kernels": ["ir"],
    "kernels/run": ["ir/dtype.h", "ir/encoding.h", "ir/fourier.h", "ir/op.h", "ir/half.h", "ingot"],
    "backend": ["ir", "kernels"],
    "backend/run": ["ir/dtype.h", "ir/encoding.h", "ir/op.h", "ir/half.h", "ir/scalar_functions.h", "ir/small_matrix.inc", "ir/fourier.h", "ir/fourier.inc", "ir/butterfly.cuh", "ir/fourier_of_numbers.inc", "ir/small_matrix_of_numbers.inc", "kernels/run", "kernels/*/run"],
    "capture": ["ir", "ops"],
    "partition": ["ir"],
    "lower": ["ir", "ops"],
    "plan": ["ir/dtype.h"],
    "compile": ["ir", "ops", "kernels", "backend", "plan"],
    "runtime": ["ir/dtype.h", "plan", "backend/run"],
    "verify": ["ir", "kernels", "compile", "plan", "runtime"],
    "api": ["ir", "ops", "capture", "lower", "compile", "plan", "runtime", "verify", "pipeline.h", "backend/run", "backend/cpu/run/isa.h", "ingot"],
    "pipeline": ["ir", "capture", "partition", "lower", "compile", "plan", "runtime", "verify"],
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


# Backends (the folders of backend/ with kernels) may not include one another, except in tests, which compare them.
def backend_of(path: str) -> str | None:
    parts = path.split("/")
    return parts[1] if parts[0] == "backend" and len(parts) > 2 and (ROOT / "src/backend" / parts[1] / "kernels").is_dir() else None


def room_of(path: str) -> str:
    head = path.split("/")[0]
    if head.startswith("pipeline"):
        return "pipeline"
    return head + "/run" if "/run/" in path else head


def allows(pattern: str, name: str) -> bool:
    parts, of = pattern.split("/"), name.split("/")
    return len(parts) <= len(of) and all(a in ("*", b) for a, b in zip(parts, of))


def violations(path: str, text: str) -> list[str]:
    room, found = room_of(path), []
    if path.endswith(("_test.cpp", "_test.h")):
        return found
    for kind, name in re.findall(r'^\s*#include\s+([<"])([^>"]+)[>"]', text, re.M):
        head = name.split("/")[0]
        if kind == "<":
            third = head.removesuffix(".h")
            if third in THIRD_PARTY and THIRD_PARTY[third] is not None and room not in THIRD_PARTY[third]:
                found.append(f"src/{path}: room {room} may not include <{name}>")
            continue
        if "/" not in name and not name.startswith("pipeline"):
            continue  # in the same folder, or generated
        mine, theirs = backend_of(path), backend_of(name)
        if mine is not None and theirs is not None and mine != theirs:
            found.append(f"src/{path}: backend {mine} may not include \"{name}\"")
            continue
        own = head == room.split("/")[0] and (not room.endswith("/run") or room_of(name) == room)
        if not (own or head == "base" or name == f"{room}.h" or any(allows(a, name) for a in ALLOWED[room])):
            found.append(f"src/{path}: room {room} may not include \"{name}\"")
    return found


def self_test():
    assert violations("base/x.cpp", '#include "ir/graph.h"\n')
    assert violations("runtime/x.cpp", '#include "ir/graph.h"\n') and not violations("runtime/x.cpp", '#include "ir/dtype.h"\n')
    assert violations("runtime/x.cpp", '#include "backend/body.h"\n') and not violations("runtime/x.cpp", '#include "backend/run/device.h"\n')
    assert violations("kernels/scan/run/x.cpp", '#include "ir/graph.h"\n') and violations("kernels/scan/x.cpp", '#include "backend/body.h"\n')
    assert violations("kernels/scan/run/x.cpp", '#include "kernels/scan/scan.h"\n') and not violations("kernels/scan/scan.cpp", '#include "kernels/scan/run/scan_args.h"\n')
    cuda = "backend/cuda/"
    assert violations(cuda + "run/x.cpp", '#include "backend/body.h"\n') and not violations(cuda + "compile/x.cpp", '#include "ir/graph.h"\n')
    assert violations(cuda + "kernels/fused/run/x.cpp", '#include "backend/cuda/compile/walk.h"\n') and not violations(cuda + "run/x.cpp", '#include "kernels/scan/run/scan_args.h"\n')
    assert not violations(cuda + "run/x.cpp", '#include "backend/cuda/run/driver.h"\n') and violations(cuda + "compile/x.cpp", '#include "backend/cpu/run/isa.h"\n')
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
