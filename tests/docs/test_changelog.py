"""CHANGELOG.md says what a user can do: short, without figures of tuning, and with one number for the format of plans."""

import re

from blocks import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()
SECTIONS = {match.group(1): match.group(2).strip() for match in re.finditer(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)}
MAX_LINES, MAX_LETTERS = 120, 220  # of a version; of an item
TUNING = {  # what belongs into docs/performance-notes
    "a ratio": r"\b\d+(\.\d+)?x\b|times (as|its|the time)|of (its|their|the) time\b",
    "a time": r"\b\d+(\.\d+)? ?(ms|us|s|seconds|microseconds)\b",
    "a record": r"docs/decisions/\d",
}


def test_each_version_is_short():
    for version, text in SECTIONS.items():
        assert len(text.splitlines()) <= MAX_LINES, f"{version} has {len(text.splitlines())} lines"
        for item in re.findall(r"^- .*$", text, re.M):
            assert len(item) <= MAX_LETTERS, f"{version}: {item}"


def test_the_version_of_the_package_comes_first():
    version = re.search(r'__version__ = "(.*)"', (ROOT / "python/ingot/__init__.py").read_text()).group(1)
    assert next(iter(SECTIONS)).split()[0] == version


def found(text):
    return [kind for kind, pattern in TUNING.items() if re.search(pattern, text)]


def test_there_are_no_figures_of_tuning():
    for version, text in SECTIONS.items():
        for line in text.splitlines():
            assert not found(line), f"{version}: {line} has {', '.join(found(line))}"


def test_what_a_figure_of_tuning_is():
    assert found("- ResNet-50 runs 1.12 times as fast") == found("- 0.7 of its time") == found("- 1.3x") == ["a ratio"]
    assert found("- takes 3.8 ms") == ["a time"] and found("- docs/decisions/0063") == ["a record"]
    assert not found("- AVX2, AVX-512 and AMX; compute capability 8.0; matrices up to 32 x 32; formats 5 and later")


def test_the_format_of_plans_has_one_number():
    """The newest version names the format that is written, and no other."""
    header = (ROOT / "src/plan/file.h").read_text()
    written = ".".join(re.search(rf"\b{name} = (\d+);", header).group(1) for name in ("format_major", "format_minor"))
    newest = next(iter(SECTIONS.values()))
    assert re.findall(r"\bformat (\d+(?:\.\d+)?)", newest) == [written]
