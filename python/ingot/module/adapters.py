"""LoRA adapters of a compiled module: low-rank products that are added to its weights. Each choice of adapters is a merged set of weights, and calls switch between sets."""

from __future__ import annotations

import difflib
from ctypes import c_int64, c_void_p
from typing import NamedTuple

import torch

from .. import errors
from ..base import processes
from ..engine import _op, _values, plain_tensors
from ..engine._library import check, lib
from ..engine.weights import Weights, fork
from ..errors import InputError

KEPT = 4  # choices of adapters whose merged weights are kept for later use


class LowRank(NamedTuple):
    """What an adapter adds to a weight: scale * up [first, rank] @ down [rank, rest]. The weight is seen as a matrix of its first axis and all others."""

    down: torch.Tensor
    up: torch.Tensor
    scale: float


class Factors(NamedTuple):
    """A LowRank ready to be multiplied: on the weight's device, the scale in `up`, in the type of the product."""

    up: torch.Tensor
    down: torch.Tensor


def merged(base: torch.Tensor, parts: list[Factors]) -> torch.Tensor:
    """The weight plus the products of its parts, summed in float32 (float64 weights in float64) and rounded once. One product, however many parts: their factors are joined along the rank."""
    (up, down), base = _joined(parts), base.detach()
    rows = base.flatten(1)
    # Autocast leaves products that are given their result alone.
    if up.dtype is base.dtype and not (base.dtype is torch.float16 and torch.backends.cuda.matmul.allow_fp16_accumulation):
        return torch.addmm(rows, up, down, out=torch.empty_like(rows, memory_format=torch.contiguous_format)).view(base.shape)
    wide = torch.float64 if base.dtype is torch.float64 else torch.float32
    return rows.to(wide, copy=True, memory_format=torch.contiguous_format).addmm_(up.to(wide), down.to(wide)).view(base.shape).to(base.dtype)


def _joined(parts: list[Factors]) -> Factors:
    return parts[0] if len(parts) == 1 else Factors(torch.cat([p.up for p in parts], 1), torch.cat([p.down for p in parts]))


def merged_by_library(pointer, device: torch.device, names, base, parts: dict[str, list[Factors]]) -> dict[str, torch.Tensor]:
    """The same by name, for weights of the engine's GPU. torch.addmm copies the weight to its result and reads it there; the library reads the weight and writes the sum.

    pointer: weights of the library on that GPU. base: a function from a name to the weight."""
    found, waiting, stream = {}, {}, torch.cuda.current_stream(device).cuda_stream
    for name in names:
        weight, factors = base(name).detach(), _joined(parts[name])
        if weight.device != device or factors.up.dtype is not weight.dtype:
            found[name] = merged(weight, parts[name])
            continue
        rows = weight.flatten(1).contiguous()
        made = found[name] = torch.empty(weight.shape, dtype=weight.dtype, device=device)
        key = rows.dtype, *rows.shape, factors.down.shape[0]
        alike = waiting.setdefault(key, [])
        alike.append((*factors, rows, made))
        if len(alike) == _TOGETHER:
            _add_products(pointer, stream, key, waiting.pop(key))
    for key, alike in waiting.items():
        _add_products(pointer, stream, key, alike)
    return found


_TOGETHER = 2  # products of one call: the GPU begins with them while the next are described


def _add_products(pointer, stream, key, groups):
    dtype, *sizes = key
    memory = [matrix.data_ptr() for group in groups for matrix in group]
    check(lib().ingot_weights_add_products(pointer, _values.dtype_number(dtype), (c_int64 * 3)(*sizes), (c_void_p * len(memory))(*memory), len(groups), stream))


_BITS = {torch.float32: 10, torch.bfloat16: 7, torch.float16: 10}  # of a number in a GPU's matrix product, after the first one: float32 may be TF32 there


def factors_of(lows: list[LowRank], dtype: torch.dtype, device: torch.device) -> list[Factors]:
    """The factors of products of equal shape for weights of this type. All are copied in two transfers.

    On a GPU one product in the weight's own type computes the sum, because a GPU sums that in float32 and rounds once. Each factor is two numbers of that type, because one
    alone has too few bits; the product of the two small ones is left out.
    """
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    up, down = _stacked([low.up for low in lows], wide, device), _stacked([low.down for low in lows], wide, device)
    up = up * torch.tensor([low.scale for low in lows], dtype=wide, device=device)[:, None, None]
    if device.type == "cuda" and dtype in _BITS:
        up, down = _in_type(up, down, dtype)
    return [Factors(*pair) for pair in zip(up.unbind(), down.unbind())]


