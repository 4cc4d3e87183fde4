"""How a GraphModule's code takes and gives pytrees."""

from __future__ import annotations

import torch
from torch.fx.graph import _PyTreeCodeGen as PyTreeCodeGen, _PyTreeInfo as PyTreeInfo  # code for structures of inputs and results


def codegen_of(graph: torch.fx.Graph):
    """The code generator of a graph, for a graph made of it."""
    return graph._codegen
