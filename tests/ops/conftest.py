"""Which backends the sweep runs (--backend), and, after it, how many samples were compared and how many were skipped for which reason."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "python")]

compared: Counter = Counter()
skipped: Counter = Counter()


def pytest_addoption(parser):
    parser.addoption(
        "--backend", action="append", default=[], metavar="NAME",
        help='reference, cpu, cuda, or a GPU\'s architecture such as "sm_90", for which code is compiled and not run; several may be given (default: reference and cpu)',
    )  # fmt: skip


@pytest.fixture(scope="session")
def backends(request) -> list[str]:
    names = request.config.getoption("--backend") or ["reference", "cpu"]
    for name in names:
        if name not in ("reference", "cpu", "cuda") and not re.fullmatch(r"sm_\d{2,3}", name):
            raise pytest.UsageError(f"--backend {name}: reference, cpu, cuda or an architecture such as sm_90 is needed")
    if "cuda" in names and not torch.cuda.is_available():
        pytest.skip("--backend cuda: torch sees no GPU here")
    return names


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # one of several processes (pytest -n)
        session.config.workeroutput["counts"] = [dict(compared), dict(skipped)]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    for counter, counts in zip((compared, skipped), getattr(node, "workeroutput", {}).get("counts", ())):
        counter.update(counts)


def pytest_terminal_summary(terminalreporter):
    if not compared and not skipped:
        return
    terminalreporter.section("operator table")
    terminalreporter.write_line(f"samples compared: {sum(compared.values())}  " + "  ".join(f"{k} {n}" for k, n in sorted(compared.items())))
    terminalreporter.write_line(f"samples skipped: {sum(skipped.values())}")
    for reason, n in skipped.most_common():
        terminalreporter.write_line(f"  {n:6d}  {reason}")
