"""Conditions on sizes on which the model's Python code branches. A traced graph has one branch only, so it is right only where the condition has the answer of the trace.

torch keeps such a condition as a guard, which a graph does not have: `if n * m >= 12`, `if n % 2 == 0`, `torch._check(n <= m)`. fixes/size_checks.py makes checks of them. Of a model
that ingot traces, they are recorded while torch traces: what torch's operators ask while their results' shapes are traced is about layouts, or the operators check it again
when they run. Of a program that the user exported, they are what torch itself checks: the text that the program keeps.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import operator
import os
import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import sympy
import torch
from torch.export.graph_signature import InputKind

from ...torch_internals.programs import keep_guards, texts_of_guards
from ...torch_internals.sizes import SymT, ValueRanges, asked_by, bound_sympy, functions, int_oo, symbol_is_type
from ...torch_internals.tracing import TracingContext
from ..memory import value_of
from ..traced import NotFunctional

_KEPT = "ingot_branches"
TORCH = os.path.dirname(torch.__file__) + os.sep
INGOT = str(Path(__file__).resolve().parents[2]) + os.sep
_PART_OF_MODELS = tuple(TORCH + name for name in ("nn" + os.sep, "functional.py", "_tensor.py"))  # torch's Python code that models are made of
_IN_PLACE_OF_OTHERS = tuple(str(Path(__file__).with_name(name)) for name in ("open_numbers.py", "equal_tensors.py", "open_calls.py"))
_ASK_FOR_OTHERS = (TORCH + "__init__.py", TORCH + "overrides.py", *_IN_PLACE_OF_OTHERS)  # SymInt.__bool__, torch._check, torch._assert; functions in the place of torch's
_COMPARISONS = {"eq": sympy.Eq, "ne": sympy.Ne, "lt": sympy.Lt, "le": sympy.Le, "gt": sympy.Gt, "ge": sympy.Ge}
_DYNAMO = os.path.join(TORCH, "_dynamo") + os.sep
_REGIONS_OF_DYNAMO = os.path.join(_DYNAMO, "variables", "higher_order_ops.py")  # asks for torch.cond, scan and the like
_INTERPRETER = os.path.join(TORCH, "fx", "interpreter.py")
_DYNAMO_BRANCHES = "_dynamo/variables/"  # where Dynamo asks for the model


@dataclass(frozen=True)
class Branch:
    condition: sympy.Basic  # what held in the trace, over sizes of inputs (`_size`)
    line: str               # 'file:line', or "" if it is not known


def size_of(index: int, axis: int | None) -> sympy.Symbol:
    """The size of an axis of an input, by the input's position among all of them. Without an axis: the input itself, an int."""
    return sympy.Symbol(f"{index}" if axis is None else f"{index}.{axis}", integer=True, nonnegative=True)


def place_of(size: sympy.Symbol) -> tuple[int, int | None] | None:
    found = re.fullmatch(r"(\d+)(?:\.(\d+))?", size.name)
    return found and (int(found[1]), None if found[2] is None else int(found[2]))


def leaves_of(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    return [nodes[s.arg.name] for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]


def _by_symbol(leaves) -> dict[sympy.Symbol, sympy.Basic]:
    """torch's symbols, each as what it is of an input's size."""
    found = {}
    for index, node in enumerate(leaves):
        value = value_of(node)
        sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) else [(None, value)]
        for axis, size in sizes:
            if isinstance(size, torch.SymInt) and len(size.node.expr.free_symbols) == 1:
                (symbol,) = size.node.expr.free_symbols
                slope, offset = size.node.expr.diff(symbol), size.node.expr.subs(symbol, 0)
                if slope.is_Integer and slope > 0:  # as 2*s0 + 1
                    found.setdefault(symbol, functions.FloorDiv(size_of(index, axis) - offset, slope))
    return found


# ---- recorded while torch traces


