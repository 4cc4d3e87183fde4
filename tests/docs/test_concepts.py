"""docs/concepts.md explains every word of ours that two source files use, and no word twice."""

import re
import subprocess

import pytest
from blocks import ROOT

# Words that the field does not have, or has with several meanings.
SPECIAL = (
    "anchor arena block box chunk class column eager fragment gated leaf line obstacle offer packing panel patch phase place prepare prologue refusal residual ring rival root row sketch state tap "
    "tile together unit whole window wish"
).split()
ROWS = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/concepts.md").read_text(), re.M)
SOURCES = [(ROOT / name).read_text() for name in subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split() if name.endswith((".h", ".cpp", ".cuh", ".inc"))]


@pytest.mark.parametrize("word", SPECIAL)
def test_a_word_is_explained(word):
    uses = sum(re.search(rf"\b{word}(s|es)?\b", text) is not None for text in SOURCES)
    assert uses >= 2, f"no two source files use {word!r} any more: take it from this list and from docs/concepts.md"
    assert any(re.search(rf"\b{word}\b", row) for row in ROWS), f"docs/concepts.md does not explain {word!r}, which {uses} source files use"


def test_no_word_has_two_rows():
    words = [word for row in ROWS for word in row.split(", ") if word not in ("word", "---")]
    assert not [word for word in set(words) if words.count(word) > 1]
