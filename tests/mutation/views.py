"""Writes to intermediates through views, and the order of writes and reads."""

from __future__ import annotations

import torch
from program import program

# ---- a write to a view is a write to its base


@program(lambda r: [r(r.n, 4)], dynamic="0.0")
def select_add(self, x):
    y = x * 2
    y.select(1, 2).add_(1)
    return y


@program(lambda r: [r(3, r.n)], dynamic="0.1")
def slice_mul(self, x):
    y = x + 1
    y[1:3].mul_(3)
    return y


@program(lambda r: [r(3, 5)])
def slice_with_step(self, x):
    y = x + 1
    y[:, ::2].zero_()
    return y


@program(lambda r: [r(r.n, 4), r(r.n)], dynamic="0.0 1.0")
def transpose_add(self, x, row):
    y = x * 2
    y.t().add_(row)
    return y


@program(lambda r: [r(4, 4)])
def diagonal_fill(self, x):
    y = x * 2
    y.diagonal(1).fill_(7)
    return y


@program(lambda r: [r(3, r.n)], dynamic="0.1")
def parts_whose_schema_hides_that_they_are_views(self, x):
    y = x * 2
    a, b = torch.unsafe_chunk(y, 2, 0)
    a.abs_()
    c, d = torch.unsafe_split(y, 2, 0)
    c.add_(1)
    e, f = torch.unsafe_split_with_sizes(y, [1, 2], 0)
    f.mul_(e)
    return y, b + 1, d - 1


@program(lambda r: [r(3, 4)])
def unbind_mul(self, x):
    y = x + 1
    rows = y.unbind(0)
    rows[1].mul_(rows[0])
    return y


@program(lambda r: [r(3, 5)])
def split_add(self, x):
    y = x * 2
    a, b = y.split([1, 4], dim=1)
    a.add_(1)
    b.sub_(a)
    return y


@program(lambda r: [r(r.n, 6)], dynamic="0.0")
def chunk_copy(self, x):
    y = x * 2
    a, b = y.chunk(2, dim=1)
    a.copy_(b)
    return y


@program(lambda r: [r(3, 6)], aliases="out:1=out:0")
def chunk_written_and_returned(self, x):
    a, b = (x * 2).chunk(2, dim=1)
    a.add_(b)
    return a, b


@program(lambda r: [r(4, 3)])
def view_of_view_of_view(self, x):
    y = x * 2
    y.t()[1:].select(1, 0).neg_()
    return y


@program(lambda r: [r(3, 4)])
def reshape_that_is_a_view(self, x):
    y = x * 2
    y.reshape(12)[5] = 0
    return y


@program(lambda r: [r(3, 4)])
def reshape_that_copies(self, x):
    y = x * 2
    z = y.t().reshape(12)
    z.zero_()
    return y, z


@program(lambda r: [r(5, 3)])
def narrow_exp(self, x):
    y = x * 2
    y.narrow(0, 1, 3).exp_()
    return y


@program(lambda r: [r(7)])
def unfold_mul(self, x):
    y = x + 1
    y.unfold(0, 2, 3).mul_(torch.tensor([10, 100], device=x.device))  # torch 2.13's own functionalisation zeroes what lies between the windows
    return y


@program(lambda r: [r(3, 1, 4)])
def squeeze_add(self, x):
    y = x * 2
    y.squeeze(1)[0].add_(1)
    return y


@program(lambda r: [r(3, 4)])
def unsqueeze_add(self, x):
    y = x * 2
    y.unsqueeze(1).add_(x.unsqueeze(1))
    return y


@program(lambda r: [r(2, r.n, 4), r(4, 2, r.n)], dynamic="0.1 1.2")
def permute_copy(self, x, z):
    y = x * 2
    y.permute(2, 0, 1).copy_(z)
    return y


@program(lambda r: [r(2, 3, 4)])
def flatten_add(self, x):
    y = x * 2
    y.flatten(1)[:, ::5].add_(1)
    return y


@program(lambda r: [r(2, 12)])
def unflatten_fill(self, x):
    y = x * 2
    y.unflatten(1, (3, 4))[:, 1].fill_(0)
    return y


