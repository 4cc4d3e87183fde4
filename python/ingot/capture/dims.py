"""The sizes that the caller's Inputs leave open: as torch.export takes them, and checked against what it made of them."""

from __future__ import annotations

import inspect
import re

import torch

from ..errors import InputError
from ..torch_internals.sizes import ValueRanges
from ..torch_internals.trees import node_type, pytree
from .caller_inputs import Given, Leaf, is_input
from .program import Program


class Dims:
    """torch's names and ranges of the axes that inputs leave open."""

    def __init__(self):
        self._made: dict[str, object] = {}
        self._places: dict[str, tuple[str, int]] = {}  # label and axis of each

    def shapes(self, given: Given, forward):
        """The dynamic_shapes of torch.export.export. None if all sizes are fixed, because torch does not accept every structure of arguments there."""
        leaves = iter(given.leaves)
        positional, by_keyword = _shapes((given.positional, given.keywords), lambda: self._of(next(leaves)))
        return _by_parameter(forward, positional, by_keyword) if self._made else None

    def _of(self, leaf: Leaf):
        if leaf.input is None:
            return None
        return {axis: self._dim(leaf, axis) for axis in leaf.input.dynamic_axes if leaf.input.varies(axis)} or None

    def _dim(self, leaf, axis):
        # A dimension without a name gets one, so that torch keeps the given range and its messages say which axis.
        name = leaf.input.shared_dims.get(axis)
        if name is None:
            label = re.sub(r"\W+", "_", leaf.label.strip("]'"))
            name = f"_{label}_axis{axis}"
            while name in self._made:
                name += "_"
        if name not in self._made:
            low, _, high = leaf.input.range_of(axis)
            # torch traces sizes from 2 on: it would turn 0..2 and 1..2 into the constant 2 where two sizes meet. `check_open_axes` restores the range.
            self._made[name] = torch.export.Dim(name, min=low, max=max(high, 3) if low < 2 else high)
            self._places[name] = leaf.label, axis
        return self._made[name]

    def relation(self, name, size):
        """A sentence: the model needs a dimension to have a size that follows from others."""
        if name not in self._places:
            return f"the model needs {name} = {size}, which is what the compiled module takes"
        label, axis = self._places[name]
        if size in self._places:
            other, other_axis = self._places[size]
            one = f"shared_dims={{{other_axis}: \"B\"}}" if axis == other_axis else f"shared_dims={{{other_axis}: \"B\"}} and shared_dims={{{axis}: \"B\"}}"
            return f"the model needs axis {axis} of {label} to have the size of axis {other_axis} of {other}, which is what the compiled module takes; {one} in their Inputs says so"
        of = re.search(r"[A-Za-z_]\w*", size)[0]
        if of in self._places:
            return f"the model needs axis {axis} of {label} to have the size {size.replace(of, 'n')}, where n is that of axis {self._places[of][1]} of {self._places[of][0]}; the compiled module takes no other"
        return f"the model needs axis {axis} of {label} to have a size of {size.replace(of, 'n')}; the compiled module takes no other"


    def refusal(self, reason, fixed_at) -> InputError | None:
        """torch's reason in the caller's terms, if it is that the model takes narrower ranges than those given. fixed_at(size): the model's line that fixes a size to this number, or ""."""
        lines = _suggestions(reason)
        if (violated := self._violated(reason)) and not lines:
            return InputError(f"the model cannot be captured with these inputs: {'; '.join(violated)}", remedy=_ONE_SIZE)
        narrower = [(m, self._places[m[1]]) for line in lines if (m := _RANGE.fullmatch(line)) and m[1] in self._places]
        fixed = [(m, self._places[m[1]]) for line in lines if (m := _FIXED.fullmatch(line)) and m[1] in self._places]
        if not lines or len(narrower) + len(fixed) < len(lines):
            return None
        takes = [f"axis {axis} of {label} takes {m[2]} to {m[3]}, not all of {self._made[m[1]].min} to {self._made[m[1]].max}" for m, (label, axis) in narrower]
        takes += [f"the model's code fixes axis {axis} of {label} to {m[2]}" for m, (label, axis) in fixed]
        line = next(filter(None, (fixed_at(int(m[2])) for m, _ in fixed)), "")
        remedies = ["give the range that it takes; where its code branches on the size, one model for each branch"] * bool(narrower)
        remedies += [_ONE_SIZE] * bool(fixed)
        return InputError(f"the model cannot be captured with these inputs: {'; '.join(takes)}", line, "; ".join(remedies))

    def _violated(self, reason) -> list[str]:
        """What torch says of sizes for which it proposes nothing, each in a sentence."""
        found = []
        sources = {m[2]: self._axis(m[1]) for m in _SOURCE.finditer(reason) if m[1] in self._places}
        for line in (line.strip() for line in reason.splitlines()):
            if (m := _RELATED.search(line)) is not None and m[1] in self._places and m[2] in self._places:
                found.append(f"the model needs {self._axis(m[1])} to have the size {m[3].replace(m[2], 'n')}, where n is that of {self._axis(m[2])}; Inputs cannot say that")
            elif (m := _UNSATISFIED.search(line)) is not None and m[1] in self._places:
                condition = m[2]
                for source, axis in sources.items():
                    condition = condition.replace(source, f"({axis})")
                found.append(f"the model's code takes only sizes with {condition}, which not all of {self._made[m[1]].min} to {self._made[m[1]].max} for {self._axis(m[1])} have")
        return found

    def _axis(self, name) -> str:
        label, axis = self._places[name]
        return f"axis {axis} of {label}"


