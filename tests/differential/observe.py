"""Observes a program's calls, and runs it in eager: in its own types, in float64, and in float64 with changed roundings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import values
from random_program import Program, module, operator
from values import FLOATS

MOVES = 4  # runs with changed roundings: every second run changes them the other way, so that a jump on either side of a value shows


@dataclass
class Thing:
    """A tensor as it was after a call."""

    values: torch.Tensor  # for inputs all of their memory, because a write must not go beyond the given part
    shape: tuple
    strides: list[int]
    offset: int


@dataclass
class Seen:
    """The observations after one call: results, inputs and buffers by label, and which share memory."""

    things: dict[str, Thing]
    aliases: set[str]
    live: list  # the results themselves

    def again(self) -> dict[str, Thing]:
        """The current values of the results."""
        return {f"result {i}": thing(t) for i, t in enumerate(self.live)}


def significant(t: torch.Tensor) -> list[int]:
    """The strides that matter for addresses."""
    return [stride for size, stride in zip(t.shape, t.stride()) if size > 1] if t.numel() else []


def thing(t: torch.Tensor, all_memory=False) -> Thing:
    kept = values.whole(t) if all_memory else t
    return Thing(kept.detach().clone(memory_format=torch.contiguous_format), tuple(t.shape), significant(t), t.storage_offset())


def observe(program: Program, model: torch.nn.Module, inputs: list[torch.Tensor], results) -> Seen:
    owned = {s.name: getattr(model, s.name) for s in program.sources if s.role in ("buffer", "weight")}
    given = {s.name: t for s, t in zip(program.inputs, inputs)}
    things = {f"result {i}": thing(t) for i, t in enumerate(results)}
    things |= {f"{name} afterwards": thing(t, all_memory=name in given) for name, t in {**given, **owned}.items()}
    aliases, before = set(), {name: t for name, t in {**given, **owned}.items()}
    for i, t in enumerate(results):
        memory = t.untyped_storage().data_ptr()
        aliases |= {f"result {i} = {label}" for label, other in before.items() if memory and t.numel() and memory == other.untyped_storage().data_ptr()}
        before[f"result {i}"] = t
    return Seen(things, aliases, list(results))


class Eager:
    """Eager's runs of a program: `plain`, `exact` (float64) and `moved`, each a list of calls."""

    def __init__(self, program: Program):
        self.program = program
        self.fresh: dict[tuple, list[bool]] = {}     # whether a step's results have their own memory
        self.values: dict[tuple, list[torch.Tensor]] = {}
        self.truth: dict[tuple, list[torch.Tensor]] = {}
        with torch.no_grad():
            self.plain = self._run(self._record)
            self.widens = any(t.dtype in FLOATS for s in self.plain for t in (x.values for x in s.things.values()))
            before = torch.get_default_dtype()
            torch.set_default_dtype(torch.float64)
            try:
                self.exact = self._run(self._widen, wide=True)
                self.moved = [self._run(self._move, wide=True, move=n) for n in range(MOVES)]
            finally:
                torch.set_default_dtype(before)

    def _run(self, watch, wide=False, move=None) -> list[Seen]:
        program, seen, model = self.program, [], None
        self._generator, self._sign = torch.Generator().manual_seed((move or 0) // 2), 1 - 2 * ((move or 0) % 2)
        changed = self._moved_source if move is not None else None
        for number, sizes in enumerate(program.sizes):
            self._call = number
            given = values.given(program.sources, sizes, number, wide, changed)
            self._memories = {t.untyped_storage().data_ptr(): t for t in given.values()}
            if model is None:
                model = module(program, given, wide, watch)
            inputs = program.inputs_of(given)
            seen.append(observe(program, model, inputs, model(*inputs)))
        return seen

    # ---- after every step

    def _parts(self, result):
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def _record(self, number, result):
        parts, key = self._parts(result), (self._call, number)
        self.fresh[key] = [t.untyped_storage().data_ptr() not in self._memories for t in parts]
        self.values[key] = [t.clone() for t in parts]
        self._memories.update({t.untyped_storage().data_ptr(): t for t in parts})
        return result

    def _apart(self, number, parts):
        """Gives results separate memory if they have it in their own types: a cast from float16 to float32 copies, one from float64 to float64 does not."""
        fresh = self.fresh[self._call, number]
        made = [t.clone() if f and t.untyped_storage().data_ptr() in self._memories else t for t, f in zip(parts, fresh)]
        self._memories.update({t.untyped_storage().data_ptr(): t for t in made})
        return made

    def _widen(self, number, result):
        parts = self._apart(number, self._parts(result))
        self.truth[self._call, number] = [t.clone() for t in parts]
        return tuple(parts) if isinstance(result, (list, tuple)) else parts[0]

    def _move(self, number, result):
        parts, key = self._apart(number, self._parts(result)), (self._call, number)
        changes = self.fresh[key] if operator(self.program.steps[number].target)._schema.is_mutable is False else [True] * len(parts)
        for t, plain, truth, change in zip(parts, self.values[key], self.truth[key], changes):
            if change and t.dtype is torch.float64 and plain.dtype in FLOATS and 0 not in significant(t):
                rounded = plain.double() != truth if plain.dtype is not torch.float64 else truth.float().double() != truth
                t.copy_(torch.where(rounded, self._nearby(t, plain.dtype), t))
        return tuple(parts) if isinstance(result, (list, tuple)) else parts[0]

    def _nearby(self, t, dtype):
        """Changes values by about one rounding; two changes of one number do not cancel."""
        sign = 2 * torch.randint(2, t.shape, generator=self._generator).double() - 1
        size = 0.5 + torch.rand(t.shape, generator=self._generator, dtype=torch.float64)
        return t * (1 + torch.finfo(dtype).eps * self._sign * sign * size)

    def _moved_source(self, source, t):
        """Changes a source by one rounding, except short numbers, because sums of many terms are inexact inside."""
        if source.dtype not in FLOATS:
            return t
        return torch.where((t * 16).frac() != 0, self._nearby(t, source.dtype), t)
