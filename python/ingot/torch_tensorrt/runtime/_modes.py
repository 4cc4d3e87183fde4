"""The modes of the process that scripts set and read, and which of them exclude one another.

Upstream keeps an engine with sizes that come from data out of CUDA graphs, and says so in its words, which scripts may look for: the messages begin with them.
"""

from __future__ import annotations


class Switch:
    """A setting of the process."""

    value = False


cudagraphs, whole, safe, allocator = Switch(), Switch(), Switch(), Switch()


def check(sizes_from_data: bool):
    """RuntimeError where a run is to be recorded and its results' sizes are not known. sizes_from_data: whether an engine reads some from its data."""
    if cudagraphs.value and sizes_from_data:
        raise RuntimeError(
            "The model contains submodules that require a dynamic output allocator at runtime, which is incompatible with CUDA Graphs. Please disable CUDA Graphs. "
            "(Sizes that an engine reads from its data are not part of a recording: set_cudagraphs_mode(False) first.)"
        )
    if cudagraphs.value and allocator.value:
        raise RuntimeError(
            "Both CUDA Graphs and dynamic output allocation are enabled, which are incompatible runtime modes. Please disable one of the two. "
            "(An output allocator and CUDA graphs exclude one another: set_cudagraphs_mode(False) first.)"
        )


class switched_on:
    """A context in which a switch is on, for a module whose engines read sizes from data or not. What would be refused by a call is refused at its beginning."""

    def __init__(self, switch: Switch, sizes_from_data: bool):
        self._switch, self._from_data = switch, sizes_from_data

    def __enter__(self):
        self._before, self._switch.value = self._switch.value, True
        try:
            check(self._from_data)
        except RuntimeError:
            self.__exit__()
            raise

    def __exit__(self, *problem):
        self._switch.value = self._before