class Branches:
    """Records the conditions while torch traces. For one thread at a time (tracing.py)."""

    def __init__(self):
        self.found: dict[sympy.Basic, str] = {}  # and the line of each
        self._fixing: dict[sympy.Basic, str] = {}  # what an operator's numbers fix, and the line of each
        self.readers: set[types.CodeType] = set()  # functions of the model that took a size as a plain number
        self._decided: dict = {}  # what torch compares and decides because its symbols are at least 1, by the result's node

    def __enter__(self):
        self._patch = asked_by(self._noting, lambda compare, name: self._comparing(compare, _COMPARISONS[name]))
        self._patch.__enter__()
        return self

    def __exit__(self, *problem):
        self._patch.__exit__(None, None, None)

    def _comparing(self, compare, relation):
        def compared(size, other):
            made = compare(size, other)
            if isinstance(made, torch.SymBool) and not getattr(made.node, "expr", made).free_symbols:
                sides = [sympy.sympify(getattr(getattr(side, "node", None), "expr", side)) for side in (size, other)]
                if free := {s: from_zero(s) for side in sides for s in side.free_symbols}:
                    self._decided[made.node] = relation(*(side.xreplace(free) for side in sides))
            return made

        return compared

    def _noting(self, answer):
        def asked(size, *more):
            node = getattr(size, "node", size)
            expression = getattr(node, "expr", None)  # before the answer, which torch puts in its place
            made = answer(size, *more)
            if isinstance(expression, sympy.Basic) and not expression.free_symbols:
                expression = self._decided.get(node, expression)
            frame = sys._getframe(1)
            while node is size and frame.f_code.co_name == "__torch_function__":  # between an operator and what it asks
                frame = frame.f_back
            if isinstance(expression, sympy.Basic) and (line := line_of_model(frame)) is not None:
                condition = sympy.Eq(expression, made) if type(made) is int else expression if made else sympy.Not(expression)
                self._fixing.setdefault(condition, line) if node is size else self._add(condition, line)
                if type(made) is int and node is not size and expression.free_symbols:
                    self.readers.add(_asking(frame).f_code)
            return made

        return asked

    def answer(self, condition: torch.SymBool, frame) -> bool:
        """The truth of a condition that a tensor gives, for which the model's code asks from this frame on."""
        expression, made = condition.node.expr, condition.node.guard_bool("", 0)
        while frame is not None and line_of_model(frame) is None:
            frame = frame.f_back
        self._add(expression if made else sympy.Not(expression), line_of_model(frame) if frame is not None else "")
        return made

    def _add(self, condition, line):
        if condition.free_symbols:
            self.found.setdefault(condition, line)

    def line_that_fixes(self, number: int) -> str:
        """The line of the model at which a size, or something computed from it, became this number, as in range(n); "" if none is known."""
        equal = [(condition, line) for condition, line in (*self.found.items(), *self._fixing.items()) if isinstance(condition, sympy.Eq) and line]
        of_size = (line for condition, line in equal if number in condition.args)
        computed = (line for condition, line in equal if len(s := condition.free_symbols) == 1 and condition.xreplace(dict.fromkeys(s, sympy.Integer(number))) == sympy.true)
        fixing = itertools.chain(of_size, computed)
        file, _, line = next(fixing, "").rpartition(":")
        return f"{file}:{line}: `{linecache.getline(file, int(line)).strip()}`" if file else ""

    def leave_in(self, program: torch.export.ExportedProgram, strict: bool):
        """Keeps them in the program, for the checks. Takes away guards that are not conditions of the model."""
        environment = _environment(program)
        if environment is None:
            return
        for guard in environment.guards if strict else ():
            if _DYNAMO_BRANCHES in str(guard.sloc):
                self._add(guard.expr, _line_of(guard.sloc, program))
        kept, sizes = {}, _by_symbol(leaves_of(program))
        sizes |= {from_zero(symbol): size for symbol, size in sizes.items()}
        for condition, line in self.found.items():
            condition = environment.replace(condition)  # sizes that torch has since found to be equal have one symbol
            # One on data has a node in the graph.
            if not condition.free_symbols or not all(symbol_is_type(s, SymT.SIZE) for s in condition.free_symbols):
                continue
            # Libraries ask whether a size is 1 for speed (transformers: no mask for one token), and must give the same results. A model's own code means it.
            if _only_excludes_0_or_1(condition) and ("-packages" in line or line.startswith(TORCH) or strict and not line):
                continue
            kept.setdefault(condition, Branch(condition.xreplace(sizes), line))
        program.graph_module.meta[_KEPT] = list(kept.values())
        if not kept:  # whether a product of sizes is 0 or 1 is a question about layouts: torch answers it for plain symbols without a guard
            keep_guards(program, lambda text: not text.endswith((">= 2", "> 1", "!= 1", "!= 0", ">= 1", "> 0")))


