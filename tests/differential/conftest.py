"""Makes this folder's modules importable, and reports what the campaigns of a run did."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
sys.path.append(str(Path(__file__).parents[2] / "python"))  # after a wheel that is tested


def pytest_terminal_summary(terminalreporter):
    module = sys.modules.get("test_differential")
    if module is not None and module.TALLY.programs:
        terminalreporter.section("differential")
        terminalreporter.write_line(str(module.TALLY))
