"""Exports a module with the caller's inputs by torch.export, and rewords torch's refusals in the user's terms."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import os
import re
import sysconfig
import traceback

import torch
from torch.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import PackedSequence

from ..base.log import log
from ..errors import Error, InputError, UnsupportedError
from ..torch_internals.dynamo import UserError
from ..torch_internals.sizes import GuardOnDataDependentSymNode, of_any_size, regions_of_any_size
from ..torch_internals.tensors import is_view
from ..torch_internals.tracing import FOLDERS_OF_SHAPES, FOLDERS_OF_TRACERS, long_texts_told_to
from ..torch_internals.trees import pytree
from . import composites
from .attributes import AttributeWatch, WritesUndone
from .caller_inputs import Given, is_input, only_sizes
from .dims import Dims, check_open_axes, relations, with_least_sizes
from .guards import Guards
from .program import Program, paired
from .reshapes import Contiguous
from .switches import asked_masks, attention_layouts, experts_together, mapped, moved_modules, open_numbers, square_roots, written_places
from .switches.both_sides import BothSides
from .switches.branches import Branches
from .switches.equal_tensors import EqualTensors
from .switches.known_values import KnownValues
from .switches.only_raises import OnlyRaises
from .traced import needs_values
from .tracing import alone


@alone
def export(module: torch.nn.Module, given: Given, dynamic_shapes, strict) -> Program:
    """The module as a torch.export program."""
    try:
        inspect.signature(module.forward).bind(*given.positional, **given.keywords)
    except TypeError as problem:
        if (sizes := only_sizes(given)) is not None:
            raise sizes from None
        raise InputError(f"the inputs do not fit the model's forward: {problem}", remedy="give one input a parameter, in order or by name in kwarg_inputs") from None
    for leaf in given.leaves:
        if isinstance(leaf.value, torch.Tensor) and leaf.value.is_nested:
            raise UnsupportedError(
                f"{leaf.label} is a nested tensor, which a program for one set of shapes does not take",
                remedy='give torch.nested.to_padded_tensor(...) and a mask, or compile just in time: torch.compile(model, backend="ingot")',
            )
    tensors = (leaf.value for leaf in given.leaves if isinstance(leaf.value, torch.Tensor))
    device = next((t.device for t in itertools.chain(module.parameters(), module.buffers(), tensors)), torch.get_default_device())
    trace = _Trace(module, given, device, dynamic_shapes, strict)
    try:
        with torch.no_grad(), long_texts_told_to(log.debug), AttributeWatch(module) as watch:
            exported = trace()
        if watch.changed:
            with torch.no_grad(), watch.again() as second:
                trace()
            second.refuse_changes()
    except Exception as problem:
        if _interrupted(problem):
            raise KeyboardInterrupt from problem
        if (refusal := only_sizes(given) or _refusal(problem, given)) is None:
            raise
        raise refusal from problem
    program = paired(exported, given)
    check_open_axes(program)
    return program


class _Trace:
    """torch.export on examples of the inputs. A second trace keeps the sizes that the first one found the model to need. Where a size that follows from the examples' is 1, torch takes it for
    1 always: the trace is made again with other examples."""

    def __init__(self, module, given, device, dynamic_shapes, strict):
        self._module, self._strict = module, strict
        self._examples_of = functools.partial(_examples, module, given, device)
        self._examples, self._other = self._examples_of(other=False), False
        self._dims, self._branches, self._sides, self._roots, self._equal = Dims(), Branches(), BothSides(module), square_roots.SquareRoots(), EqualTensors()
        self._known = KnownValues(module, self._equal)
        self._guards = Guards(lambda: self._branches.found)
        self._shapes = self._dims.shapes(given, module.forward) if dynamic_shapes is None else dynamic_shapes
        # torch's fast attention kernels on GPUs would add guards on sizes that are not part of the model; engines have their own kernels.
        self._attention = (lambda: sdpa_kernel(SDPBackend.MATH)) if device.type == "cuda" else contextlib.nullcontext

    def __call__(self) -> torch.export.ExportedProgram:
        followed, narrow = {}, None
        while True:
            try:
                program = self._program()
                if self._known.could_be_known(program):
                    continue
                if square_roots.decide(self._branches.found) and self._roots.give_up():
                    continue
                if not self._sides.keep_open(self._branches.readers):
                    break
                narrow = program  # for the sizes that the model's code took as plain numbers
            except Exception as problem:
                if narrow is not None:
                    program = narrow
                    break
                if isinstance(problem, GuardOnDataDependentSymNode) and (self._sides.add(problem) or self._known.begin()):
                    continue
                fixes = relations(_reason(problem)) if isinstance(problem, UserError) else {}
                if not fixes and self._sides.keep_open(self._branches.readers):
                    continue
                if not fixes and ("Constraints violated" in str(problem) or _in_symbols(problem)) and (found := self._of_any_size()) is not None:
                    program = found
                    break
                if not fixes or fixes.keys() <= followed.keys():
                    if self._roots.give_up():
                        continue
                    if isinstance(problem, UserError) and (refusal := self._dims.refusal(_reason(problem), self._branches.line_that_fixes)) is not None:
                        if self._guards.hang_on_example and not followed and not self._other:
                            self._examples, self._other = self._examples_of(other=True), True
                            continue
                        raise refusal from problem
                    raise
                followed |= fixes
                self._shapes = refine_dynamic_shapes_from_suggested_fixes(with_least_sizes(_reason(problem)), self._shapes)
        for name, size in followed.items():
            log.warning("%s", self._dims.relation(name, size))
        return program

    def _program(self):
        branches = self._branches = Branches()
        with self._attention(), contextlib.nullcontext() if self._strict else WritesUndone(), Contiguous() as contiguous, self._sides, asked_masks.as_told(), moved_modules.as_they_are(), attention_layouts.as_in_eager(), experts_together.together(), written_places.by_an_operator(), mapped.by_operators(), open_numbers.stay_open(), self._roots, OnlyRaises(), self._equal, self._known.in_trace(branches), branches, regions_of_any_size(), self._guards:
            program = composites.traced(functools.partial(torch.export.export, self._module, *self._examples, dynamic_shapes=self._shapes, strict=self._strict))
        self._known.refuse_written(program)
        contiguous.leave_in(program.graph)
        branches.leave_in(program, self._strict)
        return program

    def _of_any_size(self) -> torch.export.ExportedProgram | None:
        """The program, traced without torch's assumption that a size other than 1 in the example is never 1: a size such as n * (n - 1) / 2 may be. None where the ranges
        break another guard: such guards are never dropped, because a branch of the model's code may hang on them."""
        try:
            with of_any_size():
                return self._program()
        except Exception as problem:
            if isinstance(problem, UserError) or _in_symbols(problem):
                return None
            raise


