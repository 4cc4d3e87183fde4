"""Checks the include rule: which rooms of src/ and which third-party headers each room may include; which rooms of python/ingot may import which; and that torch_internals alone
names what is private in torch. Run by `make lint`."""

from __future__ import annotations

import ast
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
    "xxhash": {"base"},
    "simdjson": {"capture", "cli", "pipeline"},
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


# Rooms of python/ingot, from the bottom: a file imports its own room and lower ones, and no files import one another in a circle.
PYTHON_ROOMS = ["torch_internals", "base", "engine", "capture", "precision", "running", "saving", "module"]
LOWEST, HIGHEST = {"errors", "inputs", "autocast_options", "option_types"}, len(PYTHON_ROOMS)  # files outside of the rooms: words that all use; the others are ways in


def level_of(module: str) -> int:
    head = module.split(".")[0]
    return PYTHON_ROOMS.index(head) if head in PYTHON_ROOMS else -1 if head in LOWEST else HIGHEST


def imports_of(module: str, text: str, modules: set[str], is_package: bool) -> set[str]:
    """The modules of the package that a file imports, wherever in the file it does."""
    package, found = module.split(".") if is_package else module.split(".")[:-1], set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        base = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
        for name in node.names:
            inner = f"{base}.{name.name}".lstrip(".")
            found.add(inner if inner in modules else base)
    return (found & modules) - {module}


def python_violations(files: dict[str, tuple[str, bool]]) -> list[str]:
    """files: for each module its text, and whether it is a package."""
    imports = {module: imports_of(module, text, set(files), package) for module, (text, package) in files.items()}
    found = [f"python/ingot: {module} may not import {other}, which is in a higher room" for module, others in sorted(imports.items()) for other in sorted(others) if level_of(other) > level_of(module)]
    left = dict(imports)
    while ends := [module for module, others in left.items() if not others & left.keys()]:
        for module in ends:
            del left[module]
    while behind := [module for module in left if not any(module in others for others in (left[m] for m in left))]:
        for module in behind:
            del left[module]
    return found + ([f"python/ingot: files import one another in a circle: {', '.join(sorted(left))}"] if left else [])


