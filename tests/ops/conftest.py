"""Chooses the backends of the sweep (--backend), and reports after it how many samples were compared, and how many were skipped for which reason.

A complete sweep must match skips.py: an unlisted reason, another count, or less coverage fails the run."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2] / "python"))  # after a wheel that is tested

compared: Counter = Counter()
skipped: Counter = Counter()
covered: set = set()  # (overload, dtype, mode) of operators in compared samples
ran: set = set()      # combinations of test_op


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
        session.config.workeroutput["counts"] = [dict(compared), dict(skipped), sorted(covered), sorted(ran)]
    elif problems := _problems(session.config):
        session.config.stash[PROBLEMS] = problems
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


PROBLEMS = pytest.StashKey[list]()


def _problems(config) -> list[str]:
    """The differences from the expected counts, once every combination of a plain sweep has run."""
    from skips import COVERED, SKIPPED
    from test_ops import ALL, combinations

    if ALL or config.getoption("--backend") or ran != {parameters.id for parameters in combinations()}:
        return []
    problems = [f"{skipped[reason]} samples are skipped for this reason, {SKIPPED.get(reason, 0)} are expected: {reason}" for reason in sorted({*skipped, *SKIPPED}) if skipped[reason] != SKIPPED.get(reason, 0)]
    if len(covered) < COVERED:
        problems.append(f"{len(covered)} combinations of overload, dtype and static or dynamic sizes are covered, {COVERED} at least are expected")
    return problems


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    counts = getattr(node, "workeroutput", {}).get("counts")
    if counts:
        compared.update(counts[0])
        skipped.update(counts[1])
        covered.update(map(tuple, counts[2]))
        ran.update(counts[3])


def pytest_terminal_summary(terminalreporter):
    if not compared and not skipped:
        return
    terminalreporter.section("operator table")
    terminalreporter.write_line(f"samples compared: {sum(compared.values())}  " + "  ".join(f"{k} {n}" for k, n in sorted(compared.items())))
    terminalreporter.write_line(f"samples skipped: {sum(skipped.values())}")
    for reason, n in skipped.most_common():
        terminalreporter.write_line(f"  {n:6d}  {reason}")
    terminalreporter.write_line(f"covered: {len({target for target, *_ in covered})} overloads, {len(covered)} with dtype and mode")
    for problem in terminalreporter.config.stash.get(PROBLEMS, ()):
        terminalreporter.write_line(f"FAILED tests/ops/skips.py: {problem}", red=True)