def _examples(module, given: Given, device, other):
    """The positional and keyword arguments to trace with. other: with other sizes than the Inputs' usual ones, where they are open."""
    seen = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    return pytree.tree_map(lambda value: _once(_example(value, device, other), seen), (given.positional, given.keywords), is_leaf=is_input)


def _once(value, seen: set[int]):
    """torch takes a tensor that it is given twice, or that the model has too, for one input, also in later calls. Another tensor of the same memory is another input."""
    if isinstance(value, torch.Tensor) and id(value) in seen:
        return value.data
    seen.add(id(value))
    return value


def _example(value, device, other):
    if type(value) is torch.Tensor and is_view(value):
        return value.data  # torch would add guards on the base of the view, which later calls need not have
    if not is_input(value):
        return value
    if value.value is not None:
        return value.value
    shape = [_traced_size(low, opt, high, other) for low, opt, high in zip(value.min_shape, value.opt_shape, value.max_shape)]
    return torch.empty(shape, dtype=getattr(torch, value.dtype), device=value.device or device, memory_format=value.memory_format or torch.contiguous_format).zero_()


def _traced_size(low, usual, high, other):
    if low == high:
        return usual
    if other:
        usual = min(2 * usual + 1, high) if usual < high else usual - 1
    return max(usual, low, min(2, high))  # 0 and 1 would be taken for constants


# ---- refusals

def _interrupted(problem) -> bool:
    """Whether Ctrl-C came first: torch's own clean-up may fail after it."""
    while problem is not None:
        if isinstance(problem, KeyboardInterrupt):
            return True
        problem = problem.__context__
    return False