# Private names of torch stand in python/ingot/torch_internals alone, and patches of torch too. torch documents these three, in spite of their names.
DOCUMENTED = ("torch._check", "torch._inductor.aoti_compile_and_package", "torch._inductor.aoti_load_package")
OF_PYTHON = {"_fields", "_getframe"}  # of namedtuples and of sys


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def dotted(node) -> str:
    """torch.nn.Module of such an expression; "" if it is something else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def names_in(module: str, text: str) -> set[str]:
    """What a module itself calls something: its functions, classes, variables, attributes and imports."""
    found = {module.rsplit(".", 1)[-1]}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            found.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).rsplit(".", 1)[-1])
    return found


def private_attributes(text: str) -> set[str]:
    """The private attributes that a file reads, by name."""
    tree = ast.parse(text)
    named = {node.args[1].value for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str)}
    return set(filter(is_private, {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} | named))


def torch_violations(module: str, text: str, own: set[str], internals: set[str] = frozenset()) -> list[str]:
    """own: what python/ingot itself calls something. Another private attribute is torch's, and so is one of `internals`, which torch_internals reads, unless it is one of `self`."""
    tree, found = ast.parse(text), []

    def say(node, what):
        found.append(f"python/ingot: {module}, line {node.lineno}: {what} stands in torch_internals alone")

    def is_of_torch(path):
        return path not in DOCUMENTED and (path + ".").startswith("torch.") and (any(map(is_private, path.split("."))) or path.startswith("torch.fx.experimental"))

    operators, imported = {"torch.ops"}, {"torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target, value in zip([t for target in node.targets for t in getattr(target, "elts", [target])], getattr(node.value, "elts", [node.value])):
                operators |= {target.id} if isinstance(target, ast.Name) and dotted(value).startswith("torch.ops.") else set()
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module + ".").startswith("torch."):
            imported |= {alias.asname or alias.name for alias in node.names}
    inner = {child for node in ast.walk(tree) if isinstance(node, ast.Attribute) for child in ast.walk(node.value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if is_of_torch(alias.name):
                    say(node, alias.name)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                if is_of_torch(f"{node.module}.{alias.name}"):
                    say(node, f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Attribute):
            path = dotted(node)
            if any(path.startswith(root + ".") for root in operators):
                continue
            if isinstance(node.ctx, (ast.Store, ast.Del)) and path.split(".")[0] in imported:
                say(node, f"the patch of {path}")
                continue
            allowed = (own if path.startswith(("self.", "cls.")) else own - internals) | OF_PYTHON
            documented = path in DOCUMENTED or any(d.startswith(path + ".") for d in DOCUMENTED)
            private = is_private(node.attr) and node.attr not in allowed and not is_of_torch(path) and not documented
            if private or node not in inner and is_of_torch(path):
                say(node, path or node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr", "setattr") and len(node.args) > 1:
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
            if node.func.id == "setattr" and dotted(node.args[0]).split(".")[0] in imported:
                say(node, f"the patch of {dotted(node.args[0])}")
            elif is_private(name) and name not in own - internals | OF_PYTHON:
                say(node, name)
    return found


def private_violations() -> list[str]:
    texts = {".".join(path.relative_to(ROOT / "python").with_suffix("").parts).removesuffix(".__init__"): path.read_text() for path in sorted((ROOT / "python/ingot").rglob("*.py"))}
    internals = [texts.pop(module) for module in list(texts) if module.startswith("ingot.torch_internals")]
    own, theirs = set().union(*(names_in(module, text) for module, text in texts.items())), set().union(*map(private_attributes, internals))
    return [line for module, text in texts.items() for line in torch_violations(module.removeprefix("ingot."), text, own, theirs)]


def python_files() -> dict[str, tuple[str, bool]]:
    """The modules of python/ingot without the drop-in, which stands on all of them."""
    files, root = {}, ROOT / "python/ingot"
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] != "torch_tensorrt" and parts != ("__init__",):
            package = parts[-1] == "__init__"
            files[".".join(parts[:-1] if package else parts)] = (path.read_text(), package)
    return files


def self_test():
    low, high = ("from ..module import module_kinds\n", False), ("from ..engine import low\nfrom ..errors import Error\n", False)
    assert python_violations({"engine.low": low, "module.module_kinds": ("", False)}) and not python_violations({"engine.low": ("", False), "module.module_kinds": high, "errors": ("", False)})
    assert python_violations({"base.a": ("from . import b\n", False), "base.b": ("def f():\n    from .a import x\n", False), "base.c": ("from .a import x\n", False)})
    own = {"_mine"}
    for text in ("from torch._export import x", "from torch.fx.node import _x", "import torch.fx.experimental.y", "torch._C.x()", "t._cdata", "getattr(t, '_cdata')", "torch.Tensor.__bool__ = f",
                 "from torch.export import x\nx.y = f", "del torch.Tensor.x", "setattr(torch.SymInt, name, f)", "torch._inductor.config"):  # fmt: skip
        assert len(torch_violations("x", text, own)) == 1, text
    for text in ("x._mine", "torch._check(x)", "torch.ops.aten._softmax(x)", "_aten = torch.ops.aten\n_aten._softmax", "x.__class__", "torch.export.export(x)", "a.b = c", "torch._inductor.aoti_load_package(x)"):
        assert not torch_violations("x", text, own), text
    assert torch_violations("x", "op._mine", own, {"_mine"}) and not torch_violations("x", "self._mine", own, {"_mine"}) and torch_violations("x", "self._buffers", own)
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
    found += python_violations(python_files()) + private_violations()
    print("\n".join(found) or "every room includes only what it may")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
