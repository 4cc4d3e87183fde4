"""Writes to a module's buffers and parameters."""

from __future__ import annotations

import torch
from program import program
from torch import nn


def count(r):
    return torch.zeros((), dtype=torch.int64)


# ---- counters and averages


@program(lambda r: [r(r.n, 4)], state=lambda r: dict(count=count(r)), mutates="buffer:count", dynamic="0.0")
def counter(self, x):
    self.count += 1
    return x * self.count


@program(lambda r: [r(r.n, 4)], state=lambda r: dict(mean=r.zeros(4)), mutates="buffer:mean", dynamic="0.0")
def running_mean(self, x):
    self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - self.mean


@program(lambda r: [r(3, 4)], state=lambda r: dict(average=r(4)), mutates="buffer:average", aliases="out:0=input:0")
def exponential_moving_average(self, x):
    self.average.lerp_(x.amax(0), 0.1)
    return x


@program(lambda r: [r(r.n + 1, 4)], state=lambda r: dict(norm=nn.BatchNorm1d(4).to(r.dtype)), dynamic="0.0",
         mutates="buffer:norm.running_mean buffer:norm.running_var buffer:norm.num_batches_tracked")  # fmt: skip
def batch_norm_1d_in_training(self, x):
    return self.norm(x)


@program(lambda r: [r(2, 3, 4, 4)], state=lambda r: dict(norm=nn.BatchNorm2d(3).to(r.dtype), relu=nn.ReLU(inplace=True)),
         mutates="buffer:norm.running_mean buffer:norm.running_var buffer:norm.num_batches_tracked")  # fmt: skip
def batch_norm_2d_in_training(self, x):
    return self.relu(self.norm(x))


@program(lambda r: [r(2, 3, 4, 4)], state=lambda r: dict(norm=nn.BatchNorm2d(3, momentum=None).to(r.dtype)),
         mutates="buffer:norm.running_mean buffer:norm.running_var buffer:norm.num_batches_tracked",
         export_refuses="Could not extract specialized integer from data-dependent expression")  # fmt: skip
def batch_norm_whose_momentum_is_a_count(self, x):
    return self.norm(x)


@program(lambda r: [r(3, 4)], state=lambda r: dict(inner=counter.model(r.dtype)), mutates="buffer:inner.count")
def submodule_called_twice(self, x):
    return self.inner(self.inner(x))


@program(lambda r: [r(3, 4)], state=lambda r: dict(sum=r.zeros(4)), persistent=False, mutates="buffer:sum")
def non_persistent_buffer(self, x):
    self.sum.add_(x.sum(0))
    return self.sum * 2


@program(lambda r: [r(3)], state=lambda r: dict(first=r.zeros(3), seen=torch.tensor(False)), mutates="buffer:first buffer:seen")
def initialised_by_first_call(self, x):
    self.first.copy_(torch.where(self.seen, self.first, x))
    self.seen.fill_(True)
    return x - self.first


# ---- buffers written at a position


@program(lambda r: [r(3)], state=lambda r: dict(ring=r.zeros(2, 3), position=count(r)), mutates="buffer:ring buffer:position")
def ring_buffer(self, x):
    self.ring.index_copy_(0, (self.position % 2).view(1), x[None])
    self.position.add_(1)
    return self.ring.sum(0)


@program(lambda r: [r(2, r.n), torch.arange(r.n) + r.seed], state=lambda r: dict(cache=r.zeros(2, 12)), mutates="buffer:cache", dynamic="0.1 1.0")
def cache_at_positions_given(self, key, positions):
    self.cache.index_copy_(1, positions, key)
    return self.cache.sum(0)


@program(lambda r: [r(2, 3), torch.tensor([r.seed])], state=lambda r: dict(cache=r.zeros(2, 8, 3)), mutates="buffer:cache")
def cache_set_by_tensor_index(self, key, position):
    self.cache[:, position] = key[:, None]
    return (self.cache * key[:, None]).sum(-1).softmax(-1)


@program(lambda r: [r(2, 3)], state=lambda r: dict(cache=r.zeros(2, 8, 3), length=count(r)), mutates="buffer:cache buffer:length")
def cache_at_own_length(self, key):
    self.cache.index_copy_(1, self.length.view(1), key[:, None])
    self.length.add_(1)
    mask = torch.arange(8, device=key.device) < self.length
    return (self.cache * key[:, None]).sum(-1).masked_fill(~mask, float("-inf")).softmax(-1)


