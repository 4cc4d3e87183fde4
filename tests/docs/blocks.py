"""Runs the fenced blocks of a page in order, as a reader would type them, and compares their output with the page.

```python   runs in this process; the blocks of a page share their names. With title="model.py" it is written to that file first, so that lines have a name.
```cpp, cmake, dockerfile   with a title: written to that file.
```sh       runs in a shell, in the same folder, with `ingot` at hand.
```text     right after one of these: what it printed.
"""

import contextlib
import io
import linecache
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("INGOT_BUILD", "build/release")
FENCE = re.compile(r'^```(\w+)(?: title="([\w.]+)")?\n(.*?)^```$', re.S | re.M)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Language, title and text of each block."""
    text = page.read_text()
    found = [match.groups() for match in FENCE.finditer(text)]
    assert 2 * len(found) == len(re.findall(r"^\s*```", text, re.M)), f"{page}: a block without a language, or one that is not closed"
    return found


def run(page: Path, folder: Path, environment=None):
    """Runs a page's blocks with `folder` as the current one. environment: of the shell's blocks, beside this process's own."""
    scope, printed = {"__name__": "__main__"}, None
    for number, (language, title, code) in enumerate(blocks(page)):
        name = title or f"{page.stem}-{number}.{language}"
        if title:
            (folder / title).write_text(code)
        if language == "python":
            printed = in_python(code, name, scope)
        elif language == "sh":
            printed = in_shell(code, folder, environment or {})
        elif language == "text":
            assert printed is not None, f"{page}: a text block without a block that printed it"
            assert matches(printed, code), f"{page.name} shows\n{code}\nand its code prints\n{printed}"
            printed = None


def in_python(code, name, scope):
    out = io.StringIO()
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    with contextlib.redirect_stdout(out):
        exec(compile(code, name, "exec"), scope)
    return out.getvalue()


def in_shell(code, folder, environment):
    bin = folder / "bin"
    bin.mkdir(exist_ok=True)
    if not (bin / "ingot").exists():
        (bin / "ingot").symlink_to(BUILD / "ingot")
        python = bin / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')  # a link would leave its environment
        python.chmod(0o755)
    done = subprocess.run(["bash", "-eu", "-c", code], cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": f"{bin}:{os.environ['PATH']}", **environment})
    assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
    return done.stdout


def matches(printed: str, shown: str) -> bool:
    """Whether the printed text matches the page. `...` in the page matches any text within a line, and a line of only `...` any lines."""
    lines = ["(?s:.*)" if line == "..." else ".*".join(map(re.escape, line.split("..."))) for line in shown.rstrip("\n").split("\n")]
    return re.fullmatch("\n".join(lines), printed.rstrip("\n")) is not None