def from_zero(symbol: sympy.Symbol) -> sympy.Symbol:
    """torch's symbol without its assumption that no size is 0."""
    return sympy.Symbol(symbol.name, integer=True, nonnegative=True)


def _only_excludes_0_or_1(condition) -> bool:
    """Whether only 0 or 1 elements along one axis break the condition: torch takes a size that is neither in the example for one that never is."""
    return len(condition.free_symbols) == 1 and is_implied(condition, {s: ValueRanges(2, int_oo) for s in condition.free_symbols})


def is_implied(condition, ranges) -> bool:
    if condition in (True, False):
        return bool(condition)
    bounds = bound_sympy(condition, ranges)
    return bounds.lower == sympy.true


def _environment(program):
    return next((v.fake_mode.shape_env for n in program.graph.nodes if n.op == "placeholder" and hasattr(v := value_of(n), "fake_mode")), None)


def _asking(frame):
    """The frame for which this one asks."""
    asks = frame
    while frame.f_code.co_filename in _ASK_FOR_OTHERS or frame is not asks and frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    return frame


def line_of_model(frame) -> str | None:
    """The line of the model that asks, "" if it is not known; None if torch or ingot asks for itself."""
    frame = _asking(frame)
    file = frame.f_code.co_filename
    if file.startswith((TORCH, INGOT)) and not file.startswith(_PART_OF_MODELS):
        if not file.startswith(_DYNAMO) and file != _INTERPRETER or file == _REGIONS_OF_DYNAMO:
            return None
        asks = TracingContext.extract_stack()  # Dynamo asks for the model, or torch runs what Dynamo wrote down of it
        return f"{asks[-1].filename}:{asks[-1].lineno}" if asks else ""
    return "" if file.startswith("<") else f"{file}:{frame.f_lineno}"


# ---- read from a program


def branches_of(program: torch.export.ExportedProgram) -> list[Branch]:
    """The conditions of a program. Raises NotFunctional if one has no form here."""
    kept = program.graph_module.meta.get(_KEPT)
    if kept is not None:
        return kept
    texts, leaves = texts_of_guards(program), leaves_of(program)
    return [Branch(_Text(text, leaves).condition, line) for text, line in zip(texts, _lines(program, texts))]


def carried(program: torch.export.ExportedProgram, branches: list[Branch]) -> torch.export.ExportedProgram:
    """The program with these conditions. It was made of one that had them, and takes the same inputs."""
    program.graph_module.meta[_KEPT] = branches
    return program


