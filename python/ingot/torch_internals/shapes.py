"""torch's rules for the shapes of results, and its decompositions of composites. `import ingot` needs these, so they import little."""

from __future__ import annotations

import contextlib

from torch._export.utils import (  # ATen's composites that can be kept whole; one's decomposition; whether an operator is one
    _collect_all_valid_cia_ops_for_aten_namespace as all_composites,
    _get_decomp_for_cia as decomposition_of,
    _is_cia_op as is_composite,
)
from torch._subclasses import fake_impls

from . import operators
from .operators import DispatchKey, OpOverload


@contextlib.contextmanager
def typed_by(rules):
    """PATCH the rules for shapes and types of fake tensors: {operator: rule(mode, operator, *arguments)}, for operators that have none."""
    mine = [op for op in rules if op not in fake_impls.op_implementations_dict]
    for op in mine:
        fake_impls.register_op_impl(op)(rules[op])
    try:
        yield
    finally:
        for op in mine:
            fake_impls._deregister_op_impl(op)


def set_rule(op: OpOverload, rule):
    """PATCH the rules for shapes and types of fake tensors: rule(mode, operator, *arguments) for good, where torch's own refuses what its kernels take."""
    fake_impls.op_implementations_dict[op] = rule


def set_shape_rule(op: OpOverload, rule):
    """PATCH the quick rules for shapes of fake tensors: rule(mode, *arguments). Recurrent layers of open sizes have their shapes by it."""
    fake_impls.register_fast_op_impl(op)(rule)


def without_shapes_of_reference(op: OpOverload):
    """PATCH torch's tables of decompositions: takes out its Python reference, which gives nll_loss of open sizes a wrong shape. torch then asks the operator's parts."""
    from torch._decomp import decomposition_table, meta_table

    for table in (decomposition_table, meta_table):
        table.pop(op, None)
    if op.py_kernels.pop(DispatchKey.Meta, None) is not None:
        operators.kernels_changed(op)


def with_parts(op: OpOverload, make):
    """PATCH torch's decompositions of a composite: make(each) takes its place. torch 2.10 and 2.11 give the last states of an LSTM an axis too many."""
    from torch._decomp import decomposition_table

    for table, key in ((decomposition_table, op), (op.py_kernels, DispatchKey.CompositeImplicitAutograd), (op.py_kernels, DispatchKey.Autograd)):
        if key in table:
            table[key] = make(table[key])
    operators.kernels_changed(op)
