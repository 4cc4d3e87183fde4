"""Operators kept in torch by name. Upstream accepts names that a model does not have, and names of operators after its decompositions."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...errors import OptionError
from .._said import once

_CONVOLUTIONS = tuple(f"aten.conv{n}d" for n in (1, 2, 3)) + tuple(f"aten.conv_transpose{n}d" for n in (1, 2, 3))
# From an operator of the core set to the operators that models have instead when ingot captures them.
_BEFORE = {
    "aten.convolution": _CONVOLUTIONS,
    "aten.addmm": ("aten.linear",),
    "aten._softmax": ("aten.softmax",),
    "aten._log_softmax": ("aten.log_softmax",),
    "aten.native_layer_norm": ("aten.layer_norm",),
    "aten.native_group_norm": ("aten.group_norm",),
    "aten.native_batch_norm": ("aten.batch_norm",),
    "aten._native_batch_norm_legit_no_training": ("aten.batch_norm",),
    "aten.max_pool2d_with_indices": ("aten.max_pool2d",),
    "aten._adaptive_avg_pool2d": ("aten.adaptive_avg_pool2d",),
}
_UNKNOWN = re.compile(r"(torch_executed_(?:ops|modules)) names \"(.*?)\", which is not")


def kept_in_torch(options: dict, build: Callable[[dict], object]):
    """build(options), without names that the model does not have. Each such name is logged once."""
    options = dict(options)
    while True:
        try:
            return build(options)
        except OptionError as problem:
            found = _UNKNOWN.match(problem.message)
            if found is None or found[2] not in options.get(found[1], ()):
                raise
        option, name = found.groups()
        others = [n for n in _BEFORE.get(re.sub(r"^(aten\.\w+)\.\w+$", r"\1", name), ()) if n not in options[option]]
        if not others and not any(name in instead for instead in _BEFORE.values()):
            once(f"kept {name}", f"{option}: the model has no {name}")
        options[option] = [n for n in options[option] if n != name] + others
