"""Assertions about data in a model's own code: `assert (x > 0).all()` and `if torch.any(x < 0): raise ValueError(...)`.

torch.export does not branch on data. Where one of the two branches only raises, the other one is traced, and an assertion in the graph refuses the data of the first.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import sys

import torch

from ...base import debug
from ...base.log import log
from ...torch_internals.operators import assert_async
from ...torch_internals.tensors import is_fake
from ...torch_internals.tracing import truth_answered_by
from .branches import line_of_model


class OnlyRaises:
    """While torch exports: such statements become `aten._assert_async`. For one thread at a time (tracing.py)."""

    def __enter__(self):
        self._patch = truth_answered_by(lambda ask: lambda tensor: _answered(tensor, ask, sys._getframe(1)))
        self._patch.__enter__()

    def __exit__(self, *problem):
        self._patch.__exit__(None, None, None)


def _answered(tensor, ask, frame):
    line = line_of_model(frame)
    found = _refused(*line.rsplit(":", 1)) if line and not debug.is_disabled("only_raises") and tensor.numel() == 1 and _is_traced(tensor) else None
    if found is None:
        return ask(tensor)
    answer, said = found
    if tensor.device.type != "cpu":
        log.warning("what the model asserts at %s is not checked: the host would wait for the GPU", line)
    truth = tensor if tensor.dtype is torch.bool else tensor != 0
    assert_async(truth.reshape(()) if answer else truth.reshape(()).logical_not(), said)
    return answer


def _is_traced(tensor) -> bool:
    return is_fake(tensor) and getattr(tensor, "constant", None) is None


def _refused(file: str, line: str) -> tuple[bool, str] | None:
    """What a condition must be at this line of code so that the statement does not raise, and the exception's code. None if it does something else, or it is not clear what is asked."""
    statement = _statements(file).get(int(line))
    if isinstance(statement, ast.Assert):
        holds, said = True, statement
    elif isinstance(statement, ast.If) and _raises(statement.body):
        holds, said = False, statement.body[-1]
    elif isinstance(statement, ast.If) and _raises(statement.orelse):
        holds, said = True, statement.orelse[-1]
    else:
        return None
    answers = _answers(statement.test, holds)
    return (answers.pop(), ast.unparse(said)) if len(answers) == 1 else None


def _answers(test, holds: bool) -> set[bool]:
    """What the tensors of a condition must be so that all of it is `holds`; both if it is not clear."""
    match test:
        case ast.UnaryOp(ast.Not(), part):
            return _answers(part, not holds)
        case ast.BoolOp(kind, parts) if isinstance(kind, ast.And) is holds:
            return set().union(*(_answers(part, holds) for part in parts))
        case ast.Compare(_, [_, _, *_]) if not holds:
            return {True, False}
    return {True, False} if any(map(asks_itself, ast.walk(test))) else {holds}


def asks_itself(part) -> bool:
    """True for code that may ask for the truth of a tensor other than the condition's value: `max(a, b) > 3`."""
    match part:
        case ast.Call(ast.Name(name)):
            return name != "bool" and hasattr(builtins, name)
        case ast.Compare():
            return any(isinstance(kind, (ast.In, ast.NotIn)) for kind in part.ops)
    return isinstance(part, (ast.BoolOp, ast.IfExp, ast.Not, ast.comprehension, ast.Lambda))


def _raises(body) -> bool:
    """True if these statements do nothing else."""
    return bool(body) and isinstance(body[-1], ast.Raise) and all(isinstance(s, (ast.Assign, ast.AnnAssign)) for s in body[:-1])


@functools.lru_cache(maxsize=64)
def _statements(file: str) -> dict[int, ast.If | ast.Assert]:
    """The statement whose condition stands at each line of a file; none where two share a line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    found: dict = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.Assert, ast.While, ast.IfExp)):
            for line in range(node.test.lineno, node.test.end_lineno + 1):
                found[line] = node if line not in found and isinstance(node, (ast.If, ast.Assert)) else None
    return {line: node for line, node in found.items() if node is not None}
