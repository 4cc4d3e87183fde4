"""`ingot.Autocast`: the precision that operators compute in, as the options `autocast` and `autocast_exclude`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .errors import OptionError

TYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
_NAMES = {"f16": "float16", "fp16": "float16", "half": "float16", "bf16": "bfloat16"}  # as users write them


@dataclass(frozen=True)
class Autocast:
    """Low precision where it pays, as the value of option `autocast`: `ingot.compile(model, inputs, autocast=ingot.Autocast())`.

    Matrix products, convolutions and attention compute in `dtype` (torch.float16 or torch.bfloat16), and the operators between them follow. Softmax, norms, sums and
    functions like exp compute in float32. Inputs keep their types.

    Arguments:
        dtype: the low type.
        exclude: regular expressions for what stays in float32: the whole name of a node, of an operator ("aten.linear.default", "linear"), the path of a module
            around it ("encoder.layer.0"), or its class.
        max_output: with calibration, a node whose largest |output| is more stays in float32, and so does one whose outputs are not finite.
        max_reduction: a product or convolution that sums more terms stays in float32. None: any number.
        calibration: an iterable of inputs, run in eager: each a tensor, a tuple or list of the positional inputs, or a dict of keyword inputs.
        results: "model" keeps the types of results. "low" gives float32 results the type `dtype`, except inputs that are returned and what a rule or a region of
            torch.autocast keeps. In torch.compile results keep their types.

    Raises OptionError for other types and for invalid regular expressions.
    """

    dtype: Any = torch.float16
    exclude: Iterable[str] = ()
    max_output: float = 512.0
    max_reduction: int | None = None
    calibration: Iterable | None = None
    results: str = "model"

    def __post_init__(self):
        if self.dtype not in TYPES:
            raise OptionError(f"autocast to {self.dtype!r} is not possible", remedy="torch.float16 or torch.bfloat16")
        given = (self.exclude,) if isinstance(self.exclude, str) else tuple(self.exclude)
        object.__setattr__(self, "exclude", tuple(map(_pattern, given)))
        if isinstance(self.max_output, bool) or not isinstance(self.max_output, (int, float)) or not self.max_output > 0:
            raise OptionError(f"Autocast's max_output is {self.max_output!r}", remedy="a number above 0; math.inf for any")
        if self.max_reduction is not None and (isinstance(self.max_reduction, bool) or not isinstance(self.max_reduction, int) or self.max_reduction < 1):
            raise OptionError(f"Autocast's max_reduction is {self.max_reduction!r}", remedy="a number of terms from 1 on, or None for any")
        if self.results not in ("model", "low"):
            raise OptionError(f"Autocast's results are {self.results!r}", remedy='"model" or "low"')
        if self.calibration is not None and not hasattr(self.calibration, "__iter__") and not hasattr(self.calibration, "__getitem__"):
            raise OptionError(f"Autocast's calibration is of type {type(self.calibration).__name__}", remedy="an iterable of inputs: a list, a DataLoader")
        if hasattr(self.calibration, "__next__"):  # an iterator yields its inputs once, but the rules and a bound on the error both read them
            object.__setattr__(self, "calibration", list(self.calibration))

    def options(self) -> dict:
        return {"autocast": TYPES[self.dtype], "autocast_exclude": list(self.exclude)}


def torch_type(name) -> torch.dtype | None:
    """The dtype that option autocast names."""
    return {name: kind for kind, name in TYPES.items()}.get(_NAMES.get(name, name))


def _pattern(text) -> str:
    if not isinstance(text, str):
        raise OptionError(f"autocast excludes {text!r}", remedy="give regular expressions, as strings")
    if "," in text:
        raise OptionError(f"autocast excludes {text!r}, and a comma ends a pattern", remedy="give several patterns")
    try:
        re.compile(text)
    except re.error as problem:
        raise OptionError(f"autocast excludes {text!r}, which is not a regular expression: {problem}") from None
    return text


def named(kind: str, names) -> list[str]:
    """Patterns that each match only this node (kind "node") or module (kind "module")."""
    return [f"{kind}:" + name.replace(".", "\\.") for name in names]


def written(options: dict) -> dict:
    """The options with dtypes as names."""
    given = options.get("autocast")
    made = dict(options)
    if isinstance(given, torch.dtype):
        made["autocast"] = Autocast(given).options()["autocast"]
    elif given is None:
        made.pop("autocast", None)
    elif isinstance(given, str):
        made["autocast"] = _NAMES.get(given, given)
    elif not isinstance(given, Autocast):
        raise OptionError(f"option autocast is {given!r}", remedy='torch.float16, torch.bfloat16, ingot.Autocast(...) or "none"')
    if options.get("accuracy", 0) in (None, "none"):
        del made["accuracy"]
    if isinstance(exclude := options.get("autocast_exclude"), (list, tuple, set)):
        made["autocast_exclude"] = [_pattern(p) for p in (sorted(exclude) if isinstance(exclude, set) else exclude)]
    return made


def needs_graph(options: dict) -> bool:
    """Whether the rules need the graph in torch."""
    given = options.get("autocast")
    return isinstance(given, Autocast) and (given.calibration is not None or given.max_reduction is not None or given.results == "low")


def plain(options: dict) -> dict:
    """The options without the rules that need a graph."""
    given = options.get("autocast")
    if not isinstance(given, Autocast):
        return options
    own = given.options()
    return {**options, **own, "autocast_exclude": [*own["autocast_exclude"], *patterns(options)]}


def patterns(options: dict) -> list[str]:
    """The patterns of option autocast_exclude."""
    given = options.get("autocast_exclude") or ()
    return [text for text in given.split(",") if text] if isinstance(given, str) else list(given)
