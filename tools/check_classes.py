"""Checks that no class is both long and full of shared state: in such a class every function may change what every other one reads. Run by `make lint`.

A class of more than MAX_LINES lines of code has at most MAX_MEMBERS data members. Make of it a state and functions, or several classes with one job each. Lines are counted without blank lines, comments
and docstrings; functions that stand outside their class count with it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 230
MAX_MEMBERS = 8


def without_texts(text: str) -> str:
    """C++ without comments and the contents of literals; the lines stay."""

    def blank(match):
        found = match[0]
        return "\n" * found.count("\n") if found.startswith("/") else found[0] + found[0]

    text = re.sub(r'R"(\w*)\(.*?\)\1"', lambda m: '""' + "\n" * m[0].count("\n"), text, flags=re.S)
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', blank, text, flags=re.S)


def enclosed(text: str, begin: int, brackets: str = "{}") -> str:
    """From an opening bracket to the one that closes it."""
    depth = 0
    for at in range(begin, len(text)):
        depth += (text[at] == brackets[0]) - (text[at] == brackets[1])
        if depth == 0:
            return text[begin + 1 : at]
    return text[begin + 1 :]


def code_lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


def flat(body: str) -> str:
    """What stands in a class itself: `{}` for each block."""
    out, depth = [], 0
    for c in body:
        if c == "{" and depth == 0:
            out.append("{")
        depth += (c == "{") - (c == "}")
        if depth == 0:
            out.append(c)
    return "".join(out)


NO_MEMBER = re.compile(r"^(using|friend|typedef|template|static|enum|struct|class|explicit|virtual|operator|return|constexpr|~|#)\b")


def members(body: str) -> int:
    """Data members of a class, from what stands in it: declarations that are neither functions nor types."""
    count = 0
    body = re.sub(r"\b(public|private|protected)\s*:", "", flat(body))
    body = re.sub(r"\{\}(?!\s*[;,])", ";", body)  # functions and types end with a block, initialised members with a semicolon
    for statement in body.split(";"):
        statement = " ".join(statement.split())
        while statement.startswith("[["):
            statement = statement.partition("]]")[2].strip()
        if not statement or NO_MEMBER.match(statement):
            continue
        head = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*(<[^<>]*>)?[^<>]*>", "", statement))  # template arguments
        if "(" in head.split("=")[0] or re.search(r"\boperator\b", head):
            continue
        head = re.sub(r"=[^,]*", "", head)
        count += 1 + head.count(",")
    return count


def cpp_classes(files: dict[str, str]) -> list[tuple[str, str, int, int]]:
    """(file, class, lines, members) of the classes in one folder's files, by name."""
    found, owned = [], defaultdict(int)
    texts = {name: without_texts(text) for name, text in files.items()}
    for text in texts.values():
        for match in re.finditer(r"^(?!\s)[^;{}()=]*?\b(\w+)::~?\w+\([^;{}]*\)[^;{}]*\{", text, re.M):
            owned[match[1]] += code_lines(enclosed(text, match.end() - 1)) + 1
    for name, text in texts.items():
        for match in re.finditer(r"\b(?:class|struct)\s+(?:\w+::)*(\w+)\b[^;{}()=<>]*\{", text):
            body = enclosed(text, match.end() - 1)
            found.append((name, match[1], code_lines(body) + owned[match[1]], members(body)))
    return found


def python_classes(name: str, text: str) -> list[tuple[str, str, int, int]]:
    found = []
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef):
            continue
        docs = set()
        for part in ast.walk(node):
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str):
                docs |= set(range(part.lineno, part.end_lineno + 1))
        count = sum(1 for n in range(node.lineno, node.end_lineno + 1) if n not in docs and lines[n - 1].strip() and not lines[n - 1].strip().startswith("#"))
        stored = {a.attr for a in ast.walk(node) if isinstance(a, ast.Attribute) and isinstance(a.value, ast.Name) and a.value.id == "self" and isinstance(a.ctx, ast.Store)}
        found.append((name, node.name, count, len(stored)))
    return found


def too_much(classes: list[tuple[str, str, int, int]]) -> list[str]:
    heavy = {f"{file}: {name}": (lines, fields) for file, name, lines, fields in classes if lines > MAX_LINES and fields > MAX_MEMBERS}
    return [f"{name} has {heavy[name][0]} lines and {heavy[name][1]} data members: make of it a state and functions, or several classes (tools/check_classes.py)" for name in sorted(heavy)]


def self_test():
    assert members("int a_ = 0, b_;\n const X& x_;\n std::map<int, X> m_{};\n void f(int a) { int b; }\n static int s;\n using T = int;\n struct S { int a; };\n std::vector<std::pair<int, int>> v_;\n Y* y() const;") == 5
    assert members("A(int x) : a_(x) {}\n public:\n int a_;\n int at_[16] = {};\n bool operator==(const A&) const = default;") == 2
    fields = "".join(f"int a{k}_;\n" for k in range(MAX_MEMBERS + 1))
    body = "void f() {\n" + "g();\n" * MAX_LINES + "}\n"
    assert too_much(cpp_classes({"x.cpp": "class A {\n" + body + fields + "};\n"}))
    assert too_much(cpp_classes({"x.h": "class A {\nvoid f();\n" + fields + "};\n", "x.cpp": body.replace("void f", "void A::f")}))
    assert not too_much(cpp_classes({"x.cpp": "class A {\n" + body + "int a_;\n};\n"})) and not too_much(cpp_classes({"x.cpp": "class A {\n" + fields + "};\n" + body}))
    nested = cpp_classes({"x.cpp": "class A::B {\n" + fields + "};\n" + body.replace("void f", "void A::f")})
    assert nested[0][1] == "B" and not too_much(nested)
    stores = "".join(f"        self.a{k} = 0\n" for k in range(MAX_MEMBERS + 1))
    assert too_much(python_classes("x.py", "class A:\n    def f(self):\n" + stores + "        g()\n" * MAX_LINES))
    assert not too_much(python_classes("x.py", "class A:\n    def f(self):\n" + stores + '        """\n' + "        g()\n" * MAX_LINES + '        """\n'))


def main():
    self_test()
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src", "python", "tools", "bench"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders, classes = defaultdict(dict), []
    for file in files:
        path = ROOT / file
        if not path.is_file():
            continue
        if path.suffix in (".h", ".cpp", ".inc") and "_test." not in path.name:
            folders[path.parent][file] = path.read_text()
        elif path.suffix == ".py":
            classes += python_classes(file, path.read_text())
    for of_folder in folders.values():
        classes += cpp_classes(of_folder)
    if "--list" in sys.argv:
        for file, name, lines, fields in sorted(classes, key=lambda c: -c[2])[:40]:
            print(f"{lines:5} lines {fields:3} members  {name}  {file}")
    found = too_much(classes)
    print("\n".join(found) or f"no class has more than {MAX_LINES} lines and {MAX_MEMBERS} data members")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
