"""Which operators torch decomposes while it traces: composites without a row in the operator table, and never one that has a row. The same at every way in.

Torch decomposes composites differently by device, type and mode: batch norm of float32 becomes `cudnn_batch_norm` on a GPU and `_native_batch_norm_legit` elsewhere.
A composite that stays whole is one operator on every device.
"""

from __future__ import annotations

import contextlib
import functools
import traceback

import torch
from torch.export.exported_program import default_decompositions

from ..engine import _library
from ..torch_internals.operators import DispatchKey, OpOverload, call_kernel
from ..torch_internals.programs import without_warnings_of_trees
from ..torch_internals.shapes import all_composites, decomposition_of, is_composite, typed_by
from ..torch_internals.tensors import TorchDispatchMode
from ..torch_internals.tracing import DataDependentOutputException, composites_by, record_of_operator, with_autograd_kernels
from . import autocast, external, shapes_of_torch, torchao
from .switches import flexible_attention, open_numbers, recurrent_casts

_aten = torch.ops.aten


@functools.cache
def _rows() -> frozenset[str]:
    return frozenset(op["name"] for op in _library.ops())


def has_row(op) -> bool:
    """True if engines have the operator: from the operator table, or by a user's kernel."""
    return str(op) in _rows() or external.of(op) is not None


@functools.cache
def _with_row() -> list:
    """ATen's composites that have a row."""
    return [op for op in all_composites() if str(op) in _rows()]


@functools.cache
def _without_row() -> dict:
    """Torch's own decompositions of ATen's operators that have no row. Random operators are left out: a decomposition draws other numbers than eager."""
    return {op: how for op, how in default_decompositions().decomp_table.items() if str(op) not in _rows() and torch.Tag.nondeterministic_seeded not in op.tags}


# ---- while torch traces


@contextlib.contextmanager
def whole(casts=False):
    """While torch traces: composites that have a row are recorded as they are. casts: under autocast. There a composite that autocast does not know, such as einsum, is decomposed,
    because autocast casts the operands of its parts."""
    shapes_of_torch.correct()
    kept = {op: _stay for op in (*_with_row(), *filter(is_composite, external.operators())) if not casts or _is_cast(op)}
    with composites_by(kept | _STATEFUL | _written_here()), recurrent_layers_whole() if casts else contextlib.nullcontext(), flexible_attention.written_out():
        yield


@contextlib.contextmanager
def recurrent_layers_whole():
    """While torch traces: recurrent layers have their shapes by a rule, for any number of steps, and under autocast casts around them."""
    shapes_of_torch.correct()
    casts = {op: recurrent_casts.written_out(op) for op in recurrent_casts.LAYERS}
    with composites_by(dict.fromkeys(casts, _stay)):
        for op, with_casts in casts.items():
            with_autograd_kernels(op, lambda kernel, with_casts=with_casts: functools.partial(_first, with_casts, kernel))
        yield


def _first(function, otherwise, *args):
    made = function(*args)
    return otherwise(*args) if made is NotImplemented else made


def _is_cast(op) -> bool:
    """True if autocast knows the operator on every device."""
    return all(op.has_kernel_for_dispatch_key(key) for key in autocast.KEYS.values())


def _stay(*args, **kwargs):
    return NotImplemented  # torch then records the operator itself


def _batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon, cudnn_enabled):
    if not training:
        return NotImplemented
    if mean is None:
        return _aten._native_batch_norm_legit.no_stats(x, weight, bias, training, momentum, epsilon)[0]
    return _aten._native_batch_norm_legit.default(x, weight, bias, mean, variance, training, momentum, epsilon)[0]


def _instance_norm(x, weight, bias, mean, variance, use_input_stats, momentum, epsilon, cudnn_enabled):
    if not use_input_stats or mean is None:
        return NotImplemented
    return call_kernel(_aten.instance_norm.default, DispatchKey.CompositeImplicitAutograd, x, weight, bias, mean, variance, use_input_stats, momentum, epsilon, cudnn_enabled)


# Torch decomposes these even if told to keep them: in training they write running statistics, and a dropout may return its operand (identities.py replaces it then).
_STATEFUL = {_aten.batch_norm.default: _batch_norm, _aten.instance_norm.default: _instance_norm, _aten.dropout.default: _stay}


def _kron(a, b):
    axes = max(a.dim(), b.dim())
    a, b = (x.reshape([*[1] * (axes - x.dim()), *x.shape]) for x in (a, b))
    pairs = a.reshape([n for size in a.shape for n in (size, 1)]) * b.reshape([n for size in b.shape for n in (1, size)])
    return pairs.reshape([m * n for m, n in zip(a.shape, b.shape)])


def _combinations(x, r=2, with_replacement=False):
    if x.dim() != 1 or r < 0:
        return NotImplemented
    if r == 0:
        return x.new_empty([0])
    n = x.shape[0]
    places, count = [torch.arange(n, device=x.device)], n  # of each combination's first element, of its second, and so on
    for k in range(1, r):  # each goes on with every place from its last one, or from the next, on
        count = count * (n + k if with_replacement else n - k) // (k + 1)
        begins = places[-1] + (0 if with_replacement else 1)
        before, last = open_numbers.in_rows(count, begins, torch.full_like(begins, n))
        places = [*(place[before] for place in places), last]
    return x[torch.stack(places, 1)]


