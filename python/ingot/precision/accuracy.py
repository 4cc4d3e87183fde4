"""Option `accuracy`: a bound on an engine's error against float64, relative to eager's. Parts of the model go back to their own types until the bound holds.

The error of a result y is max|y - y64| / max|eager - y64|. Eager's error counts as at least half a rounding of the largest value, so the quotient exists if eager is
exact. A group is a module of the model, or a few nodes if there are too few modules.

1. Eager runs in which one group's operators are rounded give the error of that group alone, without a build.
2. Groups' errors are independent, so their squares add up. Groups go back in the order of squared error per multiplication, as many as the sum requires.
3. The engine is built and measured. If the bound does not hold, twice as many groups go back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from .. import autocast_options
from ..errors import AccuracyError, OptionError
from ..torch_internals.trees import pytree
from . import eager_run, low_precision

MAX_GROUPS, MAX_SAMPLES = 16, 4
WEIGHTS = "weights of weight_dtype"


def bound_of(options: dict) -> tuple[float | None, dict]:
    """The bound (None without one), and the other options."""
    rest = {name: value for name, value in options.items() if name != "accuracy"}
    given = options.get("accuracy")
    if given in (None, 0, "0"):
        return None, rest
    try:
        bound = float(given)
    except (TypeError, ValueError):
        bound = math.nan
    if isinstance(given, bool) or not 0 < bound < math.inf:
        raise OptionError(f"option accuracy is {given!r}", remedy="how many times eager's error the error may be, such as 2.0; None for no bound")
    return bound, rest


@dataclass
class Group:
    """A part of the model. name: a module's path, or a node. nodes: its nodes in low precision. error: the error of this group alone. cost: multiplications."""

    name: str
    nodes: list[torch.fx.Node]
    patterns: list[str]
    error: float = 0.0
    cost: float = 1.0


def held(f, options: dict, bound: float, samples: list[list], build):
    """The `Assembled` of build(options) with options that hold the bound; its report lists what was tried. Raises AccuracyError."""
    made = build(options)
    if made.engine is None:
        return made
    if made.engine.device is None:
        raise OptionError("option accuracy needs the target's device, and the engine is for a GPU that is not here", remedy="compile it where the GPU is, or add \"cpu\" to the targets to measure there")
    measure = _Measure(f, samples)
    low = _low_nodes(f, made.report)
    tried = [{"back": [], "error": measure(made)}]
    groups = []
    if tried[0]["error"] > bound:
        groups = _groups(f, low, options)
        measure.alone(groups, options)
        groups.sort(key=lambda g: -(g.error**2) / g.cost)  # stable: equal ones stay in the model's order
        count = next((i for i in range(len(groups)) if math.hypot(*(g.error for g in groups[i:])) <= 0.9 * bound), len(groups))
        count = max(count, 1)
        while groups:
            made = build(_back(options, groups[:count]))
            tried.append({"back": [g.name for g in groups[:count]], "error": measure(made)})
            if tried[-1]["error"] <= bound or count == len(groups):
                break
            count = min(2 * count, len(groups))
    found = {"bound": bound, "samples": len(samples), "tried": tried, "groups": [{"name": g.name, "error": g.error, "multiplications": g.cost} for g in groups]}
    if tried[-1]["error"] > bound:
        own = " with all of it in its own types" if groups else ""
        raise AccuracyError(
            f"the error of {measure.worst} is {tried[-1]['error']:.3g} times eager's{own}, and accuracy allows {bound:g}",
            remedy="allow more; `compiled.verify(...)` of a module without the bound shows which step is off",
        )
    made.report.note("accuracy", found, _text(found))
    return made


