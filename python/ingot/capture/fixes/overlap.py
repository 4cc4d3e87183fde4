"""In-place writes to tensors whose elements share memory (expand, overlapping windows), or to views of such tensors.

torch's functionalisation gets such writes wrong. It undoes an expand by adding the changes of the copies, even if nothing is repeated: 1e10 + (3 - 1e10) is 0, and
infinities become NaN. It loses the elements between the windows of an unfold.

Eager refuses most writes to repeated elements. So does this module, with the line. A write that eager accepts is redirected to the tensor before the expand. If the graph
cannot express that, it runs in torch.
"""

from __future__ import annotations

import operator
import re

import torch

from ...errors import UnsupportedError
from ...torch_internals.operators import OpOverload, schema_of
from ...torch_internals.trees import pytree
from ..memory import hint, may_write, of_memory, source_of, value_of
from ..traced import NotFunctional, Traced

Node = torch.fx.Node

_ONE_VALUE = {torch.ops.aten.fill_.Scalar, torch.ops.aten.zero_.default}
_SAME_ARGUMENTS = {"unsqueeze", "permute", "transpose", "swapaxes", "swapdims", "movedim", "t", "numpy_T", "mT", "alias", "detach"}
_EXPANDS = {"expand", "expand_as", "broadcast_to"}
_LOSSY = ("unfold", "expand", "broadcast")


def wanted(traced: Traced) -> bool:
    """Whether the graph may write through a tensor that overlaps itself or has windows. Reads do not count: a cache is written directly and read through expand."""
    through: dict[Node, bool] = {}  # whether a tensor overlaps itself or has windows, or is a view of such a tensor
    for n in traced.graph.nodes:
        if may_write(n) and any(through[a] for a in n.all_input_nodes):
            return True
        below = source_of(n, of_memory(value_of(n)))
        through[n] = _is_lossy(n) or below is not None and through[below]
    return False