@program(lambda r: [r(2, r.n, 3)], state=lambda r: dict(cache=r(2, 17, 3)), mutates="buffer:cache", dynamic="0.1")
def cache_prefix(self, key):
    self.cache[:, : key.shape[1]] = key
    return self.cache.mean(1)


# ---- views and storage


@program(lambda r: [r(3)], state=lambda r: dict(table=r(4, 3)), mutates="buffer:table")
def view_of_a_buffer_written(self, x):
    self.table[1].add_(x)
    self.table.t()[:, 2].mul_(2)
    return self.table.sum(0)


@program(lambda r: [r(3)], state=lambda r: dict(table=r(4, 3)), mutates="buffer:table")
def view_of_a_buffer_reads_later_write(self, x):
    row = self.table[0]
    self.table.add_(x)
    return row * 2


@program(lambda r: [r(3)], state=lambda r: dict(table=r(4, 3).t()), mutates="buffer:table")
def buffer_with_transposed_strides(self, x):
    self.table.add_(x[:, None])
    return self.table * 2


def tied(r):
    a = r(4)
    return dict(a=a, b=a)


@program(lambda r: [r(4)], state=tied, mutates="buffer:a buffer:b")
def tied_buffers(self, x):
    self.a.add_(x)
    return self.b * 2


def view_tied(r):
    a = r(4, 3)
    return dict(a=a, b=a[1])


@program(lambda r: [r(3)], state=view_tied, mutates="buffer:a buffer:b")
def buffer_is_a_view_of_another(self, x):
    self.a.add_(x)
    self.b.mul_(2)
    return self.a + self.b


@program(lambda r: [r(4)], state=lambda r: dict(last=r.zeros(4)), mutates="buffer:last")
def read_before_and_after_the_write(self, x):
    before = self.last * 2
    self.last.copy_(x)
    return before, self.last * 2


@program(lambda r: [r(4)], state=lambda r: dict(total=r.zeros(4)), mutates="buffer:total", aliases="out:0=buffer:total")
def buffer_returned(self, x):
    return self.total.add_(x)


@program(lambda r: [r(3)], state=lambda r: dict(table=r(4, 3)), mutates="buffer:table", aliases="out:0=buffer:table")
def view_of_a_buffer_returned(self, x):
    self.table.mul_(2)
    return self.table.t()[1:, ::2], x * 2


@program(lambda r: [r(3)], state=lambda r: dict(table=r(4, 3)), aliases="out:0=buffer:table")
def unwritten_buffer_returned(self, x):
    return self.table, x + self.table


@program(lambda r: [r(4)], state=lambda r: dict(total=r.zeros(4)), mutates="buffer:total")
def snapshot_of_a_buffer_returned(self, x):
    old = self.total.clone()
    self.total.add_(x)
    return old


# ---- replaced and conditional


@program(lambda r: [r(4)], state=lambda r: dict(total=r.zeros(4)), mutates="buffer:total")
def replaced_by_assignment(self, x):
    self.total = self.total + x
    return x * self.total


@program(lambda r: [r(4)], state=lambda r: dict(total=r.zeros(4)), mutates="buffer:total")
def replaced_then_written(self, x):
    self.total = self.total * 2
    self.total.add_(x)
    return self.total + 1


@program(lambda r: [r(4)], state=lambda r: dict(a=r(4), b=r(4)), mutates="buffer:a buffer:b", export_refuses="nn_module_stack")
def two_buffers_exchanged(self, x):
    self.a, self.b = self.b, self.a
    return self.a - self.b * x


@program(lambda r: [r(4)], state=lambda r: dict(last=r.zeros(4)), mutates="buffer:last",
         aliases="out:0=input:0 out:0=buffer:last", export_refuses="nn_module_stack")  # fmt: skip
def input_becomes_the_buffer(self, x):
    self.last = x
    return x


@program(lambda r: [r(r.n, 3)], state=lambda r: dict(small=count(r), large=count(r)), mutates="buffer:small",
         dynamic="0.0", dynamic_refuses="Constraints violated")  # fmt: skip
def conditional_on_shape(self, x):
    if x.shape[0] > 5:
        self.large.add_(1)
    else:
        self.small.add_(1)
    return x + self.small - self.large


