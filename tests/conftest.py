"""For every test: no cached plan is used, because the compiler would not be tested; and which cases a plain run takes."""

import logging
import os
from collections import defaultdict
from zlib import crc32

import pytest
import torch  # sets up its loggers

os.environ["INGOT_CACHE"] = "off"
ALL = bool(os.environ.get("INGOT_TEST_ALL"))

# pytest listens to loggers that do not propagate, and torch writes its structured trace as soon as anybody listens: 6 % of the time of tests that export.
logging.getLogger("torch.__trace").propagate = True


def pytest_configure(config):
    config.addinivalue_line("markers", "one_in(n): a plain run takes one in n of the test's cases, INGOT_TEST_ALL=1 (make test-all, make check-deep) all of them")


def pytest_collection_modifyitems(config, items):
    if ALL:
        return
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("one_in"):
            cases[item.nodeid.split("[")[0]].append(item)
    left_out = set()
    for name, group in cases.items():
        step = min(group[0].get_closest_marker("one_in").args[0], len(group))
        left_out |= {item for i, item in enumerate(group) if (i + crc32(name.encode())) % step}
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
