"""Marks of writes that torch does not count, while the collector frees what is watched."""

import gc
from types import SimpleNamespace

from ingot.engine import tensor_changes


class Watched:
    """What `written` looks at, in a cycle, so that only the collector frees it."""

    def __init__(self):
        self.snapshot, self.itself = SimpleNamespace(ids=set()), self


def test_the_collector_may_free_what_is_watched_at_any_time():
    kept, thresholds = [Watched() for _ in range(50)], gc.get_threshold()
    for each in kept:
        tensor_changes._watches.add(each)
    gc.freeze()  # the collector need not look at what other tests left
    try:
        for allocations in range(1, 60):  # the collector runs after so many: one of them is inside
            gc.disable()
            gc.collect()
            tensor_changes._watches.add(Watched())
            gc.set_threshold(allocations)
            gc.enable()
            tensor_changes.written({1})
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        gc.enable()
