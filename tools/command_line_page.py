"""Writes docs/command_line.md from what `ingot --help` prints: `python tools/command_line_page.py --build build/release`.

tests/docs/test_command_line_page.py compares it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/command_line.md"
HEAD = """# The command line

`ingot` comes with the wheel and with `cmake --install`. It needs neither Python nor PyTorch. A failure is one line and a remedy; the exit code is 10 plus the status of [Errors](errors.md), 2 for a wrong use, 130 after Ctrl-C, and 141 if the program that reads the output (`| head`) stops first.

`tools/command_line_page.py` makes this page of what `ingot --help` prints.
"""
EXAMPLES = {
    "compile": "ingot compile model.pt2 -o model.ingot --shape x:0=1..8..64 --set target=cpu,cuda:sm_90",
    "run": "ingot run model.ingot -i x=x.npy -o results",
    "bench": "ingot bench model.ingot --steps",
    "refit": "ingot refit model.ingot new.safetensors -o new.ingot --lora style.safetensors:0.8",
    "inspect": "ingot inspect model.ingot --graph graph.svg",
    "verify": "ingot verify model.ingot --bisect",
    "ops": "ingot ops conv",
    "doctor": "ingot doctor --measure",
    "cache": "ingot cache why",
    "sign": "ingot sign model.ingot --key release.key",
    "keygen": "ingot keygen release",
}


def help_of(command: Path, *verbs: str) -> str:
    return subprocess.run([command, *verbs, "--help"], capture_output=True, text=True, check=True).stdout.strip()


def verbs(text: str) -> list[str]:
    """The names below `Subcommands:`."""
    return re.findall(r"^  (\w+) ", text.partition("Subcommands:\n")[2], re.M)


def page(command: Path) -> str:
    lines, found = [HEAD], verbs(help_of(command))
    if set(found) != set(EXAMPLES):
        raise SystemExit(f"tools/command_line_page.py has no example of {', '.join(sorted(set(found) ^ set(EXAMPLES)))}, or one too many")
    for verb in found:
        text = help_of(command, verb)
        lines += [f"## ingot {verb}", "", f"    {EXAMPLES[verb]}", "", "```text", text, "```", ""]
        for inner in verbs(text):
            lines += [f"### ingot {verb} {inner}", "", "```text", help_of(command, verb, inner), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes docs/command_line.md.")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    PAGE.write_text(page(parser.parse_args().build / "ingot"))
    print(PAGE)
