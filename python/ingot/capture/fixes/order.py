"""The fixes of captured graphs in their order, and the switches that are on while torch traces. INGOT_DISABLE knows all of these names.

A fix is a file of this folder with two functions, `wanted(traced)` and `apply(traced)`, and a test, tests/fixes/test_<name>.py. A switch is in a file of capture/switches."""

from __future__ import annotations

from ...base import debug
from ..fix import Fix, Stage
from . import (
    constant_reads,
    copied_types,
    effects,
    einsum_casts,
    fill_diagonals,
    grad_modes,
    hidden_views,
    identities,
    numbers,
    overlap,
    own_writes,
    picked_elements,
    random_numbers,
    read_numbers,
    recorded_memory,
    region_conditions,
    region_results,
    region_writes,
    result_types,
    scans,
    size_checks,
    size_numbers,
    unbind,
    window_sizes,
    written_constants,
)


def _fix(stage: Stage, module, purpose: str, needed: bool = False) -> Fix:
    """needed: without it some graphs cannot be compiled, so INGOT_DISABLE may not name it."""
    name = module.__name__.rpartition(".")[2]
    debug.declare(name, purpose, needed)
    return Fix(stage, name, purpose, module.wanted, module.apply)


FIXES = (
    _fix(Stage.ALONE, random_numbers, "random operators become arithmetic on a state of the engine's own"),
    _fix(Stage.TRACED, grad_modes, "takes switches of gradient modes out of Dynamo's graph"),
    _fix(Stage.TRACED, identities, "operators that return their operand itself are replaced by it, so that writes to either are seen"),
    _fix(Stage.TRACED, numbers, "numbers that Dynamo passes as tensors become constants, with a check in each call"),
    _fix(Stage.TRACED, constant_reads, "numbers that an exported program reads of its own constants are known"),
    _fix(Stage.TRACED, window_sizes, "sizes of windows that are open in Dynamo's graph become known numbers, which torch checks in each call"),
    _fix(Stage.TRACED, picked_elements, "elements at integer tensors without axes are taken and written by an operator"),
    _fix(Stage.TRACED, region_results, "what a branch gives of its inputs is copied"),
    _fix(Stage.TRACED, own_writes, "pointwise writes to values that the graph made itself become new values"),
    _fix(Stage.WRITING, einsum_casts, "casts of einsum's operands under autocast become nodes"),
    _fix(Stage.WRITING, recorded_memory, "values of a program from a file are recorded anew, with memory that can be compared"),
    _fix(Stage.WRITING, unbind, "unbind becomes selects, whose parts torch lets be written for open sizes"),
    _fix(Stage.WRITING, fill_diagonals, "fill_diagonal_ becomes a write to the diagonal"),
    _fix(Stage.WRITING, copied_types, "what is copied to a tensor of another type is cast before"),
    _fix(Stage.WRITING, region_writes, "what a branch or loop writes becomes a result of it"),
    _fix(Stage.WRITING, hidden_views, "results that share memory although no schema says so become views"),
    _fix(Stage.WRITING, overlap, "writes to repeated or overlapping elements go to the tensor behind them"),
    _fix(Stage.WRITING, written_constants, "written constants become buffers, and each written tensor has one name"),
    _fix(Stage.FUNCTIONAL, effects, "takes out the tokens that order checks", needed=True),
    _fix(Stage.FUNCTIONAL, scans, "torch's scan and associative_scan become loops"),
    _fix(Stage.FUNCTIONAL, read_numbers, "floats that are read from tensors stay tensors"),
    _fix(Stage.FUNCTIONAL, size_numbers, "floats that are computed from sizes become tensors"),
    _fix(Stage.FUNCTIONAL, region_conditions, "conditions on sizes that choose a region of torch.cond become tensors"),
    _fix(Stage.FUNCTIONAL, size_checks, "conditions on sizes on which the model's code branches become checks"),
    _fix(Stage.FUNCTIONAL, result_types, "types and shapes that torch's rules record are those that its kernels return"),
)
ALONE, TRACED, WRITING, FUNCTIONAL = (tuple(fix for fix in FIXES if fix.stage is stage) for stage in Stage)

# While torch traces. Each asks `debug.is_disabled` itself, since there is no graph yet.
SWITCHES = {
    "both_sides": "of a branch on data that only computes other values, both sides are traced",
    "only_raises": "of a branch on data whose other side only raises, one side is traced, with an assertion",
    "known_values": "numbers that follow from the model's own tensors are known, where torch.export could not go on otherwise, with an assertion",
    "equal_tensors": "torch.equal gives a tensor while torch.export traces; where the model's code branches on it, an assertion holds what is assumed",
    "asked_masks": "whether a mask of nn.Transformer is causal is not asked of its values",
    "moved_modules": "module.to() of a module that is there already changes nothing",
    "attention_layouts": "nn.MultiheadAttention's results are in eager's layout while torch.export traces",
    "experts_together": "experts of transformers that a loop computes one by one are computed together",
    "written_places": "writes to places that are integer tensors without axes are made by an operator while torch.export traces",
    "mapped": "elements at mapped indices, and results mapped along other axes, inside torch.vmap while torch.export traces",
    "open_numbers": "linspace, windows, indices of triangles, one_hot and pools over whole axes take open sizes",
    "square_roots": "math.sqrt of an open size stays open while torch.export traces",
    "open_calls": "range, len and int of open sizes give open numbers while torch.export traces, where the model's code would fix them",
    "recurrent_layers": "Dynamo keeps recurrent layers whole",
    "flexible_attention": "flex_attention is written out as products, the model's functions and a softmax",
}
for _name, _purpose in SWITCHES.items():
    debug.declare(_name, _purpose)
