"""Refuses random calls without a defined result: undefined behaviour of C, an order that torch leaves open, random numbers."""

from __future__ import annotations

import re

import torch
from random_program import operator

CONVERTS = re.compile(r"aten\.(_?to|type_as|lift|copy|fill|full|scatter|index_put|index_fill|masked_fill|new_full|arange|linspace|scalar_tensor)")
DIVIDES = re.compile(r"aten\.(div|divide|true_divide|floor_divide|remainder|fmod)_?\.")
REMAINDERS = re.compile(r"aten\.(floor_divide|remainder|fmod|div(ide)?_?\.\w+_mode)")
TIES = {"aten.sort.default", "aten.argsort.default", "aten.topk.default", "aten.kthvalue.default", "aten.median.dim", "aten.nanmedian.dim"}
# Sums, most of them of products. Whether values near the largest number overflow depends on the order of the terms.
SUMS = re.compile(r"aten\.(mv\.|.*(conv|mm_?\.|addmv|addr|matmul|linear|dot|einsum|attention|_norm\.|_norm_|var|std))")
ADDS = re.compile(r"aten\.(sum|nansum|mean|nanmean|cumsum)_?\.")
NORMALISES = re.compile(r"aten\.(native_|_native_)?(batch|group|layer|instance|rms)_norm|aten\._?native_batch_norm|aten\.(var|std)_mean")
RESAMPLES = re.compile(r"aten\._?(upsample_(bi|tri)?(linear|cubic)|grid_sampler)")
NUMBERS_MAXIMA = re.compile(r"aten\.(adaptive_max_pool|max_pool\dd_with_indices|fractional_max_pool)")
ONE_WRITER = re.compile(r"aten\.(scatter_?\.src|index_copy|index_put|masked_scatter)")


def _leaves(value):
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def written(chosen, args, kwargs) -> list[torch.Tensor]:
    """The operands that the call writes."""
    found = []
    for i, parameter in enumerate(chosen.schema.arguments):
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            value = kwargs.get(parameter.name, args[i] if i < len(args) else None)
            found += [t for t in _leaves(value) if isinstance(t, torch.Tensor)]
    return found


def may_write(scope, chosen, tensors) -> bool:
    """Whether the call may write its operands. Constants are never written, parameters sometimes. Some of torch's kernels write past an `out` whose elements share memory."""
    if chosen.kind == "out" and any(n > 1 and stride == 0 for t in tensors for n, stride in zip(t.shape, t.stride())):
        return False
    if chosen.target == "aten.im2col.out" and not all(t.is_contiguous() for t in tensors):  # torch writes it as if it were contiguous
        return False
    owned = {s.name: s.role for s in scope.sources if s.role in ("constant", "weight")}
    for t in tensors:
        for name, role in owned.items():
            if any(c.untyped_storage().data_ptr() == t.untyped_storage().data_ptr() for c in scope.tensors[name]) and (role == "constant" or scope.seed % 4):
                return False
    return True


def before(chosen, args, kwargs) -> bool:
    values = list(_leaves([args, list(kwargs.values())]))
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    if DIVIDES.match(chosen.target):  # the smallest integer divided by -1 ends the process
        if any(not t.dtype.is_floating_point and t.dtype is not torch.bool and t.numel() and t.min().item() == torch.iinfo(t.dtype).min for t in tensors if t.dtype is not torch.uint8):
            return False
    if REMAINDERS.match(chosen.target) and _overflows(*args[:2]):  # torch's vector loops return NaN there, its scalar loops the remainder
        return False
    if "signbit" in chosen.row and any(t.isnan().any() for t in tensors if t.dtype.is_floating_point):  # the sign of a NaN is undefined
        return False
    if chosen.row in TIES and any(t.numel() and torch.unique(t[~t.isnan()]).numel() < t.numel() for t in tensors[:1]):
        return False
    if "bucketize" in chosen.row and any(t.isnan().any() or (t.diff() < 0).any() for t in tensors[1:2]):  # unsorted boundaries
        return False
    if "native_" in chosen.row and "_norm" in chosen.row and any(not t.numel() for t in tensors):  # torch does not write means of no elements
        return False
    if ("conv" in chosen.row or "multi_head" in chosen.row) and any(t.dtype.is_floating_point and not t.isfinite().all() for t in tensors):  # an infinity times the zeros around an image
        return False
    if "arange" in chosen.target and any(abs(v) > 10_000 for v in values if isinstance(v, (int, float)) and v == v):  # would take gigabytes
        return False
    floats = [t for t in tensors if t.dtype.is_floating_point]
    if SUMS.match(chosen.target) and any((t.abs() > sum_limit(t.dtype)).logical_and(t.isfinite()).any() for t in floats):
        return False
    wide = kwargs.get("dtype")
    if ADDS.match(chosen.target) and wide is not None and wide.is_floating_point and any(not t.dtype.is_floating_point and t.double().abs().gt(2**24).any() for t in tensors):
        return False  # large integers that cancel: the result depends on the order
    if kwargs.get("assume_unique") and any(torch.unique(t).numel() < t.numel() for t in tensors):  # torch does not check that they are unique
        return False
    if NORMALISES.match(chosen.target) and any(t.isinf().any() for t in floats):  # inf - inf, depending on eager's algorithm
        return False
    # torch's kernels read such strides wrongly; its own callers never pass them.
    if "flash_attention" in chosen.row and any(t.stride(-1) != 1 for t in tensors) or "native_" in chosen.row and not all(t.is_contiguous() for t in tensors[1:]):
        return False
    if "_weight_norm_interface" in chosen.row and not all(t.is_contiguous() for t in tensors):
        return False
    if chosen.kind == "out" and any(name in chosen.row for name in ("avg_pool3d", "col2im", "tril", "triu")) and not kwargs["out"].is_contiguous():  # torch writes it as if it were contiguous
        return False
    if ("circular" in values or "circular" in chosen.row) and any(isinstance(n, int) and n < 0 for n in args[1]):  # wraps around elements that are not written yet
        return False
    if "2d_aa" in chosen.row and 1 in [sizes[-1] for sizes in args[1:] if isinstance(sizes, list) and sizes and isinstance(sizes[-1], int)]:  # torch repeats the first row of one column
        return False
    # Whether a neighbour of weight 0 is multiplied, and where a NaN coordinate lies, depends on the kernel that torch chooses.
    if RESAMPLES.match(chosen.target) and any(t.dtype.is_floating_point and not t.isfinite().all() for t in tensors):
        return False
    if NUMBERS_MAXIMA.match(chosen.target) and any(t.dtype.is_floating_point and t.isnan().any() for t in tensors):  # any of several NaN
        return False
    if "native_channel_shuffle" in chosen.row:  # in eager the shuffle copies a permuted view and keeps its layout; ingot's result is row-major
        return False
    if "einsum" in chosen.row and len(args[1]) == 1:  # a view in eager, which ingot copies
        return False
    if "topk" in chosen.row and False in (*args[3:], *kwargs.values()):  # in any order
        return False
    if "pixel_unshuffle" in chosen.row and any(not t.numel() for t in tensors):  # torch's operator and its shape function disagree
        return False
    if "dropout" in chosen.row and not tensors[0].dtype.is_floating_point:  # with p = 1 eager multiplies; torch's trace has native_dropout, which accepts only floats
        return False
    if "take_along_dim" in chosen.row and not _inside(*args, **{k: v for k, v in kwargs.items() if k != "out"}):  # beyond the axis: not all of torch's kernels check
        return False
    if chosen.kind in ("write", "out") and not _reads_what_it_writes(chosen) and _overlap(chosen, args, kwargs, tensors):
        return False
    if ONE_WRITER.match(chosen.target) and not _each_once(chosen, args, kwargs):
        return False
    return True


