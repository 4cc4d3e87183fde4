"""`ResourceAllocationStrategy`: memory of calls, switched at run time upstream."""

from __future__ import annotations

from ..._said import once


class ResourceAllocationStrategy:
    """A context manager that returns the module. The setting dynamically_allocate_resources of the build decides when memory is released. On a GPU each call takes its memory from torch's
    allocator anyway."""

    def __init__(self, compiled_module, dynamically_allocate_resources=True):
        once("ResourceAllocationStrategy", "ResourceAllocationStrategy: the setting dynamically_allocate_resources decides when the module is compiled; this changes nothing")
        self._module = compiled_module

    def __enter__(self):
        return self._module

    def __exit__(self, *problem):
        pass
