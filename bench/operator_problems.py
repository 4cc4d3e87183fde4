"""The problems of bench/operators.py: one operator each, drawn by a fixed seed.

Each operator of torch's OpInfo database that is in ingot's table is drawn once, with OpInfo's own sample. Then each kind of operator is drawn for each type, layout and decade of
size (1 to 10^7 elements of the largest operand): which operator of the kind, its rank, axis and parameters come from the seed of that problem's name, so that a problem stays
what it is when others are added.
"""

from __future__ import annotations

import math
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

import ingot
from ingot.engine import _library

FLOATS = {"float32": [torch.float32], "bfloat16": [torch.bfloat16], "float16": [torch.float16], "float64": [torch.float64]}
TYPES = {**FLOATS, "integer": [torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16], "bool": [torch.bool]}
LAYOUTS = ("contiguous", "transposed", "channels-last")
DECADES = range(8)


@dataclass
class Problem:
    """`call(*tensors)` is one operator. `kind`, `dtype`, `layout` and `elements` say what it was drawn for."""

    name: str
    kind: str
    dtype: str
    layout: str
    elements: int
    make: Callable[[], tuple[Callable, tuple]]


class Draw:
    """Operands of about `elements` elements in one type and layout, by one seed."""

    def __init__(self, name: str, dtype: torch.dtype, layout: str, elements: int):
        self.random = random.Random(zlib.crc32(name.encode()))
        self.generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        self.dtype, self.layout, self.elements = dtype, layout, elements

    def one_of(self, *values):
        return self.random.choice(values)

    def sizes(self, rank: int | None = None, elements: float | None = None) -> tuple[int, ...]:
        """Sizes whose product is about `elements`: of images where the layout is channels-last."""
        elements = max(1, round(elements or self.elements))
        rank = rank or (4 if self.layout == "channels-last" else self.random.choice([2, 2, 3, 4]) if self.layout == "transposed" else self.random.choice([1, 2, 2, 3, 4]))
        sizes, left = [], elements
        for axis in range(rank - 1):
            share = left ** (1 / (rank - axis))
            sizes.append(max(1, min(left, round(share * self.random.choice([0.25, 0.5, 1, 1, 2])))))
            left = max(1, left // sizes[-1])
        return (*sizes, left)

    def numbers(self, sizes, dtype: torch.dtype | None = None, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
        """A row-major tensor: floats in (low, high), integers from 1 to 9."""
        dtype = dtype or self.dtype
        if dtype is torch.bool:
            return torch.rand(sizes, generator=self.generator) > 0.5
        if not dtype.is_floating_point:
            return torch.randint(1, 10, sizes, generator=self.generator).to(dtype)
        return (torch.rand(sizes, generator=self.generator) * (high - low) + low).to(dtype)

    def tensor(self, *sizes: int, dtype: torch.dtype | None = None, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
        """The same in the layout of the problem."""
        x = self.numbers(sizes, dtype, low, high)
        if self.layout == "transposed" and x.ndim > 1:
            return x.transpose(-1, -2).contiguous().transpose(-1, -2)
        if self.layout == "channels-last" and x.ndim in (4, 5):
            return x.contiguous(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)
        return x

    def indices(self, end: int, *sizes: int) -> torch.Tensor:
        return torch.randint(0, max(end, 1), sizes, generator=self.generator)

    def image(self, rank: int = 2, channels: int | None = None, elements: float | None = None) -> tuple[int, ...]:
        """Sizes of a batch of images with `rank` axes of places."""
        elements = max(1, elements or self.elements)
        channels = channels or max(1, min(self.random.choice([3, 16, 64, 128]), round(elements / 9**rank)))
        places = max(1, elements / channels)
        batch = max(1, min(self.random.choice([1, 2, 4]), round(places / 9**rank)))
        side = max(1, round((places / batch) ** (1 / rank)))
        return (batch, channels, *[side] * rank)


# ---- operators of each kind: name -> (Draw) -> (call, tensors)


def pointwise_of(op) -> Callable:
    """An elementwise function of OpInfo on operands of any size."""

    def make(d: Draw):
        low, high = (getattr(op, "domain", None) or (None, None)) if isinstance(op, UnaryUfuncInfo) else (0.5, 3.0)
        low, high = max(-2.0, -2.0 if low is None else low + 0.01), min(2.0 if isinstance(op, UnaryUfuncInfo) else 3.0, math.inf if high is None else high - 0.01)
        sizes = d.sizes()
        if isinstance(op, UnaryUfuncInfo):
            x = d.tensor(*sizes, low=low, high=high)
            more = op.sample_kwargs("cpu", d.dtype, x)[0]
            return (lambda x: op.op(x, **more)), (x,)
        other = d.one_of(sizes, sizes, sizes[-1:], (*sizes[:-1], 1))
        return op.op, (d.tensor(*sizes, low=low, high=high), d.tensor(*other, low=low, high=high))

    return make


def ternary(d: Draw):
    sizes = d.sizes()
    return d.one_of(
        (lambda m, x, y: torch.where(m, x, y), (d.tensor(*sizes, dtype=torch.bool), d.tensor(*sizes), d.tensor(*sizes))),
        (lambda x, m: x.masked_fill(m, 1), (d.tensor(*sizes), d.tensor(*sizes, dtype=torch.bool))),
    )


def cast(d: Draw):
    to = d.one_of(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)
    return (lambda x: x.to(to)), (d.tensor(*d.sizes(), low=0.0),)


def clamp(d: Draw):
    return (lambda x: x.clamp(0 if d.dtype is torch.uint8 else -1, 1)), (d.tensor(*d.sizes()),)


def scalar(d: Draw):
    function = d.one_of(lambda x: x * 3, lambda x: x + 2, lambda x: 2 - x, lambda x: x > 1, lambda x: x / 3.7, lambda x: x**2)
    return function, (d.tensor(*d.sizes()),)


def lerp(d: Draw):
    sizes = d.sizes()
    return d.one_of((lambda x, y: torch.lerp(x, y, 0.3)), (lambda x, y: torch.addcmul(x, x, y, value=0.5)), (lambda x, y: torch.addcdiv(x, x, y))), (d.tensor(*sizes), d.tensor(*sizes, low=0.5))


def reducing(function) -> Callable:
    """`function(x, axes)` over the last axis, the first, an inner one or all of them."""

    def make(d: Draw):
        sizes = d.sizes()
        axis = d.one_of(-1, 0, len(sizes) // 2, None)
        return (lambda x: function(x, axis if axis is not None else tuple(range(x.ndim)))), (d.tensor(*sizes),)

    return make


def along(function, sizes_of=lambda d: d.sizes()) -> Callable:
    """`function(x, axis)` along the last axis or the first."""

    def make(d: Draw):
        axis = d.one_of(-1, -1, 0)
        return (lambda x: function(x, axis)), (d.tensor(*sizes_of(d)),)

    return make


def layer_norm(d: Draw):
    *rest, last = d.sizes(3)
    return (lambda x, w, b: F.layer_norm(x, (last,), w, b)), (d.tensor(*rest, last), d.numbers((last,)), d.numbers((last,)))


def rms_norm(d: Draw):
    *rest, last = d.sizes(3)
    return (lambda x, w: F.rms_norm(x, (last,), w)), (d.tensor(*rest, last), d.numbers((last,)))


def group_norm(d: Draw):
    n, c, *places = d.image()
    groups = d.one_of(*[g for g in (1, 2, 8, c) if c % g == 0])
    return (lambda x, w, b: F.group_norm(x, groups, w, b)), (d.tensor(n, c, *places), d.numbers((c,)), d.numbers((c,)))


def batch_norm(d: Draw):
    n, c, *places = d.image(d.one_of(1, 2, 3))
    return (lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b)), (d.tensor(n, c, *places), *(d.numbers((c,), low=0.5) for _ in range(4)))


def product_sizes(d: Draw, operands: int = 3) -> tuple[int, int, int]:
    """M, K and N: one of them may be small. The largest of A, B and the result has about `elements` elements, and M K N is at most 5 x 10^8."""
    side = max(1.0, d.elements**0.5)
    m, k, n = (max(1, round(side * d.one_of(1, 1, 0.25, 1 / 16))) for _ in range(3))
    shape = d.one_of("square", "row", "tall", "short K", "square")
    m = 1 if shape == "row" else m
    k = d.one_of(3, 8, 64) if shape == "short K" else k
    n = d.one_of(8, 16, 40) if shape == "tall" else n
    while m * k * n > 5e8:
        m, k, n = max(1, m // 2), max(1, k // 2), max(1, n // 2)
    return m, k, n


def mm(d: Draw):
    m, k, n = product_sizes(d)
    return d.one_of((lambda a, b: a @ b.t()), (lambda a, b: F.linear(a, b))), (d.tensor(m, k), d.tensor(n, k))


def addmm(d: Draw):
    m, k, n = product_sizes(d)
    return torch.addmm, (d.numbers((n,)), d.tensor(m, k), d.tensor(k, n))


def bmm(d: Draw):
    batch = max(1, min(d.one_of(4, 64, 512), d.elements // 64))
    small = Draw(f"{d.random.random()}", d.dtype, d.layout, max(1, d.elements // batch))
    m, k, n = (min(size, 128) for size in product_sizes(small))
    return torch.bmm, (d.tensor(batch, m, k), d.tensor(batch, k, n))


def mv(d: Draw):
    m, k = d.sizes(2)
    return torch.mv, (d.tensor(m, k), d.numbers((k,)))


def outer(d: Draw):
    m, n = d.sizes(2)
    return torch.outer, (d.numbers((m,)), d.numbers((n,)))


def einsum(d: Draw):
    b, h, s, w = max(1, min(2, d.elements // 64)), max(1, min(8, d.elements // 16)), max(1, min(256, round(d.elements**0.5 / 4))), d.one_of(16, 32, 64)
    return (lambda q, k: torch.einsum("bihd,bjhd->bhij", q, k)), (d.tensor(b, s, h, w), d.tensor(b, s, h, w))


def convolution(transposed: bool) -> Callable:
    def make(d: Draw):
        rank = 2 if d.layout == "channels-last" else d.one_of(1, 2, 2, 3)
        n, c, *places = d.image(rank, elements=min(d.elements, 10**6))
        kernel = min(d.one_of(1, 3, 3, 5), 3 if rank == 3 else 5, *places)
        groups = d.one_of(*[g for g in (1, 1, 1, c, 4) if c % g == 0])
        out = c if groups > 1 else d.one_of(8, 32, 64)
        stride, padding, dilation = d.one_of(1, 1, 2), d.one_of(0, kernel // 2), 1
        function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1] if transposed else (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
        weight = (c, out // groups, *[kernel] * rank) if transposed else (out, c // groups, *[kernel] * rank)
        while math.prod((n, c, *places)) * out // groups * kernel**rank > 3e8:
            places = [max(kernel, p // 2) for p in places]
        more = {"groups": groups} if transposed else {"groups": groups, "dilation": dilation}
        return (lambda x, w, b: function(x, w, b, stride=stride, padding=padding, **more)), (d.tensor(n, c, *places), d.tensor(*weight), d.numbers((out,)))

    return make


def attention(d: Draw):
    width, heads = d.one_of(32, 64, 64, 128), d.one_of(1, 4, 8, 16)
    keys = max(1, min(2048, d.elements // (width * heads)))
    queries = d.one_of(1, keys, max(1, keys // 4))
    batch = max(1, min(8, d.elements // (width * heads * keys)))
    causal = queries == keys and d.one_of(True, False)
    q, k, v = (d.tensor(batch, heads, length, width) for length in (queries, keys, keys))
    return (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)), (q, k, v)


def pool(d: Draw):
    rank = 2 if d.layout == "channels-last" else d.one_of(1, 2, 2, 3)
    n, c, *places = d.image(rank)
    window = min(d.one_of(2, 3), *places)
    name = d.one_of("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool")
    function = getattr(F, f"{name}{rank}d")
    x = d.tensor(n, c, *places)
    if name.startswith("adaptive"):
        size = d.one_of(1, min(7, *places))
        return (lambda x: function(x, size)), (x,)
    stride, padding = d.one_of(1, 2), d.one_of(0, window // 2)
    return (lambda x: function(x, window, stride, padding)), (x,)


def resize(d: Draw):
    n, c, *places = d.image(elements=d.elements / 4)
    mode, scale = d.one_of("nearest", "bilinear", "bicubic", "area"), d.one_of(2, 2, 0.5)
    size = [max(1, round(p * scale)) for p in places]
    return (lambda x: F.interpolate(x, size=size, mode=mode)), (d.tensor(n, c, *places),)


def unfold(d: Draw):
    n, c, *places = d.image(elements=d.elements / 9)
    kernel = min(3, *places)
    return (lambda x: F.unfold(x, kernel)), (d.tensor(n, c, *places),)


def pixel_shuffle(d: Draw):
    n, c, *places = d.image(channels=d.one_of(16, 64))
    return (lambda x: F.pixel_shuffle(x, 2)), (d.tensor(n, c, *places),)


def grid_sample(d: Draw):
    n, c, *places = d.image()
    mode, padding = d.one_of("bilinear", "nearest", "bicubic"), d.one_of("zeros", "border", "reflection")
    return (lambda x, g: F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=False)), (d.tensor(n, c, *places), d.numbers((n, *places, 2), low=-1.0, high=1.0))


def pad(d: Draw):
    n, c, *places = d.image()
    mode = d.one_of("constant", "reflect", "replicate") if d.dtype.is_floating_point and min(places) > 1 else "constant"
    return (lambda x: F.pad(x, (1, 1, 1, 1), mode)), (d.tensor(n, c, *places),)


def cat(d: Draw):
    sizes, count = d.sizes(elements=d.elements / 2), d.one_of(2, 3)
    axis = d.one_of(*range(len(sizes)))
    return (lambda *x: torch.cat(x, axis)), tuple(d.tensor(*sizes) for _ in range(count))


def stack(d: Draw):
    sizes = d.sizes(elements=d.elements / 2)
    axis = d.one_of(*range(len(sizes) + 1))
    return (lambda *x: torch.stack(x, axis)), tuple(d.tensor(*sizes) for _ in range(2))


def permute(d: Draw):
    sizes = d.sizes(4 if d.layout == "channels-last" else d.one_of(2, 3, 4))
    order = d.random.sample(range(len(sizes)), len(sizes))
    return (lambda x: x.permute(order).contiguous()), (d.tensor(*sizes),)


def moved(function) -> Callable:
    return lambda d: (function, (d.tensor(*d.sizes(4 if d.layout == "channels-last" else d.one_of(2, 3))),))


def gather(d: Draw):
    rows, columns = d.sizes(2)
    axis = d.one_of(0, 1)
    return (lambda x, i: x.gather(axis, i)), (d.tensor(rows, columns), d.indices((rows, columns)[axis], rows, columns))


def rows_of(d: Draw):
    rows, columns = d.sizes(2)
    count = d.one_of(rows, max(1, rows // 4))
    return d.one_of((lambda x, i: x[i]), (lambda x, i: x.index_select(0, i)), (lambda x, i: F.embedding(i, x))), (d.tensor(rows, columns), d.indices(rows, count))


def columns_of(d: Draw):
    rows, columns = d.sizes(2)
    return d.one_of((lambda x, i: x[:, i]), (lambda x, i: x.index_select(1, i))), (d.tensor(rows, columns), d.indices(columns, max(1, columns // 2)))


def points_of(d: Draw):
    rows, columns = d.sizes(2)
    return d.one_of((lambda x, i, j: x[i, j]), (lambda x, i, j: x.take(i * x.shape[1] + j))), (d.tensor(rows, columns), d.indices(rows, d.elements), d.indices(columns, d.elements))


def masked(d: Draw):
    sizes = d.sizes()
    return d.one_of((lambda x, m: x[m]), (lambda x, m: m.nonzero())), (d.tensor(*sizes), d.numbers(sizes, torch.bool))


def bag(d: Draw):
    width, per_bag = d.one_of(16, 64, 128), d.one_of(8, 40)
    bags = max(1, d.elements // (width * per_bag))
    mode = d.one_of("sum", "mean", "max")
    return (lambda i, w: F.embedding_bag(i, w, mode=mode)), (d.indices(10000, bags, per_bag), d.tensor(10000, width))


def searched(d: Draw):
    return torch.searchsorted, (d.numbers((1000,)).sort()[0], d.numbers((d.elements,)))


def one_hot(d: Draw):
    classes = d.one_of(10, 100)
    return (lambda i: F.one_hot(i, classes)), (d.indices(classes, max(1, d.elements // classes)),)


def scatter(d: Draw):
    rows, columns = d.sizes(2)
    axis, add = d.one_of(0, 1), d.dtype is not torch.bool and d.one_of(True, False)
    taken = torch.stack([torch.randperm((rows, columns)[axis], generator=d.generator) for _ in range((columns, rows)[axis])], 1 - axis) if d.elements < 10**6 else d.indices((rows, columns)[axis], rows, columns)
    if add or d.elements >= 10**6 and d.dtype is not torch.bool:
        return (lambda x, i, v: x.scatter_add(axis, i, v)), (d.tensor(rows, columns), taken, d.tensor(rows, columns))
    return (lambda x, i: x.scatter(axis, i, 1)), (d.tensor(rows, columns), taken)


def index_add(d: Draw):
    rows, columns = d.sizes(2)
    targets = d.one_of(rows, max(1, rows // 8))
    return (lambda x, i, v: x.index_add(0, i, v)), (d.tensor(targets, columns), d.indices(targets, rows), d.tensor(rows, columns))


def scatter_reduce(d: Draw):
    rows, columns = d.sizes(2)
    how = d.one_of("amax", "amin", "prod", "mean", "sum")
    return (lambda x, i, v: x.scatter_reduce(0, i, v, how)), (d.tensor(rows, columns), d.indices(rows, rows, columns), d.tensor(rows, columns))


def index_put(d: Draw):
    rows, columns = d.sizes(2)
    return (lambda x, i, v: x.index_put((i,), v, accumulate=True)), (d.tensor(rows, columns), d.indices(rows, rows), d.tensor(rows, columns))


def index_copy(d: Draw):
    rows, columns = d.sizes(2)
    return (lambda x, i, v: x.index_copy(0, i, v)), (d.tensor(rows, columns), torch.randperm(rows, generator=d.generator), d.tensor(rows, columns))


def counted(d: Draw):
    return (lambda i: torch.bincount(i, minlength=100)), (d.indices(100, d.elements),)


def topk(d: Draw):
    sizes = d.sizes(2)
    return (lambda x: x.topk(min(8, sizes[-1]))[0]), (d.tensor(*sizes),)


def transform(name: str) -> Callable:
    function = getattr(torch.fft, name)

    def make(d: Draw):
        n = d.one_of(64, 100, 256, 1000)
        sizes = (max(1, d.elements // n), n) if not name.endswith("2") else (max(1, d.elements // 4096), 64, 64)
        return (lambda x: torch.view_as_real(y) if (y := function(x)).is_complex() else y), (d.tensor(*sizes),)

    return make


def matrices(function) -> Callable:
    def make(d: Draw):
        n = d.one_of(2, 3, 4, 8, 16, 32)
        x = d.numbers((max(1, min(d.elements, 10**6) // (n * n)), n, n))
        return function, (x @ x.transpose(1, 2) + 2 * torch.eye(n, dtype=d.dtype),)

    return make


# CUDA's own, of no model; what returns its operand itself, whose time is nothing; undefined memory.
WITHOUT_WORK = {"empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted", "jiterator_unary", "jiterator_binary", "jiterator_binary_return_by_ref", "positive", "conj", "real", "resolve_conj", "resolve_neg"}
TABLE = {row["name"].split(".")[1].strip("_") for row in _library.ops()}


def in_table(op) -> bool:
    names = (op.name, op.aten_name, *(a.name for a in op.aliases))
    return op.name not in WITHOUT_WORK and any(n and n.rpartition(".")[2].strip("_") in TABLE for n in names)


KNOWN = [op for op in op_db if in_table(op)]
POINTWISE = {".".join(filter(None, (op.name, op.variant_test_name))): op for op in KNOWN if isinstance(op, UnaryUfuncInfo | BinaryUfuncInfo) and op.supports_dtype(torch.float32, "cpu") and "complex" not in op.name}
F4 = tuple(FLOATS)
ALL = tuple(TYPES)
NUMBERS = (*F4, "integer")

# kind: (its operators by name, their types, the layouts that differ for it)
KINDS: dict[str, tuple[dict[str, tuple[Callable, tuple]], tuple]] = {
    "pointwise": ({**{name: (pointwise_of(op), ALL) for name, op in POINTWISE.items()}, "where": (ternary, ALL), "cast": (cast, ALL), "clamp": (clamp, NUMBERS), "scalar": (scalar, NUMBERS), "lerp": (lerp, F4)}, LAYOUTS),
    "reduction": (
        {
            **{n: (reducing(lambda x, axes, f=getattr(torch, n): f(x, dim=axes)), ALL) for n in ("sum", "any", "all", "count_nonzero")},
            **{n: (reducing(lambda x, axes, f=getattr(torch, n): f(x, dim=axes)), NUMBERS) for n in ("amax", "amin")},
            **{n: (reducing(lambda x, axes, f=getattr(torch, n): f(x, dim=axes)), F4) for n in ("mean", "var", "std", "logsumexp", "nansum")},
            **{n: (along(lambda x, axis, f=getattr(torch, n): f(x, dim=axis)), NUMBERS) for n in ("argmax", "argmin", "prod")},
            "max": (along(lambda x, axis: x.max(axis)[0]), NUMBERS),
            "norm": (along(lambda x, axis: x.norm(dim=axis)), F4),
            "var_mean": (along(lambda x, axis: torch.var_mean(x, axis)), F4),
        },
        LAYOUTS,
    ),
    "normalisation": (
        {
            "softmax": (along(lambda x, axis: x.softmax(axis)), F4),
            "log_softmax": (along(lambda x, axis: x.log_softmax(axis)), F4),
            "normalize": (along(lambda x, axis: F.normalize(x, dim=axis)), F4),
            "layer_norm": (layer_norm, F4),
            "rms_norm": (rms_norm, F4),
            "group_norm": (group_norm, F4),
            "batch_norm": (batch_norm, F4),
        },
        LAYOUTS,
    ),
    "product": ({"mm": (mm, F4), "addmm": (addmm, F4), "bmm": (bmm, F4), "mv": (mv, F4), "outer": (outer, F4), "einsum": (einsum, F4)}, LAYOUTS[:2]),
    "convolution": ({"convolution": (convolution(False), F4), "conv_transpose": (convolution(True), F4)}, (LAYOUTS[0], LAYOUTS[2])),
    "attention": ({"attention": (attention, F4)}, LAYOUTS[:1]),
    "window": ({"pool": (pool, F4), "resize": (resize, F4), "unfold": (unfold, F4), "pixel_shuffle": (pixel_shuffle, F4), "pad": (pad, ALL), "grid_sample": (grid_sample, F4[::3])}, (LAYOUTS[0], LAYOUTS[2])),
    "movement": (
        {
            "cat": (cat, ALL),
            "stack": (stack, ALL),
            "permute": (permute, ALL),
            "roll": (moved(lambda x: x.roll(3, -1)), ALL),
            "flip": (moved(lambda x: x.flip(-1)), ALL),
            "tril": (moved(lambda x: x.tril()), ALL),
            "repeat": (moved(lambda x: x.repeat_interleave(2, 0)), ALL),
            "slice": (moved(lambda x: x[..., ::2].contiguous()), ALL),
            "diagonal": (moved(lambda x: x.diagonal(0, -2, -1).contiguous()), ALL),
        },
        LAYOUTS,
    ),
    "read": (
        {"gather": (gather, ALL), "rows": (rows_of, ALL), "columns": (columns_of, ALL), "points": (points_of, ALL), "masked": (masked, ALL), "bag": (bag, F4), "searchsorted": (searched, NUMBERS), "one_hot": (one_hot, ("integer",))},
        LAYOUTS[:2],
    ),
    "write": ({"scatter": (scatter, ALL), "index_add": (index_add, NUMBERS), "scatter_reduce": (scatter_reduce, F4), "index_put": (index_put, NUMBERS), "index_copy": (index_copy, ALL), "bincount": (counted, ("integer",))}, LAYOUTS[:2]),
    "scan": (
        {
            "cumsum": (along(lambda x, axis: x.cumsum(axis)), NUMBERS),
            "cumprod": (along(lambda x, axis: x.cumprod(axis)), NUMBERS),
            "cummax": (along(lambda x, axis: x.cummax(axis)[0]), NUMBERS),
            "logcumsumexp": (along(lambda x, axis: x.logcumsumexp(axis)), F4),
        },
        LAYOUTS[:2],
    ),
    "sort": ({"sort": (along(lambda x, axis: x.sort(axis)[0]), NUMBERS), "argsort": (along(lambda x, axis: x.argsort(dim=axis, stable=True)), NUMBERS), "topk": (topk, NUMBERS)}, LAYOUTS[:1]),
    "transform": ({n: (transform(n), ("float32", "float64")) for n in ("fft", "rfft", "fft2", "rfft2", "ifft")}, LAYOUTS[:1]),
    "matrix": ({"det": (matrices(torch.linalg.det), ("float32", "float64")), "inv": (matrices(torch.linalg.inv), ("float32", "float64")), "cholesky": (matrices(torch.linalg.cholesky), ("float32", "float64"))}, LAYOUTS[:1]),
}


def drawn() -> Iterator[Problem]:
    """Each kind for each type, layout and decade of size."""
    for kind, (operators, layouts) in KINDS.items():
        for dtype, types in TYPES.items():
            able = [name for name, (_, takes) in operators.items() if dtype in takes]
            for layout in layouts if able else ():
                for decade in DECADES:
                    cell = f"{kind} {dtype} {layout} 1e{decade}"
                    choice = random.Random(zlib.crc32(cell.encode()))
                    element = choice.choice(types)
                    names = [n for n in able if n not in POINTWISE or kind != "pointwise" or POINTWISE[n].supports_dtype(element, "cpu")]
                    name = choice.choice(names)
                    title = f"{name} {str(element).removeprefix('torch.')} {layout} 1e{decade}"
                    yield Problem(f"{kind}: {title}", kind, dtype, layout, 10**decade, lambda m=operators[name][0], t=title, e=element, at=layout, n=10**decade: m(Draw(t, e, at, n)))


def each_once(device: str) -> Iterator[Problem]:
    """Each operator of OpInfo with the first of its own samples that has a tensor, in float32 or the first type that it takes."""
    for op in KNOWN:
        name = ".".join(filter(None, (op.name, op.variant_test_name)))
        dtype = next((t for t in (torch.float32, torch.int64, torch.bool) if op.supports_dtype(t, device)), None)
        if dtype is not None:
            yield Problem(f"once: {name}", "once", str(dtype).removeprefix("torch."), "contiguous", 0, lambda op=op, dtype=dtype: sample_of(op, dtype, device))


def sample_of(op, dtype, device):
    """The largest of the operator's first samples, as a call of its tensors."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "ops"))
    from capture_sample import Call

    torch.manual_seed(0)
    samples = [s for s, _ in zip(op.sample_inputs(device, dtype, requires_grad=False), range(8)) if isinstance(s.input, torch.Tensor)]
    if not samples:
        raise LookupError("no sample has a tensor first")
    call = Call(op, max(samples, key=lambda s: s.input.numel()))
    return call, tuple(call.tensors)


def problems(device: str = "cpu") -> list[Problem]:
    return [*each_once(device), *drawn()]


if __name__ == "__main__":
    from collections import Counter

    made = problems()
    print(len(made), Counter(p.kind for p in made), len({p.name for p in made}), ingot.__version__)
