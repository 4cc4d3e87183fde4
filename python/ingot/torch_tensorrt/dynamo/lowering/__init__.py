"""`dynamo.lowering`: users' additions before a build. Decompositions, passes and converters that compose torch's operators are applied to the exported program, which ingot then
compiles. ingot's own lowering is inside the library."""

from __future__ import annotations

import torch

from ....capture.passes import applied
from ....capture.traced import as_aten
from ....capture.tracing import alone
from ..._symbols import refused_names
from . import passes
from ._decompositions import get_decompositions, register_torch_trt_decomposition, torch_trt_decompositions
from .passes import post_lowering, pre_export_lowering, remove_num_users_is_0_nodes, repair_input_aliasing

__all__ = [
    "get_decompositions", "has_user_rules", "passes", "post_lowering", "pre_export_lowering", "register_torch_trt_decomposition", "remove_num_users_is_0_nodes", "repair_input_aliasing",
    "torch_trt_decompositions", "with_user_rules",
]  # fmt: skip
__getattr__ = refused_names(__name__)


def has_user_rules() -> bool:
    """Whether there is anything to apply."""
    from ..conversion import DYNAMO_CONVERTERS

    return bool(torch_trt_decompositions or passes.ATEN_LOWERING_PASSES.passes or DYNAMO_CONVERTERS.registry)


@alone
def with_user_rules(program: torch.export.ExportedProgram, settings) -> torch.export.ExportedProgram:
    """The program after the user's decompositions, converters and passes, in this order."""
    if table := _table(program.graph, settings):
        program = program.run_decompositions(table)
    return applied(program, passes.with_settings(settings))


def graph_passes(settings) -> list:
    """The same for a graph of torch.compile: passes for `ingot_backend`."""

    def decompose(gm):
        table = _table(gm.graph, settings)
        return as_aten(gm, [n.meta["val"] for n in gm.graph.find_nodes(op="placeholder")], table) if table else gm

    return [decompose, *passes.with_settings(settings)] if has_user_rules() else []


def _table(graph, settings) -> dict:
    """The user's decompositions and converters."""
    from ..conversion import DYNAMO_CONVERTERS

    return {**torch_trt_decompositions, **DYNAMO_CONVERTERS.decompositions(graph, settings)}
