"""Writes docs/options.md from the table of options: `python tools/options_page.py` (needs a build of ingot, no torch).

The table is src/compile/options.def; tests/docs/test_pages.py compares the page with it.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
PAGE = ROOT / "docs/options.md"

HEAD = """# Options

Every option of a build or a session. An unknown name or an invalid value is an OptionError that says what is allowed.

    ingot.compile(model, inputs=[...], weight_dtype="int8", threads=4)
    torch.compile(model, backend="ingot", options={"weight_dtype": "int8"})
    ingot.load("model.ingot", threads=4)  # options of a session alone
    ingot compile model.pt2 -o model.ingot --set weight_dtype=int8 --set threads=4

In C, `ingot_options_set(options, "weight_dtype", "int8")`. A list is a Python list or text with commas; a bool is True, False, "true" or "false".

`python tools/options_page.py` generates this page from `src/compile/options.def`.
"""
KINDS = {
    "partition": ("What runs in engines", "These options decide which operators run in an engine and which in torch."),
    "plan": ("What an engine computes", "These options change the plan. A saved plan remembers them, and uses them if it has to be compiled again."),
    "build": ("How it is built", "These options control the build: its time, its caches, its checks."),
    "session": ("How it runs", "These options can be given when a plan is compiled or when it is loaded."),
}


def page() -> str:
    from ingot import options

    lines, table = [HEAD], options()
    unknown = {option["kind"] for option in table} - set(KINDS)
    if unknown:
        raise SystemExit(f"tools/options_page.py has no heading for options of kind {', '.join(sorted(unknown))}")
    for kind, (title, text) in KINDS.items():
        lines += [f"## {title}", "", text, "", "| option | type | default | meaning |", "|---|---|---|---|"]
        for option in table:
            if option["kind"] == kind:
                meaning = option["meaning"].replace("|", "\\|")
                initial = f"`{option['default']}`" if option["default"] else ""
                lines.append(f"| <span id=\"{option['name']}\"></span>`{option['name']}` | {option['type']} | {initial} | {meaning} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
