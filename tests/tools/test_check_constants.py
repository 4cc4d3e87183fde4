"""The lint of the numbers by which kernels are chosen: what it finds, and that the tree passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_constants

GOOD = """// The numbers of a kernel: AMD EPYC, `python bench/offers.py`, 29 November 2026.
#pragma once
inline constexpr double tile = 80, part = 60;  // cycles
// Bytes of a panel.
inline constexpr int64_t panel = 24 << 10;
"""


def test_the_tree_passes():
    done = subprocess.run([sys.executable, ROOT / "tools/check_constants.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "text, names",
    [
        ("constexpr int64_t few = 16, many = 32;", ["few", "many"]),
        ("  static constexpr double rate = 3e10;", ["rate"]),
        ("inline constexpr Copy line{0.19, 15}, two{0.35, 2};", ["line", "two"]),
        ("constexpr int64_t limit = int64_t{1} << 20;", ["limit"]),
        ("constexpr uint8_t widest = 128;", ["widest"]),
        ("constexpr int64_t most = max_rank;", []),
        ("constexpr float one = 1.0f; constexpr int none = 0;", []),
        ("constexpr uint32_t magic = 0x414c4954; constexpr float rounder = 0x1.8p23f;", []),
        ("// constexpr int64_t few = 16;", []),
        ("double f(int n) { return 16 * n; }", []),
    ],
)
def test_named_numbers(text, names):
    assert check_constants.named_numbers(text) == names


def test_powers_are_found():
    assert check_constants.POWER.findall("a * 9e10 + 30e9 + 1e-9 + 0x4e41 + name1e5") == ["9e10", "30e9"]


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("", "", None),
        ("  // cycles", "", "tile, part: the comment has no unit"),
        ("// Bytes of a panel.", "// Large.", "panel: the comment has no unit"),
        ("inline constexpr int64_t panel", "\n// Of bytes.\ninline constexpr int64_t panel", None),
        ("AMD EPYC, ", "", "it names no machine and no command"),
        ("`python bench/offers.py`, ", "", "it names no machine and no command"),
    ],
)
def test_a_tuning_file_says_where_its_numbers_come_from(old, new, problem):
    problems = check_constants.problems_of_tuning(GOOD.replace(old, new) if old else GOOD)
    assert problems == [] if problem is None else problem in problems


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("", "", None),
        ("CUDA C++ Programming Guide", "what is known", "it names no document"),
        ("  // threads", "", "warp: the comment has no unit"),
    ],
)
def test_a_file_of_facts_names_its_document(old, new, problem):
    facts = "// Facts, from the CUDA C++ Programming Guide.\n#pragma once\ninline constexpr int warp = 32;  // threads\n"
    found = check_constants.problems_of_hardware(facts.replace(old, new) if old else facts)
    assert found == ([] if problem is None else [problem])


def test_numbers_elsewhere_are_refused(tmp_path):
    folder = tmp_path / "src/backend/cpu/kernels/matmul/run"
    folder.mkdir(parents=True)
    (folder / "a.cpp").write_text("constexpr int64_t few = 16;\nconst double rate = 9e10;\n")
    (folder / "a_test.cpp").write_text("constexpr int64_t few = 16;\n")
    (folder / "tuning.h").write_text(GOOD)
    first, second = check_constants.problems(tmp_path)
    assert first.startswith("src/backend/cpu/kernels/matmul/run/a.cpp: few: ")
    assert second.startswith("src/backend/cpu/kernels/matmul/run/a.cpp: 9e10: ")


def test_bare_numbers_are_found():
    text = 'double f(int n) { return n < 30000 ? 0.1 * n : n * 0.5 + 1.0; }  // 20000\nif (n > 100000) fail("over 9999");\nlog("4096 bytes of 1234"); int k = 999, h = 0x7fff, names1000;\n'
    assert check_constants.bare_numbers(text) == ["30000", "0.1"]


def test_deciding_numbers_are_found():
    text = "if (n > 48 && m % 128 == 0 && k >= int64_t{512} * rows) x = std::min<int64_t>(n, 300); y = std::clamp(n, 1, 96);\nif (n > 64 || a < b || p->n == 255 || n << 10) require(n <= 250);\nif (architecture >= 90) go(128);\n"
    assert check_constants.deciding_numbers(text) == ["48", "128", "512", "300", "96"]


@pytest.mark.parametrize("comment, passes", [("an estimate", False), ("an estimate, which `python bench/offers.py` measures", True), ("not measured", False), ("a bound", False), ("a bound of memory", True)])
def test_an_estimate_says_what_measures_it(comment, passes):
    text = f"// The numbers of a kernel on an EPYC.\n#pragma once\ninline constexpr int64_t rows = 48;  // rows: {comment}\ninline constexpr int64_t columns = 32;  // columns: docs/decisions/0151\n"
    assert (check_constants.problems_of_tuning(text) == []) == passes
