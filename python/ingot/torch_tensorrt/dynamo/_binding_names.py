"""Names that the caller gives to the inputs and outputs of an engine."""

from __future__ import annotations

import torch
from torch.export.graph_signature import OutputKind, TensorArgument

from ...inputs import Input
from ...torch_internals.trees import pytree
from .._errors import BindingNameMismatchError
from .._Input import Given


def specs_of(program: torch.export.ExportedProgram):
    """The structures of a program's positional inputs, keyword inputs and result."""
    given = program.call_spec.in_spec
    args, kwargs = pytree.tree_unflatten([None] * given.num_leaves, given)
    return pytree.tree_structure(args, is_leaf=_nothing), pytree.tree_structure(kwargs, is_leaf=_nothing), program.call_spec.out_spec


def flat_names(names, *, role: str, expected_spec) -> list[str]:
    """The names, one after another. Raises BindingNameMismatchError if they have another structure than the program, or are not different texts."""
    found, spec = pytree.tree_flatten(tuple(names) if role == "arg_input" and isinstance(names, list) else names)
    if spec != expected_spec:
        raise BindingNameMismatchError(f"the structure of {role} names, {spec}, does not match the exported program's, {expected_spec}", remedy="give one name for each, in this structure")
    for name in found:
        if not isinstance(name, str) or not name:
            raise BindingNameMismatchError(f"{role} names: leaves must all be strings, and one is {name!r}")
        if found.count(name) > 1:
            raise BindingNameMismatchError(f"{role} names: {name!r} is a duplicate", remedy="give them different names")
    return found


def named(program: torch.export.ExportedProgram, taken: Given, args, kwargs, outputs) -> tuple[Given, list[str] | None]:
    """The inputs of a program with other names, and the names of its results that are tensors. args, kwargs, outputs: names in the structure of the program's; None keeps its own.
    Raises BindingNameMismatchError if they do not fit."""
    *of_inputs, of_result = specs_of(program)
    wanted = [flat_names(names, role=role, expected_spec=spec) if names is not None else [None] * spec.num_leaves for names, role, spec in zip((args, kwargs), ("arg_input", "kwarg_input"), of_inputs)]
    inputs = [*wanted[0], *wanted[1]]
    results = flat_names(outputs, role="output", expected_spec=of_result) if outputs is not None else []
    own = [name if name is not None else known for name, known in zip(inputs, program.graph_signature.user_inputs)]
    for name in filter(None, inputs + results):
        if (own + results).count(name) > 1:
            raise BindingNameMismatchError(f"two inputs or outputs are named {name!r}", remedy="give them different names")
    kinds = [isinstance(spec.arg, TensorArgument) for spec in program.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    chosen = [name for name, tensor in zip(results, kinds) if tensor] if outputs is not None else None
    return (_with_names(program, taken, inputs) if any(inputs) else taken), chosen


def _nothing(value):
    return value is None


def _with_names(program, taken, names):
    given = pytree.tree_leaves((taken.positional, taken.keywords)) if taken.positional is not None or taken.keywords else _recorded(program)
    if len(given) != len(names):
        raise BindingNameMismatchError(f"{len(names)} names are given for {len(given)} inputs")
    leaves = [_renamed(leaf, name) if name is not None else leaf for leaf, name in zip(given, names)]
    positional, keywords = pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    return Given(None, positional, keywords)


def _recorded(program):
    """The inputs that the program was exported with."""
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    values = [nodes[name].meta["val"] if name in nodes else name for name in program.graph_signature.user_inputs]
    if any(isinstance(v, torch.Tensor) and not all(isinstance(n, int) for n in v.shape) for v in values):
        raise BindingNameMismatchError("the program has dynamic sizes, so names need the inputs too", remedy="give arg_inputs=[torch_tensorrt.Input(min_shape=...)]")
    return [Input(tuple(v.shape), dtype=v.dtype) if isinstance(v, torch.Tensor) else v for v in values]


def _renamed(leaf, name):
    if isinstance(leaf, torch.Tensor):
        leaf = Input.from_tensor(leaf)
    if not isinstance(leaf, Input):
        return leaf
    shapes = {"min_shape": leaf.min_shape, "opt_shape": leaf.opt_shape, "max_shape": leaf.max_shape}
    return Input(**shapes, dtype=leaf.dtype, name=name, shared_dims=leaf.shared_dims, memory_format=leaf.memory_format)
