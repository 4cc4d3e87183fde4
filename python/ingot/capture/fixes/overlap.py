"""In-place writes to tensors whose elements share memory (expand, overlapping windows), or to views of such tensors.

torch's functionalisation gets such writes wrong. It undoes an expand by adding the changes of the copies, even if nothing is repeated: 1e10 + (3 - 1e10) is 0, and
infinities become NaN. It loses the elements between the windows of an unfold.

Eager refuses most writes to repeated elements. So does this module, with the line. A write that eager accepts is redirected to the tensor before the expand. If the graph
cannot express that, it runs in torch.
"""

from __future__ import annotations

import contextlib
import copy
import operator
import re
from dataclasses import replace

import torch
from torch._subclasses import FakeTensor

from ...errors import UnsupportedError

Node = torch.fx.Node

_IN_PLACE = {operator.setitem, operator.iadd, operator.isub, operator.imul, operator.imatmul, operator.itruediv, operator.ifloordiv, operator.imod,
             operator.ipow, operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift}  # fmt: skip
_IN_PLACE_METHODS = {f"__{f.__name__}__" for f in _IN_PLACE}
_ONE_VALUE = {torch.ops.aten.fill_.Scalar, torch.ops.aten.zero_.default}
_SAME_ARGUMENTS = {"unsqueeze", "permute", "transpose", "swapaxes", "swapdims", "movedim", "t", "numpy_T", "mT", "alias", "detach"}
_EXPANDS = {"expand", "expand_as", "broadcast_to"}
_LOSSY = ("unfold", "expand", "broadcast")


class NotFunctional(UnsupportedError):
    """Raised if torch cannot make the graph functional: it runs in torch unchanged."""


