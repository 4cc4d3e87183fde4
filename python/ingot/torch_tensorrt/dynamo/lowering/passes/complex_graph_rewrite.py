"""`complex_graph_detection`: a graph without complex numbers, for scripts. Builds do the same by themselves (use_complex_decomposition)."""

from __future__ import annotations

import torch

from ..... import complex_numbers


def complex_graph_detection(gm: torch.fx.GraphModule, settings=None) -> torch.fx.GraphModule:
    """The graph, changed in place, with real arithmetic: complex inputs and results have one more axis, of size 2. Raises UnsupportedError where it writes complex tensors."""
    return complex_numbers.as_pairs(gm, interleaved=True) if complex_numbers.present(gm.graph) else gm