class _Text:
    """A condition in torch's text: "L['x'].size()[0]*L['y'].size()[1] >= 12". The text may come from a file; it is never executed."""

    _COMPARE = {ast.Eq: sympy.Eq, ast.NotEq: sympy.Ne, ast.Lt: sympy.Lt, ast.LtE: sympy.Le, ast.Gt: sympy.Gt, ast.GtE: sympy.Ge}
    _COMPUTE = {
        ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow,
        ast.FloorDiv: functions.FloorDiv, ast.Mod: functions.PythonMod, ast.Div: functions.IntTrueDiv,
    }  # fmt: skip
    _CALLS = {"max": functions.Max, "min": functions.Min, "math.floor": functions.FloorToInt, "math.ceil": functions.CeilToInt, "math.trunc": functions.TruncToInt}

    def __init__(self, text, leaves):
        self.text, self._leaves = text, leaves
        try:
            self.condition = self._read(ast.parse(text.strip(), mode="eval").body)
        except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
            raise self._unknown() from None

    def _unknown(self):
        return NotFunctional(f"a condition on sizes cannot be checked: {self.text[:200]}")

    def _read(self, node):
        match node:
            case ast.Compare(left, [kind], [right]):
                return self._COMPARE[type(kind)](self._read(left), self._read(right)) if type(kind) in self._COMPARE else self._refuse()
            case ast.BoolOp(kind, parts):
                return (sympy.And if isinstance(kind, ast.And) else sympy.Or)(*map(self._read, parts))
            case ast.UnaryOp(ast.Not(), part):
                return sympy.Not(self._read(part))
            case ast.UnaryOp(ast.USub(), part):
                return -self._read(part)
            case ast.BinOp(left, ast.Pow(), ast.Constant(int(power))) if 0 <= power <= 8:
                return self._read(left) ** power
            case ast.BinOp(left, kind, right) if type(kind) in self._COMPUTE and not isinstance(kind, ast.Pow):
                return self._COMPUTE[type(kind)](self._read(left), self._read(right))
            case ast.Call(function, arguments, []) if (name := ast.unparse(function)) in self._CALLS:
                return self._CALLS[name](*map(self._read, arguments))
            case ast.Constant(int(value) | float(value)):
                return sympy.sympify(value)
            case ast.Subscript(ast.Call(ast.Attribute(path, "size"), [], []), ast.Constant(int(axis))):
                index = self._leaf(path)
                value = value_of(self._leaves[index])
                return size_of(index, axis) if isinstance(value, torch.Tensor) and axis < value.dim() else self._refuse()
            case ast.Subscript():
                index = self._leaf(node)
                value = value_of(self._leaves[index])
                return size_of(index, None) if isinstance(value, torch.SymInt) else sympy.Integer(value) if type(value) is int else self._refuse()
        self._refuse()

    def _refuse(self):
        raise self._unknown()

    def _leaf(self, path) -> int:
        """The input that a path such as L['batch']['ids'][0] names: torch calls it batch_ids_0. torch numbers names that come twice, so one with such a second is unknown."""
        keys = []
        while not isinstance(path, ast.Name):
            match path:
                case ast.Subscript(path, ast.Constant(key)):
                    keys.append(key)
                case ast.Attribute(path, key):
                    keys.append(key)
                case _:
                    self._refuse()
        if len(keys) == 2 and keys[1] == "flat_args":
            return keys[0] if keys[0] in range(len(self._leaves)) else self._refuse()
        name = re.sub("[^a-z0-9]", "_", "_".join(map(str, reversed(keys))).lower())
        names = [leaf.name for leaf in self._leaves]
        if name not in names or any(re.fullmatch(name + r"_\d+", other) for other in names):
            self._refuse()
        return names.index(name)


def _lines(program, texts) -> list[str]:
    """The model's line of each condition; "" where it is not known. A file does not have them."""
    guards = getattr(_environment(program), "guards", ())
    if len(guards) != len(texts):
        return [""] * len(texts)
    return [_line_of(guard.sloc, program) for guard in guards]


def _line_of(place, program) -> str:
    frame, user = getattr(place, "framework_loc", None), re.search(r"# (\S+):(\d+) in ", str(getattr(place, "maybe_user_loc", "")))
    if user is not None:  # torch cuts the beginning of the file's name
        files = re.findall('File "(.*?)", line', "".join(n.meta.get("stack_trace") or "" for n in program.graph.nodes))
        return f"{next((f for f in files if f.endswith(user[1])), user[1])}:{user[2]}"
    file = getattr(frame, "filename", "")
    return f"{file}:{frame.lineno}" if file and (not file.startswith(TORCH) or file.startswith(_PART_OF_MODELS)) else ""
