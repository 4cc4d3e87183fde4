"""Conditions on sizes on which the model's Python code branches. A traced graph has one branch only, so it is right only where the condition has the answer of the trace.

torch.export refuses a branch on one open size. A branch on two (`if n * m >= 12`) becomes a guard, which a graph does not have. Each such condition becomes a check in the graph.
Not recorded is what torch's operators ask while their results' shapes are traced: that is about layouts, or the operators check it again when they run.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from dataclasses import dataclass

import sympy
import torch
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis
from torch.utils._sympy.symbol import SymT, symbol_is_type

from . import errors, overlap
from .overlap import NotFunctional, value_of

_KEPT = "ingot_branches"
_INPUT_ERROR = errors.code_of(errors.InputError(""))
_TORCH = os.path.dirname(torch.__file__) + os.sep
_INGOT = os.path.dirname(__file__) + os.sep
_PART_OF_MODELS = tuple(_TORCH + name for name in ("nn" + os.sep, "functional.py", "_tensor.py"))  # torch's Python code that models are made of
_DYNAMO_BRANCHES = "_dynamo/variables/"  # where Dynamo asks for the model


@dataclass(frozen=True)
class Branch:
    condition: sympy.Basic  # what held in the trace
    line: str               # 'file:line', or "" if it is not known


class Branches:
    """Records the conditions while torch traces. For one thread at a time (tracing.py)."""

    def __init__(self):
        self.found: dict[sympy.Basic, Branch] = {}

    def __enter__(self):
        self._before = [(kind, name, getattr(kind, name)) for kind, name in ((torch.SymBool, "__bool__"), (torch.SymInt, "__int__"), (torch.SymInt, "__index__"))]
        for kind, name, answer in self._before:
            setattr(kind, name, self._noting(answer))
        return self

    def __exit__(self, *problem):
        for kind, name, answer in self._before:
            setattr(kind, name, answer)

    def _noting(self, answer):
        def asked(size):
            expression = getattr(size.node, "expr", None)  # before the answer, which torch puts in its place
            made = answer(size)
            if isinstance(expression, sympy.Basic) and (line := _line_of_model(sys._getframe(1))):
                condition = sympy.Eq(expression, made) if type(made) is int else expression if made else sympy.Not(expression)
                self._add(condition, line)
            return made

        return asked

    def _add(self, condition, line):
        if condition.free_symbols:
            self.found.setdefault(condition, Branch(condition, line))

    def leave_in(self, program: torch.export.ExportedProgram, strict: bool):
        """Keeps them in the program, for `with_checks`. Takes away guards that are no conditions of the model."""
        environment = next((v.fake_mode.shape_env for n in program.graph.nodes if n.op == "placeholder" and hasattr(v := value_of(n), "fake_mode")), None)
        if environment is None:
            return
        for guard in environment.guards if strict else ():
            if _DYNAMO_BRANCHES in str(guard.sloc):
                self._add(guard.expr, "")
        kept = {}
        for branch in self.found.values():
            condition = environment.replace(branch.condition)  # sizes that torch has since found to be equal have one symbol
            # torch itself refuses or narrows conditions on a single size. One on data has a node in the graph.
            if len(condition.free_symbols) > 1 and all(symbol_is_type(s, SymT.SIZE) for s in condition.free_symbols):
                kept.setdefault(condition, Branch(condition, branch.line))
        program.graph_module.meta[_KEPT] = list(kept.values())
        if not kept and isinstance(getattr(program, "_guards_code", None), list):
            # Whether a product of sizes is 0 or 1 is a question about layouts: torch answers it for plain symbols without a guard.
            program._guards_code = [g for g in program._guards_code if not g.endswith((">= 2", "> 1", "!= 1", "!= 0", ">= 1", "> 0"))]


def _line_of_model(frame) -> str:
    """The line of the model that asks; "" if torch or ingot asks for itself."""
    if frame.f_code.co_filename == _TORCH + "__init__.py":  # SymInt.__bool__
        frame = frame.f_back
    file = frame.f_code.co_filename
    if file.startswith((_TORCH, _INGOT)) and not file.startswith(_PART_OF_MODELS):
        return ""
    return f"{file}:{frame.f_lineno}"


def branches_of(program: torch.export.ExportedProgram) -> list[Branch]:
    return program.graph_module.meta.get(_KEPT, [])


def with_checks(program: torch.export.ExportedProgram, branches: list[Branch]) -> torch.export.ExportedProgram:
    """The program with a check of each condition before its first call."""
    module = overlap.copied(program)
    sizes = _sizes(module.graph)
    with module.graph.inserting_before(next(n for n in module.graph.nodes if n.op != "placeholder")):
        for branch in branches:
            tracer = _Values(module.graph, branch.line)
            if not branch.condition.free_symbols <= sizes.keys():
                raise NotFunctional(f"the model's code branches on {branch.condition}, which does not follow from the inputs' sizes")
            known = {symbol: sizes[symbol](tracer) for symbol in branch.condition.free_symbols}
            said = f"[ingot:{_INPUT_ERROR}] the model's code branches on sizes, and was compiled for {branch.condition}"
            said += f"\n  at {branch.line}" if branch.line else ""
            tracer.create_proxy("call_function", torch.ops.aten._assert_scalar.default, (sympy_interp(PythonReferenceAnalysis, known, branch.condition), said), {})
    return overlap.updated(program, module, {})


def _sizes(graph) -> dict:
    """For each symbol a function that computes it from an input."""
    found = {}
    for node in graph.nodes:
        value = value_of(node) if node.op == "placeholder" else None
        for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and len(size.node.expr.free_symbols) == 1:
                (symbol,) = size.node.expr.free_symbols
                slope = size.node.expr.diff(symbol)
                if slope.is_Integer and slope > 0:  # as 2*s0 + 1
                    found.setdefault(symbol, functools.partial(_solved, node, axis, int(slope), int(size.node.expr.subs(symbol, 0))))
    return found


def _solved(node, axis, slope, offset, tracer):
    size = tracer.create_proxy("call_function", torch.ops.aten.sym_size.int, (torch.fx.Proxy(node, tracer), axis), {})
    size = size - offset if offset else size
    return size // slope if slope != 1 else size


class _Values(torch.fx.proxy.GraphAppendingTracer):
    """Appends nodes with their values and the model's line."""

    def __init__(self, graph, line):
        super().__init__(graph)
        file, _, number = line.rpartition(":")
        self._trace = f'  File "{file}", line {number}, in forward\n    {linecache.getline(file, int(number)).strip()}\n' if line else None

    def create_node(self, kind, target, args, kwargs, *more, **named):
        node = super().create_node(kind, target, args, kwargs, *more, **named)
        if self._trace:
            node.meta["stack_trace"] = self._trace
        node.meta["val"] = target(*torch.fx.map_arg(args, value_of)) if target is not torch.ops.aten._assert_scalar.default else None
        return node
