"""The input tensors of a program: their values and their layouts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)


@dataclass
class Source:
    """An input tensor of a program.

    role: "input", "weight" (a parameter), "buffer", or "constant" (a plain attribute of the module)
    shape: sizes; a name stands for a size that varies from call to call
    values: how they are drawn (see `draw`); high: the exclusive bound of indices
    layout: ("dense",), ("order", axes from outermost in memory), ("step", axis, step), ("offset", n), ("expanded", axes)
    base: the source whose memory it shares; layout is then ("same",), ("transpose", a, b) or ("part", axis, start, length)
    literal: the values themselves, call by call (reduce.py)
    """

    name: str
    role: str
    dtype: torch.dtype
    shape: tuple
    values: str = "normal"
    high: int = 1
    seed: int = 0
    layout: tuple = ("dense",)
    base: str | None = None
    literal: list | None = None


def draw(source: Source, shape, call: int) -> torch.Tensor:
    """Dense values. Equal arguments give equal values."""
    if source.literal is not None:
        return source.literal[min(call, len(source.literal) - 1)]
    count = math.prod(shape)
    r = torch.Generator().manual_seed(source.seed * 31 + (call if source.role == "input" else 0))
    kind, dtype = source.values, source.dtype
    if kind == "index":
        return torch.randint(max(1, source.high), shape, generator=r).to(dtype)
    if kind == "permuted":  # indices, each once
        return torch.randperm(max(count, source.high), generator=r)[:count].reshape(shape).to(dtype)
    if kind == "ones":
        return torch.ones(shape, dtype=dtype)
    if kind == "count":
        return torch.arange(count).reshape(shape).to(dtype)
    if dtype is torch.bool:
        return torch.randint(2, shape, generator=r).bool()
    if not dtype.is_floating_point:
        low, high = (0, 8) if dtype is torch.uint8 or kind == "positive" else (-5, 9)
        made = torch.randint(low, high, shape, generator=r)
        if kind == "special":
            info = torch.iinfo(dtype)
            extreme = torch.tensor([0, 1, info.max, info.min + 1 if info.min else 0, info.max - 1, 2])
            made = torch.where(torch.rand(shape, generator=r, dtype=torch.float32) < 0.3, extreme[torch.randint(len(extreme), shape, generator=r)], made)
        return made.to(dtype)
    made = torch.randn(shape, generator=r, dtype=torch.float64)
    if kind == "positive":
        made = made.abs() + 0.1
    elif kind == "unit":
        made = torch.rand(shape, generator=r, dtype=torch.float64) * 0.98 + 0.01
    elif kind == "short":  # values that many types hold exactly, many of them equal
        made = torch.randint(-8, 9, shape, generator=r).double() / 2
    elif kind == "large":
        made = made * 100
    elif kind == "special":
        info = torch.finfo(dtype)
        extreme = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, info.tiny / 4, -info.tiny / 4, info.tiny, 1.0, -1.0, info.max, 0.5, -2.5, 2.0], dtype=torch.float64)
        made = torch.where(torch.rand(shape, generator=r, dtype=torch.float32) < 0.35, extreme[torch.randint(len(extreme), shape, generator=r)], made)
    return made.to(dtype)


def lay(t: torch.Tensor, layout: tuple) -> torch.Tensor:
    """The values in memory of this layout."""
    kind, *rest = layout
    if kind == "order":
        axes = rest[0]
        return t.permute(axes).contiguous().permute([axes.index(i) for i in range(t.dim())])
    if kind == "step":
        axis, step = rest
        wide = torch.full([n * step if i == axis else n for i, n in enumerate(t.shape)], 7, dtype=t.dtype)
        view = wide[(slice(None),) * axis + (slice(None, None, step),)]
        return view.copy_(t)
    if kind == "offset":
        storage = torch.full((t.numel() + rest[0],), 7, dtype=t.dtype)
        return storage[rest[0] :].view(t.shape).copy_(t)
    if kind == "expanded":
        part = t[tuple(slice(0, 1) if i in rest[0] else slice(None) for i in range(t.dim()))]
        return part.contiguous().expand(t.shape)
    return t.contiguous().clone()


def part_of(base: torch.Tensor, layout: tuple) -> torch.Tensor:
    kind, *rest = layout
    if kind == "transpose":
        return base.transpose(*rest)
    if kind == "part":
        return base.narrow(*rest)
    return base


def given(sources: list[Source], sizes: dict[str, int], call: int, wide=False, moved=None) -> dict[str, torch.Tensor]:
    """The tensors by name. wide: floats in float64; moved(source, values) -> values changes them a little."""
    made = {}
    for source in sources:
        if source.base is not None:
            made[source.name] = part_of(made[source.base], source.layout)
            continue
        shape = [sizes.get(s, s) for s in source.shape]
        t = draw(source, shape, call)
        t = t.double() if wide and t.dtype in FLOATS else t
        made[source.name] = lay(moved(source, t) if moved else t, source.layout)
    return made


def text(tensors: dict[str, torch.Tensor], sources: list[Source]) -> list[str]:
    """Lines of Python that create the tensors; those that share memory are views of one storage."""
    lines, storages = [], {}
    for source in sources:
        t = tensors[source.name]
        key = t.untyped_storage().data_ptr()
        alone = sum(other.untyped_storage().data_ptr() == key for other in tensors.values()) == 1
        literal = repr(t.tolist()) if alone and t.is_contiguous() else None
        if literal is not None and t.numel() and t.storage_offset() == 0:
            lines.append(f"{source.name} = torch.tensor({literal}, dtype={t.dtype})")
            continue
        if key not in storages or not t.numel():
            storages[key] = f"memory_of_{source.name}"
            everything = whole(t)
            lines.append(f"{storages[key]} = torch.tensor({everything.tolist()!r}, dtype={t.dtype})")
        lines.append(f"{source.name} = {storages[key]}.as_strided({tuple(t.shape)}, {t.stride()}, {t.storage_offset()})")
    return lines


def whole(t: torch.Tensor) -> torch.Tensor:
    """All elements of a tensor's memory."""
    return t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0)