def copied(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    """A copy of the program's graph with the same names: torch would rename input to input_1."""
    graph = copy.deepcopy(program.graph)
    for node, original in zip(graph.nodes, program.graph.nodes, strict=True):
        node.name = original.name
    return torch.fx.GraphModule(program.graph_module, graph)


def updated(program: torch.export.ExportedProgram, module: torch.fx.GraphModule, renamed: dict[str, str]) -> torch.export.ExportedProgram:
    """The program with the graph of `module`, whose results have other names: {old: new}."""
    from torch.export.graph_signature import TensorArgument

    outputs = []
    for spec in program.graph_signature.output_specs:
        while getattr(spec.arg, "name", None) in renamed:
            spec = replace(spec, arg=TensorArgument(renamed[spec.arg.name]))
        outputs.append(spec)
    return program._update(module, replace(program.graph_signature, output_specs=outputs))


def of_memory(value):
    """Identity of the memory behind a (fake) value; None when it has none."""
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
        value = value[0]
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    try:
        return value.untyped_storage()._cdata
    except NotImplementedError:  # the operand of torch.vmap shows none
        return None


def gives_new(node) -> bool:
    """True if torch's function for the shape of the node's operator gives a view of an operand, but the operator itself gives a new tensor: its schema shares no
    memory, and it has a kernel of its own."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or any(r.alias_info for r in target._schema.returns):
        return False
    memory = of_memory(node.meta.get("val"))
    of_operand = memory is not None and any(of_memory(i.meta.get("val")) == memory for i in node.all_input_nodes)
    return of_operand and target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CPU)


def hint(size):
    if isinstance(size, int):
        return size
    try:
        return int(size.node.hint)
    except (TypeError, AttributeError, ValueError):
        return None


def value_of(node):
    return node.meta.get("val", node.meta.get("example_value"))


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


def has_writes(graph: torch.fx.Graph) -> bool:
    """True if the graph may write through a tensor that overlaps itself or has windows. Reads do not count: a cache is written directly and read through expand."""
    through: dict[Node, bool] = {}  # whether a tensor overlaps itself or has windows, or is a view of such a tensor
    for n in graph.nodes:
        if may_write(n) and any(through[a] for a in n.all_input_nodes):
            return True
        below = source_of(n, of_memory(value_of(n)))
        through[n] = _is_lossy(n) or below is not None and through[below]
    return False


def _is_lossy(node):
    """True for a view that torch does not undo correctly."""
    value = value_of(node)
    maker = node.args[0] if node.target is operator.getitem and isinstance(value_of(node.args[0]), (list, tuple)) else node  # of several views
    return overlaps(value) or any(word in str(maker.target) for word in _LOSSY) and source_of(node, of_memory(value)) is not None


def may_write(node):
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__") or name.startswith("_foreach_") or name in _IN_PLACE_METHODS
    return in_place or node.target in _IN_PLACE or node.kwargs.get("out") is not None or node.kwargs.get("inplace") is True


def as_aten(module: torch.fx.GraphModule, inputs, decompositions=None) -> torch.fx.GraphModule:
    """A graph in ATen's operators, after these decompositions ({operator: function}). In-place writes and source lines are kept."""
    from torch.fx.experimental.proxy_tensor import make_fx

    mode = next((t.fake_mode for t in inputs if isinstance(t, FakeTensor)), None)  # the graph's values are fake like its inputs
    with torch.no_grad(), torch.fx.traceback.preserve_node_meta(), mode or contextlib.nullcontext(), constants_allowed(mode):
        made = make_fx(lambda *given: torch.fx.Interpreter(module).run(*given), decompositions, pre_dispatch=True, _allow_non_fake_inputs=True)(*inputs)
    for name in list(made._buffers):  # constants in the model's code are not inputs of the graph
        setattr(made, name, made._buffers.pop(name))
    return made


@contextlib.contextmanager
def constants_allowed(mode):
    """Lets the graph's constants be real tensors."""
    before = mode is not None and mode.allow_non_fake_inputs
    try:
        if mode is not None:
            mode.allow_non_fake_inputs = True
        yield
    finally:
        if mode is not None:
            mode.allow_non_fake_inputs = before


def unbind(module: torch.fx.GraphModule) -> dict[str, str]:
    """Replaces unbind by one select for each part: torch's functionalisation fixes open sizes if a part of unbind is written. {old name: new name}"""
    renamed = {}
    for node in [n for n in module.graph.nodes if n.target is torch.ops.aten.unbind.int]:
        axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        for part in list(node.users):
            with module.graph.inserting_before(part):
                chosen = module.graph.call_function(torch.ops.aten.select.int, (node.args[0], axis, part.args[1]))
            chosen.meta = {**node.meta, **part.meta}
            part.replace_all_uses_with(chosen)
            renamed[part.name] = chosen.name
            module.graph.erase_node(part)
        if not node.users:
            module.graph.erase_node(node)
    return renamed


def settle(module: torch.fx.GraphModule) -> dict[str, str]:
    """Redirects writes to overlapping tensors in a graph of ATen's operators. Returns {name of a write whose result was used: the tensor that is used instead}."""
    renamed = {}
    for node in list(module.graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
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
                renamed[node.name] = given.name
    module.graph.lint()
    module.recompile()
    return renamed


def _written(node):
    """(position or keyword, node) of each tensor that an operator writes."""
    found = []
    for i, argument in enumerate(node.target._schema.arguments):
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


def source_of(node, memory):
    """The operand that owns the memory; for a list of tensors, one of them."""
    def has(value):
        return any(map(has, value)) if isinstance(value, (list, tuple)) else of_memory(value) == memory

    return next((a for a in node.all_input_nodes if memory is not None and has(value_of(a))), None)


def _before_repeats(graph, node):
    """The tensor before its repeats: with size 1 along each repeated axis."""
    value = value_of(node)
    below = source_of(node, of_memory(value)) if node.op == "call_function" else None
    if below is None or not any(map(_is_lossy, _way(node))):
        if overlaps(value):
            raise NotFunctional("it writes to an input whose elements share memory")
        return node
    name = _name(node) if isinstance(node.target, torch._ops.OpOverload) else "a list of views"
    if "unfold" in name or not isinstance(node.target, torch._ops.OpOverload):
        raise NotFunctional(f"it writes in place through {name}, which torch does not express as new values correctly")
    if node.target._schema.is_mutable:  # the tensor itself
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
    return node.target._schema.name.partition("::")[2]


def _refuse(node):
    """Raises the error that eager raises for a write, if any. The write runs on scratch tensors."""
    def real(value):
        if not isinstance(value, torch.Tensor):
            return value if not isinstance(value, torch.SymInt) else hint(value)
        sizes, strides = [hint(s) for s in value.shape], [hint(s) for s in value.stride()]
        device = value.device if torch.cuda.is_available() else "cpu"  # fill_ is refused on CPUs, not on GPUs
        return torch.empty_strided(sizes, strides, dtype=value.dtype, device=device).zero_()

    given, named = torch.utils._pytree.tree_map(real, torch.fx.map_arg((node.args, node.kwargs), value_of))
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
