"""Which buffers are caches and their counters. A call leaves in them what is for the next call of the same sequence, so a file has them as they were when the model was compiled, whoever used it since."""

from __future__ import annotations

import torch

from .functional import Functional, Slot, computed_from

_aten = torch.ops.aten
# Operators that write some places of their first argument, and the arguments that say which.
_PLACED = {
    _aten.index_copy.default: (2,), _aten.index_put.default: (1,), _aten._unsafe_index_put.default: (1,), _aten.scatter.src: (2,), _aten.scatter.value: (2,),
    _aten.slice_scatter.default: (3, 4), _aten.select_scatter.default: (3,),
}  # fmt: skip


def caches_of(f: Functional) -> list[Slot]:
    """The buffers of which a call writes places that data say, and the whole numbers, also buffers that calls write, from which these places follow."""
    states = {slot.node: (slot, value) for slot, value in f.writes if slot.kind == "state"}
    found = {}
    for node in f.module.graph.nodes if states else ():
        if node.target not in _PLACED:
            continue
        base = _base_of(node)
        before = computed_from([argument for i in _PLACED[node.target] if i < len(node.args) for argument in _nodes(node.args[i])])
        from_data = any(n.op == "placeholder" for n in before)
        if base in states and from_data and node in computed_from([states[base][1]]):
            found[base] = states[base][0]
            found |= {n: states[n][0] for n in before if n in states and not n.meta["val"].is_floating_point()}
    return list(found.values())


def first_values(slots: list[Slot]) -> dict[str, torch.Tensor]:
    """What they hold now. Zeros are one element, expanded."""
    with torch.no_grad():
        return {slot.name: slot.tensor.detach().clone() if slot.tensor.any() else slot.tensor.new_zeros(()).expand(slot.tensor.shape) for slot in slots}


def _base_of(node):
    """The placeholder whose elements it writes, if views and writes alone are between."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    return node


def _nodes(argument):
    return [n for n in (argument if isinstance(argument, (list, tuple)) else [argument]) if isinstance(n, torch.fx.Node)]
