"""Decompositions that `get_decompositions` adds to torch's table. Builds do not use them."""

from __future__ import annotations

import math

import torch

_aten = torch.ops.aten


def _rsqrt(x):
    return _aten.div.Tensor(torch.ones_like(x), _aten.sqrt.default(x))


def _reciprocal(x):
    return _aten.div.Tensor(torch.ones_like(x), x)


def _variance(x, dims=None, *, correction=1, keepdim=False):
    dims = dims or list(range(x.dim()))
    away = _aten.sub.Tensor(x, _aten.mean.dim(x, dims, True))
    count = math.prod(x.shape[d] for d in dims)
    return _aten.div.Tensor(_aten.sum.dim_IntList(_aten.mul.Tensor(away, away), dims, keepdim), max(count - (1 if correction is None else correction), 0))


def _variance_and_mean(x, dims=None, *, correction=1, keepdim=False):
    dims = dims or list(range(x.dim()))
    mean = _aten.div.Tensor(_aten.sum.dim_IntList(x, dims, keepdim), math.prod(x.shape[d] for d in dims))
    return _variance(x, dims, correction=correction, keepdim=keepdim), mean


def _select_scatter(x, source, dim, index):
    index = index + x.shape[dim] if index < 0 else index
    return _aten.slice_scatter.default(x, _aten.unsqueeze.default(source, dim), dim, index, index + 1, 1)


def _log_softmax(x, dim, half_to_float):
    return _aten.log.default(_aten._softmax.default(x.to(torch.float32) if half_to_float else x, dim, False))


def _empty_permuted(size, order, **options):
    back = [order.index(axis) for axis in range(len(order))]
    return _aten.permute.default(_aten.empty.memory_format([size[axis] for axis in order], **options), back)


def _empty_strided(size, stride, **options):
    return _aten.empty.memory_format(size, **options)


def _full_like(x, value, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return _aten.full.default(x.shape, value, dtype=dtype or x.dtype, device=device or x.device)


def _instance_norm(x, weight, bias, mean, variance, from_input, momentum, eps, cudnn):
    if from_input:
        axes = list(range(2, x.dim()))
        variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    shape = [1, -1] + [1] * (x.dim() - 2)
    of_channels = lambda t: t if t.dim() == x.dim() else t.reshape(shape)  # noqa: E731
    made = (x - of_channels(mean)) / torch.sqrt(of_channels(variance) + eps)
    made = made if weight is None else made * of_channels(weight)
    return made if bias is None else made + of_channels(bias)


def _grid_sampler(x, grid):
    return _aten.grid_sampler_2d.default(x, grid, 0, 0, True)


def _masked_scatter(x, mask, source):
    x, mask = torch.broadcast_tensors(x, mask)
    place = (mask.flatten().cumsum(0) - 1).clamp(min=0)
    return _aten.where.self(mask, _aten.gather.default(source.flatten(), 0, place).reshape(x.shape), x)


def _scattered(combine, begin):
    """Combines elements at their index: one step for each position along the axis, so that no two elements of a step have the same target."""

    def rule(x, dim, index, source):
        for at in range(index.shape[dim] if index.dim() else 1):
            place = (lambda t, at=at: t.narrow(dim, at, 1) if t.dim() else t)
            one = _aten.scatter.src(torch.full_like(x, begin(x.dtype)), dim, place(index), place(source.narrow(dim, 0, index.shape[dim]) if source.dim() else source)[tuple(map(slice, place(index).shape))])
            x = combine(x, one)
        return x

    return rule


def _lowest(dtype):
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype):
    return math.inf if dtype.is_floating_point else torch.iinfo(dtype).max


_KINDS = {
    "sum": (_scattered(_aten.add.Tensor, lambda dtype: 0), 0),
    "prod": (_scattered(_aten.mul.Tensor, lambda dtype: 1), 1),
    "amax": (_scattered(_aten.maximum.default, _lowest), _lowest),
    "amin": (_scattered(_aten.minimum.default, _highest), _highest),
}


def _scatter_reduce(x, dim, index, source, reduce, *, include_self=True):
    rule, start = _KINDS["sum" if reduce == "mean" else reduce]
    if not include_self:
        x = _aten.scatter.value(x, dim, index, start(x.dtype) if callable(start) else start)
    made = rule(x, dim, index, source)
    if reduce != "mean":
        return made
    ones = torch.ones_like(source)
    counts = _KINDS["sum"][0](torch.ones_like(x) if include_self else _aten.scatter.value(torch.ones_like(x), dim, index, 0), dim, index, ones)
    return _aten.div.Tensor_mode(made, counts, rounding_mode=None if made.is_floating_point() else "floor")


RULES = {
    _aten.rsqrt.default: _rsqrt,
    _aten.reciprocal.default: _reciprocal,
    _aten.var.correction: _variance,
    _aten.var_mean.correction: _variance_and_mean,
    _aten.masked_scatter.default: _masked_scatter,
    _aten.alias.default: lambda x: x,
    _aten.lift_fresh_copy.default: lambda x: x,
    _aten.select_scatter.default: _select_scatter,
    _aten._log_softmax.default: _log_softmax,
    _aten.empty_permuted.default: _empty_permuted,
    _aten.empty_strided.default: _empty_strided,
    _aten.full_like.default: _full_like,
    _aten.instance_norm.default: _instance_norm,
    _aten.cudnn_grid_sampler.default: _grid_sampler,
    _aten.view.default: lambda x, size: _aten._reshape_copy.default(x, size),
    _aten.scatter_add.default: lambda x, dim, index, source: _KINDS["sum"][0](x, dim, index, source),
    _aten.scatter_reduce.two: _scatter_reduce,
}


def attention(in_float32: bool) -> dict:
    """Attention as matrix products and a softmax."""

    def whole(q, k, v, mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
        kind, wide = q.dtype, in_float32 and q.dtype is torch.float16
        q, k, v = (t.to(torch.float32) for t in (q, k, v)) if wide else (q, k, v)
        if enable_gqa:
            k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
        scores = _aten.matmul.default(q, k.transpose(-2, -1)) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
        if is_causal:
            mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), -math.inf) if mask.dtype is torch.bool else scores + mask.to(scores.dtype)
        return _aten.matmul.default(_aten._softmax.default(scores, -1, False), v).to(kind)

    def nothing(*shape, like):
        return torch.zeros(shape, dtype=torch.int64, device=like.device)

    def efficient(q, k, v, bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
        return whole(q, k, v, bias, dropout_p, is_causal, scale=scale), torch.zeros(q.shape[:-1], device=q.device), nothing(like=q), nothing(like=q)

    def flash(q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
        return whole(q, k, v, None, dropout_p, is_causal, scale=scale), torch.zeros(q.shape[:-1], device=q.device), None, None, q.shape[2], k.shape[2], nothing(like=q), nothing(like=q), nothing(like=q)

    def cudnn(q, k, v, bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
        return flash(q, k, v, dropout_p, is_causal, scale=scale) if bias is None else (whole(q, k, v, bias, dropout_p, is_causal, scale=scale), *flash(q, k, v, scale=scale)[1:])

    return {
        _aten.scaled_dot_product_attention.default: whole,
        _aten._scaled_dot_product_efficient_attention.default: efficient,
        _aten._scaled_dot_product_flash_attention.default: flash,
        _aten._scaled_dot_product_cudnn_attention.default: cudnn,
    }