def _stacked(matrices, wide, device):
    """A copy of the matrices as one tensor."""
    first = matrices[0]
    if first.device.type == device.type:
        return torch.stack(matrices).to(device, wide)
    pinned = torch.empty(len(matrices), *first.shape, dtype=first.dtype, device="cpu", pin_memory=first.device.type == "cpu")
    return (torch.stack(matrices, out=pinned) if first.device.type == "cpu" else pinned.copy_(torch.stack(matrices))).to(device, non_blocking=True).to(wide)


def _in_type(up, down, dtype):
    """Factors of the type, of three times the rank or a little more, whose product is that of the float32 factors."""
    if dtype is torch.float16:  # both with the same largest number, so that it holds their parts
        ratio = torch.exp2(torch.log2(_largest(down) / _largest(up)).mul(0.5).round())
        up, down = up * ratio, down / ratio
    (up, up_rest), (down, down_rest) = _two_numbers(up, dtype), _two_numbers(down, dtype)
    padding = -3 * up.shape[2] % 8  # zeros: rows of a multiple of 16 bytes are read fastest
    return torch.nn.functional.pad(torch.cat([up, up, up_rest], 2), (0, padding)), torch.nn.functional.pad(torch.cat([down, down_rest, down], 1), (0, 0, 0, padding))


def _largest(matrices):
    return matrices.abs().amax((1, 2), keepdim=True).clamp_min(1e-30)


