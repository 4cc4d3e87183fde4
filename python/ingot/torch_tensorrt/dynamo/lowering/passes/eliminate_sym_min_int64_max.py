"""`eliminate_sym_min_int64_max`: the least of a size and the largest integer is the size."""

from __future__ import annotations

import torch

_LARGEST = 2**63 - 1


def eliminate_sym_min_int64_max(gm: torch.fx.GraphModule, settings=None) -> torch.fx.GraphModule:
    """The graph without `torch.sym_min(n, 2**63 - 1)`, which torch writes for slices without an end."""
    for node in gm.graph.find_nodes(op="call_function", target=torch.sym_min):
        others = [value for value in node.args if not (isinstance(value, int) and value == _LARGEST)]
        if len(others) == 1 and isinstance(others[0], torch.fx.Node):
            node.replace_all_uses_with(others[0])
            gm.graph.erase_node(node)
    gm.recompile()
    return gm
