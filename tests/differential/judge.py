"""Compares the observations of a program with eager's: values by the rule of tests/accuracy.py; types, shapes, strides, shared memory and writes exactly.

Three float64 runs with every rounding changed at random show where rounding matters. An element that moves by more than 64 roundings of the largest, or an integer or bool that
changes, depends on a rounding (through a comparison, a floor, an argmax). Neither value is right or wrong there, so these elements are left out and counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import torch
from accuracy import assert_accurate
from observe import Eager, Seen, Thing
from values import FLOATS

HALVES = (torch.float16, torch.bfloat16)


@dataclass
class Verdict:
    problems: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)  # "elements", "undecidable"


def _kind(t: torch.Tensor) -> torch.Tensor:
    """0 for finite, and one number each for NaN and the infinities."""
    return t.isnan().int() + 2 * t.isposinf().int() + 3 * t.isneginf().int()


class Judge:
    def __init__(self, eager: Eager):
        self.eager = eager
        dtypes = {s.dtype for s in eager.program.sources} | {t.dtype for parts in eager.values.values() for t in parts}
        self.halves = bool(dtypes & set(HALVES))
        self.depth = max((t.numel() for parts in eager.values.values() for t in parts), default=1)
        self.depth = max(self.depth, *(t.values.numel() for t in eager.plain[0].things.values()), 1)
        self.known: dict[tuple, tuple] = {}

    def largest(self, call: int) -> float:
        """The largest of the finite float64 values of a call."""
        tensors = [t for (at, _), parts in self.eager.values.items() if at == call for t in parts] + [thing.values for thing in self.eager.plain[call].things.values()]
        return max((t[t.isfinite()].abs().max().item() for t in tensors if t.dtype is torch.float64 and t.isfinite().any()), default=0.0)

    def undecidable(self, call: int, label: str):
        """(the undecidable elements, how much the others move)"""
        if (call, label) in self.known:
            return self.known[call, label]
        plain, exact = self.eager.plain[call].things[label].values, self.eager.exact[call].things[label].values
        moved = [run[call].things[label].values for run in self.eager.moved]
        if plain.dtype not in FLOATS:
            hangs = plain != exact
            for m in moved:
                hangs |= m != exact
            change = 0.0
        else:
            hangs = torch.zeros_like(exact, dtype=torch.bool)
            finite = exact[exact.isfinite()]
            limit = 64 * torch.finfo(plain.dtype).eps * (finite.abs().max().item() if finite.numel() else 0.0)
            apart = torch.zeros_like(exact)
            for m in moved:
                hangs |= _kind(m) != _kind(exact)
                apart = torch.maximum(apart, (m - exact).abs().nan_to_num(0.0, 0.0, 0.0))
            hangs |= apart > limit
            if self.halves:  # an overflow in half precision does not happen if roundings between fused operators are left out
                hangs |= _kind(plain) != _kind(exact)
            rest = apart[~hangs]
            change = rest.max().item() if rest.numel() else 0.0
        self.known[call, label] = hangs, change
        return hangs, change

    def values(self, call: int, label: str, mine: Thing, verdict: Verdict):
        theirs = self.eager.plain[call].things[label]
        if mine.values.dtype != theirs.values.dtype or mine.shape != theirs.shape:
            verdict.problems.append(f"call {call}: {label} is {mine.values.dtype} {mine.shape}, eager's is {theirs.values.dtype} {theirs.shape}")
            return
        if mine.values.shape != theirs.values.shape:
            verdict.problems.append(f"call {call}: the memory of {label} is {tuple(mine.values.shape)}, eager's is {tuple(theirs.values.shape)}")
            return
        hangs, change = self.undecidable(call, label)
        verdict.counts["elements"] += hangs.numel()
        verdict.counts["undecidable"] += int(hangs.sum())
        keep = ~hangs
        try:
            exact = self.eager.exact[call].things[label].values
            if theirs.values.dtype is torch.float64:  # there is no wider type: if terms cancel, eager's result has a rounding error too
                change = max(change, torch.finfo(torch.float64).eps * self.largest(call))
            assert_accurate(mine.values[keep], theirs.values[keep], exact[keep], self.depth, float64_error=change)
        except AssertionError as problem:
            verdict.problems.append(f"call {call}: {label}: {problem}")

    def compare(self, seen: list[Seen], memory=True) -> Verdict:
        """memory: True compares strides and sharing too, and everything that eager shows; False compares only the values that there are."""
        verdict = Verdict()
        for call, mine in enumerate(seen):
            theirs = self.eager.plain[call]
            if len(mine.live) != len(theirs.live):
                verdict.problems.append(f"call {call}: {len(mine.live)} results, eager has {len(theirs.live)}")
                return verdict
            for label in theirs.things if memory else mine.things:
                self.values(call, label, mine.things[label], verdict)
                if memory and mine.things[label].strides != theirs.things[label].strides:
                    verdict.problems.append(f"call {call}: strides of {label} are {mine.things[label].strides}, eager's are {theirs.things[label].strides}")
            if memory and mine.aliases != theirs.aliases:
                more, less = sorted(mine.aliases - theirs.aliases), sorted(theirs.aliases - mine.aliases)
                verdict.problems.append(f"call {call}: memory is shared otherwise than in eager: more {more}, less {less}")
            if memory:
                shared = {alias.partition(" = ")[0] for alias in theirs.aliases if "= result" not in alias}
                for label in shared:
                    if mine.things[label].offset != theirs.things[label].offset:
                        verdict.problems.append(f"call {call}: {label} is another part of the memory it shares")
        for call, mine in enumerate(seen[:-1]) if memory else ():  # later calls may change earlier results only if eager's do
            now = self.eager.plain[call].again()
            for label, thing in mine.again().items():
                before, after, eager = mine.things[label].values, thing.values, now[label].values
                changed = not torch.equal(before.nan_to_num(), after.nan_to_num())
                expected = not torch.equal(self.eager.plain[call].things[label].values.nan_to_num(), eager.nan_to_num())
                if changed and not expected:
                    verdict.problems.append(f"call {call}: {label} was changed by a later call")
        return verdict
