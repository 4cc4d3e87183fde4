"""What a model's own code asks of data and torch's tracers cannot answer, in a form that they can trace.

A branch whose one side only computes other values for some names: both sides are computed, and torch.where chooses.

    if not torch.isfinite(x).all():
        x = torch.clamp(x, -limit, limit)

A whole number that is read from a tensor, `int(lengths.max())`: it stays a size that comes from data.

Where the model's code took an open size as a plain number, the functions of Python that it called (open_calls.py).

A number that is read only to be asserted, `assert lengths.max().item() <= longest`: it stays a tensor, so that a tensor is asserted, which both tracers take.

Ahead of time such a model is refused otherwise, and torch.compile breaks the graph at the branch. A function is traced in this form; its own code stays as it is.
"""

from __future__ import annotations

import ast
import copy
import functools
import gc
import inspect
import linecache
import os
import re
import textwrap
import traceback
import types

import torch

from ...base import debug
from ...torch_internals.tensors import is_fake
from . import inlined
from .only_raises import asks_itself
from .open_calls import called, elements, in_place_of, stay_open

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OPEN_CALLS = (called, elements)


class BothSides:
    """While torch exports: the forwards of these modules are traced in this form. For one thread at a time (tracing.py)."""

    def __init__(self, module: torch.nn.Module):
        functions = {inspect.unwrap(type(m).forward) for m in module.modules()} if not debug.is_disabled("both_sides") else ()
        self._forms = {f: form for f in functions if isinstance(f, types.FunctionType) and (form := of_code(f.__code__)) is not None}
        self._with_open_calls: dict = {}  # forms, by function

    def __enter__(self):
        forms = self._forms | self._with_open_calls
        self._before = {f: f.__code__ for f in forms}
        for function, form in forms.items():
            function.__code__ = form

    def __exit__(self, *problem):
        for function, code in self._before.items():
            function.__code__ = code

    def add(self, problem: BaseException) -> bool:
        """Adds the functions in whose calls torch could not go on. False if none of them has such a form."""
        if debug.is_disabled("both_sides"):
            return False
        codes = {frame.f_code for frame, _ in traceback.walk_tb(problem.__traceback__)}
        forms = {code: form for code in codes if (form := of_code(code)) is not None}
        found = {f: forms[code] for code in forms for f in _functions_of(code)}
        self._forms |= found
        return bool(found)

    def keep_open(self, codes) -> bool:
        """The next traces keep sizes open that the functions with these codes took as plain numbers. False if that changes nothing."""
        if not stay_open():
            return False
        known = {form: f for f, form in self._forms.items()}
        functions = {f for code in codes for f in ([known[code]] if code in known else _functions_of(code))} - self._with_open_calls.keys()
        found = {f: form for f in functions if (form := of_code(f.__code__, open_calls=True)) is not None}
        self._with_open_calls |= found
        return bool(found)


def _functions_of(code) -> list[types.FunctionType]:
    return [f for f in gc.get_referrers(code) if isinstance(f, types.FunctionType) and f.__code__ is code]


def allow():
    """The functions that Dynamo inlines for a backend of ingot's are traced in this form."""
    inlined.add("both_sides", of_code)


# ---- what the form calls


def is_open(asked) -> bool:
    """Whether the truth of a tensor is asked that is known only when the model runs."""
    if not isinstance(asked, torch.Tensor) or asked.dim() != 0:
        return False
    return torch.compiler.is_dynamo_compiling() or is_fake(asked) and getattr(asked, "constant", None) is None


def opposite(asked):
    return torch.logical_not(asked) if is_open(asked) else not asked


def whole(number):
    """int(number), but a size stays one."""
    number = number.item() if is_open(number) else number
    return number if isinstance(number, torch.SymInt) else int(number)


def unread(number):
    """number.item(), but a tensor stays one, in the type whose values Python's numbers have."""
    if not is_open(number):
        return number.item()
    return number if number.dtype is torch.bool else number.to(torch.float64 if number.is_floating_point() else torch.int64)


def chosen(asked, then, otherwise):
    """One of two values. Of another shape or type, only Python can choose."""
    tensors = isinstance(then, torch.Tensor) and isinstance(otherwise, torch.Tensor)
    if tensors and then.dtype == otherwise.dtype and then.device == otherwise.device and then.shape == otherwise.shape:
        return torch.where(asked if asked.dtype == torch.bool else asked != 0, then, otherwise)
    return then if asked else otherwise


