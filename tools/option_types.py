"""Writes python/ingot/option_types.py, the options as a TypedDict for editors and type checkers: `python tools/option_types.py` (needs a build of ingot, no torch).

The table is src/compile/options.def; tests/wheel/test_types.py compares the file with it.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
FILE = ROOT / "python/ingot/option_types.py"

HEAD = '"""The options of a build or a session, as `ingot.options()` has them. Written by tools/option_types.py."""\n'
IMPORTS = """
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import torch

    from .autocast_options import Autocast
"""
TYPES = {"string": "str", "int": "int", "float": "float", "bool": "bool", "list": "str | Sequence[str]"}
WIDER = {  # what Python takes besides text
    "target": "str | torch.device | Sequence[str | torch.device]",
    "autocast": "str | torch.dtype | Autocast | None",
    "accuracy": "float | None",
    "dryrun": "bool | str",
}
CLASSES = {  # its meaning, its base, and which options it adds
    "RunOptions": ("Options of a session: how a plan runs.", "TypedDict", lambda option: option["kind"] == "session" and option["name"] != "device"),
    "SessionOptions": ("Options of a session, and where it runs.", "RunOptions", lambda option: option["name"] == "device"),
    "Options": ("Options of a build, and of its sessions.", "SessionOptions", lambda option: option["kind"] != "session"),
}


def text() -> str:
    from ingot import options

    lines = [HEAD + IMPORTS]
    for name, (meaning, base, adds) in CLASSES.items():
        lines += ["", f"class {name}({base}, total=False):", f'    """{meaning}"""', ""]
        for option in options():
            if adds(option):
                lines += textwrap.wrap(option["meaning"], 150, initial_indent="    # ", subsequent_indent="    # ")
                lines.append(f"    {option['name']}: {WIDER.get(option['name'], TYPES[option['type']])}")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    FILE.write_text(text())
    print(FILE)
