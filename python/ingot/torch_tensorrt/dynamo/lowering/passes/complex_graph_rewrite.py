"""`complex_graph_detection`: a graph whose inputs and results are real, for scripts. Builds compute complex numbers as pairs of real ones by themselves (use_complex_decomposition)."""

from __future__ import annotations

import torch

_aten = torch.ops.aten


def complex_graph_detection(gm: torch.fx.GraphModule, settings=None) -> torch.fx.GraphModule:
    """The graph, changed in place: complex inputs and results are real tensors with one more axis of size 2, as torch.view_as_real gives them."""
    for node in [n for n in gm.graph.nodes if n.op == "placeholder" and _is_complex(n)]:
        value, readers = node.meta["val"], list(node.users)
        behind = next(n for n in gm.graph.nodes if n.op not in ("placeholder", "get_attr"))
        with gm.graph.inserting_before(behind):
            whole = gm.graph.call_function(_aten.view_as_complex.default, (node,))
        whole.meta = dict(node.meta)
        for reader in readers:
            reader.replace_input_with(node, whole)
        with value.fake_mode:
            node.meta["val"] = value.new_empty((*value.shape, 2), dtype=value.real.dtype)
        node.meta.pop("tensor_meta", None)
    output = gm.graph.output_node()
    with gm.graph.inserting_before(output):
        output.args = torch.fx.node.map_arg(output.args, lambda n: _real(gm.graph, n) if _is_complex(n) else n)
    gm.graph.lint()
    gm.recompile()
    return gm


def _is_complex(node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype.is_complex


def _real(graph, node):
    made = node
    for target in (_aten.resolve_conj.default, _aten.view_as_real.default):
        operand, made = made, graph.call_function(target, (made,))
        made.meta = {**{k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")}, "val": target(operand.meta["val"])}
    return made
