"""`enable_resource_partitioning`: a build for which the host has too little memory is refused before it begins. It is not cut into smaller ones, because a build holds no copy of the model
in addition to what its engine keeps.
"""

from __future__ import annotations

import torch

from ...errors import InputError
from .partitioning._resource_partitioner import at_hand

BYTES_PER_WEIGHT_BYTE = {"cpu": 1.3, "cuda": 0.3}  # bytes of the host that a build takes for each byte of weights (docs/compile_time.md)


def check(module, settings, inputs=()):
    """Raises InputError (a ValueError) where a build of the module or program would take more than cpu_memory_budget leaves, or more than the host has. inputs: Dynamo passes parameters among these."""
    if not settings.get("enable_resource_partitioning"):
        return
    held = [*module.state_dict.values(), *module.constants.values()] if isinstance(module, torch.export.ExportedProgram) else [*module.parameters(), *module.buffers()]
    storages = {t.untyped_storage().data_ptr(): t for t in (*held, *inputs) if isinstance(t, torch.Tensor) and (t.device.type in BYTES_PER_WEIGHT_BYTE)}
    need = int(sum(BYTES_PER_WEIGHT_BYTE[t.device.type] * t.untyped_storage().nbytes() for t in storages.values()))
    budget = settings.get("cpu_memory_budget")
    if need > (left := at_hand(budget)):
        raise InputError(f"a build of this model takes up to {need} bytes of the host's memory, but {f'cpu_memory_budget={budget} leaves' if budget is not None else 'the host has'} {int(left)}",
                         remedy="give a larger cpu_memory_budget, which counts what the whole process holds" if budget is not None else "free memory")  # fmt: skip
