"""Writes to intermediates by assignment, in-place operators and `out=`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from program import program
from torch import nn

# ---- assignment


@program(lambda r: [r(r.n, 3)], dynamic="0.0")
def set_int(self, x):
    y = x * 2
    y[0] = 0
    return y


@program(lambda r: [r(5, 3), r(3, 3)])
def set_slice_with_step(self, x, z):
    y = x * 2
    y[::2] = z
    return y


@program(lambda r: [r(4, 5)])
def set_negative_index(self, x):
    y = x * 2
    y[-1, -2:] = 5
    return y


@program(lambda r: [r(6, 3), r(2, 3)])
def set_tensor_index(self, x, z):
    y = x * 2
    y[torch.tensor([4, 1])] = z
    return y


@program(lambda r: [r(6, 3), torch.tensor([5, -1 - r.seed * 2]), r(2)])
def set_two_tensor_indices(self, x, rows, z):
    y = x * 2
    y[rows, torch.tensor([2, 0])] = z
    return y


@program(lambda r: [r(6, 4), torch.tensor([0, 3]), r(2, 2)])
def set_tensor_index_and_slice(self, x, rows, z):
    y = x * 2
    y[rows, 1:3] = z
    return y


@program(lambda r: [r(3, 4), torch.tensor(r.seed)], export_refuses="Could not extract specialized integer from data-dependent expression")
def set_index_known_when_running(self, x, i):
    y = x * 2
    y[i] = -1
    return y


@program(lambda r: [r(r.n, 4), r.bools(r.n, 4)], dynamic="0.0 1.0")
def set_mask(self, x, mask):
    y = x * 2
    y[mask] = 0
    return y


@program(lambda r: [r(3, 4)])
def set_mask_to_values(self, x):
    y = x * 2
    y[y > 0] = y[y > 0].sqrt()
    return y


@program(lambda r: [r(4, 3), r.bools(4), r(3)])
def set_mask_of_rows(self, x, mask, z):
    y = x * 2
    y[mask] = z
    return y


@program(lambda r: [r(2, 3, 4), r(2, 3)])
def set_ellipsis(self, x, z):
    y = x * 2
    y[..., 0] = z
    return y


@program(lambda r: [r(3, 4), r(3, 1)])
def set_none(self, x, z):
    y = x * 2
    y[:, None, 1] = z
    return y


@program(lambda r: [r(r.n, 4), r(3)], dynamic="0.0")
def set_broadcast_value(self, x, row):
    y = x * 2
    y[:, 1:] = row
    return y


@program(lambda r: [r(3, 4)])
def set_zero_dimensional_value(self, x):
    y = x * 2
    y[1, 2] = x.sum()
    return y


@program(lambda r: [r(3, 4)])
def set_augmented(self, x):
    y = x * 2
    y[1] += 3
    y[:, 0] *= y[:, 1]
    return y


@program(lambda r: [r.ints(9, 3, 4), r(4)])
def set_converts_dtype(self, x, z):
    y = x + 1
    y[0] = z * 10
    y[1] = 2.75
    return y


@program(lambda r: [r(3, 4)])
def set_rows_of_empty(self, x):
    y = torch.empty_like(x)
    for i in range(3):
        y[i] = x[2 - i]
    return y


# ---- indexed writes


@program(lambda r: [r(5, 3), r.ints(5, 8), r(8, 3)])
def index_put_accumulate(self, x, i, z):
    return (x * 2).index_put_((i,), z, accumulate=True)


@program(lambda r: [r(5, 3), r.ints(5, r.n), r(r.n, 3)], dynamic="1.0 2.0")
def index_add(self, x, i, z):
    return (x * 2).index_add_(0, i, z, alpha=0.5)


@program(lambda r: [r(3, 5), r(3, 2)])
def index_copy(self, x, z):
    return (x * 2).index_copy_(1, torch.tensor([4, 0], device=x.device), z)


@program(lambda r: [r(5, 3), r.ints(5, 2)])
def index_fill(self, x, i):
    return (x * 2).index_fill_(0, i, -1)


@program(lambda r: [r(3, 5), r(3, 2)])
def scatter(self, x, z):
    y = x * 2
    y.scatter_(1, torch.tensor([[0, 1], [3, 2], [4, 0]], device=x.device), z)
    return y.scatter_(0, torch.tensor([[2, 1]], device=x.device), 9.0)


@program(lambda r: [r(3, 5), r.ints(3, 4, 5), r(4, 5)])
def scatter_add(self, x, i, z):
    return (x * 2).scatter_add_(0, i, z)


@program(lambda r: [r(3, 5), r.ints(3, 4, 5), r(4, 5)])
def scatter_reduce(self, x, i, z):
    return (x * 2).scatter_reduce_(0, i, z, "amax")


@program(lambda r: [r(r.n, 4), r.bools(4)], dynamic="0.0")
def masked_fill(self, x, mask):
    y = x * 2
    y.t().masked_fill_(mask[:, None], float("-inf"))  # torch 2.13's own functionalisation gives back y with the strides of y.t()
    return y


@program(lambda r: [r(3, 4), r.bools(3, 4), r(12)])
def masked_scatter(self, x, mask, z):
    return (x * 2).masked_scatter_(mask, z)


@program(lambda r: [r(4, 3)])
def fill_diagonal(self, x):
    return (x * 2).fill_diagonal_(0)


# ---- in-place operators


@program(lambda r: [r(3, 4)])
def fill_and_zero(self, x):
    y, z = x * 2, x * 3
    y.fill_(1.5)
    z[0].zero_()
    return y, z


@program(lambda r: [r(r.n, 4), r.ints(9, 4)], dynamic="0.0")
def copy_converts_and_broadcasts(self, x, z):
    return (x * 2).copy_(z)


@program(lambda r: [r.ints(9, 3), r(3)])
def copy_float_to_int(self, x, z):
    return (x * 2).copy_(z * 10)


@program(lambda r: [r(3, 4), r(4)])
def clamp(self, x, low):
    return (x * 2).clamp_(-1, 1).clamp_(min=low)


@program(lambda r: [r(r.n, 4)], state=lambda r: dict(relu=nn.ReLU(inplace=True)), aliases="out:1=out:0", dynamic="0.0")
def relu_module(self, x):
    y = x * 2
    return self.relu(y), y


@program(lambda r: [r(3, 4)], aliases="out:1=out:0")
def dropout_in_eval(self, x):
    y = x * 2
    return F.dropout(y, 0.5, training=False, inplace=True), y


@program(lambda r: [r(3, 4)])
def activations(self, x):
    y, z = x * 2, x * 3
    F.leaky_relu(y, 0.1, inplace=True)
    F.hardtanh(y, -2, 2, inplace=True)
    F.elu(z, inplace=True)
    return F.silu(y, inplace=True) + torch.sigmoid_(z)


@program(lambda r: [r(3, 4), r(4)])
def add_with_alpha(self, x, z):
    return (x * 2).add_(z, alpha=3).sub_(x, alpha=0.5)


@program(lambda r: [r(3, 4), r(3, 1)])
def addcmul_and_addcdiv(self, x, z):
    return (x * 2).addcmul_(x, z, value=0.5).addcdiv_(x, z.abs() + 1)


@program(lambda r: [r(3, 4), r(3, 4), r(4)])
def lerp(self, x, z, weight):
    return (x * 2).lerp_(z, 0.25).lerp_(x, weight)


@program(lambda r: [r(3, 5), r(3, 4), r(4, 5)])
def addmm(self, x, a, b):
    return (x * 2).addmm_(a, b, beta=0.5, alpha=2)


@program(lambda r: [r(2, r.n, 5), r(2, r.n, 4), r(2, 4, 5)], dynamic="0.1 1.1")
def baddbmm(self, x, a, b):
    return (x * 2).baddbmm_(a, b)


@program(lambda r: [r.ints(100, 3, 4), r.bools(3)])
def int_and_bool_operators(self, x, mask):
    y, m = x + 1, mask.clone()
    y.floor_divide_(7).bitwise_xor_(5)
    y <<= 2
    return y, m.logical_not_()


@program(lambda r: [r(3, 4)])
def augmented_operators(self, x):
    y = x * 2
    y += 1
    y *= x
    y /= 3
    y -= y[0].clone()
    return y


@program(lambda r: [r(3, 4)])
def cumsum_and_triu(self, x):
    return (x * 2).cumsum_(1).triu_(1)


@program(lambda r: [r(3, 4)])
def strides_changed_in_place(self, x):
    y = x * 2
    y.t_().unsqueeze_(0)
    y.add_(1)
    return y


@program(lambda r: [r(3, 4), r(2)])
def foreach_add(self, x, z):
    many = [x * 2, z * 2]
    torch._foreach_add_(many, 1)
    return many


@program(lambda r: [r(3, 4)])
def comparison_keeps_dtype(self, x):
    return (x * 2).gt_(0)


# ---- out=


@program(lambda r: [r(r.n, 4), r(r.n, 4)], dynamic="0.0 1.0", aliases="out:1=out:0")
def out_of_add(self, a, b):
    c = torch.empty_like(a)
    return torch.add(a, b, out=c), c


@program(lambda r: [r(3, 4), r(4, 5)])
def out_of_matmul(self, a, b):
    c = a.new_zeros(3, 5)
    torch.matmul(a, b, out=c)
    return c


@program(lambda r: [r(3, 4), r(2, 4)])
def out_of_cat(self, a, b):
    c = a.new_zeros(5, 4)
    torch.cat([a, b], out=c)
    return c


@program(lambda r: [r(3, 4)])
def out_is_a_view(self, x):
    c = x * 2
    torch.mul(x[0], x[1], out=c[2])
    torch.add(x[:, 0], 1, out=c[:, 3])
    return c


@program(lambda r: [r(3, 4)])
def out_is_an_operand(self, x):
    y = x * 2
    torch.sub(x, y, out=y)
    return y


@program(lambda r: [r(3, 4)], aliases="out:2=out:0 out:3=out:1")
def out_is_a_pair(self, x):
    values, indices = x.new_empty(3), torch.empty(3, dtype=torch.int64)
    found = torch.max(x, 1, out=(values, indices))
    return values, indices, found[0], found[1]
