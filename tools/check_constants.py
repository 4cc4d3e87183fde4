"""Checks the numbers by which kernels are chosen, planned and divided. Run by `make lint`.

Rates are base/machine.cpp's. Other numbers of backend/, compile/, lower/ and partition/ are in the `tuning.h` of their folder: each, or the head of the file, says the unit, and the machine and the command, or
the note, that it comes from; an estimate says that it is one, and which command measures it; a bound, of what. Facts that nobody chooses (a cache line, a warp, what a driver allows) are in a `hardware.h`, with a unit and the document that they are
from. Elsewhere a named number, or one like 9e10, is refused, but for 0, 1, and bits of a format or of a function, which are written in hexadecimal. So is, in backend/, a bare number of four digits, or a fraction
but a half; and, but for lower/, a bare number that a size is compared with or cut to.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("src/backend", "src/compile", "src/lower", "src/partition")

CONSTANT = re.compile(r"\bconstexpr\b[^;{}()]*?\b(?:double|float|int|unsigned|u?int(?:8|16|32|64)_t|size_t|Copy|Matrices)\s+(\w+[^;]*);", re.S)
NAMED = re.compile(r"(?:^|,)\s*(\w+)\s*(?:=\s*|\{)\s*((?:\w+\{)?-?\d[^,;]*)")
TRIVIAL = re.compile(r"[01](?:\.0*)?f?|-?0x[^,;]*")
POWER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?e\d+(?![\w.])")
BARE = re.compile(r"(?<![\w.])(?:\d{4,}|\d+\.\d+)(?![\w.])")
# A comparison or remainder with a number, or the last argument of a limit.
DECIDES = re.compile(r"(?:[<>=!]=|(?<![<>\-])[<>](?![<>=])|%)\s*(?:u?int\w*\{)?\d+|\b(?:min|max|clamp)\b(?:<\w+>)?\((?:\d+,|[^;]*, \d+\))")
EXEMPT = re.compile(r"\brequire|\bfail\(|architecture|\bsm\b|version|\bfor \(|static_assert|<<|>>|\benum\b")
PLAIN = re.compile(r"\d+\.0+|0\.5|1000")  # counts, halves, and thousands of a unit
UNIT = re.compile(r"\b(bytes?|cycles?|nanoseconds?|microseconds?|outputs?|elements?|rows?|columns?|products?|vectors?|shares?|wakes?|dispatch(?:es)?|lines?|panels?|windows?|matrices|GEMMs|taps?|terms|images?|lanes|operators|multiplications|parts|sums|steps|choices|threads?|registers?|blocks?|units|updates|axes|operands|radians|algorithms|multiprocessors)\b", re.I)
DOCUMENT = re.compile(r"\b(Guide|Manual|cuda\.h|data sheets?)\b")
MACHINE = re.compile(r"\b(EPYC|Xeon|H100|H200|A100)\b")
# Where a number comes from. An estimate says so, and by which command it is measured; a bound, of what: memory, compile time, a plan.
SOURCE = re.compile(r"`[^`]+`|docs/performance-notes/\w+\.md|docs/decisions|bench/results/|decides nothing|\b[Bb]ounds? of\s+\w+")


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def named_numbers(text):
    """The names of numeric constants of a file."""
    return [name for group in CONSTANT.findall(without_comments(text)) for name, value in NAMED.findall(group) if not TRIVIAL.fullmatch(value.strip())]


def bare_numbers(text):
    """Bare numbers in code, without lines that refuse what a file says and lines of text for a GPU's compiler."""
    lines = [re.sub(r'"(?:\\.|[^"\\])*"', '""', line) for line in without_comments(text).splitlines() if not re.search(r"fail\(|\benum\b", line) and not line.endswith("\\")]
    return [number for line in lines for number in BARE.findall(line) if not PLAIN.fullmatch(number)]


def deciding_numbers(text):
    """Bare numbers that a size is compared with, cut to or divided by: of three digits, or of two and no power of two, which are tiles, vectors and bytes. Not those of what a file says, of architectures, and of
    texts for a GPU's compiler."""
    lines = [re.sub(r'"(?:\\.|[^"\\])*"', '""', line) for line in without_comments(text).splitlines()]
    lines = [line for line in lines if not EXEMPT.search(line) and not line.endswith("\\")]
    found = [number for line in lines for match in DECIDES.finditer(line) for number in re.findall(r"(?<![\w.])\d+(?![\w.'])", match[0])]
    return [number for number in found if int(number) > 9 and (int(number) > 99 or int(number) & (int(number) - 1)) and (int(number) + 1) & int(number)]


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


def problems_of_hardware(text):
    """What the comments of a hardware.h lack."""
    found = [] if DOCUMENT.search(text.split("#pragma once")[0]) else ["it names no document"]
    for line in text.split("#pragma once")[-1].splitlines():
        code, _, trailing = line.partition("//")
        if (names := named_numbers(code)) and not UNIT.search(trailing):
            found.append(f"{', '.join(names)}: the comment has no unit")
    return found


def problems(root=ROOT):
    found = []
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".inc") or re.search(r"_test\.", path.name):
                continue
            text, name = path.read_text(), path.relative_to(root)
            if path.name in CHECKS:
                found += [f"{name}: {problem}" for problem in CHECKS[path.name](text)]
                continue
            if names := named_numbers(text):
                found.append(f"{name}: {', '.join(names)}: numbers are in tuning.h, or in hardware.h if they are facts")
            if path.suffix != ".inc" and room == "src/backend" and (bare := bare_numbers(text)):
                found.append(f"{name}: {', '.join(bare)}: numbers are in tuning.h, or in hardware.h if they are facts")
            if path.suffix != ".inc" and room != "src/lower" and (bare := deciding_numbers(text)):
                found.append(f"{name}: {', '.join(bare)}: numbers are in tuning.h, or in hardware.h if they are facts")
            if powers := POWER.findall(without_comments(text)):
                found.append(f"{name}: {', '.join(powers)}: rates are in base/machine.cpp, other numbers in tuning.h")
    return found


CHECKS = {"tuning.h": problems_of_tuning, "hardware.h": problems_of_hardware}

if __name__ == "__main__":
    found = problems()
    print("\n".join(found) if found else "numbers are in tuning.h")
    sys.exit(1 if found else 0)
