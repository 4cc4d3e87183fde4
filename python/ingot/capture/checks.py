"""Checks the inputs of a call: dtypes, ranks and sizes, and that inputs which the model writes share no memory."""

from __future__ import annotations

import sympy
import torch

from ..engine import _op, plain_tensors
from ..errors import InputError
from .functional import Slot
from .sizes import places
from .writer import bound


def size_check(inputs: list[Slot], limits_of, *, any_size: bool = False):
    """A function that refuses inputs of another dtype, rank or size than the graph was made for. any_size: sizes may be others."""
    wanted = []
    for position, slot in enumerate(inputs):
        value = slot.node.meta.get("val")
        if isinstance(value, torch.Tensor):
            wanted.append((position, slot.name, value.dtype, [s if isinstance(s, int) and not any_size else None for s in value.shape], value.device))
    symbolic = [
        ((position, axis, slot.name), size)
        for position, slot in enumerate(inputs)
        if isinstance(value := slot.node.meta.get("val"), torch.Tensor) and not any_size
        for axis, size in enumerate(value.shape)
        if isinstance(size, torch.SymInt)
    ]
    sources = {}
    for symbol, (place, of) in places(symbolic).items():
        limits = limits_of(symbol)
        sources[symbol] = (*place, of, *((bound(limits.lower) or 0, bound(limits.upper)) if limits is not None else (0, None)))

    numbers = []
    for position, slot in enumerate(inputs):
        value = slot.node.meta.get("val")
        if isinstance(value, torch.SymInt):
            limits = limits_of(value.node.expr) if isinstance(value.node.expr, sympy.Symbol) else None
            numbers.append((position, slot.name, *((bound(limits.lower), bound(limits.upper)) if limits is not None else (None, None))))

    def check(flat):
        if len(flat) != len(inputs):
            raise InputError(f"the model takes {_op.count(len(inputs), 'input')}, but {_op.given(flat)}")
        for position, name, low, high in numbers:
            number = flat[position]
            if isinstance(number, bool) or not isinstance(number, (int, torch.SymInt)):
                raise InputError(f"input {name!r} is of type {type(number).__name__}, but the model takes an int there")
            if low is not None and number < low or high is not None and number > high:
                raise InputError(
                    f"input {name!r} is {number}, outside the range {'' if low is None else low}..{'' if high is None else high} the model was compiled for",
                    remedy="compile with a wider range for this number",
                )
        for position, name, dtype, shape, device in wanted:
            tensor = flat[position]
            if not isinstance(tensor, torch.Tensor):
                raise plain_tensors.not_one(tensor, name)
            if tensor.is_nested:
                why, remedy = plain_tensors.why_not(tensor, name)
                raise InputError(f"input {name!r} {why}", remedy=remedy)
            if tensor.device != device:
                raise InputError(f"input {name!r} is on {tensor.device}, but the model was compiled for {device}", remedy=f"give {name}.to('{device}')")
            if tensor.dtype is not dtype:
                short = str(dtype).removeprefix("torch.")
                raise InputError(f"input {name!r} is {str(tensor.dtype).removeprefix('torch.')}, but the engine takes {short}", remedy=f"convert it to {short}")
            if tensor.dim() != len(shape):
                raise InputError(f"input {name!r} has rank {tensor.dim()}, but the engine takes rank {len(shape)}")
            for axis, size in enumerate(shape):
                if size is not None and tensor.shape[axis] != size:
                    raise InputError(
                        f"axis {axis} of input {name!r} (shape {list(tensor.shape)}) has size {tensor.shape[axis]}, but the plan was built for {size} there",
                        remedy="give this size, or compile with a range for this axis",
                    )
        symbols = {}
        for symbol, (position, axis, name, of, low, high) in sources.items():
            size = flat[position].shape[axis]
            value = symbols[symbol] = of.value(size)
            what, upto = f"axis {axis} of input {name!r} has size {size}", "" if high is None else of.size(high)
            if value < low or (high is not None and value > high):
                raise InputError(f"{what}, outside the range {of.size(low)}..{upto} the plan was built for", remedy="compile with a wider range for this axis")
            if of.factor != 1 and of.size(value) != size:
                near = f"{of.size(value)}" + ("" if value == high else f" or {of.size(value + 1)}")
                raise InputError(f"{what}, but the plan was built for sizes {of.size(low)}..{upto} in steps of {of.factor} there", remedy=f"give {near}")
        for (position, axis, name), recorded in symbolic:
            size, e = flat[position].shape[axis], recorded.node.expr
            if e.is_Symbol:
                agreed = symbols[e]
            elif isinstance(size, int) and all(isinstance(symbols.get(s), int) for s in e.free_symbols):
                agreed = int(e.subs(symbols))
            else:
                continue
            if size != agreed:
                raise InputError(
                    f"axis {axis} of input {name!r} (shape {list(flat[position].shape)}) has size {size}, but the sizes of the other inputs make it {agreed}",
                    remedy="give inputs whose sizes agree",
                )

    return check


def memory_check(inputs: list[Slot], changed: list[Slot]):
    """A function that refuses inputs that share memory with tensors that the graph writes; None if it writes nothing."""
    written = [i for i, slot in enumerate(inputs) if any(slot is s for s in changed)]
    states = [s for s in changed if s.kind == "state"]
    if not written and not states:
        return None

    def check(flat):
        tensors = [(f"input {slot.name!r}", t) for slot, t in zip(inputs, flat) if isinstance(t, torch.Tensor)]
        tensors += [(f"buffer {s.name!r}", s.tensor) for s in states]
        spans = [(*_memory(t), name, t) for name, t in tensors]
        own = {id(flat[i]) for i in written} | {id(s.tensor) for s in states}
        for n, (begin, end, name, t) in enumerate(spans):
            for other_begin, other_end, other, u in spans[n + 1 :]:
                if begin < other_end and other_begin < end and (id(t) in own or id(u) in own):
                    raise InputError(
                        f"{name} and {other} share memory, and the model writes to one of them; it was captured with memory of their own for each",
                        remedy="give a clone() of one of them, or compile with inputs that share memory in the same way",
                    )

    return check


def _memory(tensor):
    """The address of the first byte of a tensor's elements, and the address after the last."""
    if tensor.numel() == 0:
        return 0, 0
    begin = tensor.data_ptr()
    return begin, begin + (sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1) * tensor.element_size()
