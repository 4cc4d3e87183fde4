"""For every test: no cached plan is used, because the compiler would not be tested; which cases a plain run takes; and less work for the garbage collector."""

import gc
import logging
import os
from collections import defaultdict
from zlib import crc32

# Threads of OpenMP that have nothing to do sleep. They spin otherwise, on the cores that another process of pytest -n wants: half the time of a processor that tests of convolutions took.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
import torch  # sets up its loggers

os.environ["INGOT_CACHE"] = "off"
ALL = bool(os.environ.get("INGOT_TEST_ALL"))

# pytest listens to loggers that do not propagate, and torch writes its structured trace as soon as anybody listens: 6 % of the time of tests that export.
logging.getLogger("torch.__trace").propagate = True


def pytest_configure(config):
    config.addinivalue_line("markers", "one_in(n): a plain run takes one in n of the test's cases, and each value of a parameter that has no more values; INGOT_TEST_ALL=1 (make test-all, make check-deep) takes all")


def _sample(group, count, first):
    """So many of one test's cases, or a few more: every value of a parameter with at most `count` values is in one of them. They start at the case numbered `first`."""
    values = [tuple((name, id(value)) for name, value in case.callspec.params.items()) for case in group]  # a list of parametrize gives all cases the same objects
    many = {name for name, values_of in _by_name(values).items() if len(values_of) > count}
    missing = {value for of_case in values for value in of_case if value[0] not in many}
    order = [(first + i * len(group) // count) % len(group) for i in range(count)] + [(first + i) % len(group) for i in range(len(group))]
    taken = []
    while missing or len(taken) < count:
        left = [i for i in order if i not in taken]
        taken.append(max(left, key=lambda i: len(missing.intersection(values[i]))))  # the first of equals
        missing.difference_update(values[taken[-1]])
    return {group[i] for i in taken}


def _by_name(values):
    found = defaultdict(set)
    for of_case in values:
        for name, value in of_case:
            found[name].add(value)
    return found


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
            left_out.update(set(group) - _sample(group, count, -crc32(name.encode()) % len(group)))
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session):
    gc.collect()
    gc.freeze()  # nothing of torch's million objects is looked through again: 4 % of the time of tests that export


@pytest.fixture
def no_gradients():
    """Known random numbers, nothing compiled before, and no gradients."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.no_grad():
        yield
