"""The fixes of captured graphs in their order, and the switches that are on while torch traces. INGOT_DISABLE knows all of these names.

A fix is a file of this folder with two functions, `wanted(traced)` and `apply(traced)`, and a test, tests/fixes/test_<name>.py. A switch is in a file of capture/switches."""

from __future__ import annotations

from ...base import debug
from ..fix import Fix
from . import (
    effects,
    einsum_casts,
    fill_diagonals,
    grad_modes,
    hidden_views,
    identities,
    numbers,
    overlap,
    own_writes,
    random_numbers,
    read_numbers,
    recorded_memory,
    region_writes,
    result_types,
    size_checks,
    unbind,
    written_constants,
)


def _fix(module, purpose: str, needed: bool = False) -> Fix:
    """needed: without it some graphs cannot be compiled, so INGOT_DISABLE may not name it."""
    name = module.__name__.rpartition(".")[2]
    debug.declare(name, purpose, needed)
    return Fix(name, purpose, module.wanted, module.apply)


# Of a graph of which nothing may stay in torch. torch traces it again then.
ALONE = (_fix(random_numbers, "random operators become arithmetic on a state of the engine's own"),)

# As torch traced it: Dynamo's graph of Python functions, or an exported program. It may write in place.
TRACED = (
    _fix(grad_modes, "takes switches of gradient modes out of Dynamo's graph"),
    _fix(identities, "operators that return their operand itself are replaced by it, so that writes to either are seen"),
    _fix(numbers, "numbers that Dynamo passes as tensors become constants, with a check in each call"),
    _fix(own_writes, "pointwise writes to values that the graph made itself become new values"),
)

# In ATen's operators, before torch makes it functional.
WRITING = (
    _fix(einsum_casts, "casts of einsum's operands under autocast become nodes"),
    _fix(recorded_memory, "values of a program from a file are recorded anew, with memory that can be compared"),
    _fix(unbind, "unbind becomes selects, whose parts torch lets be written for open sizes"),
    _fix(fill_diagonals, "fill_diagonal_ becomes a write to the diagonal"),
    _fix(region_writes, "what a branch or loop writes becomes a result of it"),
    _fix(hidden_views, "results that share memory although no schema says so become views"),
    _fix(overlap, "writes to repeated or overlapping elements go to the tensor behind them"),
    _fix(written_constants, "written constants become buffers, and each written tensor has one name"),
)

# After torch has made it functional.
FUNCTIONAL = (
    _fix(effects, "takes out the tokens that order checks", needed=True),
    _fix(read_numbers, "floats that are read from tensors stay tensors"),
    _fix(size_checks, "conditions on sizes on which the model's code branches become checks"),
    _fix(result_types, "types and shapes that torch's rules record are those that its kernels return"),
)

# While torch traces. Each asks `debug.is_disabled` itself, since there is no graph yet.
SWITCHES = {
    "both_sides": "of a branch on data that only computes other values, both sides are traced",
    "only_raises": "of a branch on data whose other side only raises, one side is traced, with an assertion",
    "recurrent_layers": "Dynamo keeps recurrent layers whole",
    "flexible_attention": "flex_attention is written out as products, the model's functions and a softmax",
}
for _name, _purpose in SWITCHES.items():
    debug.declare(_name, _purpose)

FIXES = ALONE + TRACED + WRITING + FUNCTIONAL
