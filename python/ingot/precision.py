"""`ingot.Autocast`: the precision that operators compute in, resolved to the options `autocast` and `autocast_exclude`."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from . import autocast_rules
from .errors import InputError, OptionError

log = logging.getLogger("ingot")
TYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}


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
    return {"float16": torch.float16, "f16": torch.float16, "bfloat16": torch.bfloat16, "bf16": torch.bfloat16}.get(name)


def _pattern(text) -> str:
    if not isinstance(text, str):
        raise OptionError(f"autocast excludes {text!r}", remedy="give regular expressions, as strings")
    if "," in text:
        raise OptionError(f"autocast excludes {text!r}, and a comma ends a pattern", remedy="give several patterns")
    try:
        re.compile(text)
    except re.error as problem:
        raise OptionError(f"autocast excludes {text!r}, which is no regular expression: {problem}") from None
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
    elif not isinstance(given, (str, Autocast)):
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
    return {**options, **own, "autocast_exclude": [*own["autocast_exclude"], *_patterns(options)]}


def settled(options: dict, f, flat_of=None, program=None):
    """The options as the library takes them, with the nodes that the rules keep in float32 in autocast_exclude, and the graph, with the types of results that Autocast asks for.

    flat_of(args, kwargs): the graph's inputs from the model's. program: the exported program that the graph was made from."""
    given, made = options.get("autocast"), plain(options)
    rules = given if isinstance(given, Autocast) else None
    low = rules.dtype if rules else torch_type(given)
    if low is None:
        return made, f
    origin_of = autocast_rules.origins(f, program)
    kept = autocast_rules.in_regions(origin_of)
    if rules and rules.max_reduction is not None:
        kept += [node for node in origin_of if (count := terms(node)) is not None and count > rules.max_reduction]
    if rules and rules.calibration is not None:
        if flat_of is None:
            raise OptionError("Autocast's calibration gives inputs of the model, which torch.compile does not see whole", remedy="ingot.compile(model, ..., autocast=...), or leave calibration out")
        kept += _loud(f, rules, flat_of)
    excluded, patterns = [], []
    for text in _patterns(made):
        own = {node for node in origin_of if autocast_rules.matches(text, node, node.target)}
        apart = [node for node, origin in origin_of.items() if node not in own and autocast_rules.matches(text, node, origin.target)]
        if own or not apart:
            patterns.append(text)
        excluded += own
        kept += apart
    if kept:
        made = {**made, "autocast_exclude": [*patterns, *named("node", dict.fromkeys(node.name for node in kept))]}
    if rules and rules.results == "low" and program is not None:
        f = autocast_rules.with_low_results(f, low, {*kept, *excluded})
    return made, f


def _patterns(options: dict) -> list[str]:
    given = options.get("autocast_exclude") or ()
    return [text for text in given.split(",") if text] if isinstance(given, str) else list(given)


def reader(f, flat_of, any_size: bool = False):
    """A function from one entry of calibration to the graph's inputs. It raises InputError for an entry that does not fit the model. any_size: entries may have other sizes than the build."""
    from .checks import size_check

    check = size_check(f.inputs, f.ranges, any_size=any_size)

    def read(item):
        positional = () if isinstance(item, Mapping) else tuple(item) if isinstance(item, (list, tuple)) else (item,)
        flat = flat_of(positional, dict(item) if isinstance(item, Mapping) else {})
        check(flat)
        return flat

    return read


def _loud(f, given: Autocast, flat_of):
    """The nodes whose values exceed max_output."""
    from . import eager_run
    from .checks import size_check

    largest: dict[torch.fx.Node, float] = {}

    def note(node, value):
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.numel():
                size = tensor.abs().amax().item()
                largest[node] = max(largest.get(node, 0.0), math.inf if math.isnan(size) else size)
        return value

    count, read, check = 0, reader(f, flat_of, any_size=True), size_check(f.inputs, f.ranges)
    for item in given.calibration:
        flat = read(item)
        try:
            eager_run.run(f, flat, after=note)
        except RuntimeError:  # a graph for one size of the batch
            for batch in _batches(f, flat):
                check(batch)
                eager_run.run(f, batch, after=note)
        count += 1
    if count == 0:
        raise InputError("Autocast's calibration has no inputs", remedy="give at least one, or calibration=None")
    return [node for node, size in largest.items() if size > given.max_output]


def _batches(f, flat):
    """The samples of a batch in batches of the size that the graph was made for, the last one filled up with the first samples. The batch itself if it has that size."""
    sizes = {i: (value.shape[0], slot.node.meta["val"].shape[0]) for i, (slot, value) in enumerate(zip(f.inputs, flat)) if isinstance(value, torch.Tensor) and value.dim()}
    other = {i: pair for i, pair in sizes.items() if pair[0] != pair[1]}
    if len(set(other.values())) != 1 or not all(isinstance(size, int) and size > 0 for size in next(iter(other.values()))):
        return [flat]
    given, size = next(iter(other.values()))
    rows = [(torch.arange(size) + start) % given for start in range(0, given, size)]
    return [[value[taken.to(value.device)] if i in other else value for i, value in enumerate(flat)] for taken in rows]


def terms(node) -> int | None:
    """The number of terms in the sum of each element of a matrix product or convolution. None for other nodes and for sizes that vary."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    name, shapes = node.target._opname, [getattr(n.meta.get("val"), "shape", ()) for n in node.all_input_nodes]
    if name in ("linear", "matmul", "mm", "bmm", "mv", "dot") and shapes[0]:
        return _number(shapes[0][-1])
    if name in ("addmm", "addmv", "baddbmm", "addbmm"):
        return _number(getattr(node.args[1].meta.get("val"), "shape", (None,))[-1])
    if name.startswith("conv") and len(shapes) > 1:
        weight = shapes[1]
        transposed = name.startswith("conv_transpose") or name == "convolution" and node.args[6]
        return _number(math.prod(weight[2:]) * (weight[0] if transposed else weight[1]))
    if name == "scaled_dot_product_attention":
        sizes = [_number(shapes[0][-1]), _number(shapes[1][-2])]
        return max((s for s in sizes if s is not None), default=None)
    return None


def _number(size):
    return size if isinstance(size, int) else None


def tell_unused(report):
    """Warns of patterns that match nothing."""
    for pattern in report.document.get("autocast", {}).get("unused", ()):
        log.warning("autocast_exclude has %r, which matches nothing in this model", pattern)
