"""A fix changes a captured graph: what torch's own graph gets wrong, or what no engine takes. fixes/order.py lists them; each is a file of `fixes`. src/ir/pass.h is the same for passes."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..base import debug
from ..errors import InternalError
from .traced import Traced


class Stage(enum.Enum):
    """What a fix changes. Torch makes a graph functional between the last two."""

    ALONE = "a graph of which nothing may stay in torch, which torch traces again then"
    TRACED = "a graph as torch traced it: Dynamo's, of Python functions, or an exported program. It may write in place"
    WRITING = "a graph of ATen's operators that writes in place, or has other operators that torch is to write out"
    FUNCTIONAL = "a graph that writes nothing in place"


@dataclass(frozen=True)
class Fix:
    """wanted: whether the graph has what the fix is for, which is quick to say. apply: changes the graph; False if it left it as it was."""

    stage: Stage
    name: str
    purpose: str
    wanted: Callable[[Traced], bool]
    apply: Callable[[Traced], bool | None]


def any_wanted(fixes: Iterable[Fix], traced: Traced) -> bool:
    return any(fix.wanted(traced) for fix in fixes)


def run(fixes: Iterable[Fix], traced: Traced):
    """Applies the fixes that the graph wants, in order, without those that INGOT_DISABLE names. The graph is verified after each. INGOT_LOG tells it, INGOT_DUMP=folder writes the graph before
    and after each."""
    debug.check_disabled()
    applied = False
    for fix in fixes:
        if not fix.wanted(traced):
            continue
        if debug.is_disabled(fix.name):
            debug.log(f"{fix.name} is left out")
            continue
        text, start = debug.dumps() and _text(traced), time.perf_counter()
        if fix.apply(traced) is False:
            continue
        seconds = time.perf_counter() - start
        _verify(fix.name, traced)
        debug.log(fix.name, seconds, f"{len(traced.graph.nodes)} nodes")
        if text:
            debug.dump(f"fix_{fix.name}_before", text)
            debug.dump(f"fix_{fix.name}_after", _text(traced))
        applied = True
    if applied:
        traced.module.recompile()


def _verify(name, traced):
    try:
        traced.graph.lint()
    except Exception as problem:  # RuntimeError and what it meets on its way
        raise InternalError(f"the fix {name} left an invalid graph: {problem}") from problem


def _text(traced) -> str:
    return traced.module.print_readable(print_output=False)
