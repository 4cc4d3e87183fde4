"""Symbolic sizes: torch's symbols, their ranges and its functions for sympy. Without them no size can be open."""

from __future__ import annotations

import contextlib
import sys
import types

import torch
import torch._higher_order_ops
from torch.fx.experimental import _config, symbolic_shapes
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import (  # errors of a trace: a branch on data, a size that nothing binds; guards and limits of sizes; where sizes are made
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    ShapeEnv,
    ShapeGuard,
    StrictMinMaxConstraint,
    free_symbols,
    free_unbacked_symbols,
    statically_known_true,
)
from torch.utils._sympy import functions  # FloorDiv, Max and the like, as torch writes sizes
from torch.utils._sympy.interp import sympy_interp  # computes an expression by other means: with nodes, or with numbers
from torch.utils._sympy.numbers import int_oo  # no upper limit
from torch.utils._sympy.printers import PythonPrinter  # an expression as Python's text, for messages
from torch.utils._sympy.reference import PythonReferenceAnalysis
from torch.utils._sympy.symbol import SymT, symbol_is_type  # whether a symbol is a size or comes from data
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from .patched import patched

square_root = torch._sym_sqrt  # of a size: what math.sqrt becomes in Dynamo's graphs, and in exported programs

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")  # of SymInt


def symbol_of(size):
    """The expression of a symbolic size before torch simplifies it; None of a number."""
    return getattr(getattr(size, "node", None), "_expr", None)


def of_any_size():
    """A context without torch.export's assumption that a size other than 1 in the example is never 1."""
    return _config.patch(backed_size_oblivious=True)


@contextlib.contextmanager
def regions_of_any_size():
    """PATCH torch.compile, by which torch.cond, while_loop and the like trace their functions inside torch.export: they do not assume it either, so that a range may begin with 1. Each trace is a new
    one: Dynamo would ask whether an earlier trace fits, and the answer fixes open sizes to those of that trace.
    PATCH _merge_output, by which torch.cond finds the strides of what both branches give: it orders strides by the example's sizes, without a guard that sizes are 2 or more."""

    def compiling(original):
        def compiled(model=None, **how):
            function = original(of_own_code(model), **how)

            def called(*arguments, **keywords):
                with of_any_size():
                    return function(*arguments, **keywords)

            return called

        return compiled

    def by_example(original):
        def ordered(strides, shape_env=None):
            hints = [getattr(getattr(stride, "node", None), "hint", stride) for stride in strides]
            return original(hints) if all(isinstance(hint, int) for hint in hints) else original(strides, shape_env)

        return ordered

    def merging(original):
        def merged(*outputs, **more):
            from torch._inductor import ir  # as torch does there

            with patched(ir, "get_stride_order", by_example):
                return original(*outputs, **more)

        return merged

    with patched(torch, "compile", compiling), patched(sys.modules["torch._higher_order_ops.cond"], "_merge_output", merging):
        yield


def of_own_code(function):
    """The function again, of which Dynamo has no trace."""
    if not isinstance(function, types.FunctionType):
        return function
    made = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__, made.__dict__ = function.__kwdefaults__, dict(function.__dict__)
    return made


@contextlib.contextmanager
def asked_by(asks, compares):
    """PATCH SymBool.__bool__, SymInt.__int__, SymInt.__index__, SymNode.guard_int, symbolic_shapes.expect_true and SymInt's comparisons: asks(the original) or compares(the original, name) is called instead, with a name of
    COMPARISONS. The conditions on which a model branches are recorded by it."""
    places = [(torch.SymBool, "__bool__"), (torch.SymInt, "__int__"), (torch.SymInt, "__index__"), (SymNode, "guard_int"), (symbolic_shapes, "expect_true")]
    # Operators without a symbolic form of the argument (linspace) ask guard_int, torch._check asks expect_true.
    before = [(place, name, getattr(place, name), asks) for place, name in places]
    before += [(torch.SymInt, f"__{name}__", getattr(torch.SymInt, f"__{name}__"), lambda original, name=name: compares(original, name)) for name in COMPARISONS]
    try:
        for place, name, original, make in before:
            setattr(place, name, make(original))
        yield
    finally:
        for place, name, original, _ in before:
            setattr(place, name, original)
