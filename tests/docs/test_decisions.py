"""docs/decisions: each record says its status, accepted ones are short, and the index is made of them. Numbers that pages and comments name exist."""

import re
import subprocess
import sys

import pytest
from blocks import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import decisions_page

RECORDS = sorted(decisions_page.RECORDS.glob("[0-9]*.md"))
ALL = decisions_page.records()


def test_the_index_is_made_of_the_records():
    assert decisions_page.PAGE.read_text() == decisions_page.page(), "run python tools/decisions_page.py"


def test_each_number_is_one_record():
    numbers = [one.number for one in ALL]
    assert len(numbers) == len(set(numbers)) > 90
    for one in ALL:
        assert one.successor is None or one.successor in numbers, f"{one.number} is superseded by {one.successor}, which is not there"


def test_few_records_hold():
    """A reader can know them all. A record on a subject that has one takes it over, and the log of a tuning is a section of docs/performance-notes."""
    assert sum(one.status == "accepted" for one in ALL) <= 35


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name[:4])
def test_a_record_is_short(path):
    if decisions_page.record(path).status == "accepted":
        words = len(path.read_text().split())
        assert words <= decisions_page.MAX_WORDS, f"{path.name} has {words} words, and {decisions_page.MAX_WORDS} are allowed: move figures to docs/performance-notes/evidence.md"


def test_a_record_without_a_status_is_refused(tmp_path):
    path = tmp_path / "0200-x.md"
    path.write_text("# 0200 A title\n\n**Context.** None.\n")
    with pytest.raises(SystemExit, match="0200-x.md begins with"):
        decisions_page.record(path)
    path.write_text("# 0200 A title\n\nStatus: superseded by 0201\n\n**Context.** None.\n")
    assert decisions_page.record(path) == decisions_page.Record("0200", "A title", "superseded", "0201", "0200-x.md")


def test_numbers_that_are_named_exist():
    """`docs/decisions/NNNN` names a record, and a page of performance notes that is named with numbers has them."""
    records = {path.name[:4] for path in RECORDS}
    notes = {one.number: one.page.split("/")[-1].split("#")[0] for one in ALL if one.status == "note"}
    files = subprocess.run(["git", "ls-files", "*.md", "*.py", "*.cpp", "*.h", "*.cuh", "*.inc", "*.def"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for file in files:
        if file.startswith("tests/docs/") or not (ROOT / file).is_file():
            continue
        text = (ROOT / file).read_text()
        for number in re.findall(r"docs/decisions/(\d{4})", text):
            assert number in records, f"{file} names docs/decisions/{number}: " + (f"it is a note, in docs/performance-notes/{notes[number]}" if number in notes else "it is not there")
        for page, number in re.findall(r"docs/performance-notes/(\w+\.md), (\d{4})", text):
            assert notes.get(number) == page, f"{file} names {number} of docs/performance-notes/{page}"


def test_the_index_of_notes_lists_its_pages():
    index = (decisions_page.NOTES / "index.md").read_text()
    assert set(re.findall(r"\]\((\w+\.md)\)", index)) == {path.name for path in decisions_page.NOTES.glob("*.md")} - {"index.md"}
