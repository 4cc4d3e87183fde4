"""Names that the caller gives to the inputs of an engine."""

from __future__ import annotations

import torch
import torch.utils._pytree as pytree

from ...inputs import Input
from .._errors import BindingNameMismatchError
from .._Input import Given


def named(program: torch.export.ExportedProgram, taken: Given, args, kwargs) -> Given:
    """The inputs of a program with other names. args, kwargs: the names, in the structure of the inputs. Raises BindingNameMismatchError if the structure differs."""
    wanted = program.call_spec.in_spec
    names, spec = pytree.tree_flatten((tuple(args or ()), dict(kwargs or {})))
    if spec != wanted:
        raise BindingNameMismatchError(f"the names have the structure {spec}, but the program's inputs have {wanted}", remedy="give one name for each input, in the structure of the inputs")
    for name in names:
        if not isinstance(name, str) or not name:
            raise BindingNameMismatchError(f"{name!r} is no name of an input", remedy="give strings")
        if names.count(name) > 1:
            raise BindingNameMismatchError(f"two inputs are named {name!r}", remedy="give them different names")
    given = pytree.tree_leaves((taken.positional, taken.keywords)) if taken.positional is not None or taken.keywords else _recorded(program)
    if len(given) != len(names):
        raise BindingNameMismatchError(f"{len(names)} names are given for {len(given)} inputs")
    positional, keywords = pytree.tree_unflatten([_renamed(leaf, name) for leaf, name in zip(given, names)], wanted)
    return Given(None, positional, keywords)


def _recorded(program):
    """The inputs that the program was exported with."""
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    values = [nodes[name].meta["val"] if name in nodes else name for name in program.graph_signature.user_inputs]
    if any(isinstance(v, torch.Tensor) and not all(isinstance(n, int) for n in v.shape) for v in values):
        raise BindingNameMismatchError("the program has dynamic sizes, so names need the inputs beside them", remedy="give arg_inputs=[torch_tensorrt.Input(min_shape=...)]")
    return [Input(tuple(v.shape), dtype=v.dtype) if isinstance(v, torch.Tensor) else v for v in values]


def _renamed(leaf, name):
    if isinstance(leaf, torch.Tensor):
        leaf = Input.from_tensor(leaf)
    if not isinstance(leaf, Input):
        return leaf
    shapes = {"min_shape": leaf.min_shape, "opt_shape": leaf.opt_shape, "max_shape": leaf.max_shape}
    return Input(**shapes, dtype=leaf.dtype, name=name, shared_dims=leaf.shared_dims, memory_format=leaf.memory_format)
