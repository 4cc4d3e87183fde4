"""The size ranges of the caller's Inputs, for the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable

from ..engine._library import Model
from .caller_inputs import Leaf


@dataclass(frozen=True)
class Range:
    """The size range of one axis. input: the input's name in the graph. label: its name in messages. shared: the name of the dimension, "" for none."""

    input: str
    label: str
    axis: int
    low: int
    opt: int
    high: int
    shared: str


def ranges_of(inputs: Iterable[tuple[str, Leaf | None]]) -> list[Range]:
    """The axes that vary or are shared, from the inputs by name and the caller's values."""
    return [
        Range(name, leaf.label, axis, *leaf.input.range_of(axis), leaf.input.shared_dims.get(axis, ""))
        for name, leaf in inputs
        if leaf is not None and leaf.input is not None
        for axis in leaf.input.dynamic_axes
    ]


def set_ranges(model: Model, ranges: list[Range]):
    """Sets the ranges in the model."""
    for r in ranges:
        model.set_dim(r.input, r.axis, r.low, r.opt, r.high, r.shared)


def need_replay(model: Model, ranges: list[Range]) -> bool:
    """Whether a range has sizes below those that a file says, because torch began it at 2: `functional.from_exported` reads such a program as torch replays it."""
    exported = {i["name"]: i["ranges"] for i in model.describe()["inputs"]} if ranges else {}
    for r in ranges:
        axes = exported.get(r.input, ())
        known = axes[r.axis] if r.axis < len(axes) else None
        if known is not None and r.low < known["min"] == 2 * known["factor"] + known["offset"]:
            return True
    return False
