"""A module and its inputs become a torch.export program: examples and open sizes from `ingot.Input`s, and torch's refusals in the user's terms."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import logging
import os
import re
import sysconfig
import traceback

import torch
import torch.utils._pytree as pytree
from torch._subclasses import fake_tensor
from torch.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes
from torch.export.graph_signature import InputKind
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._sympy.value_ranges import ValueRanges

from . import _op
from .attributes import AttributeWatch, WritesUndone
from .errors import Error, InputError, UnsupportedError
from .inputs import Input, check_shared
from .reshapes import Contiguous

log = logging.getLogger("ingot")


def _is_leaf(value):
    return isinstance(value, Input)


def named_leaves(arguments, keywords):
    """[(label, leaf)] of positional and keyword inputs, flattened in the order torch flattens them; None when none are given."""
    if arguments is None and not keywords:
        return None
    flat, _ = pytree.tree_flatten_with_path((tuple(arguments or ()), dict(keywords or {})), is_leaf=_is_leaf)
    return [(_label(path, leaf), leaf) for path, leaf in flat]


def _label(path, leaf):
    if isinstance(leaf, Input) and leaf.name:
        return f"input {leaf.name!r}"
    where, rest = path[0].idx, path[1:]
    text = f"{rest[0].key}" if where else f"inputs[{rest[0].idx}]"
    return (f"keyword input {text!r}" if where else text) + pytree.keystr(rest[1:])


def export(module, arguments, keywords, dynamic_shapes, strict):
    """The torch.export program, and the inputs with their labels."""
    try:
        inspect.signature(module.forward).bind(*arguments, **keywords)
    except TypeError as problem:
        raise InputError(f"the inputs do not fit the model's forward: {problem}", remedy="give one input a parameter, in order or by name in kwarg_inputs") from None
    leaves = named_leaves(arguments, keywords) or []
    check_shared([(label, leaf) for label, leaf in leaves if isinstance(leaf, Input)])
    for label, leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.is_nested:
            raise UnsupportedError(
                f"{label} is a nested tensor, which a program for one set of shapes does not take",
                remedy='give torch.nested.to_padded_tensor(...) and a mask, or compile just in time: torch.compile(model, backend="ingot")',
            )
    given = (t for _, t in leaves if isinstance(t, torch.Tensor))
    device = next((t.device for t in itertools.chain(module.parameters(), module.buffers(), given)), torch.get_default_device())
    examples = pytree.tree_map(lambda leaf: _example(leaf, device), (arguments, keywords), is_leaf=_is_leaf)
    dims = _Dims(leaves)
    if dynamic_shapes is None:
        dynamic_shapes = _by_parameter(module, *_shapes((arguments, keywords), dims.of))
        if not dims.made:
            dynamic_shapes = None  # torch does not take every structure of arguments in them

    def trace():
        nonlocal dynamic_shapes
        followed = {}
        while True:
            try:
                # Torch's fast kernels of attention on GPUs would put guards on sizes into the program that are no part of the model; engines have their own.
                math = sdpa_kernel(SDPBackend.MATH) if device.type == "cuda" else contextlib.nullcontext()
                with math, contextlib.nullcontext() if strict else WritesUndone(), Contiguous() as contiguous:
                    program = torch.export.export(module, *examples, dynamic_shapes=dynamic_shapes, strict=strict)
                contiguous.leave_in(program.graph)
                break
            except torch._dynamo.exc.UserError as problem:
                fixes = _relations(_reason(problem))
                if not fixes or fixes.keys() <= followed.keys():
                    raise
                followed |= fixes
                dynamic_shapes = refine_dynamic_shapes_from_suggested_fixes(_reason(problem), dynamic_shapes)
        for name, size in followed.items():
            log.warning("%s", dims.relation(name, size))
        return program

    try:
        with torch.no_grad(), AttributeWatch(module) as watch:
            program = trace()
        if watch.changed:
            with torch.no_grad(), watch.again() as second:
                trace()
            second.refuse_changes()
    except Exception as problem:
        if _interrupted(problem):
            raise KeyboardInterrupt from problem
        if (refusal := _refusal(problem)) is None:
            raise
        raise refusal from problem
    _check_ranges(program, leaves)
    _set_limits(program, leaves)
    return program, leaves


def _example(leaf, device):
    if type(leaf) is torch.Tensor and leaf._is_view():
        return leaf.data  # torch would write guards on what it is a view of, which calls need not have
    if not isinstance(leaf, Input):
        return leaf
    if leaf.value is not None:
        return leaf.value
    # A size of 0 or 1 would be taken for a constant while tracing.
    shape = [max(opt, min(2, high)) if low != high else opt for low, opt, high in zip(leaf.min_shape, leaf.opt_shape, leaf.max_shape)]
    return torch.empty(shape, dtype=getattr(torch, leaf.dtype), device=leaf.device or device, memory_format=leaf.memory_format or torch.contiguous_format).zero_()


def _shapes(value, of):
    """The dynamic_shapes of a structure of inputs: of(leaf) in the same structure, a registered class (a dataclass, say) as the list or tuple it flattens to, as torch wants it."""
    kind = pytree._get_node_type(value)
    if _is_leaf(value) or kind not in pytree.SUPPORTED_NODES:
        return of(value)
    children, context = pytree.SUPPORTED_NODES[kind].flatten_fn(value)
    made = [_shapes(child, of) for child in children]
    return pytree.SUPPORTED_NODES[kind].unflatten_fn(made, context) if kind in pytree.BUILTIN_TYPES else type(children)(made)


class _Dims:
    """torch's names and ranges of the axes that inputs leave open."""

    def __init__(self, leaves):
        self.labels = {id(leaf): label for label, leaf in leaves}
        self.names = {id(leaf): re.sub(r"\W+", "_", label.strip("]'")) for label, leaf in leaves}
        self.made: dict[str, object] = {}
        self.places: dict[str, tuple[str, int]] = {}  # label and axis of each

    def of(self, leaf):
        if not isinstance(leaf, Input):
            return None
        return {axis: self._dim(leaf, axis) for axis in leaf.dynamic_axes if leaf.min_shape[axis] != leaf.max_shape[axis]} or None

    def _dim(self, leaf, axis):
        # A dimension without a name gets one, so that torch keeps the range as it is given and its messages say which axis.
        name = leaf.shared_dims.get(axis)
        if name is None:
            name = f"_{self.names[id(leaf)]}_axis{axis}"
            while name in self.made:  # one Input object may stand for two inputs
                name += "_"
        if name not in self.made:
            # torch traces sizes from 2 on: of 0..2 and 1..2 it would make the constant 2 where two sizes meet. _set_limits gives the range back.
            self.made[name] = torch.export.Dim(name, min=leaf.min_shape[axis], max=max(leaf.max_shape[axis], 3) if leaf.min_shape[axis] < 2 else leaf.max_shape[axis])
            self.places[name] = self.labels[id(leaf)], axis
        return self.made[name]

    def relation(self, name, size):
        """In words: the model needs a dimension to have a size that follows from others."""
        if name not in self.places:
            return f"the model needs {name} = {size}, which is what the compiled module takes"
        label, axis = self.places[name]
        if size in self.places:
            other, other_axis = self.places[size]
            one = f"shared_dims={{{other_axis}: \"B\"}}" if axis == other_axis else f"shared_dims={{{other_axis}: \"B\"}} and shared_dims={{{axis}: \"B\"}}"
            return f"the model needs axis {axis} of {label} to have the size of axis {other_axis} of {other}, which is what the compiled module takes; {one} in their Inputs says so"
        factor, _, of = size.rpartition("*")
        if of in self.places:
            return f"the model needs axis {axis} of {label} to have the size {size.replace(of, 'n')}, where n is that of axis {self.places[of][1]} of {self.places[of][0]}; the compiled module takes no other"
        return f"the model needs axis {axis} of {label} to have a size of {size.replace(of, 'n')}; the compiled module takes no other"