# ---- the form


def of_code(code: types.CodeType, open_calls=False) -> types.CodeType | None:
    """The code of a function in this form; None if it has no such statement, or is not what its file says. open_calls: with calls that keep sizes open."""
    may_have = not code.co_filename.startswith(_TORCH) if open_calls else _may_have(code)
    plain, form = _forms(code.co_filename, open_calls).get((code.co_name, code.co_firstlineno), (None, None)) if may_have else (None, None)
    return form if plain is not None and (plain.co_code, plain.co_names, plain.co_freevars) == (code.co_code, code.co_names, code.co_freevars) else None


@functools.lru_cache(maxsize=4096)
def _may_have(code: types.CodeType) -> bool:
    """Whether a function's own lines have such a statement. To read whole files of those that have none would take a third of torch.compile's time."""
    if code.co_filename.startswith(_TORCH) or code.co_name.startswith("<"):
        return False
    try:
        text = textwrap.dedent("".join(inspect.getsourcelines(code)[0]))
        if _LOOKS_LIKE.search(text) is None:
            return False
        function = ast.parse(text).body[0]
    except (OSError, SyntaxError, ValueError, IndexError, RecursionError):
        return False
    return isinstance(function, ast.FunctionDef) and _has(function)


_LOOKS_LIKE = re.compile(r"\bint\(|^\s+if\b|\.item\(\)", re.MULTILINE)


def _has(function: ast.FunctionDef) -> bool:
    return any(_sides(part, function) or _is_whole(part) or _asserts_numbers(part) for part in _own(function))


@functools.lru_cache(maxsize=1024)
def _forms(file: str, open_calls: bool) -> dict[tuple[str, int], tuple[types.CodeType, types.CodeType]]:
    """The functions of a file with such statements, by name and first line: their code as it is, and in this form."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
        functions = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and (_has(f) or open_calls and any(map(_open_call, _own(f))))]
        if not functions:
            return {}
        before = _codes(compile(tree, file, "exec", dont_inherit=True))
        for function in functions:
            _Rewriter(function, open_calls).generic_visit(function)
            helpers = (is_open, opposite, chosen, whole, unread, *(_OPEN_CALLS if open_calls else ()))
            function.body[:0] = [ast.ImportFrom(f.__module__, [ast.alias(f.__name__, f"_ingot_{f.__name__}")], 0) for f in helpers]
        after = _codes(compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return {place: (before[place], form) for place, form in after.items() if form.co_code != before[place].co_code and form.co_freevars == before[place].co_freevars}


def _codes(code: types.CodeType) -> dict[tuple[str, int], types.CodeType]:
    """The functions in a code, by name and first line."""
    found = {}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= {(constant.co_name, constant.co_firstlineno): constant, **_codes(constant)}
    return found


def _own(function: ast.FunctionDef):
    """What stands in a function, without the functions inside; nothing if it assigns names of others."""
    found, todo = [], list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return []
        found.append(node)
        todo += () if isinstance(node, _SCOPES) else ast.iter_child_nodes(node)
    return found


def _sides(statement, function) -> list[str]:
    """The names that an `if` gives values, if it does nothing else; nothing for other statements."""
    if not isinstance(statement, ast.If) or statement.orelse or not all(isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name) for s in statement.body):
        return []
    if not all(_is_pure(s.value) for s in statement.body) or not any(isinstance(part, ast.Call) and _is_of_torch(part.func) for part in ast.walk(statement.test)):
        return []
    here = set(ast.walk(statement))
    elsewhere = {n.id for n in ast.walk(function) if n not in here and _is_read(n)}
    names, bound = [], _read(statement.test)
    for s in statement.body:
        name = s.targets[0].id
        bound |= _read(s.value) - set(names)
        if name in elsewhere and name not in bound:
            return []  # it might have no value before
        names.append(name)
    return [name for name in dict.fromkeys(names) if name in elsewhere]


def _is_read(node) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _read(expression) -> set[str]:
    return {n.id for n in ast.walk(expression) if _is_read(n)}


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_ARITHMETIC = (ast.Name, ast.Constant, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.unaryop, ast.keyword, ast.expr_context)
_OTHERS = ("finfo", "iinfo", "to", "float", "type_as")
_MAY_RAISE = ("div", "divide", "floor_divide", "remainder", "fmod")  # of integers by zero


def _is_pure(value) -> bool:
    """Arithmetic and pointwise functions of torch, or of tensors, which write nothing and take all values: an index might be wrong where the condition does not hold."""
    return all(isinstance(part, _ARITHMETIC) or isinstance(part, ast.Call) and _is_of_torch(part.func) and _is_pointwise(part.func.attr) for part in ast.walk(value))


def _is_whole(part) -> bool:
    """Whether it is int() of what a tensor's method or a function of torch returns."""
    match part:
        case ast.Call(ast.Name("int"), [ast.Call(function)], []):
            return _is_of_torch(function)
    return False


