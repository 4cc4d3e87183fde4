"""Passes that the user adds: each takes a GraphModule and the CompilationSettings, and gives a GraphModule."""

from __future__ import annotations

import functools
import operator

import torch

from .....torch_internals.operators import OpOverload, schema_of
from ...._said import log
from .decompose_dynamic_slice_scatter import decompose_dynamic_slice_scatter


class _Passes:
    """passes: the functions, in the order in which they run."""

    def __init__(self):
        self.passes: list = []


ATEN_LOWERING_PASSES = _Passes()


def _aten_lowering_pass(*functions, index=None, **configuration):
    """A decorator, with or without arguments: the function runs over the graph of every build from now on, at `index` among the others, or last. Parameters are
    get_attr nodes there. Nodes that it adds need no metadata: the graph is exported anew after it."""

    def add(function):
        at = len(ATEN_LOWERING_PASSES.passes) if index is None else index
        ATEN_LOWERING_PASSES.passes.insert(at, function)
        return function

    return add(functions[0]) if functions else add


def _remove_lowering_pass(*, index: int):
    """Takes a pass out again."""
    del ATEN_LOWERING_PASSES.passes[index]


def dump_lowering_passes() -> str:
    """Logs and gives the names of the passes."""
    text = "\n".join(f"{i}: {p.__name__}" for i, p in enumerate(ATEN_LOWERING_PASSES.passes)) or "no passes"
    log.info("%s", text)
    return text


def post_lowering(gm: torch.fx.GraphModule, settings=None) -> torch.fx.GraphModule:
    """The graph without the copies of repair_input_aliasing, the indices of poolings that nothing needs, writes to slices of open ends, and torch.export's guards (a build checks inputs itself),
    after the user's passes."""
    for node in [n for n in gm.graph.nodes if n.op == "call_module" and n.target == "_guards_fn" and not n.users]:
        gm.graph.erase_node(node)
    _remove_copies_of_inputs(gm)
    _remove_indices_of_pools(gm)
    decompose_dynamic_slice_scatter(gm)
    return _user_passes(gm, settings)


def _remove_copies_of_inputs(gm: torch.fx.GraphModule):
    """Only where the copy is all that reads the input, and is neither a result nor written."""
    for node in list(gm.graph.nodes):
        copies = node.op == "call_function" and node.target is torch.ops.aten.clone.default and len(node.all_input_nodes) == 1 and not node.kwargs
        if copies and node.args[0].op == "placeholder" and len(node.args[0].users) == 1 and all(_only_reads(user) for user in node.users):
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)
    gm.recompile()


def _remove_indices_of_pools(gm: torch.fx.GraphModule):
    """A pooling whose indices nobody reads is one without them."""
    plain = {torch.ops.aten.max_pool2d_with_indices.default: torch.ops.aten.max_pool2d.default, torch.ops.aten.max_pool3d_with_indices.default: torch.ops.aten.max_pool3d.default}
    for node in [n for n in gm.graph.nodes if n.target in plain and all(u.target is operator.getitem and (u.args[1] == 0 or not u.users) for u in n.users)]:
        with gm.graph.inserting_before(node):
            pooled = gm.graph.call_function(plain[node.target], node.args, node.kwargs)
        pooled.meta.update({**node.meta, **({"val": node.meta["val"][0]} if "val" in node.meta else {})})
        for user in list(node.users):
            user.replace_all_uses_with(pooled)
            gm.graph.erase_node(user)
        gm.graph.erase_node(node)
    gm.recompile()


def _only_reads(node) -> bool:
    """Whether it is an operator that writes nothing and gives no view of what it reads."""
    return isinstance(node.target, OpOverload) and not schema_of(node.target).is_mutable and not any(result.alias_info for result in schema_of(node.target).returns)


def _user_passes(gm: torch.fx.GraphModule, settings) -> torch.fx.GraphModule:
    from ..._settings import CompilationSettings

    for function in ATEN_LOWERING_PASSES.passes:
        gm = function(gm, settings if settings is not None else CompilationSettings())
    return gm


def remove_num_users_is_0_nodes(gm: torch.fx.GraphModule, settings=None) -> torch.fx.GraphModule:
    """The graph without what nobody reads."""
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def repair_input_aliasing(gm: torch.fx.GraphModule, settings=None) -> torch.fx.GraphModule:
    """The graph with a copy in front of each input that it reads: what writes an input writes the copy, and no result is an input or a view of one.

    torch's aot_export_joint_simple wants graphs like that. Builds by ingot need it not: there inputs are written in place, as in eager."""
    inputs = [n for n in gm.graph.nodes if n.op == "placeholder" and n.users and not isinstance(n.meta.get("example_value"), (torch.SymInt, torch.SymFloat, torch.SymBool, int, float))]
    for node in inputs:
        with gm.graph.inserting_before(next(n for n in gm.graph.nodes if n.op != "placeholder")):
            copied = gm.graph.call_function(torch.ops.aten.clone.default, (node,))
            copied.meta.update(node.meta)
            node.replace_all_uses_with(copied, delete_user_cb=lambda user, copied=copied: user is not copied)
    gm.graph.lint()
    gm.recompile()
    return gm


def pre_export_lowering(ep: torch.export.ExportedProgram, settings=None) -> torch.export.ExportedProgram:
    """The program as it is: ingot takes it so."""
    return ep


def with_settings(settings) -> list:
    """The user's passes as functions of the graph alone."""

    def of(function):
        @functools.wraps(function, updated=())
        def run(gm):
            return function(gm, settings)

        return run

    return list(map(of, ATEN_LOWERING_PASSES.passes))
