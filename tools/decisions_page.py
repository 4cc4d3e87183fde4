"""Makes docs/decisions/index.md of the records in docs/decisions and of the notes in docs/performance-notes.

    python tools/decisions_page.py        tests/docs/test_decisions.py compares it

A record's third line is its status: `Status: accepted` or `Status: superseded by 0099`. A section of a performance note whose heading begins with a number was a record: its status is "note".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDS, NOTES = ROOT / "docs/decisions", ROOT / "docs/performance-notes"
PAGE = RECORDS / "index.md"
MAX_WORDS = 500  # of an accepted record: what is read in three minutes
HEAD = re.compile(r"# (\d{4}) (.+)\n\nStatus: (accepted|superseded by (\d{4}))\n\n")


@dataclass(frozen=True)
class Record:
    number: str
    title: str
    status: str
    successor: str | None
    page: str  # relative to docs/decisions, with the anchor of a note


def slug(heading: str) -> str:
    """The anchor that the site gives a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower())


def record(path: Path) -> Record:
    match = HEAD.match(path.read_text())
    if not match or match.group(1) != path.name[:4]:
        raise SystemExit(f"{path.name} begins with `# {path.name[:4]} Title`, an empty line, and `Status: accepted` or `Status: superseded by NNNN`")
    number, title, status, successor = match.groups()
    return Record(number, title, "superseded" if successor else status, successor, path.name)


def notes(path: Path) -> list[Record]:
    return [Record(heading[:4], heading[5:], "note", None, f"../performance-notes/{path.name}#{slug(heading)}") for heading in re.findall(r"^## (\d{4} .+)$", path.read_text(), re.M)]


def records() -> list[Record]:
    """All of them, in the order of their numbers."""
    found = [record(path) for path in RECORDS.glob("[0-9]*.md")]
    found += [one for path in NOTES.glob("*.md") for one in notes(path)]
    return sorted(found, key=lambda one: one.number)


def page() -> str:
    found = records()
    counted = {status: sum(one.status == status for one in found) for status in ("accepted", "superseded", "note")}
    lines = [
        "# Decisions",
        "",
        "`tools/decisions_page.py` makes this page of the records. A record has a context, the choice, its evidence and what was given up, in at most 500 words.",
        "",
        f"- **accepted** ({counted['accepted']}): it holds.",
        f"- **superseded** ({counted['superseded']}): another record replaces it.",
        f"- **note** ({counted['note']}): a log of tuning, in the [performance notes](../performance-notes/index.md). It was true when it was written.",
        "",
        "| number | title | status |",
        "|---|---|---|",
    ]
    for one in found:
        status = f"superseded by {one.successor}" if one.successor else one.status
        lines.append(f"| {one.number} | [{one.title}]({one.page}) | {status} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
