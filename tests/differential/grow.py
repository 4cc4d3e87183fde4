"""Grows a random program: a few tensors, then step after step, each tried in eager at every set of sizes before it is kept."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from functools import lru_cache

import arguments
import sound
import torch
import values
from operators import Operator, table
from random_program import Program, Ref, Size, Step, module, operator
from values import DTYPES, FLOATS, INTEGERS, Source

LARGEST, MOST_AXES, MOST_SOURCES = 1024, 6, 8


@dataclass(frozen=True)
class Kinds:
    """Properties that a campaign draws more or less often. Each is a probability or a weight."""

    dynamic: float = 0.35
    pure: float = 0.60
    view: float = 0.24
    write: float = 0.13
    out: float = 0.03
    special: float = 0.25      # NaN, infinities, denormals, -0.0, extreme integers
    strided: float = 0.35      # inputs that are not dense and row-major
    shared: float = 0.12       # inputs that share memory
    owned: float = 0.45        # sources that are weights, buffers or constants
    newer: float = 0           # 1: operators that are newer than the fixed seeds too
    chain: float = 0           # steps whose first operand is the latest result
    ones: float = 0.12         # axes whose size is 0 or 1
    only: tuple[str, ...] = () # operators, by the beginning of their names: every program calls at least one
    again: float = 0.3         # share of the other steps that call one too
    steps: tuple[int, int] = (3, 8)


class Scope:
    """The values of a growing program, at the sizes of every call."""

    def __init__(self, seed: int, kinds: Kinds):
        self.r, self.kinds = random.Random(seed), kinds
        self.special = self.r.random() < kinds.special
        self.sizes = self._sizes()
        self.sources: list[Source] = []
        self.steps: list[Step] = []
        self.tensors: dict[str, list[torch.Tensor]] = {}
        self.used: set[str] = set()
        self.seed = seed

    def _sizes(self) -> list[dict[str, int]]:
        r = self.r
        if r.random() >= self.kinds.dynamic:
            return [{}, {}]
        symbols = ["n", "m"][: r.choice([1, 1, 2])]
        calls = [{s: r.randint(2, 5) for s in symbols}, {s: r.randint(3, 8) for s in symbols}]
        return [*calls, {s: r.choice([1, 2, 2, 6]) for s in symbols}]

    # ---- questions of arguments.py

    @property
    def names(self):
        return list(self.tensors)

    @property
    def sized(self):
        return [n for n in self.tensors if self.dim(n)]

    def dim(self, name):
        return self.tensors[name][0].dim()

    def dtype(self, name):
        return self.tensors[name][0].dtype

    def shapes(self, name):
        return [tuple(t.shape) for t in self.tensors[name]]

    def symbols(self, name) -> list:
        """Each axis as a number, as the name of a symbol with these sizes, or None."""
        return self.symbols_of_shapes(self.shapes(name))

    def symbols_of_shapes(self, shapes) -> list:
        made = []
        for sizes in zip(*shapes):
            symbol = next((s for s in self.sizes[0] if tuple(c[s] for c in self.sizes) == sizes), None)
            made.append(sizes[0] if len(set(sizes)) == 1 and symbol is None else symbol)
        return made

    def source(self, shape=None, dtype=None, kind=None, high=1, roles=None) -> str:
        """The name of a new source."""
        r = self.r
        if len(self.sources) >= MOST_SOURCES:
            raise ValueError("enough sources")
        if shape is None and self.sources and kind is None and r.random() < self.kinds.shared and (name := self._shared()):
            return name
        if shape is None:
            shape = [r.choice([0, 1]) if r.random() < self.kinds.ones else r.randint(1, 5) for _ in range(r.choice([0, 1, 1, 2, 2, 2, 3, 3, 4]))]
            shape = [r.choice(list(self.sizes[0])) if self.sizes[0] and r.random() < 0.5 else n for n in shape]
        dtype = dtype or r.choice(FLOATS[2:3] * 6 + FLOATS * 2 + INTEGERS + (torch.int64, torch.bool, torch.bool))
        kind = kind or (r.choice(["special", "special", "normal", "short"]) if self.special else r.choice(["normal", "normal", "normal", "short", "positive", "unit", "large"]))
        varies = any(isinstance(n, str) for n in shape)
        owned = not varies and r.random() < self.kinds.owned
        role = r.choice(roles) if roles and not varies else r.choice(["weight", "weight", "buffer", "constant"]) if owned else "input"
        name = f"{ {'input': 'x', 'weight': 'w', 'buffer': 'b', 'constant': 'c'}[role] }{len(self.sources)}"
        made = Source(name, role, dtype, tuple(shape), kind, high, r.randrange(10**6))
        made.layout = self._layout(made) if r.random() < self.kinds.strided and "index" != kind else ("dense",)
        return self._add(made)

    def _layout(self, source):
        r, rank = self.r, len(source.shape)
        kinds = ["offset"] + (["step", "expanded"] if rank else []) + (["order"] * 2 if rank > 1 else [])
        kind = r.choice(kinds)
        if kind == "order":
            return (kind, [0, 2, 3, 1] if rank == 4 and r.random() < 0.6 else r.sample(range(rank), rank))
        if kind == "step":
            return (kind, r.randrange(rank), r.randint(2, 3))
        if kind == "expanded" and source.role == "input":
            return (kind, r.sample(range(rank), r.randint(1, rank)))
        return ("offset", r.randint(1, 5))

    def _shared(self):
        """An input that is another input, or a part of it."""
        r, inputs = self.r, [s for s in self.sources if s.role == "input" and s.base is None]
        if not inputs:
            return None
        base = r.choice(inputs)
        name, rank, shape = f"x{len(self.sources)}", len(base.shape), list(base.shape)
        kind = r.choice(["same", "transpose", "part"]) if rank > 1 else "same"
        layout = (kind,)
        if kind == "transpose":
            a, b = r.sample(range(rank), 2)
            layout, shape[a], shape[b] = (kind, a, b), shape[b], shape[a]
        elif kind == "part":
            axis = r.randrange(rank)
            if isinstance(shape[axis], str) or not shape[axis]:
                return None
            start = r.randrange(shape[axis])
            shape[axis] = r.randint(1, shape[axis] - start)
            layout = (kind, axis, start, shape[axis])
        return self._add(Source(name, "input", base.dtype, tuple(shape), base.values, 1, base.seed, layout, base.name))

    def _add(self, source):
        self.sources.append(source)
        calls = []
        for number, sizes in enumerate(self.sizes):
            if source.base is not None:
                calls.append(values.part_of(self.tensors[source.base][number], source.layout))
            else:
                calls.append(values.given([source], sizes, number)[source.name])
        self.tensors[source.name] = calls
        return source.name

    # ---- steps

    def forget(self, count):
        """Removes the sources from that number on, because no step uses them."""
        for source in self.sources[count:]:
            self.tensors.pop(source.name, None)
        del self.sources[count:]

    def resolved(self, value, call):
        if isinstance(value, Ref):
            return self.tensors[value.name][call]
        if isinstance(value, Size):
            return self.tensors[value.name][call].shape[value.axis] * value.times + value.plus
        return [self.resolved(part, call) for part in value] if isinstance(value, list) else value

    def attempt(self, chosen: Operator) -> bool:
        """Adds a step that calls the operator, if valid arguments are found."""
        count = len(self.sources)
        for _ in range(12):
            try:
                args, kwargs = arguments.of(self, self.r, chosen)
                if self._call(chosen, args, kwargs):
                    return True
            except (RuntimeError, ValueError, IndexError, KeyError, TypeError, NotImplementedError, StopIteration, OverflowError, ZeroDivisionError) as problem:
                if "teach" in str(problem):
                    raise
            self.forget(count)
        return False

    def _call(self, chosen, args, kwargs):
        call, made = operator(chosen.target), []
        ready = [([self.resolved(a, n) for a in args], {k: self.resolved(v, n) for k, v in kwargs.items()}) for n in range(len(self.sizes))]
        written = [sound.written(chosen, *given) for given in ready]
        if not all(sound.may_write(self, chosen, tensors) for tensors in written) or not all(sound.before(chosen, *given) for given in ready):
            return False
        kept = [[(t, values.whole(t).clone()) for t in tensors] for tensors in written]
        laid, accepted = [t.stride() for t, _ in itertools.chain(*kept)], False
        try:
            for given in ready:
                result = call(*given[0], **given[1])
                made.append(list(result) if isinstance(result, (list, tuple)) else [result])
                if not sound.after(chosen, given, made[-1], call):
                    return False
            moved = any(t.stride() != strides for (t, _), strides in zip(itertools.chain(*kept), laid))  # an `out` to which eager gives new strides
            accepted = not moved and self._fits(made)
        finally:
            if not accepted:
                for (t, before), strides in zip(itertools.chain(*kept), laid):
                    if t.stride() != strides:
                        t.as_strided_(t.shape, strides)
                    values.whole(t).copy_(before)
        if not accepted:
            return False
        listed = any(str(r.type).startswith("List") for r in chosen.schema.returns) or len(chosen.schema.returns) > 1
        names = [f"v{len(self.steps)}" if len(made[0]) == 1 and not listed else f"v{len(self.steps)}_{i}" for i in range(len(made[0]))]
        self.steps.append(Step(chosen.target, args, kwargs, names, listed))
        for i, name in enumerate(names):
            self.tensors[name] = [parts[i] for parts in made]
        self.used |= {p.name for v in (*args, *kwargs.values()) for p in ([v] if not isinstance(v, list) else v) if isinstance(p, Ref)}
        return True

    def _fits(self, made) -> bool:
        first = made[0]
        if not first or any(len(parts) != len(first) for parts in made) or len(first) > 6:
            return False
        for parts in made:
            for mine, theirs in zip(parts, first):
                if not isinstance(mine, torch.Tensor) or mine.dtype not in DTYPES or mine.dim() > MOST_AXES or mine.numel() > LARGEST or mine.dim() != theirs.dim():
                    return False
        lost = all(t.dtype.is_floating_point and t.numel() and not t.isfinite().any() for t in first)
        return not lost or self.r.random() < 0.1

    def finish(self) -> Program:
        r = self.r
        results = [n for step in self.steps for n in step.names if n not in self.used]
        results += [n for n in self.tensors if n not in results and r.random() < 0.12]
        if r.random() < 0.15 and results:
            results.insert(r.randint(0, len(results)), r.choice(results))
        read = {r.name for step in self.steps for v in (*step.args, *step.kwargs.values()) for r in arguments.references(v)} | set(results)
        bases = {s.base for s in self.sources if s.name in read}
        sources = [s for s in self.sources if s.name in read | bases]
        symbols = {n for s in sources if s.role == "input" for n in s.shape if isinstance(n, str)}
        sizes = [{s: n for s, n in call.items() if s in symbols} for call in self.sizes]
        return Program(self.seed, sources, self.steps, results, sizes)


@lru_cache(maxsize=1)
def _table(newer):
    return table(newer)


def grow(seed: int, kinds: Kinds = Kinds()) -> Program:
    """The program of that seed; the same one on every machine with the same torch and table."""
    for again in range(10):
        program = _grow(seed + again * 10**9, kinds)
        try:
            run_plain(program)
            return program
        except (RuntimeError, IndexError, ValueError):  # a later call reads values that an earlier one wrote
            pass
    raise AssertionError(f"no program of seed {seed} runs")


def run_plain(program: Program):
    model = None
    with torch.no_grad():
        for call, sizes in enumerate(program.sizes):
            given = values.given(program.sources, sizes, call)
            model = model or module(program, given)
            model(*program.inputs_of(given))


def _grow(seed: int, kinds: Kinds) -> Program:
    rows, scope = _table(kinds.newer > 0), Scope(seed, kinds)
    r, weights = scope.r, [kinds.pure, kinds.view, kinds.write, kinds.out]
    wanted = [o for kind in rows.values() for o in kind if o.row.startswith(kinds.only)] if kinds.only else []
    with torch.no_grad():
        target = r.randint(*kinds.steps)
        special_at = r.randrange(target)
        for number in range(target):
            pool = wanted if wanted and (number == special_at or r.random() < kinds.again) else rows.get(r.choices(["pure", "view", "write", "out"], weights)[0], [])
            for _ in range(6):
                if pool and scope.attempt(r.choice(pool)):
                    break
        if not scope.steps:
            scope.attempt(next(o for o in rows["pure"] if o.target == "aten.neg.default"))
    return scope.finish()
