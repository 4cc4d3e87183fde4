"""Adds an operator definition. It compiles, and refuses the operator until its body is written.

    make new-op SCHEMA="frac(Tensor self) -> Tensor" FAMILY=pointwise
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

TYPES = {  # type in ATen -> type in the body, see src/ops/operator.h
    "Tensor": "Value", "Scalar": "Scalar", "int": "int64_t", "SymInt": "Dim", "bool": "bool", "float": "double", "str": "std::string",
    "ScalarType": "DType", "MemoryFormat": "int64_t", "Layout": "int64_t", "Device": "std::string",
}  # fmt: skip


def body_type(type: str) -> str:
    type = re.sub(r"\([a-z!|*\s>-]*\)", "", type)  # aliasing: Tensor(a!)
    if type.endswith("?"):
        return f"std::optional<{body_type(type[:-1])}>"
    if found := re.fullmatch(r"(.*)\[\d*\]", type):
        return f"std::vector<{body_type(found[1])}>"
    if type not in TYPES:
        sys.exit(f"no body takes an argument of type {type}; see src/ops/operator.h")
    return TYPES[type]


def definition(schema: str) -> str:
    found = re.fullmatch(r"(?:aten::)?([\w:]+(?:\.\w+)?)\((.*)\)\s*->\s*(.+)", schema.strip())
    if not found:
        sys.exit(f'not a schema: {schema!r}; for example "frac(Tensor self) -> Tensor"')
    name, parameters, results = found.groups()
    parts = [p.strip() for p in re.split(r",(?![^\[(]*[\])])", parameters) if p.strip()]
    given = [p.split("=")[0].rsplit(" ", 1) for p in parts if p != "*"]
    arguments = ", ".join(f"{body_type(type)} /*{name}*/" for type, name in given)
    many = results.strip().startswith("(") or "[]" in results
    kind = "std::vector<Value>" if many else "Value"
    tensors = sum(2 if "[" in type else 1 for type, _ in given if type.startswith("Tensor"))
    types = " Types::each," if tensors > 1 else ""  # or another promotion of their dtypes, see src/ops/binding.h
    return f'    {{"{name}({", ".join(parts)})",{types}\n     []({arguments}) -> {kind} {{ fail(Code::unsupported, "{name} is not written yet"); }}}},\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schema", help="as torch prints it: str(torch.ops.aten.frac.default._schema)")
    parser.add_argument("family", help="a file of src/ops: pointwise, shape, reduction, ...")
    arguments = parser.parse_args()
    folder = Path(__file__).resolve().parents[1] / "src/ops"
    file = folder / f"{arguments.family}.cpp"
    families = sorted(p.stem for p in folder.glob("*.cpp") if f"const Definition {p.stem}_rows[]" in p.read_text())
    if arguments.family not in families:
        sys.exit(f"there is no family {arguments.family!r}; the families are {', '.join(families)}")
    new = definition(arguments.schema)
    text = file.read_text()
    end = text.index("\n};\n", text.index("_rows[] = {")) + 1
    text = text[:end] + new + text[end:]
    if '#include "base/error.h"' not in text:  # declares fail()
        text = text.replace('#include "', '#include "base/error.h"\n#include "', 1)
    file.write_text(text)
    number = text[:end].count("\n") + 1
    print(f"{file.relative_to(folder.parents[1])}:{number}: write the body (ir/compose.h is its language), then\n"
          f"  make build && .venv/bin/python -m pytest tests/ops")  # fmt: skip


if __name__ == "__main__":
    main()