def _asserts_numbers(statement) -> bool:
    """Whether it asserts numbers that are read from tensors, and nothing but the assertion asks for their truth or identity."""
    if not isinstance(statement, ast.Assert):
        return False
    parts = list(ast.walk(statement.test))
    return any(map(_is_read_number, parts)) and not any(asks_itself(part) or isinstance(part, (ast.Is, ast.IsNot)) for part in parts)


def _is_read_number(part) -> bool:
    match part:
        case ast.Call(ast.Attribute(_, "item"), [], []):
            return True
    return False


def _open_call(part) -> ast.Call | None:
    return in_place_of(part) if isinstance(part, ast.Call) else None


def _is_of_torch(function) -> bool:
    return isinstance(function, ast.Attribute) and hasattr(torch if ast.unparse(function.value) == "torch" else torch.Tensor, function.attr)


@functools.cache
def _is_pointwise(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    return name in _OTHERS or packet is not None and name not in _MAY_RAISE and not name.endswith("_") and any(torch.Tag.pointwise in getattr(packet, o).tags for o in packet.overloads())


class _Rewriter(ast.NodeTransformer):
    def __init__(self, function, open_calls):
        self._function, self._open_calls, self._count = function, open_calls, 0

    def visit(self, node):
        return node if isinstance(node, _SCOPES) else super().visit(node)

    def visit_Call(self, node):
        self.generic_visit(node)
        if _is_whole(node):
            return ast.copy_location(ast.Call(ast.Name("_ingot_whole", ast.Load()), node.args, []), node)
        return self._open_calls and _open_call(node) or node

    def visit_Assert(self, node):
        asserts_numbers = _asserts_numbers(node)
        self.generic_visit(node)
        if asserts_numbers:
            node.test = _Unread().visit(node.test)
        return node

    def visit_If(self, node):
        names = _sides(node, self._function)
        self.generic_visit(node)
        if not names:
            return node
        self._count += 1
        asked, before = f"_ingot_asked_{self._count}", {name: f"_ingot_{name}_{self._count}" for name in names}
        load, store = lambda name: ast.Name(name, ast.Load()), lambda name: ast.Name(name, ast.Store())
        both = [ast.Assign([store(before[name])], load(name)) for name in names]
        both += copy.deepcopy(node.body)
        both += [ast.Assign([store(name)], ast.Call(load("_ingot_chosen"), [load(asked), load(name), load(before[name])], [])) for name in names]
        one = ast.If(load(asked), node.body, [])
        made = [ast.Assign([store(asked)], _opposites(node.test)), ast.If(ast.Call(load("_ingot_is_open"), [load(asked)], []), both, [one])]
        return [ast.fix_missing_locations(ast.copy_location(statement, node)) for statement in made]


class _Unread(ast.NodeTransformer):
    def visit_Call(self, node):
        self.generic_visit(node)
        return ast.copy_location(ast.Call(ast.Name("_ingot_unread", ast.Load()), [node.func.value], []), node) if _is_read_number(node) else node


def _opposites(test):
    """A condition in which `not` of a tensor is a tensor: `a and not b`."""
    match test:
        case ast.UnaryOp(ast.Not(), part):
            return ast.Call(ast.Name("_ingot_opposite", ast.Load()), [part], [])
        case ast.BoolOp(kind, [*parts, last]):
            return ast.BoolOp(kind, [*parts, _opposites(last)])
    return test
