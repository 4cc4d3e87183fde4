"""Operands whose shapes depend on one another, by operator. A draw by the schema alone would seldom find them."""

from __future__ import annotations

import torch


def operands(draw) -> dict[str, object] | None:
    """Operands by name, for `draw` (an `Arguments`); None for an operator that is not listed here."""
    name = draw.operator.row.split(".")[1]
    if name.startswith(("upsample_", "_upsample_")) and "scale_factors" not in draw.names:
        return _resized(draw)
    if "adaptive_" in name:
        rank = draw._rank()
        return {"self": draw._image(rank)[0], "output_size": [draw.r.randint(1, 4) for _ in range(rank)]}
    made = _BY_NAME.get(name)
    return made(draw) if made is not None else None


def _new(draw, dtype, **shapes):
    return {name: draw.new(shape=shape, dtype=dtype) for name, shape in shapes.items()}


def _resized(draw):
    rank = draw._rank()
    image, size = draw._image(rank)
    made = {"self": image, "output_size": [draw.r.randint(1, 7) for _ in range(rank)]}
    return made | {name: None for name in draw.names if name.startswith("scales")}


def _grid(draw):
    r, rank = draw.r, 3 if "3d" in draw.operator.row else 2
    image, size = draw._image(rank)
    grid = draw.new(shape=[size[0], *(r.randint(1, 4) for _ in range(rank)), rank], dtype=draw.scope.dtype(image.name))
    return {"input": image, "grid": grid, "interpolation_mode": r.choice([0, 1, 2] if rank == 2 else [0, 1]), "padding_mode": r.choice([0, 1, 2])}


def _affine(draw):
    r, rank = draw.r, draw.r.choice([2, 3])
    n = r.randint(1, 2)
    return _new(draw, draw._float(), theta=[n, rank, rank + 1]) | {"size": [n, 2, *(r.randint(1, 4) for _ in range(rank))]}


def _columns(draw):
    r = draw.r
    kernel, stride, padding, size = [r.randint(1, 3) for _ in range(2)], r.choice([1, 2]), r.choice([0, 1]), [r.randint(3, 6) for _ in range(2)]
    windows = [(n + 2 * padding - k) // stride + 1 for n, k in zip(size, kernel)]
    made = _new(draw, draw._float(), self=[r.randint(1, 2), 2 * kernel[0] * kernel[1], windows[0] * windows[1]])
    return made | {"output_size": size, "kernel_size": kernel, "dilation": [1, 1], "padding": [padding] * 2, "stride": [stride] * 2}


def _vectors(draw):
    r, m = draw.r, draw.r.randint(1, 4)
    names = [n for n in ("x1", "x2") if n in draw.names]
    lead = [r.randint(1, 2)] if "cdist" in draw.operator.row or "euclidean" in draw.operator.row else []
    made = _new(draw, r.choice((torch.float32, torch.float64)), **{n: [*lead, r.randint(1, 4), m] for n in names} if names else {"self": [r.randint(1, 4), m]})
    return made | ({"compute_mode": r.choice([None, 1, 2])} if "compute_mode" in draw.names else {}) | ({"p": r.choice([1.0, 2.0, 3.0])} if "p" in draw.names else {})


def _threes(draw):
    shape = [draw.r.randint(1, 3), 3]
    return _new(draw, draw._float(), self=shape, other=shape) | {"dim": -1}


def _tensordot(draw):
    i, j, k, n = (draw.r.randint(1, 4) for _ in range(4))
    return _new(draw, draw._float(), self=[i, j, k], other=[k, n, j]) | {"dims_self": [1, 2], "dims_other": [2, 0]}


def _bilinear(draw):
    n, i, j, o = (draw.r.randint(1, 4) for _ in range(4))
    return _new(draw, draw._float(), input1=[n, i], input2=[n, j], weight=[o, i, j], bias=[o])


def _inner(draw):
    m, n, k = (draw.r.randint(1, 4) for _ in range(3))
    return _new(draw, draw._float(), self=[m, k], other=[n, k])


def _vecdot(draw):
    shape = [draw.r.randint(1, 4) for _ in range(2)]
    return _new(draw, draw._float(), x=shape, y=shape)


def _weight_norm(draw):
    out, each = draw.r.randint(1, 4), draw.r.randint(1, 4)
    return _new(draw, draw.r.choice((torch.float32, torch.float64)), v=[out, each, 3], g=[out, 1, 1]) | {"dim": 0}


def _written_diagonal(draw):
    rows, columns = (draw.r.randint(1, 4) for _ in range(2))
    return _new(draw, draw._float(), self=[rows, columns], src=[min(rows, columns)]) | {"offset": 0, "dim1": 0, "dim2": 1}


def _lines(draw):
    dtype = draw._float()
    return {"tensors": [draw.new(shape=[draw.r.randint(1, 4)], dtype=dtype) for _ in range(draw.r.randint(1, 3))]}


def _quantiles(draw):
    shape = [draw.r.randint(1, 4) for _ in range(2)]
    dtype = draw.r.choice((torch.float32, torch.float64))
    made = {"self": draw.new(shape=shape, dtype=dtype), "dim": draw.r.choice([0, 1, -1])}
    return made | ({"q": draw.new(shape=[draw.r.randint(1, 3)], dtype=dtype, values="unit")} if draw.operator.row.endswith("quantile.default") else {})


def _searched(draw):
    dtype = draw.r.choice((torch.float32, torch.float64, torch.int64))
    made = {"sorted_sequence": draw.new(shape=[draw.r.randint(1, 5)], dtype=dtype, values="count"), "sorter": None, "side": None}
    return made | ({} if draw.operator.row.endswith("Scalar") else {"self": draw.new(shape=[draw.r.randint(1, 4)], dtype=dtype)})


def _attention(draw):
    r, heads = draw.r, draw.r.choice([1, 2])
    width = heads * r.choice([2, 4])
    dtype = r.choice((torch.float32, torch.float64))
    made = _new(draw, dtype, qkv_weight=[3 * width, width], qkv_bias=[3 * width], proj_weight=[width, width], proj_bias=[width])
    query = draw.new(shape=[r.randint(1, 2), r.randint(1, 4), width], dtype=dtype)
    return made | {"query": query, "key": query, "value": query, "embed_dim": width, "num_head": heads, "mask": None, "mask_type": None, "need_weights": True}


def _normed(draw):
    image, size = draw._image(draw.r.choice([1, 2]))
    dtype = draw.scope.dtype(image.name)
    made = {"input": image, "training": False, "momentum": 0.1, "eps": 1e-5, "weight": None, "bias": None}
    return made | {"running_mean": draw.new(shape=size[1:2], dtype=dtype), "running_var": draw.new(shape=size[1:2], dtype=dtype, values="positive")}


_BY_NAME = {
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), _grid),
    "affine_grid_generator": _affine,
    "col2im": _columns,
    **dict.fromkeys(("cdist", "_cdist_forward", "_euclidean_dist", "pdist", "_pdist_forward", "pairwise_distance"), _vectors),
    **dict.fromkeys(("cross", "linalg_cross"), _threes),
    "tensordot": _tensordot,
    "bilinear": _bilinear,
    "inner": _inner,
    "diagonal_scatter": _written_diagonal,
    "linalg_vecdot": _vecdot,
    **dict.fromkeys(("_weight_norm", "_weight_norm_interface"), _weight_norm),
    "meshgrid": _lines,
    **dict.fromkeys(("quantile", "nanquantile"), _quantiles),
    "searchsorted": _searched,
    "_native_multi_head_attention": _attention,
    "native_batch_norm": _normed,
}
