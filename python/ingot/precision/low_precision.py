"""The rules of `ingot.Autocast` that look at the graph: what stays in float32, by names, by the length of sums, and by the values that calibration finds."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

import torch

from ..capture import autocast_rules
from ..autocast_options import Autocast, named, patterns, plain, torch_type
from ..capture.checks import size_check
from ..errors import InputError, OptionError
from ..torch_internals.operators import OpOverload, name_of
from . import eager_run

log = logging.getLogger("ingot")


def resolved(options: dict, f, flat_of=None, program=None):
    """(options, graph): the options for the library, whose autocast_exclude names the nodes that the rules keep in float32, and the graph with the result types of Autocast.

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
    excluded, kept_patterns = [], []
    for text in patterns(made):
        own = {node for node in origin_of if autocast_rules.matches(text, node, node.target)}
        by_origin = [node for node, origin in origin_of.items() if node not in own and autocast_rules.matches(text, node, origin.target)]
        if own or not by_origin:
            kept_patterns.append(text)
        excluded += own
        kept += by_origin
    if kept:
        made = {**made, "autocast_exclude": [*kept_patterns, *named("node", dict.fromkeys(node.name for node in kept))]}
    if rules and rules.results == "low" and program is not None:
        f = autocast_rules.with_low_results(f, low, {*kept, *excluded})
    return made, f


def reader(f, flat_of, any_size: bool = False):
    """A function from one entry of calibration to the graph's inputs. It raises InputError for an entry that does not fit the model. any_size: entries may have other sizes than the build."""
    check = size_check(f.inputs, f.ranges, any_size=any_size)

    def read(item):
        positional = () if isinstance(item, Mapping) else tuple(item) if isinstance(item, (list, tuple)) else (item,)
        flat = flat_of(positional, dict(item) if isinstance(item, Mapping) else {})
        check(flat)
        return flat

    return read


def _loud(f, given: Autocast, flat_of):
    """The nodes whose values exceed max_output."""
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
    if not isinstance(node.target, OpOverload):
        return None
    name, shapes = name_of(node.target), [getattr(n.meta.get("val"), "shape", ()) for n in node.all_input_nodes]
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