@program(lambda r: [r(4)], state=lambda r: dict(count=count(r), step=2), mutates="buffer:count")
def conditional_on_a_plain_attribute(self, x):
    if self.step > 1:
        self.count.add_(self.step)
    return x * self.count


# ---- side effects alone


@program(lambda r: [r(4)], state=lambda r: dict(total=r.zeros(4)), mutates="buffer:total")
def result_unused_buffer_written(self, x):
    self.total.add_(x)
    return x * 2


@program(lambda r: [r(4)], state=lambda r: dict(total=r.zeros(4)), mutates="buffer:total")
def nothing_returned(self, x):
    self.total.add_(x)


@program(lambda r: [r(4)], state=lambda r: dict(total=r.zeros(4)), mutates="buffer:total")
def no_grad_buffer_write(self, x):
    with torch.no_grad():
        self.total.add_(x)
    return x * self.total


@program(lambda r: [r(4)], state=lambda r: dict(total=r.zeros(4)), mutates="buffer:total")
def write_order_matters(self, x):
    self.total.add_(x)
    a = self.total.exp()
    self.total.mul_(0.5)
    b = self.total.exp()
    self.total.sub_(1)
    return a - b


@program(lambda r: [r(4)], state=lambda r: dict(total=r.zeros(4)), mutates="buffer:total")
def written_back_to_the_old_value_and_on(self, x):
    self.total.add_(1)
    y = x * self.total
    self.total.sub_(1)
    self.total[0] = y[0]
    return y


@program(lambda r: [r(4)], state=lambda r: dict(total=r.zeros(4)), mutates="buffer:total")
def out_is_a_buffer(self, x):
    torch.add(self.total, x, out=self.total)
    return x * 2


@program(lambda r: [r(3, 4)], state=lambda r: dict(weight=nn.Parameter(r(4, 4))), mutates="parameter:weight")
def parameter_decays(self, x):
    with torch.no_grad():
        self.weight.mul_(0.5)
    return x @ self.weight


@program(lambda r: [r(3, 4)], state=lambda r: dict(weight=nn.Parameter(r(4, 4)), v=r(4)), mutates="buffer:v")
def power_iteration(self, x):
    self.v.copy_(torch.nn.functional.normalize(self.weight.T @ (self.weight @ self.v), dim=0))
    return x @ self.weight / (self.weight @ self.v).norm()


@program(lambda r: [r(4)], state=lambda r: dict(tables=[r(4)]))
def tensor_in_a_plain_list_written(self, x):
    self.tables[0].add_(x)
    return self.tables[0] * 2


@program(lambda r: [r(4)], state=lambda r: dict(calls=0), export_misses="the number counted while tracing becomes a constant")
def plain_attribute_counts_calls(self, x):
    self.calls += 1
    return x * self.calls


# ---- the written value is an input, or another buffer's new value


@program(lambda r: [r(3, 4)], state=lambda r: dict(last=r.zeros(3, 4)), mutates="buffer:last input:0", aliases="out:0=buffer:last out:1=buffer:last out:1=out:0")
def copy_of_an_input_that_is_written_later(self, x):
    last = self.last.copy_(x)
    x.mul_(2)
    return last, last.t()


@program(lambda r: [r(3, 4), r.bools(3)], state=lambda r: dict(last=r.zeros(3, 4)), mutates="buffer:last input:0", aliases="out:1=buffer:last")
def copy_of_an_input_that_is_written_later_in_parts(self, x, mask):
    last = self.last.copy_(x)
    x.mul_(2)
    return mask.nonzero(), last


@program(lambda r: [r(3, 4)], state=lambda r: dict(a=r(3, 4), b=r(3, 4)), mutates="buffer:a buffer:b", aliases="out:0=buffer:a out:1=buffer:b")
def buffers_exchanged(self, x):
    old = self.a.clone()
    self.a.copy_(self.b)
    self.b.copy_(old)
    return self.a, self.b.t(), x + 1


@program(lambda r: [r(3, 4)], state=lambda r: dict(a=r(3, 4), b=r(3, 4)), mutates="buffer:a buffer:b", aliases="out:0=buffer:a out:1=buffer:b")
def one_value_in_two_buffers(self, x):
    new = x * 2
    self.a.copy_(new)
    self.b.copy_(new)
    return self.a, self.b
