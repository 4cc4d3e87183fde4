"""Users' passes over the exported graph, before ingot captures it: `ingot.compile(model, ..., passes=[...])`."""

from __future__ import annotations

import inspect

import torch
from torch.export.graph_signature import InputKind

from ..errors import Error, InputError
from ..torch_internals.trees import pytree
from .switches.branches import branches_of, carried
from .tracing import alone
from .writer import bound


@alone
def applied(program: torch.export.ExportedProgram, passes) -> torch.export.ExportedProgram:
    """The program after passes. A pass takes its torch.fx.GraphModule and returns one, or None if it changed it in place. Parameters are get_attr nodes.

    Nodes that a pass adds need no metadata: the result is exported again, with the same open sizes. An InputError names a pass that breaks the graph."""
    passes = list(passes)
    for function in passes:
        if not callable(function):
            raise InputError(f"a pass is {function!r}, which cannot be called", remedy="give functions of a torch.fx.GraphModule")
    if not passes:
        return program
    branches, module = branches_of(program), program.module(check_guards=False)
    for function in passes:
        module = checked(function, module)
    try:
        return carried(_exported(program, module), branches)
    except Exception as problem:  # of any kind: the graph says what it calls
        raise _broken(program, passes) from problem


def name_of(function) -> str:
    return getattr(function, "__name__", type(function).__name__)


def checked(function, module) -> torch.fx.GraphModule:
    """The graph after one pass. An InputError if the pass fails or leaves something else than a graph."""
    try:
        made = function(module)
    except Error:
        raise
    except Exception as problem:
        raise InputError(f"pass {name_of(function)!r} failed: {type(problem).__name__}: {problem}") from problem
    made = module if made is None else made
    if not isinstance(made, torch.fx.GraphModule):
        raise InputError(f"pass {name_of(function)!r} returned a {type(made).__name__}", remedy="return the torch.fx.GraphModule, or None where it was changed in place")
    try:
        made.graph.lint()
    except Exception as problem:  # RuntimeError and what it meets on its way
        raise InputError(f"pass {name_of(function)!r} left an invalid graph: {_first_line(problem)}", remedy="keep operands before their readers, and erase nodes that nothing reads") from problem
    made.recompile()
    return made


def _broken(program, passes) -> InputError:
    """The message for passes whose graph torch cannot export: it names the first such pass."""
    module = program.module(check_guards=False)
    for function in passes:
        module = checked(function, module)
        try:
            _exported(program, module)
        except Exception as problem:
            return InputError(f"the graph that pass {name_of(function)!r} left cannot be exported: {type(problem).__name__}: {_first_line(problem)}")
    return InputError(f"the graph after the passes {', '.join(map(repr, map(name_of, passes)))} cannot be exported")


def _first_line(problem) -> str:
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)


def _exported(program, module) -> torch.export.ExportedProgram:
    values, dims = _inputs(program), {}
    args, kwargs = pytree.tree_unflatten([_example(v) for v in values], program.call_spec.in_spec)
    positional, keywords = pytree.tree_unflatten([_open_axes(v, program.range_constraints, dims) for v in values], program.call_spec.in_spec)
    shapes = dict(zip(inspect.signature(module.forward).parameters, (*positional, *keywords.values())))
    with torch.no_grad():
        return torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)


def _inputs(program):
    """The value of each input: a fake tensor, or the constant it was exported with."""
    recorded = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    specs = [s.arg for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    return [recorded[arg.name] if isinstance(recorded[arg.name], torch.Tensor) else getattr(arg, "value", None) for arg in specs]


def _example(value):
    if not isinstance(value, torch.Tensor):
        return value
    sizes = [n.node.hint if isinstance(n, torch.SymInt) else n for n in value.shape]  # int(n) would fix the program's size
    return torch.zeros(sizes, dtype=value.dtype, device=value.device)


def _open_axes(value, limits, dims):
    """The open axes, for torch.export. dims: the Dim of each symbol so far."""
    if not isinstance(value, torch.Tensor):
        return None
    found = {}
    for axis, size in enumerate(value.shape):
        if isinstance(size, torch.SymInt):
            symbol = size.node.expr
            if symbol not in dims and symbol in limits:
                dims[symbol] = torch.export.Dim(str(symbol), min=bound(limits[symbol].lower), max=bound(limits[symbol].upper))
            found[axis] = dims.get(symbol, torch.export.Dim.AUTO)
    return found
