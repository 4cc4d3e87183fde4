"""`ResourceAllocationStrategy`: memory of calls, switched at run time upstream."""

from __future__ import annotations

from ..._said import once


class ResourceAllocationStrategy:
    """A context that gives the module. When memory is given back is decided by the setting dynamically_allocate_resources of the build; on a GPU it is torch's
    allocator's, call by call, anyway."""

    def __init__(self, compiled_module, dynamically_allocate_resources=True):
        once("ResourceAllocationStrategy", "ResourceAllocationStrategy: the setting dynamically_allocate_resources decides when the module is compiled; this changes nothing")
        self._module = compiled_module

    def __enter__(self):
        return self._module

    def __exit__(self, *problem):
        pass
