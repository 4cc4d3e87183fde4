"""What passes of scripts use."""

from __future__ import annotations

import torch


def clean_up_graph_after_modifications(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph without what nobody reads, checked and compiled anew."""
    gm.graph.eliminate_dead_code()
    gm.graph.lint()
    gm.recompile()
    return gm


def get_tensor_placeholders(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The inputs that are tensors."""
    return [node for node in gm.graph.find_nodes(op="placeholder") if node.type in (None, torch.Tensor)]
