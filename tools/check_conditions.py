"""Checks that no condition has more than MAX_TERMS terms: a part of it gets a name. Run by `make lint`.

Conditions are those of if, while and for in C++, and of if, while and conditional expressions in Python. What a function returns, or a variable holds, has a name already.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from check_classes import ROOT, enclosed, without_texts

MAX_TERMS = 5


def cpp_conditions(text: str) -> list[tuple[int, int]]:
    """(line, terms) of each condition."""
    text, found = without_texts(text), []
    for match in re.finditer(r"\b(?:if|while|for)\s*(?:constexpr\s*)?\(", text):
        condition = enclosed(text, match.end() - 1, "()")
        condition = re.sub(r"\{[^{}]*\}", "", condition)  # bodies of lambdas
        parts = condition.split(";")
        terms = max(1 + len(re.findall(r"&&|\|\|", re.sub(r"\bauto\s*&&", "auto", part))) for part in parts)
        found.append((text.count("\n", 0, match.start()) + 1, terms))
    return found


def python_terms(node: ast.expr) -> int:
    if isinstance(node, ast.BoolOp):
        return sum(python_terms(value) for value in node.values)
    return python_terms(node.operand) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else 1


def python_conditions(text: str) -> list[tuple[int, int]]:
    return [(node.lineno, python_terms(node.test)) for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.If, ast.While, ast.IfExp))]


def too_long(file: str, text: str) -> list[str]:
    conditions = python_conditions(text) if file.endswith(".py") else cpp_conditions(text)
    return [f"{file}:{line}: a condition of {terms} terms: give a part of it a name (tools/check_conditions.py)" for line, terms in conditions if terms > MAX_TERMS]


def self_test():
    five, six = " && ".join("abcde"), " && ".join("abcdef")
    assert not too_long("x.cpp", f"if ({five}) f();\nreturn {six};\n") and too_long("x.cpp", f"if ({six}) f();")
    assert too_long("x.cpp", "while (a && (b || c) && !(d || e) &&\n f) {}") and not too_long("x.cpp", 'if (a == "x && y && z && v && w && u") {}  // a && b && c && d && e && f')
    assert too_long("x.cpp", f"for (int i = 0; {six}; ++i) {{}}") and not too_long("x.cpp", f"if (any([](auto&& x) {{ return {six}; }})) {{}}")
    assert too_long("x.py", "if a and (b or c) and not (d or e) and f:\n    pass") and not too_long("x.py", "z = a and b and c and d and e and f\nif a or b or c or d or e:\n    pass")


def main():
    self_test()
    files = subprocess.run(["git", "ls-files", "src", "include", "python", "tools", "bench"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = []
    for file in files:
        path = Path(ROOT / file)
        if path.is_file() and path.suffix in (".h", ".cpp", ".inc", ".py") and "_test." not in path.name:
            found += too_long(file, path.read_text())
    print("\n".join(found) or f"no condition has more than {MAX_TERMS} terms")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