def _refusal(problem, given: Given):
    """torch's exception in the user's terms; None for one that the model itself raised."""
    if isinstance(problem, Error):
        return None
    line = _user_line(problem)
    if isinstance(problem, GuardOnDataDependentSymNode):
        do = "write it with tensor operations such as torch.where" if _BRANCH.search(line) else "give the number as `.long().item()` and its bounds by torch._check (docs/regions.md)"
        remedy = f"{do}, or {WITH_PYTHON}, which leaves this line to Python"
        return UnsupportedError("the model's code branches on a value that is known only when it runs", _user_line(problem, inner=True), remedy)
    if _in_packed_sequence(problem):
        return UnsupportedError(
            "the model packs sequences: how many of them each step has comes from their lengths, which are known only when it runs",
            _user_line(problem, inner=True),
            f"give the recurrent layer the padded sequences instead of torch.nn.utils.rnn.pack_padded_sequence, or {WITH_PYTHON}, which leaves the layer to torch",
        )
    reason = _reason(problem)
    if "found two different devices" in reason:
        return InputError(f"tensors on two devices meet in the model: {reason}", line, "move the model and all of its inputs to one device")
    if (unknown := needs_values(problem, reason)) is not None:
        return UnsupportedError(f"torch.export does not take the model: {unknown}", line, JUST_IN_TIME)
    if "numpy() is not supported" in reason:
        return UnsupportedError("the model leaves torch for NumPy, whose functions cannot be traced", line, f"write it with functions of torch, or {WITH_PYTHON}, which leaves this line to Python")
    if isinstance(problem, RuntimeError) and _by_a_rule_for_shapes(problem) and not any(leaf.input is not None and leaf.input.dynamic_axes for leaf in given.leaves):
        return InputError(f"the model cannot be captured with these inputs: {reason}", line, f"give inputs that the model takes in eager PyTorch; if it takes these, {WITH_PYTHON}")
    if isinstance(problem, UserError) or (isinstance(problem, RuntimeError) or _in_shapes(problem)) and line:
        return InputError(
            f"the model cannot be captured with these inputs: {reason}", line, "axes that the model needs to be equal want one name in shared_dims; axes that it fixes want one size"
        )
    if line and not _in_symbols(problem):
        if not _in_tracer(problem) or isinstance(problem, RuntimeError):
            return None
        reason = f"its tracer fails there ({type(problem).__name__}: {reason})"
    # Without a line of the model, torch has no form for what the model takes, keeps or returns.
    return UnsupportedError(f"torch.export does not take the model: {reason}", line, JUST_IN_TIME)


_BRANCH = re.compile(r"`(if|elif|while|assert)\b|\bif\b.*\belse\b")  # in a line as _user_line gives it


def _reason(problem):
    return str(problem).split("\n\nThe error above occurred")[0].strip()


WITH_PYTHON = 'compile just in time: torch.compile(model, backend="ingot")'
JUST_IN_TIME = f"leave out what it names (use_cache=False where it is a cache of transformers), or {WITH_PYTHON}"


def _in_symbols(problem):
    """Whether torch's arithmetic of symbolic sizes raised it. Then it is a limit of torch.export, not an exception of the model."""
    innermost = traceback.extract_tb(problem.__traceback__)[-1].filename
    return "/sympy/" in innermost or innermost.startswith(os.path.join(os.path.dirname(torch.__file__), "fx", "experimental"))


def _in_tracer(problem):
    """Whether torch's tracer raised it, which then lacks a form for what the model does (torch.vmap of torch.func.grad)."""
    return _innermost(problem) in FOLDERS_OF_TRACERS


def _in_shapes(problem):
    """Whether torch's rules for the shapes of results raised it: operands that eager refuses by a RuntimeError."""
    return _innermost(problem) in FOLDERS_OF_SHAPES


def _by_a_rule_for_shapes(problem):
    """The same, also where the rule asks torch._check."""
    frames = [frame.filename for frame in traceback.extract_tb(problem.__traceback__) if frame.filename != torch.__file__]
    own = os.path.dirname(torch.__file__) + os.sep
    return frames[-1].startswith(own) and frames[-1].removeprefix(own).split(os.sep)[0] in FOLDERS_OF_SHAPES


def _innermost(problem) -> str | None:
    """The part of torch that raised it: a folder or file in torch's own folder."""
    own, innermost = os.path.dirname(torch.__file__) + os.sep, traceback.extract_tb(problem.__traceback__)[-1].filename
    return innermost.removeprefix(own).split(os.sep)[0] if innermost.startswith(own) else None


def _in_packed_sequence(problem) -> bool:
    """Whether torch raised it where it packs sequences, or where a recurrent layer has them."""
    frames = [(frame.f_code.co_filename, frame) for frame, _ in traceback.walk_tb(problem.__traceback__)]
    return any(file == _PACKING or file == _RECURRENT and isinstance(frame.f_locals.get("orig_input"), PackedSequence) for file, frame in frames)


_PACKING, _RECURRENT = torch.nn.utils.rnn.__file__, torch.nn.modules.rnn.__file__


def _user_line(problem, inner=False):
    """The innermost line of the traceback that is not in torch, Python or ingot, as "file:line: `code`"; a library's line if there is no other, or with `inner`."""
    own = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__)), "<")
    frames = [f for f in traceback.extract_tb(problem.__traceback__) if not f.filename.startswith(own)]
    frames = [f for f in frames if "-packages" in f.filename or not f.filename.startswith(sysconfig.get_paths()["stdlib"])]
    frames = [f for f in frames if inner or "-packages" not in f.filename] or frames
    return f"{frames[-1].filename}:{frames[-1].lineno}: `{frames[-1].line}`" if frames else ""
