"""Writes docs/migration.md from the tables of python/ingot/torch_tensorrt: `python tools/migration_page.py` (needs torch).

The names are SYMBOLS in _symbols.py, the settings TABLE in dynamo/_settings.py; tests/dropin/test_migration_page.py compares the page with them.
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
PAGE = ROOT / "docs/migration.md"

HEAD = """# From Torch-TensorRT

`import ingot.torch_tensorrt as torch_tensorrt` gives Torch-TensorRT's Python API (of version 2.14) on ingot: its scripts run unchanged on a CPU or an NVIDIA GPU, without
TensorRT. With the wheel `ingot-torch-tensorrt`, `import torch_tensorrt` does the same, unless NVIDIA's package is installed, which then keeps the name.

Engines are ingot's. Files and bytes that hold engines of TensorRT have to be made again from the model. A compiled module follows the model's own weights, so changing them needs no
refit; docs/modules.md states all that it promises.

Each name and setting below has a status:

- **works**: as in Torch-TensorRT.
- **differs**: accepted; the text says what holds here.
- **not yet**: accepted with one warning; it has no effect.
- **refused**: using the name, or giving the setting a value other than its default, is an error that says what to do instead.

The logger `torch_tensorrt` logs once what a setting means here. An unknown setting does nothing and is logged with the nearest known name.

`python tools/migration_page.py` generates this page from the tables in `python/ingot/torch_tensorrt`.
"""
# From runs on a CPU; what is said of a suite was seen there.
OWN_TESTS = """## Torch-TensorRT's own tests

Its Python tests and examples (commit d7f2062) were run through this package on a CPU, with `"cuda"` replaced by `"cpu"` in their sources and pretrained weights by random ones. Tests that
skip themselves are not counted: those of TensorRT's C++ runtime, of TensorRT-RTX, of several GPUs and of Windows.

| tests | run | pass | what does not pass |
|---|---|---|---|
@ROWS@
"""
GROUPS = {"field": "## Settings", "call": "## Options of calls", "older": "## Settings of older versions"}


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def shown(value) -> str:
    return f"`{value.name}`" if hasattr(value, "name") else "`{}`" if isinstance(value, set) else f"`{value!r}`"


def table(head, rows) -> list[str]:
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(map(cell, row)) + " |" for row in rows), ""]


def page() -> str:
    from ingot.torch_tensorrt._symbols import SYMBOLS
    from ingot.torch_tensorrt.dynamo._settings import TABLE

    lines = [HEAD]
    kinds = ("works", "differs", "not yet", "refused")
    counted = [("names", collections.Counter(s.status for s in SYMBOLS))]
    counted += [(what, collections.Counter(s.status for s in TABLE if s.group == group)) for what, group in (("settings", "field"), ("options of calls", "call"), ("settings of older versions", "older"))]
    lines += table(["", *kinds, "all"], [[what, *(str(n[k]) for k in kinds), str(sum(n.values()))] for what, n in counted])
    lines += ["## Names", ""]
    groups: dict[str, list] = {}
    for s in SYMBOLS:
        groups.setdefault(s.name.rpartition(".")[0], []).append(s)
    for prefix, rows in groups.items():
        lines += [f"### torch_tensorrt{'.' + prefix if prefix else ''}", ""]
        lines += table(["name", "", "here"], [[f"`{s.name.rpartition('.')[2]}`", s.status, s.text + (f". Instead: {s.remedy}" if s.remedy else "")] for s in rows])
    for group, title in GROUPS.items():
        lines += [title, ""]
        lines += table(["setting", "default", "", "here"], [[f"`{s.name}`", shown(s.initial), s.status, s.text + (f". Instead: {s.remedy}" if s.remedy else "")] for s in TABLE if s.group == group])
    return "\n".join([*lines, OWN_TESTS]).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
