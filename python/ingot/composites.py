"""Which operators torch decomposes while it traces: composites without a row in the operator table, and never one that has a row. The same at every way in.

Torch decomposes composites differently by device, type and mode: batch norm of float32 becomes `cudnn_batch_norm` on a GPU and `_native_batch_norm_legit` elsewhere.
A composite that stays whole is one operator on every device.
"""

from __future__ import annotations

import contextlib
import functools

import torch
from torch._export.utils import _collect_all_valid_cia_ops, _is_cia_op
from torch.export.exported_program import _override_composite_implicit_decomp, default_decompositions

from . import _library, external

_aten = torch.ops.aten
_AUTOCAST = (torch._C.DispatchKey.AutocastCPU, torch._C.DispatchKey.AutocastCUDA)


@functools.cache
def _rows() -> frozenset[str]:
    return frozenset(op["name"] for op in _library.ops())


def has_row(op) -> bool:
    """True if engines have the operator: from the operator table, or by a user's kernel."""
    return str(op) in _rows() or external.of(op) is not None


# ---- while torch traces


@contextlib.contextmanager
def whole(casts=False):
    """While torch traces: composites that have a row are recorded as they are. casts: under autocast. There a composite that autocast does not know, such as einsum, is decomposed,
    because autocast casts the operands of its parts."""
    kept = [op for op in _collect_all_valid_cia_ops() if has_row(op) and (not casts or all(op.has_kernel_for_dispatch_key(key) for key in _AUTOCAST))]
    with _override_composite_implicit_decomp({op: _stay for op in kept} | _STATEFUL):
        yield


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
    return _aten.instance_norm.default._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, x, weight, bias, mean, variance, use_input_stats, momentum, epsilon, cudnn_enabled)


# Torch decomposes these even if told to keep them: in training they write running statistics, and a dropout may return its operand (identities.py replaces it then).
_STATEFUL = {_aten.batch_norm.default: _batch_norm, _aten.instance_norm.default: _instance_norm, _aten.dropout.default: _stay}


# ---- what is decomposed


def decompositions() -> dict:
    """Torch's own decompositions of the operators that have no row. Random operators are left out: a decomposition draws other numbers than eager."""
    return {op: how for op, how in default_decompositions().items() if not has_row(op) and torch.Tag.nondeterministic_seeded not in op.tags}


def in_graph(module: torch.fx.GraphModule) -> bool:
    """True if the graph or a region of it has an operator that torch is to decompose."""
    nodes = [n for m in module.modules() if isinstance(m, torch.fx.GraphModule) for n in m.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    lacking = {n.target for n in nodes if not has_row(n.target)}
    return any(map(_is_cia_op, lacking)) or any(map(_keeps_statistics, nodes)) or bool(lacking) and not lacking.isdisjoint(decompositions())


def _keeps_statistics(node) -> bool:
    """True for a norm in training mode that writes running statistics, although its schema does not say so."""
    return node.target in (_aten.batch_norm.default, _aten.instance_norm.default) and node.args[5] is True and node.args[3] is not None


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with these operators decomposed, and without writes in place. Torch itself keeps the composites that have a row here, as far as it takes them for pure."""
    with _override_composite_implicit_decomp({_aten.batch_norm.default: _batch_norm}):
        return program.run_decompositions(decompositions() | {_aten.instance_norm.default: _instance_norm})