_RELATION = re.compile(r"(\w+) = ((?:\d+\*)?[A-Za-z_]\w*(?: [+-] \d+)?)")
_ROOT = re.compile(r"(\w+) = Dim\('\1', .*\)")


def _relations(reason) -> dict[str, str]:
    """What torch says the sizes of inputs must be to fit the model, where that is one size in terms of another; nothing when it says anything else."""
    lines = [line.strip() for line in reason.partition("Suggested fixes:")[2].splitlines() if line.strip()]
    found = {m[1]: m[2] for line in lines if (m := _RELATION.fullmatch(line))}
    roots = {m[1] for line in lines if (m := _ROOT.fullmatch(line))}  # of sizes such as 2*n, which had no name before
    known = all(any(re.search(rf"\b{root}\b", size) for size in found.values()) for root in roots)
    return found if known and len(found) + len(roots) == len(lines) else {}


# ---- refusals

_NEEDS_VALUES = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedFakeTensorException,
    fake_tensor.UnsupportedOperatorException,
)


def _interrupted(problem) -> bool:
    """Whether Ctrl-C came first: torch's own cleaning up may fail when it does."""
    while problem is not None:
        if isinstance(problem, KeyboardInterrupt):
            return True
        problem = problem.__context__
    return False


def _refusal(problem):
    """torch's exception in the user's terms; None for one that the model itself raised."""
    if isinstance(problem, Error):
        return None
    line = _user_line(problem)
    if isinstance(problem, torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode):
        return UnsupportedError("the model's code branches on a value that is known only when it runs", line, "write it with tensor operations such as torch.where")
    reason = _reason(problem)
    if "found two different devices" in reason:
        return InputError(f"tensors on two devices meet in the model: {reason}", line, "move the model and all of its inputs to one device")
    if isinstance(problem, _NEEDS_VALUES):
        return UnsupportedError(f"torch.export does not take the model: {reason}", line, JUST_IN_TIME)
    if isinstance(problem, torch._dynamo.exc.UserError) or isinstance(problem, RuntimeError) and line:
        return InputError(
            f"the model cannot be captured with these inputs: {reason}", line, "axes that the model needs to be equal want one name in shared_dims; axes that it fixes want one size"
        )
    if line and not _in_symbols(problem):
        return None
    # Without a line of the model's, torch has no form for what it takes, keeps or returns.
    return UnsupportedError(f"torch.export does not take the model: {reason}", line, JUST_IN_TIME)


