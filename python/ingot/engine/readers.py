"""Values that the library reads in place, as long as a run may read them."""

from __future__ import annotations

from ..base import processes


class Readers:
    """The runs of an engine, and the values that were replaced while they ran: a run reads the weights of the commit before it, whatever other threads commit meanwhile."""

    def __init__(self):
        self._runs: dict = {}  # by run: how often values had been replaced when it began
        self._count = 0  # how often they were replaced
        self._old: list = []  # (the count, values that were replaced then)
        self._changing = processes.Lock()
        self.of_torch: dict = {}  # by the engine's number there: a function that waits for the calls that began before, which the library counts

    def begin(self):
        run = object()
        self._runs[run] = self._count
        return run

    def end(self, run):
        del self._runs[run]
        if self._old:
            with self._changing():
                self._release()

    def replaced(self, values: list):
        """Called after the commit that replaced them."""
        with self._changing():
            self._count += 1
            self._old.append((self._count, values))
            self._release()

    def wait(self):
        """Called after `replaced` by who still holds the values, without a lock: until no call from torch reads them."""
        for ended in list(self.of_torch.values()):
            ended()

    def _release(self):
        first = min(list(self._runs.values()), default=self._count)
        self._old = [(count, values) for count, values in self._old if count > first]
