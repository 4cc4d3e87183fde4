"""Size expressions as plans write them: names, whole numbers, + - *, floordiv, mod, min and max. The text may come from a file: it is parsed into a list of operations and never
executed. Its length and the work to compute it are bounded."""

from __future__ import annotations

import re
from typing import Callable

from ..errors import FormatError, InputError

_MAX_LENGTH = 2000  # operations and operands of one expression: 128000 bits at most, however often it multiplies
_TOKEN = re.compile(r"\s*(?:([0-9]{1,19})(?![0-9A-Za-z_])|([A-Za-z_][A-Za-z0-9_]*)|([-+*(),]))", re.ASCII)
_FUNCTIONS = ("floordiv", "mod", "min", "max")
_BINDS = {"+": 1, "-": 1, "*": 2, "negate": 3}

# An expression in postfix order: numbers, names, and operators on the values before them.
Expression = list


class Operator(str):
    """One of + - * negate, floordiv, mod, min and max."""


def parse(text: str, names, where: str) -> Expression:
    """The expression in a text. Raises FormatError, beginning with `where`, for an invalid text or a name that is not in `names`."""

    def bad(why):
        shown = text if len(text) <= 80 else text[:80] + "..."
        return FormatError(f"{where} is {shown!r}, which is not an expression over sizes: {why}")

    out: Expression = []
    pending: list[list] = []  # operators, opening brackets ("(", function or None, arguments so far)
    at, operand = 0, True  # whether an operand comes next

    def reduce(binding):
        while pending and pending[-1][0] != "(" and _BINDS[pending[-1][0]] >= binding:
            out.append(Operator(pending.pop()[0]))

    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise bad(f"{text[at:].lstrip()[:10]!r} is unknown")
        if len(out) + len(pending) >= _MAX_LENGTH:
            raise bad(f"it has more than {_MAX_LENGTH} parts")
        at = found.end()
        number, name, sign = found.groups()
        if number is not None or name is not None:
            if not operand:
                raise bad(f"an operator is missing before {number or name!r}")
            if number is not None:
                out.append(int(number))
            elif name in _FUNCTIONS and text[at : at + 1] == "(":
                pending.append(["(", name, 1])
                at += 1
                continue
            elif name in names:
                out.append(name)
            else:
                raise bad(f"{name!r} is unknown")
            operand = False
        elif sign == "(":
            if not operand:
                raise bad("an operator is missing before '('")
            pending.append(["(", None, 1])
        elif operand:
            if sign != "-":
                raise bad(f"an operand is missing before {sign!r}")
            pending.append(["negate"])
        elif sign in _BINDS:
            reduce(_BINDS[sign])
            pending.append([sign])
            operand = True
        else:  # , or )
            reduce(0)
            if not pending or sign == "," and pending[-1][1] is None:
                raise bad(f"{sign!r} closes nothing")
            if sign == ",":
                pending[-1][2] += 1
                operand = True
                continue
            _, function, count = pending.pop()
            if function is not None:
                if count < 2 or count > 2 and function in ("floordiv", "mod"):
                    raise bad(f"{function} of {count}")
                out.extend([Operator(function)] * (count - 1))
    if operand:
        raise bad("an operand is missing at its end")
    reduce(0)
    if pending:
        raise bad("a bracket is not closed")
    return out


def floordiv(a, b):
    if isinstance(b, int) and b == 0:
        raise InputError("a size is divided by zero for these inputs")
    return a // b


def mod(a, b):
    if isinstance(b, int) and b == 0:
        raise InputError("a size is divided by zero for these inputs")
    return a % b


_COMPUTE: dict[str, Callable] = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "floordiv": floordiv, "mod": mod, "min": min, "max": max}


def evaluate(expression: Expression, value_of: Callable, compute: Callable | None = None):
    """The value of an expression. value_of(name): the value of a name. compute(operator, *operands): replaces plain arithmetic."""
    stack: list = []
    for part in expression:
        if not isinstance(part, Operator):
            stack.append(value_of(part) if isinstance(part, str) else part)
        elif part == "negate":
            stack.append(compute(part, stack.pop()) if compute is not None else -stack.pop())
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(compute(part, left, right) if compute is not None else _COMPUTE[part](left, right))
    return stack.pop()


def text_of(expression) -> str | None:
    """A sympy expression as such a text; None if it needs other operations."""
    import sympy

    def walk(e):
        if e.is_Integer:
            return str(int(e)) if e >= 0 else f"({int(e)})"
        if e.is_Symbol:
            return str(e)
        kind = type(e).__name__
        if e.is_Add or e.is_Mul:
            return "(" + (" + " if e.is_Add else "*").join(map(walk, e.args)) + ")"
        if e.is_Pow and e.exp.is_Integer and 1 <= e.exp <= 64:
            base = walk(e.base)
            return "(" + "*".join([base] * int(e.exp)) + ")"
        if kind in ("CeilToInt", "FloorToInt") and type(e.args[0]).__name__ == "IntTrueDiv":  # math.ceil(a / b)
            top, bottom = map(walk, e.args[0].args)
            return f"(-floordiv((-{top}), {bottom}))" if kind == "CeilToInt" else f"floordiv({top}, {bottom})"
        name = {"FloorDiv": "floordiv", "CleanDiv": "floordiv", "Mod": "mod", "PythonMod": "mod", "Max": "max", "Min": "min"}.get(kind)
        if name is None:
            raise ValueError(kind)
        return f"{name}({', '.join(map(walk, e.args))})"

    try:
        text = walk(sympy.sympify(expression))
        parse(text, {str(s) for s in expression.free_symbols}, "a size")
        return text
    except (ValueError, FormatError, RecursionError):
        return None
