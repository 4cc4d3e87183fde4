"""For every test: no cached plan is used, because the compiler would not be tested; and which cases a plain run takes."""

import logging
import os
from collections import defaultdict
from zlib import crc32

# Threads of OpenMP that have nothing to do sleep. They spin otherwise, on the cores that another process of pytest -n wants: half the time of a processor that tests of convolutions took.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
import torch  # sets up its loggers
from sampling import sample

os.environ["INGOT_CACHE"] = "off"
ALL = bool(os.environ.get("INGOT_TEST_ALL"))

# pytest listens to loggers that do not propagate, and torch writes its structured trace as soon as anybody listens: 6 % of the time of tests that export.
logging.getLogger("torch.__trace").propagate = True


def pytest_configure(config):
    config.addinivalue_line("markers", "one_in(n): a plain run takes one in n of the test's cases, and each value of a parameter that has no more values; INGOT_TEST_ALL=1 (make test-all, make check-deep) takes all")


def pytest_collection_modifyitems(config, items):
    if ALL:
        return
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("one_in"):
            cases[item.nodeid.split("[")[0]].append(item)
    left_out = set()
    for name, group in cases.items():
        count = -(-len(group) // group[0].get_closest_marker("one_in").args[0])
        if count < len(group):
            # A list of parametrize gives the same objects to all cases.
            values = [[(name, id(value)) for name, value in case.callspec.params.items()] for case in group]
            taken = sample(values, count, -crc32(name.encode()) % len(group))
            left_out.update(case for i, case in enumerate(group) if i not in taken)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def no_gradients():
    """Known random numbers, nothing compiled before, and no gradients."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.no_grad():
        yield
