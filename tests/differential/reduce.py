"""Reduces a failing program to a smaller one that fails in the same way: fewer results, steps, sources, arguments, calls and sizes; simpler values."""

from __future__ import annotations

import copy
import time
from dataclasses import replace

import torch
import values
from observe import Eager
from random_program import Program, Ref, Size, Step, operator, read_by, renamed
from values import Source


def alive(program: Program) -> Program:
    """The program without sources that nothing reads."""
    read = set(program.results).union(*(read_by(step) for step in program.steps))
    for source in reversed(program.sources):
        if source.name in read and source.base:
            read.add(source.base)
    sources = [s for s in program.sources if s.name in read]
    symbols = {n for s in sources if s.role == "input" for n in s.shape if isinstance(n, str)}
    return replace(program, sources=sources, sizes=[{s: n for s, n in call.items() if s in symbols} for call in program.sizes])


class Reducer:
    """fails(program): the kind of its failure, or None."""

    def __init__(self, program: Program, kind: str, fails, seconds: float = 60):
        self.program, self.kind, self.fails = program, kind, fails
        self.end = time.monotonic() + seconds
        self.tries = 0

    def accept(self, candidate: Program | None) -> bool:
        if candidate is None or time.monotonic() > self.end:
            return False
        self.tries += 1
        try:
            candidate = alive(candidate)
            if not candidate.results and not any(operator(s.target)._schema.is_mutable for s in candidate.steps) or self.fails(candidate) != self.kind:
                return False
        except Exception:  # not a valid program any more
            return False
        self.program = candidate
        return True

    def run(self) -> Program:
        passes = [self.fewer_calls, self.fewer_results, self.fewer_steps, self.fixed_sizes, self.plain_arguments, self.plain_sources, self.smaller_sizes, self.plain_values]
        while time.monotonic() < self.end:
            before = repr(self.program)
            for change in passes:
                change()
            if repr(self.program) == before:
                break
        return self.program

    # ---- reductions, named after what they try

    def fewer_results(self):
        for name in list(self.program.results):
            if len(self.program.results) > 1 and self.accept(replace(self.program, results=[name])):
                return
        for at in reversed(range(len(self.program.results))):
            results = [n for i, n in enumerate(self.program.results) if i != at]
            self.accept(replace(self.program, results=results))

    def fewer_steps(self):
        at = len(self.program.steps) - 1
        while at >= 0:
            step = self.program.steps[at]
            rest = [s for i, s in enumerate(self.program.steps) if i != at]
            used = set(self.program.results).union(*(read_by(s) for s in rest)) & set(step.names)
            if not used:
                self.accept(replace(self.program, steps=rest))
            elif not self.accept(self.without_results(rest, used)):
                operands = [v.name for v in step.args if isinstance(v, Ref)]
                any(self.accept(self.with_names(rest, dict.fromkeys(used, name))) for name in operands) or self.accept(self.with_values(at, used))
            at = min(at, len(self.program.steps)) - 1

    def without_results(self, rest, used):
        if any(used & read_by(s) for s in rest):
            return None
        return replace(self.program, steps=rest, results=[n for n in self.program.results if n not in used])

    def with_names(self, rest, names):
        steps = [Step(s.target, renamed(s.args, names), {k: renamed(v, names) for k, v in s.kwargs.items()}, s.names, s.listed) for s in rest]
        return replace(self.program, steps=steps, results=[names.get(n, n) for n in self.program.results])

    def with_values(self, at, used):
        """Replaces a step by inputs with its results."""
        if self.program.dynamic:
            return None
        eager, step = Eager(self.program), self.program.steps[at]
        sources = list(self.program.sources)
        for i, name in enumerate(step.names):
            if name in used:
                made = [eager.values[call, at][i] for call in range(len(self.program.sizes))]
                sources.append(Source(name, "input", made[0].dtype, tuple(made[0].shape), literal=made))
        return replace(self.program, sources=sources, steps=[s for i, s in enumerate(self.program.steps) if i != at])

    def fewer_calls(self):
        while len(self.program.sizes) > 1 and self.accept(replace(self.program, sizes=self.program.sizes[:-1])):
            pass
        if len(self.program.sizes) > 1:
            self.accept(replace(self.program, sizes=[self.program.sizes[0], self.program.sizes[-1]]))

    def fixed_sizes(self):
        for symbol in list(self.program.sizes[0]):
            sources = [replace(s, shape=tuple(self.program.sizes[0][symbol] if n == symbol else n for n in s.shape)) for s in self.program.sources]
            sizes = [{s: n for s, n in call.items() if s != symbol} for call in self.program.sizes]
            self.accept(replace(self.program, sources=sources, sizes=sizes))

    def plain_arguments(self):
        for at, step in enumerate(list(self.program.steps)):
            for key in list(step.kwargs):
                self._step(at, kwargs={k: v for k, v in self.program.steps[at].kwargs.items() if k != key})
            while len(args := self.program.steps[at].args) > 1 and self._step(at, args=args[:-1]):
                pass
            for i, value in enumerate(list(self.program.steps[at].args)):
                for plain in self._plainer(value):
                    args = list(self.program.steps[at].args)
                    args[i] = plain
                    if self._step(at, args=args):
                        break

    def _plainer(self, value):
        if isinstance(value, Size):
            return [2, 1]
        if isinstance(value, float) and value not in (1.0, 2.0):
            return [1.0, 2.0]
        if isinstance(value, list) and len(value) > 1 and all(isinstance(v, Ref) for v in value):
            return [value[:1], value[1:]]
        return []

    def _step(self, at, **changes):
        steps = list(self.program.steps)
        steps[at] = replace(steps[at], **changes)
        return self.accept(replace(self.program, steps=steps))

    def _source(self, at, **changes):
        sources = list(self.program.sources)
        sources[at] = replace(sources[at], **changes)
        return self.accept(replace(self.program, sources=sources))

    def plain_sources(self):
        for at in range(len(self.program.sources)):
            if at >= len(self.program.sources):
                break
            source = self.program.sources[at]
            if source.base is not None:
                self._source(at, base=None, layout=("dense",), seed=at)
            elif source.layout != ("dense",):
                self._source(at, layout=("dense",))
            if at < len(self.program.sources) and self.program.sources[at].role != "input":
                self._source(at, role="input")
            for kind in ("ones", "count", "short"):
                if at < len(self.program.sources) and self.program.sources[at].literal is None:
                    source = self.program.sources[at]
                    if source.values in ("ones", "index", "permuted") or source.values == kind or self._source(at, values=kind):
                        break

    def smaller_sizes(self):
        sizes = sorted({n for s in self.program.sources for n in s.shape if isinstance(n, int) and n > 1}, reverse=True)
        for size in sizes:
            for smaller in (1, 2, size // 2, size - 1):
                if 0 < smaller < size and self.accept(self._resized(size, smaller)):
                    break

    def _resized(self, size, smaller):
        sources = []
        for s in self.program.sources:
            shape = tuple(smaller if n == size else n for n in s.shape)
            literal = s.literal and [t[tuple(slice(smaller) if n == size else slice(None) for n in t.shape)].clone() for t in s.literal]
            sources.append(replace(s, shape=shape, literal=literal, high=min(s.high, smaller) if s.high == size else s.high))

        def smaller_in(value):
            if isinstance(value, list):
                return [smaller_in(v) for v in value]
            return smaller if type(value) is int and value == size else value

        steps = [replace(s, args=[smaller_in(a) if isinstance(a, list) else a for a in s.args], kwargs={k: smaller_in(v) if isinstance(v, list) else v for k, v in s.kwargs.items()}) for s in self.program.steps]
        return replace(self.program, sources=sources, steps=steps)

    def plain_values(self):
        """Element by element, for small sources."""
        for at, source in enumerate(list(self.program.sources)):
            if source.base is not None or self.program.dynamic or source.values in ("ones", "index", "permuted", "count"):
                continue
            made = source.literal or [values.draw(source, [self.program.sizes[0].get(n, n) for n in source.shape], c) for c in range(len(self.program.sizes))]
            if made[0].numel() > 16 or at >= len(self.program.sources):
                continue
            for call, t in enumerate(made):
                for i in range(t.numel()):
                    if t.reshape(-1)[i] == 1:
                        continue
                    changed = copy.deepcopy(made)
                    changed[call].view(-1)[i] = torch.ones((), dtype=t.dtype)
                    if self._source(at, literal=changed):
                        made = changed
