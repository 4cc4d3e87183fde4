"""Prints, after a run of the sweep, how many samples were compared and how many were skipped for which reason."""

import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "python")]

compared: Counter = Counter()
skipped: Counter = Counter()


def pytest_terminal_summary(terminalreporter):
    if not compared and not skipped:
        return
    terminalreporter.section("operator table")
    terminalreporter.write_line(f"samples compared: {sum(compared.values())}  " + "  ".join(f"{k} {n}" for k, n in sorted(compared.items())))
    terminalreporter.write_line(f"samples skipped: {sum(skipped.values())}")
    for reason, n in skipped.most_common():
        terminalreporter.write_line(f"  {n:6d}  {reason}")
