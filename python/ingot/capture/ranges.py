"""The size ranges of the caller's Inputs, for the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable

from ..base.log import log
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
    """Sets the ranges in the model. An axis that was exported for sizes from 2 on keeps that limit."""
    exported = {i["name"]: i["ranges"] for i in model.describe()["inputs"]} if ranges else {}
    for r in ranges:
        axes = exported.get(r.input, ())
        known, low, opt = axes[r.axis] if r.axis < len(axes) else None, r.low, r.opt
        if known is not None and low < (least := _least(known) or 0) <= r.high < (known["max"] or r.high) + known["factor"]:
            log.warning(
                "axis %d of %s is to vary between %d and %d, but was exported for sizes from %d on, as torch takes sizes of 0 and 1 for constants with Dim.AUTO "
                "and Dim.DYNAMIC: the compiled module takes %d to %d. torch.export.Dim(\"B\", min=%d, max=%d) exports it for all of them",
                r.axis, r.label, low, r.high, least, least, r.high, low, r.high,
            )  # fmt: skip
            low, opt = least, max(opt, least)
        model.set_dim(r.input, r.axis, low, opt, r.high, r.shared)


def _least(known) -> int | None:
    """The smallest size of an axis whose range torch began at 2."""
    return known["min"] if known["min"] == 2 * known["factor"] + known["offset"] else None