def _two_numbers(wide: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of the type whose sum is that of float32, but for the last bits."""
    first = (wide.view(torch.int32) & ~((1 << (23 - _BITS[dtype])) - 1)).view(torch.float32)
    return first.to(dtype), (wide - first).to(dtype)


class Merged(Weights):
    """A fork of an engine's weights, some with adapters added. It follows changes of the engine's weights and adds the adapters again."""

    def __init__(self, engine, pointer, parts: dict[str, list[Factors]], base):
        """base: a function from a name to the engine's own value, as a tensor."""
        super().__init__(engine, pointer)
        self._parts, self._base = parts, base

    def follow(self, staged):
        changed = [name for name, _ in staged] or list(self._parts)
        names, device = [name for name in changed if name in self._parts], torch.device(self._engine.device)
        again = merged_by_library(self.pointer, device, names, self._base, self._parts) if device.type == "cuda" else {name: merged(self._base(name), self._parts[name]) for name in names}
        _, values = self._engine.staged(again, True)
        self.take([*((name, value) for name, value in staged if name not in self._parts), *values])
        self.given.update(values)


class Adapters:
    """The adapters of a module, by name, and the choice that its calls use.

    Each choice has its own set of weights: the merged ones and what prepare makes of them; the rest is shared. The last few sets are kept, so going back to one costs a
    pointer for each engine, and a merge for each weight that torch reads. A change of the model's weights changes all sets.
    """

    def __init__(self, target):
        """target: a `lora_target` of module_kinds.py."""
        self._target, self._lock = target, processes.Lock()
        self._added: dict[str, dict[str, list[Factors]]] = {}
        self._sets: dict[tuple[str, ...], list[Merged]] = {}  # by choice, the most recently used last
        self.active: tuple[str, ...] = ()

    def add(self, name, adapter, scale, config, use=True):
        """use: whether later calls use it."""
        if not isinstance(name, str) or not name:
            raise InputError(f"an adapter's name is a text, and this is {name!r}")
        from .adapter_files import read

        try:
            scale = float(scale)
        except (TypeError, ValueError):
            raise InputError(f"the scale of adapter {name!r} is {scale!r}, and has to be a number") from None
        parts = self._checked(read(adapter, config, self._target.names()), scale)
        self._target.follow()
        with self._lock():
            if name in self._added:
                raise InputError(f"there is an adapter {name!r} already", remedy="remove_lora it first, or give this one another name")
            self._added[name] = parts
            if not use:
                return
            try:
                self._use({*self.active, name})
            except BaseException:
                del self._added[name]
                raise

    def remove(self, name):
        self._target.follow()
        with self._lock():
            self._known(name)
            self._use({*self.active} - {name})
            del self._added[name]
            self._sets = {choice: sets for choice, sets in self._sets.items() if name not in choice}

    def use(self, names):
        self._target.follow()
        with self._lock():
            for name in names:
                self._known(name)
            self._use(set(names))

    def weights_of(self, name) -> list[Merged]:
        """The engines' weights with this adapter alone, for runs that are given them."""
        self._target.follow()
        with self._lock():
            self._known(name)
            sets = self._sets.pop((name,), None) or self._made((name,))
            self._keep((name,), sets)
            return sets

    def over(self, weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """These values of weights, with the chosen adapters added."""
        parts = self._parts(self.active)
        return {name: merged(value, parts[name]) if name in parts else value for name, value in weights.items()}

    def _known(self, name):
        if not isinstance(name, str) or name not in self._added:
            raise InputError(f"there is no adapter {name!r}", remedy="those added are " + (", ".join(self._added) or "none"))

    def _checked(self, given, scale) -> dict[str, list[Factors]]:
        """What is added to each weight, by the weight's own name. The tensors are copied, so later writes to them have no effect."""
        names, same, alike = self._target.names(), self._target.same(), {}
        for name, (down, up, factor, transposed) in given.items():
            if name not in names:
                near = difflib.get_close_matches(str(name), names, 1)
                raise InputError(f"the model has no weight {name!r}", remedy=f"did you mean {near[0]!r}?" if near else "weights have the names of the model's state dict")
            if names[name] is None:
                continue  # nothing reads it
            base = self._target.base(names[name])
            low = _low_rank(name, base, down, up, factor * scale, transposed)
            key = base.dtype, base.device, *((m.shape, m.dtype, m.device) for m in (low.up, low.down))
            alike.setdefault(key, []).append((names[name], low))
        found: dict[str, list[Factors]] = {}
        for (dtype, device, *_), pairs in alike.items():
            for (name, _), factors in zip(pairs, factors_of([low for _, low in pairs], dtype, device)):
                for weight in same[name]:
                    found.setdefault(weight, []).append(factors)
        return found

    def _parts(self, choice) -> dict[str, list[Factors]]:
        parts: dict[str, list[Factors]] = {}
        for name in choice:
            for weight, factors in self._added[name].items():
                parts.setdefault(weight, []).extend(factors)
        return parts

    def _use(self, names):
        choice = tuple(name for name in self._added if name in names)
        sets = self._sets.pop(choice, None) or self._made(choice)
        in_torch = self._in_torch({weight for name in {*self.active, *choice} for weight in self._added[name]}, choice)
        with self._target.changing():
            for engine, weights in zip(self._target.engines, sets):
                engine.use(weights)
                _op.library().use_everywhere(engine, weights)
            self._target.replace_in_torch(in_torch)
            self.active = choice
        if choice:
            self._keep(choice, sets)

    def _keep(self, choice, sets):
        self._sets[choice] = sets
        while len(self._sets) > KEPT:
            del self._sets[next(iter(self._sets))]

    def _in_torch(self, names, choice):
        names = [name for name in names if self._target.is_in_torch(name)]
        parts = self._parts(choice) if names else {}
        return {name: merged(self._target.base(name), parts[name]) if name in parts else self._target.base(name) for name in names}

    def _made(self, choice):
        if not choice:
            return [None for _ in self._target.engines]
        try:
            return [self._merged(engine, choice) for engine in self._target.engines]
        except (errors.MemoryError, torch.OutOfMemoryError):
            kept = self._sets.get(self.active)
            if set(self._sets) <= {self.active}:
                raise
            self._sets = {self.active: kept} if kept else {}
            return [self._merged(engine, choice) for engine in self._target.engines]

    def _merged(self, engine, choice):
        held = {w["name"] for w in engine.inspect()["weights"]}
        parts = {name: low for name, low in self._parts(choice).items() if name in held}
        made = fork(engine, lambda engine, pointer: Merged(engine, pointer, parts, self._target.base))
        if parts:
            with engine.changing():
                made.follow([])
        return made


def _low_rank(name, base, down, up, scale, transposed) -> LowRank:
    for matrix, what in ((down, "A"), (up, "B")):
        if not isinstance(matrix, torch.Tensor) or not matrix.is_floating_point() or matrix.dim() < 2:
            shown = _short(matrix) if isinstance(matrix, torch.Tensor) else f"of type {type(matrix).__name__}"
            raise InputError(f"{what} of weight {name!r} is {shown}, and has to be a matrix of floating-point numbers")
        if why := plain_tensors.why_not(matrix, name):
            raise InputError(f"{what} of weight {name!r} {why[0]}", remedy=why[1])
    if not base.is_floating_point() or base.dim() < 2:
        raise InputError(f"weight {name!r} is {_short(base)}, to which no product of matrices can be added")
    if not abs(scale) <= torch.finfo(torch.float32).max:
        raise InputError(f"the scale of weight {name!r} is {scale}, no finite number of float32")
    first, rest = base.shape[0], base[0].numel() if base.shape[0] else 0
    a, b = (m.detach().flatten(1) for m in (down, up))
    if transposed:
        a, b = b.t(), a.t()
    if b.shape != (first, a.shape[0]) or a.shape[1] != rest:
        raise InputError(
            f"A {list(down.shape)} and B {list(up.shape)} do not have the shape of weight {name!r}, which is {_short(base)}",
            remedy=f"for rank r A has r rows and {rest} columns, B {first} rows and r columns" + (", transposed" if transposed else ""),
        )
    return LowRank(a, b, float(scale))


def _short(tensor):
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
