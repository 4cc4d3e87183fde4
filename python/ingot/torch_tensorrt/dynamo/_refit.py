"""`refit_module_weights`: the same model with other weights."""

from __future__ import annotations

import copy

import torch

from ...errors import InputError
from ...torch_internals.trees import pytree
from .._Input import Given
from .._said import log
from .._symbols import refused_names
from .utils import COSINE_THRESHOLD, cosine_similarity

__getattr__ = refused_names(__name__)


def refit_module_weights(compiled_module, new_weight_module: torch.export.ExportedProgram, arg_inputs=None, kwarg_inputs=None, verify_output=False, in_place=False):
    """A compiled module with the weights of another export of the same model.

    compiled_module: the result of `compile`, or an ExportedProgram that `save` wrote and `load` read.
    in_place: True puts the weights into the module itself, without a build, and returns it. False leaves it unchanged, and returns a module that is built from
        new_weight_module with the same settings (for an ExportedProgram the module of a copy of it).
    verify_output: logs how close the results on arg_inputs and kwarg_inputs are to torch's.

    Works for any value of immutable_weights. Raises InputError if the weights have other names or shapes.
    """
    weights = _weights(new_weight_module)
    if isinstance(compiled_module, torch.export.ExportedProgram):
        made = _refitted_program(compiled_module, weights, in_place)
    elif not hasattr(compiled_module, "ingot_module"):
        raise InputError(f"a {type(compiled_module).__name__} has no engines to give weights to", remedy="give what torch_tensorrt.dynamo.compile or torch_tensorrt.load made")
    elif in_place:
        compiled_module.ingot_module.update_weights(weights, strict=False)
        made = compiled_module
    else:
        made = compiled_module.build_again(new_weight_module)
    if verify_output and arg_inputs is not None:
        _verify(made, new_weight_module, Given(None, arg_inputs, kwarg_inputs))
    return made if in_place or not isinstance(made, torch.export.ExportedProgram) else made.module()


def _weights(program) -> dict[str, torch.Tensor]:
    if not isinstance(program, torch.export.ExportedProgram):
        raise InputError(f"new_weight_module is a {type(program).__name__}", remedy="give an ExportedProgram: torch_tensorrt.dynamo.trace(model, arg_inputs=...)")
    return {**{name: value for name, value in program.constants.items() if isinstance(value, torch.Tensor)}, **program.state_dict}


def _refitted_program(program, weights, in_place):
    made = program if in_place else copy.deepcopy(program)
    known = {**{n: t for n, t in made.constants.items() if isinstance(t, torch.Tensor) and not n.startswith("ingot_plan_")}, **made.state_dict}
    for name, old in known.items():
        new = weights.get(name)
        if new is None:
            raise InputError(f"the new weights have no {name!r}", remedy="export the same model")
        if new.shape != old.shape or new.dtype != old.dtype:
            raise InputError(f"weight {name!r} is {new.dtype} {list(new.shape)}, but the program has {old.dtype} {list(old.shape)}", remedy="compile the new model")
    with torch.no_grad():
        for name, old in known.items():
            old.copy_(weights[name])
    return made


def _verify(made, program, taken: Given):
    positional, keywords = taken.positional, taken.keywords
    run = made.module() if isinstance(made, torch.export.ExportedProgram) else made
    with torch.no_grad():
        ours, theirs = run(*positional, **keywords), program.module()(*positional, **keywords)
    leaves = [pytree.tree_leaves(v) for v in (ours, theirs)]
    close = min((cosine_similarity(a, b) for a, b in zip(*leaves) if isinstance(a, torch.Tensor)), default=1.0)
    log.log(20 if close > COSINE_THRESHOLD else 30, "refit: the cosine similarity to torch's results is %.6f", close)