def apply(traced: Traced):
    """Redirects such writes. NotFunctional if the graph cannot express that."""
    module = traced.editable()
    for node in list(module.graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        for argument, given in _written(node):
            if not any(map(_is_lossy, _way(given))):
                continue
            if overlaps(value_of(given)):
                _refuse(node)
                if node.target not in _ONE_VALUE:
                    raise NotFunctional(f"{_name(node)} writes to a tensor whose elements may share memory")
            with module.graph.inserting_before(node):
                target = _before_repeats(module.graph, given)
            if overlaps(value_of(target)):
                raise NotFunctional(f"{_name(node)} writes to a tensor whose elements may share memory")
            if not isinstance(argument, str):
                node.update_arg(argument, target)
            else:
                node.update_kwarg(argument, target)
            if isinstance(value_of(node), torch.Tensor):
                node.replace_all_uses_with(given)


def repeated(tensor) -> list[int]:
    """The axes along which all elements share memory."""
    if any(isinstance(size, int) and size == 0 for size in tensor.shape):
        return []
    return [d for d, (size, stride) in enumerate(zip(tensor.shape, tensor.stride())) if isinstance(stride, int) and stride == 0 and not (isinstance(size, int) and size == 1)]


def overlaps(tensor) -> bool:
    """True if two elements may share memory."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return False
    if repeated(tensor):
        return True
    steps = [(hint(stride), hint(size)) for size, stride in zip(tensor.shape, tensor.stride())]
    if any(None in step or step[1] == 0 for step in steps):
        return False
    reach = 0
    for stride, size in sorted(step for step in steps if step[1] > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _is_lossy(node):
    """True for a view that torch does not undo correctly."""
    value = value_of(node)
    maker = node.args[0] if node.target is operator.getitem and isinstance(value_of(node.args[0]), (list, tuple)) else node  # of several views
    return overlaps(value) or any(word in str(maker.target) for word in _LOSSY) and source_of(node, of_memory(value)) is not None


def _written(node):
    """(position or keyword, node) of each tensor that an operator writes."""
    found = []
    for i, argument in enumerate(schema_of(node.target).arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        key, given = (i, node.args[i]) if i < len(node.args) else (argument.name, node.kwargs.get(argument.name))
        for one in given if isinstance(given, (list, tuple)) else [given]:
            if isinstance(given, (list, tuple)) and isinstance(one, Node) and any(map(_is_lossy, _way(one))):
                if overlaps(value_of(one)):
                    _refuse(node)
                raise NotFunctional(f"{_name(node)} writes to a list of tensors, one of which shares memory with a repeated one")
        if isinstance(given, Node):
            found.append((key, given))
    return found


def _way(node):
    """The tensor and all tensors that it is a view of, in order."""
    yield node
    memory = of_memory(value_of(node))
    while (node := source_of(node, memory)) is not None:
        yield node


def _before_repeats(graph, node):
    """The tensor before its repeats: with size 1 along each repeated axis."""
    value = value_of(node)
    below = source_of(node, of_memory(value)) if node.op == "call_function" else None
    if below is None or not any(map(_is_lossy, _way(node))):
        if overlaps(value):
            raise NotFunctional("it writes to an input whose elements share memory")
        return node
    name = _name(node) if isinstance(node.target, OpOverload) else "a list of views"
    if "unfold" in name or not isinstance(node.target, OpOverload):
        raise NotFunctional(f"it writes in place through {name}, which torch does not express as new values correctly")
    if schema_of(node.target).is_mutable:  # the tensor itself
        return _before_repeats(graph, below)
    narrow, axes = _before_repeats(graph, below), repeated(value_of(below))
    rest, keywords = node.args[1:], node.kwargs
    if name in _EXPANDS:
        for _ in range(value.dim() - value_of(below).dim()):
            narrow = _call(graph, torch.ops.aten.unsqueeze.default, narrow, 0)
        plain = all(d in repeated(value) or a is b or str(a) == str(b) for d, (a, b) in enumerate(zip(value.shape, value_of(narrow).shape)))
        if plain:
            return narrow
    elif node.args and node.args[0] is below and not isinstance(value, (list, tuple)):
        axis = rest[0] if rest and isinstance(rest[0], int) else keywords.get("dim", 0)
        here = isinstance(axis, int) and axis % max(value_of(below).dim(), 1) in axes
        if name == "select" and here:
            return _call(graph, node.target, narrow, axis, 0)
        if name in ("slice", "narrow") and here and (size := value.shape[axis]) != 0:
            if not isinstance(size, int):
                raise NotFunctional(f"it writes in place through {name} of a repeated axis, which may be empty")
            return narrow
        if not axes and overlaps(value):
            raise NotFunctional(f"it writes in place through {name}, whose elements may share memory")
        if not axes or name in _SAME_ARGUMENTS or name in ("select", "slice", "narrow"):
            return _call(graph, node.target, narrow, *rest, **keywords)
    raise NotFunctional(f"it writes in place through {name} of a repeated tensor")


def _call(graph, target, *arguments, **keywords):
    node = graph.call_function(target, arguments, keywords)
    given, named = torch.fx.map_arg((arguments, keywords), value_of)
    with given[0].fake_mode:
        node.meta["val"] = target(*given, **named)
    return node


def _name(node):
    return schema_of(node.target).name.partition("::")[2]


def _refuse(node):
    """Raises the error that eager raises for a write, if any. The write runs on scratch tensors."""
    def real(value):
        if not isinstance(value, torch.Tensor):
            return value if not isinstance(value, torch.SymInt) else hint(value)
        sizes, strides = [hint(s) for s in value.shape], [hint(s) for s in value.stride()]
        device = value.device if torch.cuda.is_available() else "cpu"  # fill_ is refused on CPUs, not on GPUs
        return torch.empty_strided(sizes, strides, dtype=value.dtype, device=device).zero_()

    given, named = pytree.tree_map(real, torch.fx.map_arg((node.args, node.kwargs), value_of))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            node.target(*given, **named)
    except RuntimeError as problem:
        if "single memory location" not in str(problem):
            return
        raise UnsupportedError(
            f"{_name(node)} writes in place to a tensor whose elements share memory (the result of expand or the like); PyTorch refuses that too",
            origin=_line(node),
            remedy="write to a copy of it: .clone()",
        ) from None
    except Exception:  # it needs numbers other than zeros; eager will raise when it runs
        return


def _line(node):
    frames = re.findall(r'File "(.*?)", line (\d+).*?\n\s*(.*)', node.meta.get("stack_trace") or "")
    if not frames:
        return ""
    file, line, code = next((f for f in reversed(frames) if "/site-packages/torch/" not in f[0]), frames[-1])
    return f"{file}:{line}: `{code.strip()}`"