# Torch's own code of these has no row. That of kron takes plain numbers for sizes; that of combinations selects by a mask, so that the size of its result comes from data.
_WRITTEN_HERE = {_aten.kron.default: _kron, _aten.combinations.default: _combinations}


def _written_here() -> dict:
    return _WRITTEN_HERE | torchao.composites()


# ---- composites that ask about numbers, which a trace does not have


def traced(trace):
    """The result of a tracer that runs the composites' own code for the types of their results. Where one with a row asks about numbers (torch.cov), the tracer runs again and records it as
    it is. So are those whose own code asks about sizes, or fixes them, although their results do not hang on it."""
    shapes_of_torch.correct()
    asking = dict.fromkeys(shapes_of_torch.ASKING_ABOUT_SIZES, _stay) | _written_here()
    while True:
        try:
            with _typed_without_numbers(asking), composites_by(asking):
                return trace()
        except DataDependentOutputException as problem:
            op = _running(problem)
            if op in asking or op not in _with_row():
                raise
            asking[op] = _stay


def _running(problem):
    """The operator that the tracer was recording; None if there is none."""
    frames = [frame for frame, _ in traceback.walk_tb(problem.__traceback__) if frame.f_code is record_of_operator()]
    return frames[-1].f_locals["func"] if frames else None


@contextlib.contextmanager
def _typed_without_numbers(composites):
    """While torch traces: a composite whose own code asks about numbers has the type that follows from any answers it accepts. No type of a row depends on numbers."""
    with typed_by({op: functools.partial(_typed, decomposition_of(op)) for op in composites}):
        yield


def _typed(own_code, mode, op, *args, **kwargs):
    if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):  # its parts have types of their own
        with mode:
            return own_code(*args, **kwargs)
    answers: list[bool] = []
    while True:
        try:
            with mode, _Answers(answers):
                return own_code(*args, **kwargs)
        except RuntimeError:
            # The next in the order of binary numbers: the last question that was answered with no gets a yes.
            while answers and answers[-1]:
                answers.pop()
            if not answers:
                raise
            answers[-1] = True


class _Answers(TorchDispatchMode):
    """Answers the questions of a composite, whether two tensors are equal: with `answers`, and with no from there on, which it adds."""

    def __init__(self, answers):
        super().__init__()
        self._answers, self._asked = answers, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is not _aten.equal.default:
            return function(*args, **(kwargs or {}))
        self._asked += 1
        if self._asked > len(self._answers):
            self._answers.append(False)
        return self._answers[self._asked - 1]


# ---- what is decomposed


def decompositions() -> dict:
    """Torch's own decompositions of ATen's operators that engines do not have, for its tracers."""
    return {op: how for op, how in _without_row().items() if external.of(op) is None}


def in_graph(module: torch.fx.GraphModule) -> bool:
    """True if the graph or a region of it has an operator that torch is to decompose."""
    lacking = any(is_composite(op) or op in _without_row() for op in _lacking(module))
    return lacking or any(map(_keeps_statistics, _nodes(module))) or any(n.target is flexible_attention.OPERATOR for m in _graphs(module) for n in m.graph.nodes)


def cast_in_regions(module: torch.fx.GraphModule) -> bool:
    """True if a region that turns autocast on has a composite whose parts autocast casts: it knows only these."""
    regions = (getattr(m, n.args[4].target) for m in _graphs(module) for n in m.graph.nodes if n.target is autocast.REGION and n.args[2])
    return any(is_composite(n.target) and not _is_cast(n.target) for region in regions for n in _nodes(region))


def _graphs(module):
    return (m for m in module.modules() if isinstance(m, torch.fx.GraphModule))


def _nodes(module):
    return (n for m in _graphs(module) for n in m.graph.nodes if isinstance(n.target, OpOverload))


def _lacking(module) -> set:
    """The operators of a graph that engines do not have."""
    return {n.target for n in _nodes(module) if not has_row(n.target)}


def _keeps_statistics(node) -> bool:
    """True for a norm in training mode that writes running statistics, although its schema does not say so."""
    return node.target in (_aten.batch_norm.default, _aten.instance_norm.default) and node.args[5] is True and node.args[3] is not None


def _with_casts(op, modes):
    """Torch's own decomposition of a composite, whose parts autocast casts where it is on: `modes` knows. Torch's tracers run below autocast, and would decompose without it."""
    decompose = recurrent_casts.written_out(op) if op in recurrent_casts.LAYERS else _written_here().get(op) or decomposition_of(op)

    def run(*args, **kwargs):
        with modes.included():
            return decompose(*args, **kwargs)

    return run


def decomposed(program: torch.export.ExportedProgram, casts=False) -> torch.export.ExportedProgram:
    """The program with these operators decomposed, and without writes in place. Torch itself keeps the composites that have a row here, if it takes them for pure.
    casts: as in `whole`."""
    table, found = decompositions(), {n.target for n in _nodes(program.graph_module)}
    modes = autocast.Modes()
    table |= {op: _with_casts(op, modes) for op in found if is_composite(op) and op not in _STATEFUL and (not has_row(op) or casts and not _is_cast(op))}
    read_data = _typed_without_numbers(set(_with_row()) & found - table.keys())
    with modes, read_data, composites_by({_aten.batch_norm.default: _batch_norm}), flexible_attention.written_out(), without_warnings_of_trees():
        return program.run_decompositions(table | {_aten.instance_norm.default: _instance_norm})