def samples_of(f, leaves) -> list[list]:
    """Inputs to measure with: the tensors given, random ones for an Input (zeros for integers)."""
    flat = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for slot, leaf in zip(f.inputs, leaves):
            value, recorded = leaf.value if leaf is not None else None, slot.node.meta.get("val")
            if leaf is not None and leaf.input is not None:
                value = leaf.input.value if leaf.input.value is not None else leaf.input.example()
            elif leaf is None and isinstance(recorded, torch.Tensor):
                shape = [s if isinstance(s, int) else s.node.hint for s in recorded.shape]
                value = torch.randn(shape).to(recorded.dtype) if recorded.dtype.is_floating_point else torch.zeros(shape, dtype=recorded.dtype)
            flat.append(value.to(recorded.device) if isinstance(value, torch.Tensor) and isinstance(recorded, torch.Tensor) else value)
    return [flat]


class _Measure:
    """The errors of an engine, and of eager runs that round, on the samples."""

    def __init__(self, f, samples):
        self._f, self._samples, self.worst = f, samples, ""
        self._names = eager_run.names(f)
        with torch.no_grad():
            self._exact = [eager_run.run(f, flat, exact=True) for flat in samples]
            self._eager = [eager_run.run(f, flat) for flat in samples]

    def __call__(self, made) -> float:
        """The error of the engine. Sets `worst` to the result that has it."""
        return self._error([_results(self._f, made, flat) for flat in self._samples])

    def alone(self, groups, options):
        """Sets the error and the cost of each group."""
        kind = autocast_options.torch_type(options.get("autocast"))
        for group in groups:
            nodes, flops = set(group.nodes), []

            def before(node, args, kwargs):
                if node not in nodes:
                    return args, kwargs
                rounded = (lambda t: _rounded(t, kind)) if group.name != WEIGHTS else _as_int8
                if group.name == WEIGHTS:  # only the weight is rounded
                    place = _weight_place(node)
                    return (*args[:place], rounded(args[place]), *args[place + 1 :]), kwargs
                return pytree.tree_map(rounded, (args, kwargs))

            def after(node, value):
                if node not in nodes:
                    return value
                flops.append(_multiplications(node, value))
                return value if group.name == WEIGHTS else pytree.tree_map(lambda t: _rounded(t, kind), value)

            group.error = self._error([eager_run.run(self._f, flat, before=before, after=after) for flat in self._samples[:1]])
            group.cost = max(sum(flops), 1.0)

    def _error(self, results) -> float:
        worst = 0.0
        for made, eager, exact in zip(results, self._eager, self._exact):
            for name, y, e, x in zip(self._names, made, eager, exact):
                error = _relative(y, e, x)
                if error >= worst:
                    worst, self.worst = error, name
        return worst


def _relative(y, eager, exact) -> float:
    if not eager.dtype.is_floating_point:
        return 0.0 if torch.equal(y, eager) else math.inf
    y, e, x = y.double(), eager.double(), exact.double()
    fine = torch.isfinite(x) & torch.isfinite(e)
    if not bool(torch.isfinite(y[fine]).all()):
        return math.inf
    if not bool(fine.any()):
        return 0.0
    y, e, x = y[fine], e[fine], x[fine]
    least = torch.finfo(eager.dtype).eps / 2 * x.abs().amax().item()
    theirs, error = max((e - x).abs().amax().item(), least), (y - x).abs().amax().item()
    return 0.0 if error == 0 else error / theirs if theirs else math.inf


def _results(f, made, flat):
    """The result tensors of a run, then the tensors that it wrote. Written memory is restored."""
    states = [slot for slot, _ in f.writes if slot.kind == "state"]
    kept = [slot.tensor.clone() for slot in states]
    given = [t.clone() if isinstance(t, torch.Tensor) else t for t in flat]
    if made.straight:
        given = [t for t, slot in zip(given, f.inputs) if slot.kind == "input"]
    places = {slot.node: t for slot, t in zip(f.inputs, given)}
    try:
        with torch.no_grad():
            results = [t.clone() for t in made.run(given) if isinstance(t, torch.Tensor)]
        return results + [(slot.tensor if slot.kind == "state" else places[slot.node]).clone() for slot, _ in f.writes]
    finally:
        with torch.no_grad():
            for slot, value in zip(states, kept):
                slot.tensor.copy_(value)