@program(lambda r: [r(4, 4)])
def as_strided_fill(self, x):
    y = x * 2
    y.as_strided((2, 3), (8, 1), 1).fill_(5)
    return y


@program(lambda r: [r.ints(1000, 3, 2)])
def view_of_other_dtype(self, x):
    y = x - 500
    y.view(torch.int32)[:, 1::2].zero_()
    return y


@program(lambda r: [r(3, 4)])
def detach_is_a_view(self, x):
    y = x * 2
    y.detach().add_(1)
    return y


@program(lambda r: [r(3, 4)])
def contiguous_is_the_tensor_itself(self, x):
    y = x * 2
    y.contiguous().add_(1)
    y.t().contiguous().mul_(100)
    return y


@program(lambda r: [r(3, 4)])
def to_is_the_tensor_itself(self, x):
    y = x * 2
    y.to(y.dtype).add_(1)
    y.to(torch.float16).mul_(100)
    return y


@program(lambda r: [r(3, 4)], aliases="out:1=out:0")
def view_reads_later_write(self, x):
    y = x * 2
    row = y[1]
    y.add_(1)
    return y, row, row * 2


@program(lambda r: [r(3, 4)])
def expanded_view_reads_later_write(self, x):
    y = x * 2
    first = y[:, :1].expand(3, 4)
    y.mul_(3)
    return first + y


@program(lambda r: [r(5)])
def overlapping_views(self, x):
    y = x * 2
    a, b = y[:3], y[2:]
    a.add_(1)
    b.mul_(10)
    a.sub_(b[2])
    return y


@program(lambda r: [r(2, 3, 4, 5)])
def channels_last_intermediate(self, x):
    y = (x * 2).to(memory_format=torch.channels_last)
    y[:, 1].add_(1)
    return y


# ---- order


@program(lambda r: [r(3, 4)])
def write_read_write(self, x):
    y = x.clone()
    y.mul_(2)
    total = y.sum()
    y.add_(total)
    return y, total


@program(lambda r: [r(3, 4)])
def old_value_read_later(self, x):
    y = x * 2
    old = y.clone()
    y[0] = 9
    return y - old, old


@program(lambda r: [r(r.n, 4)], dynamic="0.0")
def swap_of_halves(self, x):
    y = x * 2
    left = y[:, :2].clone()
    y[:, :2] = y[:, 2:]
    y[:, 2:] = left
    return y


@program(lambda r: [r(5, 2)])
def shift_through_clone(self, x):
    y = x * 2
    y[1:] = y[:-1].clone()
    return y


@program(lambda r: [r(4, 3)])
def recurrence_in_a_loop(self, x):
    y = x * 2
    for i in range(1, 4):
        y[i].add_(y[i - 1])
    return y


@program(lambda r: [r(3, 4)])
def zero_dimensional(self, x):
    total = x.sum()
    total.mul_(2)
    total += 1
    return x * total, total


@program(lambda r: [r(1, 4), r(3, 0)])
def axes_of_size_one_and_zero(self, x, z):
    y, e = x * 2, z * 2
    y[0:1, 1].add_(1)
    e.add_(1)
    e[1:].zero_()
    y[:, 4:].fill_(3)
    return y, e


@program(lambda r: [r(3)])
def constant_is_fresh_in_each_call(self, x):
    c, z = torch.tensor([1.0, 2.0, 3.0], device=x.device), torch.arange(3, device=x.device)
    c.add_(x)
    z.add_(1)
    return c, z


@program(lambda r: [r(3, 4)])
def dead_write(self, x):
    y = x * 2
    y.clone().add_(1)
    (x + 1).zero_()
    return y


@program(lambda r: [r(3, 4)])
def no_grad_write(self, x):
    y = x * 2
    with torch.no_grad():
        y[0].add_(1)
    return y


@program(lambda r: [r(3, 4)])
def write_in_a_function(self, x):
    def double_first(rows):
        rows[0].mul_(2)
        return rows[1:]

    y = x + 1
    return double_first(double_first(y)) + y[2:]


@program(lambda r: [r(2, 4)])
def write_through_a_list(self, x):
    rows = []
    for row in x.unbind(0):
        row = row * 2
        rows.append(row)
        rows[0].add_(row)
    return rows