def sum_limit(dtype) -> float:
    return max(torch.finfo(dtype).max, torch.finfo(torch.float32).max) ** 0.5 / 1024


def _reads_what_it_writes(chosen) -> bool:
    """True for pointwise operators, whose operands may be the written tensor."""
    return torch.Tag.pointwise in operator(chosen.row).tags or "copy_" in chosen.target or "fill" in chosen.target


def _overlap(chosen, args, kwargs, tensors) -> bool:
    made = written(chosen, args, kwargs)
    memories = {t.untyped_storage().data_ptr() for t in made if t.numel()}
    return any(t.untyped_storage().data_ptr() in memories for t in tensors if all(t is not m for m in made)) or len(tensors) > len({id(t) for t in tensors})


def _overflows(a, b) -> bool:
    a, b = (torch.as_tensor(x) for x in (a, b))
    return bool((torch.true_divide(a, b).isinf() & a.isfinite() & (b != 0)).any())


def _inside(x, indices, dim=None) -> bool:
    size = x.numel() if dim is None else x.shape[dim] if x.dim() else 1
    return bool(((-size <= indices) & (indices < size)).all())


def _each_once(chosen, args, kwargs) -> bool:
    named = dict(zip((p.name for p in chosen.schema.arguments), args)) | kwargs
    if "indices" in named:
        indices = [t for t in named["indices"] if isinstance(t, torch.Tensor)]
        if any(t.dtype is torch.bool for t in indices) or named.get("accumulate"):
            return True
        joined = torch.stack([t.reshape(-1) for t in torch.broadcast_tensors(*[t.long() for t in indices])], 1)
        return torch.unique(joined, dim=0).shape[0] == joined.shape[0]
    index = named.get("index")
    if not isinstance(index, torch.Tensor) or index.dim() == 0 or not index.numel():
        return True
    along = named["dim"] if index.dim() > 1 else 0
    return bool((index.long().sort(along).values.diff(dim=along) != 0).all())


def after(chosen, given, results, call) -> bool:
    args, kwargs = given
    if torch.Tag.nondeterministic_seeded in operator(chosen.row).tags:
        if chosen.kind in ("write", "out"):
            return False
        again = call(*args, **kwargs)
        again = list(again) if isinstance(again, (list, tuple)) else [again]
        if any(not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(results, again)):
            return False
    integers = [t for t in results if isinstance(t, torch.Tensor) and t.dtype not in (torch.bool,) and not t.dtype.is_floating_point]
    converts = CONVERTS.match(chosen.target) or isinstance(kwargs.get("dtype"), torch.dtype) or any(isinstance(v, torch.dtype) for v in args)
    if integers and converts:
        info = torch.iinfo(integers[0].dtype)
        for value in _leaves([args, [v for k, v in kwargs.items()]]):
            if isinstance(value, float):
                value = torch.tensor(value, dtype=torch.float64)
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point and value.numel():
                low, high = value.double().aminmax()
                if not (info.min - 0.5 <= low and high <= info.max * (1 - 1e-6)):
                    return False
    return True