def _low_nodes(f, report) -> list[torch.fx.Node]:
    low = {n["name"] for n in report.nodes if n.get("precision") in autocast_options.TYPES.values()}
    return [n for n in f.module.graph.nodes if n.name in low]


def _groups(f, low, options) -> list[Group]:
    """Groups of the nodes in low precision: the modules of the greatest depth with at most MOST_GROUPS of them. If there is only one module, single nodes or runs of nodes."""
    groups: list[Group] = []
    paths = {n: _path(n) for n in low}
    for depth in range(max((p.count(".") + 1 for p in paths.values() if p), default=0), 0, -1):
        names = dict.fromkeys(".".join(p.split(".")[:depth]) for p in paths.values())
        if 1 < len(names) <= MAX_GROUPS:
            for name in names:
                nodes = [n for n, p in paths.items() if ".".join(p.split(".")[:depth]) == name]
                whole = name.count(".") + 1 == depth and name  # otherwise nodes of a module that belong to none of its submodules
                groups.append(Group(name or "the model itself", nodes, autocast_options.named("module", [name]) if whole else _by_name(nodes)))
            break
    if not groups and low:
        size = -(-len(low) // MAX_GROUPS)
        for part in (low[i : i + size] for i in range(0, len(low), size)):
            groups.append(Group(part[0].name + (f" and {len(part) - 1} more" if len(part) > 1 else ""), part, _by_name(part)))
    if options.get("weight_dtype", "none") != "none":
        weights = {s.node for s in f.slots if s.kind == "weight"}
        nodes = [n for n in f.module.graph.nodes if (place := _weight_place(n)) is not None and n.args[place] in weights]
        groups.append(Group(WEIGHTS, nodes, []))
    return groups


def _by_name(nodes):
    return autocast_options.named("node", [n.name for n in nodes])


def _path(node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    path = list(stack.values())[-1][0] if stack else ""
    return path.removeprefix("L['self'].").removeprefix("L['self']")


def _back(options: dict, groups) -> dict:
    """The options with these groups in their own types."""
    made = {**options, "autocast_exclude": [*options.get("autocast_exclude", ()), *(p for g in groups for p in g.patterns)]}
    if any(g.name == WEIGHTS for g in groups):
        made["weight_dtype"] = "none"
    return made


def _rounded(value, kind):
    return value.to(kind).to(value.dtype) if kind is not None and isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value


def _as_int8(weight):
    """A weight [N, K] rounded to int8 with a scale for each row (docs/quantisation.md)."""
    scale = weight.abs().amax(-1, keepdim=True) / 127
    return torch.where(scale == 0, 0, torch.round(weight / scale) * scale).to(weight.dtype)


def _weight_place(node) -> int | None:
    """The index of the argument that is the weight as rows of channels; None for other operators."""
    return 1 if node.target is torch.ops.aten.linear.default else None


def _multiplications(node, value) -> float:
    terms = low_precision.terms(node)
    return float(value.numel() * terms) if terms and isinstance(value, torch.Tensor) else 0.0


def _text(found) -> str:
    lines = [f"accuracy: at most {found['bound']:g} times eager's error on {found['samples']} sample{'s' if found['samples'] != 1 else ''}"]
    for entry in found["tried"]:
        back = ", ".join(entry["back"]) or "nothing"
        lines.append(f"  {entry['error']:10.3g}  with {back if len(back) < 120 else back[:117] + '...'} in its own types")
    if found["groups"]:
        lines.append("  alone     multiplications  part")
        lines += [f"  {g['error']:<8.3g}  {g['multiplications']:15.3g}  {g['name']}" for g in found["groups"]]
    return "\n".join(lines) + "\n"
