"""Checks the numbers by which kernels are chosen, planned and divided. Run by `make lint`.

Rates are base/machine.cpp's. Other numbers are in the `tuning.h` of their folder: each, or the head of the file, says the unit, and the machine and the command, or the note, that it
comes from; an estimate says that it is one. A named number elsewhere in backend/, compile/ and partition/ is counted, and so is one like 9e10: constants_left.txt has how many each folder or file may still have. Its sum may only
fall: `python tools/check_constants.py --write` writes it anew, after files have moved or numbers have gone.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("src/backend", "src/compile", "src/partition")
# How many named numbers each folder still has outside tuning.h (sizes of tiles, bounds of formats, numbers that were never measured), and numbers like 9e10 each file (conversions of units).
LEFT = ROOT / "tools/constants_left.txt"

CONSTANT = re.compile(r"\bconstexpr\b[^;{}()]*?\b(?:double|float|int|int64_t|uint64_t|uint32_t|size_t|Copy|Matrices)\s+(\w+[^;]*);", re.S)
NAMED = re.compile(r"(?:^|,)\s*(\w+)\s*(?:=\s*|\{)\s*-?\d")
POWER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?e\d+(?![\w.])")
UNIT = re.compile(r"\b(bytes?|cycles?|nanoseconds?|microseconds?|outputs?|elements?|rows?|columns?|products?|vectors?|shares?|wakes?|dispatch(?:es)?|lines?|panels?|windows?|matrices|GEMMs|taps?|terms|images?|lanes|operators|multiplications|parts|sums|steps|choices)\b", re.I)
MACHINE = re.compile(r"\b(EPYC|Xeon|H100|H200|A100)\b")
# Where a number comes from. One that is an estimate says so.
SOURCE = re.compile(r"`[^`]+`|docs/performance-notes/\w+\.md|docs/decisions|bench/results/|\bestimates?\b|\bnot measured\b|decides nothing")


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def named_numbers(text):
    """The names of numeric constants of a file."""
    return [name for group in CONSTANT.findall(without_comments(text)) for name in NAMED.findall(group)]


def problems_of_tuning(text):
    """What the comments of a tuning.h lack."""
    head = "\n".join(line for line in text.split("#pragma once")[0].splitlines() if line.startswith("//"))
    found, comment = [], []
    notes = set(re.findall(r"(\w+\.md)", text))
    if not (MACHINE.search(text) and SOURCE.search(text)):
        found.append("it names no machine and no command")
    for line in text.split("#pragma once")[-1].splitlines():
        code, _, trailing = line.partition("//")
        if not code.strip():
            comment = [*comment, trailing] if trailing else []
            continue
        names = named_numbers(code)
        about = " ".join([*comment, trailing])
        # Constants of one paragraph share its comment.
        if names and not UNIT.search(about + head):
            found.append(f"{', '.join(names)}: the comment has no unit")
        if names and not (SOURCE.search(about + head) or any(note in about for note in notes)):
            found.append(f"{', '.join(names)}: neither its comment nor the head of the file names a command or a note")
        if trailing and names:
            comment = comment if comment else []
    return found


def folder_of(path):
    """The folder whose tuning.h the file's numbers belong in."""
    parts = path.parts
    if "kernels" in parts:
        at = parts.index("kernels")
        return "/".join(parts[: at + 2] if len(parts) > at + 2 else parts[: at + 1])
    return "/".join(parts[:-1])


def counts(root=ROOT):
    """Named numbers by folder and powers by file, outside tuning.h and tests."""
    numbers, powers, tuning = {}, {}, []
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".inc") or re.search(r"_test\.", path.name):
                continue
            text, name = path.read_text(), path.relative_to(root)
            if path.name == "tuning.h":
                tuning += [f"{name}: {problem}" for problem in problems_of_tuning(text)]
                continue
            if count := len(named_numbers(text)):
                numbers[folder_of(name)] = numbers.get(folder_of(name), 0) + count
            if count := len(POWER.findall(without_comments(text))):
                powers[str(name)] = count
    return numbers, powers, tuning


def left(path=LEFT):
    return {name: int(count) for count, name in (line.split() for line in path.read_text().splitlines())}


def compare(found, allowed):
    for name in sorted(found.keys() | allowed.keys()):
        have, may = found.get(name, 0), allowed.get(name, 0)
        what = "numbers like 9e10" if "." in name else "named numbers outside tuning.h"
        if have > may:
            yield f"{name}: {have} {what}, {may} are allowed: put new ones into tuning.h"
        elif have < may:
            yield f"{name}: {have} {what}, where there were {may}: run tools/check_constants.py --write"


def main(arguments):
    numbers, powers, problems = counts()
    found, allowed = numbers | powers, left()
    if "--write" in arguments and not problems and sum(found.values()) <= sum(allowed.values()):
        LEFT.write_text("".join(f"{count} {name}\n" for name, count in sorted(found.items())))
        allowed = found
    problems += compare(found, allowed)
    print("\n".join(problems) if problems else f"numbers are in tuning.h, except for {sum(numbers.values())}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