def _reason(problem):
    return str(problem).split("\n\nThe error above occurred")[0].strip()


JUST_IN_TIME = 'leave out what it names (use_cache=False where it is a cache of transformers), or compile just in time: torch.compile(model, backend="ingot")'


def _in_symbols(problem):
    """Whether torch's arithmetic of symbolic sizes raised it: a limit of torch.export, no exception of the model's."""
    innermost = traceback.extract_tb(problem.__traceback__)[-1].filename
    return "/sympy/" in innermost or innermost.startswith(os.path.join(os.path.dirname(torch.__file__), "fx", "experimental"))


def _user_line(problem):
    """The innermost line of the traceback that is neither torch's nor Python's nor ours, as "file:line: `code`"; a library's when there is no other."""
    own = (os.path.dirname(torch.__file__), os.path.dirname(__file__), "<")
    frames = [f for f in traceback.extract_tb(problem.__traceback__) if not f.filename.startswith(own)]
    frames = [f for f in frames if "-packages" in f.filename or not f.filename.startswith(sysconfig.get_paths()["stdlib"])]
    frames = [f for f in frames if "-packages" not in f.filename] or frames
    return f"{frames[-1].filename}:{frames[-1].lineno}: `{frames[-1].line}`" if frames else ""


def _by_parameter(module, positional, by_keyword):
    """dynamic_shapes as torch.export wants them: by parameter name, a *args parameter as one tuple, a **kwargs one as one dict."""
    parameters = inspect.signature(module.forward).parameters
    shapes, rest = {}, list(positional)
    extra = dict(by_keyword)
    for name, parameter in parameters.items():
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


def user_placeholders(program):
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    return [nodes[s.arg.name] for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]


def _check_ranges(program, leaves):
    """An axis that the caller made dynamic must not have become a constant while tracing."""
    for (label, leaf), node in zip(leaves, user_placeholders(program)):
        if not isinstance(leaf, Input):
            continue
        for axis in leaf.dynamic_axes:
            if leaf.min_shape[axis] == leaf.max_shape[axis]:
                continue
            size = node.meta["val"].shape[axis]
            if isinstance(size, int):
                raise InputError(
                    f"axis {axis} of {label} is to vary between {leaf.min_shape[axis]} and {leaf.max_shape[axis]}, "
                    f"but the model's code fixes it to {size}",
                    remedy="look for int(), len() or a reshape with a number that stands for this size in the model's forward; "
                    "TORCH_LOGS=dynamic shows where",
                )


def _set_limits(program, leaves):
    """The most that each axis may be, where _Dims told torch more."""
    for (_, leaf), node in zip(leaves, user_placeholders(program)):
        for axis in leaf.dynamic_axes if isinstance(leaf, Input) else ():
            size = node.meta["val"].shape[axis]
            known = program.range_constraints.get(size.node.expr) if isinstance(size, torch.SymInt) else None
            if known is not None and known.upper == 3 and leaf.max_shape[axis] == 2:
                program.range_constraints[size.node.expr] = ValueRanges(known.lower, 2)


def match_program(program, leaves):
    if leaves is None:
        return
    nodes = user_placeholders(program)
    if len(leaves) != len(nodes):
        raise InputError(f"the exported program takes {_op.count(len(nodes), 'input')}, but {_op.given(leaves)}")
    check_shared([(label, leaf) for label, leaf in leaves if isinstance(leaf, Input)])
    for (label, leaf), node in zip(leaves, nodes):
        meta = node.meta.get("val")
        if not isinstance(leaf, Input):
            continue
        if not isinstance(meta, torch.Tensor):
            raise InputError(f"{label} is an Input, but the exported program takes {meta!r} there")
        if len(meta.shape) != len(leaf.opt_shape):
            raise InputError(f"{label} has rank {len(leaf.opt_shape)}, but the exported program takes rank {len(meta.shape)} there")
        if str(meta.dtype).removeprefix("torch.") != leaf.dtype:
            raise InputError(f"{label} has dtype {leaf.dtype}, but the exported program takes {meta.dtype} there")
        if leaf.memory_format and not meta.is_contiguous(memory_format=leaf.memory_format):
            raise InputError(f"{label} has memory_format {leaf.memory_format}, but the program was exported for another one", remedy="export it with an example that lies so")
