"""Ranges of the open sizes of an exported program, for scripts. Builds do not use these: ingot.compile narrows ranges by itself."""

from __future__ import annotations

import torch

from ...errors import InputError
from ...torch_internals.trees import pytree
from .._Input import Input
from .._said import log


def extract_var_range_info(size: torch.SymInt, user_symbol_bounds=None) -> dict:
    """{"min", "max", "opt"} of an open size, from the program, narrowed by user_symbol_bounds ({symbol: (min, max)}). max and opt are None if they are not known. If the export ruled out
    sizes 0 and 1, the range begins at 1 again."""
    expression, environment = size.node.expr, size.node.shape_env
    ends = environment.bound_sympy(expression)
    low, high = _number(ends.lower), _number(ends.upper)
    asked = (user_symbol_bounds or {}).get(expression)
    low = 1 if low in (None, 0, 2) else low
    if asked is not None:
        low, high = max(low, asked[0]), asked[1] if high is None else min(high, asked[1])
    return {"min": low, "max": high, "opt": size.node.hint}


def _number(end) -> int | None:
    """An end of a range; None for one that is open (sympy's infinity, or torch's of integers)."""
    return None if str(end).lstrip("-") in ("oo", "int_oo") else int(end)


def user_symbol_bounds(gm: torch.fx.GraphModule, sample_arg_inputs=None, sample_kwarg_inputs=None, graph_signature=None) -> dict:
    """{symbol: (min, max)} for the axes of a program's inputs with a range in an Input. Raises InputError (a ValueError) if a range is wider than the program's. If the export ruled out size
    1, a warning is logged."""
    given = [leaf for leaf in pytree.tree_leaves((tuple(sample_arg_inputs or ()), dict(sample_kwarg_inputs or {})))]
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)]
    found: dict = {}
    for leaf, node in zip(given, inputs):
        if not isinstance(leaf, Input) or leaf.shape_mode is Input._ShapeMode.STATIC:
            continue
        for axis, size in enumerate(node.meta["val"].shape):
            asked = leaf.shape["min_shape"][axis], leaf.shape["max_shape"][axis]
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                _compare(node.name, axis, size, asked)
                low, high = found.get(size.node.expr, asked)
                found[size.node.expr] = max(low, asked[0]), min(high, asked[1])
    return found


def _compare(name, axis, size, asked):
    ends = size.node.shape_env.bound_sympy(size.node.expr)
    low, high = _number(ends.lower), _number(ends.upper)
    if low == 2 and asked[0] == 1:
        log.getChild("dynamo._compiler").warning("input %s, axis %d: the exported program begins at 2 (0/1 specialization of torch.export), and the Input at 1", name, axis)
    elif low is not None and asked[0] < low:
        raise InputError(f"Input.min_shape of {name} is {asked[0]} on axis {axis}, but the exported program begins at {low}", remedy=f"give Input.min_shape >= {low}, or re-export with a wider range")
    if high is not None and asked[1] > high:
        raise InputError(f"Input.max_shape of {name} is {asked[1]} on axis {axis}, but the exported program ends at {high}", remedy=f"give Input.max_shape <= {high}, or re-export with a wider range")
    if asked[0] > (low or 0) or high is None or asked[1] < high:
        log.getChild("dynamo._compiler").info("Narrowing engine profile: input %s, axis %d takes %d to %d; the exported program takes %s to %s", name, axis, *asked, low, "any" if high is None else high)