_ONE_SIZE = 'give that axis one size; or torch.compile(model, backend="ingot"), which compiles anew for another'
_SOURCE = re.compile(r"(\w+) = (L\[\S+?\.size\(\)\[\d+\])")
_RELATED = re.compile(r"The values of (\w+) = \S+ must always be related to the values of (\w+) = \S+ by \1 = (.*)\.$")
_UNSATISFIED = re.compile(r"Not all values of (\w+) = \S+ in the specified range .* satisfy the generated guard (.*?)\.?$")


def _shapes(value, made):
    """made() for each leaf, in the structure of the inputs. A registered class (such as a dataclass) becomes the list or tuple that it flattens to, as torch requires."""
    kind = node_type(value)
    if is_input(value) or kind not in pytree.SUPPORTED_NODES:
        return made()
    children, context = pytree.SUPPORTED_NODES[kind].flatten_fn(value)
    shapes = [_shapes(child, made) for child in children]
    return pytree.SUPPORTED_NODES[kind].unflatten_fn(shapes, context) if kind in pytree.BUILTIN_TYPES else type(children)(shapes)


def _by_parameter(forward, positional, by_keyword):
    """By parameter name, a *args parameter as one tuple, a **kwargs one as one dict."""
    shapes, rest = {}, list(positional)
    extra = dict(by_keyword)
    for name, parameter in inspect.signature(forward).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            if rest:
                shapes[name], rest = tuple(rest), []
        elif parameter.kind is parameter.VAR_KEYWORD:
            if extra:
                shapes[name], extra = extra, {}
        elif name in extra:
            shapes[name] = extra.pop(name)
        elif rest and parameter.kind is not parameter.KEYWORD_ONLY:
            shapes[name] = rest.pop(0)
    return shapes


_RELATION = re.compile(r"(\w+) = ((?:\d+\*)?[A-Za-z_]\w*(?: [+-] \d+)?)")
_ROOT = re.compile(r"(\w+) = Dim\('\1', .*\)")
_RANGE = re.compile(r"(\w+) = Dim\('\1', min=(\d+), max=(\d+)\)")
_FIXED = re.compile(r"(\w+) = (\d+)")


def _suggestions(reason) -> list[str]:
    return [line.strip() for line in reason.partition("Suggested fixes:")[2].splitlines() if line.strip()]


def relations(reason) -> dict[str, str]:
    """The sizes that inputs must have to fit the model, according to torch, if each is one size in terms of another. Nothing if torch says anything else."""
    lines = _suggestions(reason)
    found = {m[1]: m[2] for line in lines if (m := _RELATION.fullmatch(line))}
    roots = {m[1] for line in lines if (m := _ROOT.fullmatch(line))}  # names that torch introduced for sizes such as 2*n
    known = all(any(re.search(rf"\b{root}\b", size) for size in found.values()) for root in roots)
    return found if known and len(found) + len(roots) == len(lines) else {}


def with_least_sizes(reason) -> str:
    """torch's message, with a least size for each name that it introduces (n of a size 2*n - 1): torch leaves out small ones and then takes 0."""
    for name in {m[1] for m in _ROOT.finditer(reason)}:
        sizes = re.findall(rf" = (?:(\d+)\*)?{name} - (\d+)", reason)
        least = max((-(-int(less) // int(factor or 1)) for factor, less in sizes), default=0)
        reason = reason.replace(f"Dim('{name}', max", f"Dim('{name}', min={least}, max").replace(f"Dim('{name}')", f"Dim('{name}', min={least})") if least > 0 else reason
    return reason


def check_open_axes(program: Program):
    """Refuses an axis that the caller left open and the model fixes. Restores the limits that Dims raised."""
    for entry in program.inputs:
        for axis in entry.input.dynamic_axes if entry.input is not None else ():
            size, (low, _, high) = entry.node.meta["val"].shape[axis], entry.input.range_of(axis)
            if isinstance(size, int):
                if low != high:
                    raise InputError(
                        f"axis {axis} of {entry.leaf.label} is to vary between {low} and {high}, but the model's code fixes it to {size}",
                        remedy="look for int(), len() or a reshape with a number that stands for this size in the model's forward; TORCH_LOGS=dynamic shows where",
                    )
                continue
            known = program.exported.range_constraints.get(size.node.expr)
            if known is not None and known.upper == 3 and high == 2:
                program.exported.range_constraints[size.node.expr] = ValueRanges(known.lower, 2)
