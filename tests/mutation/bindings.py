"""Properties of a call's inputs and outputs: inputs written, inputs that share storage, outputs that alias, strides, containers."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import torch
from program import program

# ---- inputs written by the caller's intent


@program(lambda r: [r(r.n, 4)], mutates="input:0", dynamic="0.0")
def input_add(self, x):
    x.add_(1)
    return x * 2


@program(lambda r: [r(3, 4)], mutates="input:0")
def input_through_a_view(self, x):
    x.t()[1].mul_(2)
    return x.sum(0)


@program(lambda r: [r(3, 4), r(4)], mutates="input:0 input:1")
def two_inputs(self, x, z):
    x.add_(z)
    z.mul_(x[0])
    return x + z


@program(lambda r: [r(r.n, 4), r(4)], mutates="input:0", dynamic="0.0")
def part_of_an_input(self, x, z):
    x[0:1, 1:3] = z[:2]
    return x.sum()


@program(lambda r: [r(3, 4)], mutates="input:0", aliases="out:0=input:0")
def input_written_and_returned(self, x):
    return x.mul_(2)


@program(lambda r: [r(3, 4)], mutates="input:0", aliases="out:0=input:0")
def input_written_and_view_returned(self, x):
    x.mul_(2)
    return x[1:].t(), x + 1


@program(lambda r: [r(3, 4)], mutates="input:0")
def input_written_after_being_read(self, x):
    y = x * 2
    x.zero_()
    return y


@program(lambda r: [r.ints(9, 3, 4), r.bools(3)], mutates="input:0 input:1")
def int_and_bool_inputs(self, ids, mask):
    ids.clamp_(max=5).sub_(1)
    mask.logical_not_()
    return ids * mask[:, None]


@program(lambda r: [r(4, 3).t()], mutates="input:0")
def transposed_input_written(self, x):
    x.add_(1)
    return x * 2


@program(lambda r: [r(4, 6)[1:3, ::2]], mutates="input:0")
def slice_given_as_input_written(self, x):
    x.mul_(10)
    return x + 1


@program(lambda r: [r(2, 3, 4, 4).to(memory_format=torch.channels_last)], mutates="input:0")
def channels_last_input_written(self, x):
    x[:, 0].zero_()
    return x * 2


@program(lambda r: [r(3, 4), r(3, 4)], mutates="input:0 input:1")
def two_inputs_exchanged(self, a, b):
    old = a.clone()
    a.copy_(b)
    b.copy_(old)


@program(lambda r: [r(3), r.zeros(3)], mutates="input:1")
def out_is_an_input(self, x, out):
    torch.exp(x, out=out)


@program(lambda r: [{"cache": [r(2, 3), r(2, 3)]}, r(3)], mutates="input:0 input:1")
def inputs_in_containers_written(self, past, x):
    for cache in past["cache"]:
        cache[0].copy_(x)
        x = x + cache.sum(0)
    return x


@program(lambda r: [r(3, 4)], mutates="input:0", aliases="out:0=input:0")
def input_strides_changed(self, x):
    x.t_()
    return x


@program(lambda r: [r(3, 4)], mutates="input:0")
def detached_input_written(self, x):
    x.detach().add_(1)
    return x * 2


@program(lambda r: [torch.zeros((), dtype=torch.int64), r(1, 4), r(0, 4)], mutates="input:0 input:1")
def inputs_of_rank_and_size_zero_written(self, count, row, empty):
    count += 1
    row[0].add_(count)
    empty.add_(1)
    return empty * 2


# ---- inputs that share storage


def distinct(r):
    return [r(4), r(4)]


def same(r):
    x = r(4)
    return [x, x]


def overlapping(r):
    base = r(6)
    return [base[:4], base[2:]]


def disjoint(r):
    base = r(2, 4)
    return [base[0], base[1]]


def with_view(r):
    base = r(3, 4)
    return [base, base.t()[1]]


@program(same)
def same_tensor_twice(self, x, y):
    return x + y * 2


@program(same, mutates="input:0 input:1")
def same_tensor_twice_written(self, x, y):
    x.add_(1)
    return x * y


@program(overlapping)
def overlapping_inputs(self, x, y):
    return x - y


@program(overlapping, mutates="input:0 input:1")
def overlapping_inputs_written(self, x, y):
    x.mul_(2)
    y.add_(1)
    return x - y


@program(disjoint, mutates="input:0")
def disjoint_inputs_of_one_storage(self, x, y):
    x.add_(y)
    return x * y


@program(with_view)
def input_is_a_view_of_another(self, x, column):
    return x.sum(1) + column


@program(with_view, mutates="input:0 input:1")
def input_is_a_view_of_another_that_is_written(self, x, column):
    x.mul_(2)
    return column + 1


@program(with_view, mutates="input:0 input:1", aliases="out:0=input:0 out:0=input:1")
def view_given_as_input_is_written(self, x, column):
    column.zero_()
    return x


# ---- outputs that alias


@program(lambda r: [r(r.n, 4)], aliases="out:0=input:0", dynamic="0.0")
def view_of_an_input(self, x):
    return x[:, 1:].t(), x * 2


@program(lambda r: [r(3, 4)], aliases="out:0=input:0")
def input_itself(self, x):
    return x, x + 1


@program(lambda r: [r(3, 4)], aliases="out:0=input:0")
def nothing_but_the_input(self, x):
    return x


@program(lambda r: [r(3, 4)], aliases="out:1=out:0")
def same_tensor_twice_in_the_output(self, x):
    y = x * 2
    return y, y


@program(lambda r: [r(3, 4)], aliases="out:1=out:0")
def intermediate_and_its_view(self, x):
    y = x * 2
    return y, y.t()[1:]


@program(lambda r: [r(6, 4)], aliases="out:1=out:0 out:2=out:0 out:2=out:1")
def pieces_of_an_intermediate(self, x):
    return (x * 2).chunk(3)


@program(lambda r: [r(3, 4)], aliases="out:0=input:0 out:1=input:0 out:1=out:0")
def detach_and_alias(self, x):
    return x.detach(), torch.ops.aten.alias(x), x.clone()


@program(lambda r: [r(3, 4)], aliases="out:0=input:0 out:1=input:0 out:1=out:0")
def operators_that_may_return_their_input(self, x):
    return x.contiguous(), x.reshape(12), x.t().reshape(12)


# ---- strides of outputs


@program(lambda r: [r(2, 3, 4, 4)])
def channels_last_output(self, x):
    return (x * 2).to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)


@program(lambda r: [r(r.n, 4)], dynamic="0.0", aliases="out:1=out:0")
def transposed_output(self, x):
    y = x * 2
    return y.t(), y.t()


@program(lambda r: [r(3, 1)], aliases="out:1=input:0")
def expanded_output(self, x):
    return (x * 2).expand(3, 4), x.expand(3, 4)


@program(lambda r: [r(4, 6)])
def strided_output(self, x):
    return (x * 2)[1:, ::2], (x * 3).select(1, 2), (x + 1).as_strided((2, 2), (1, 3), 2)


@program(lambda r: [r(3, 0), r(2, 3)])
def zero_size_output(self, x, y):
    return x * 2, y[:, 3:] + 1, y.sum()


@program(lambda r: [r(4, 3).t(), r(3, 4)])
def transposed_input(self, x, y):
    return x * 2, x + y, x @ y.t(), y + x


@program(lambda r: [r(6, 8)[1::2, ::3]])
def strided_slice_as_input(self, x):
    return x * 2, x.softmax(-1)


@program(lambda r: [r(2, 3, 4, 5).to(memory_format=torch.channels_last)])
def channels_last_input(self, x):
    return x * 2, torch.nn.functional.avg_pool2d(x, 2), x.flatten(1) + 1


@program(lambda r: [r(3, 1).expand(3, 4), r(4)])
def expanded_input(self, x, y):
    return x * 2, x + y, torch.relu(x)


@program(lambda r: [r(2, 3, 4).permute(2, 0, 1)])
def strides_kept_by_like_functions(self, x):
    return torch.zeros_like(x), x.clone(), torch.ones_like(x, memory_format=torch.contiguous_format), x.new_zeros(x.shape)


# ---- containers and plain values

Pair = namedtuple("Pair", ["first", "second"])


@program(lambda r: [r(3), None, 2, 0.5, True, "double"])
def plain_values(self, x, absent, count, scale, flag, mode):
    y = x * count if flag and absent is None else x
    return y * 2 if mode == "double" else y * scale, None, count, scale, flag, mode


@program(lambda r: [r(r.n, 4)], dynamic="0.0")
def sizes_out(self, x):
    return x * 2, x.shape[0], list(x.shape), x.shape[0] * 2 + 1


@program(lambda r: [{"a": r(3), "b": [r(3), (r(3), 2)]}])
def nested_containers(self, tree):
    a, (b, (c, n)) = tree["a"], tree["b"]
    return {"sum": a + b, "rest": [c * n, {"none": None, "pair": (a - c,)}], "empty": ()}


@program(lambda r: [Pair(r(3), [r(3)])])
def namedtuple_in_and_out(self, pair):
    return Pair(pair.first * 2, pair.second[0] + 1)


@program(lambda r: [OrderedDict(b=r(3), a=r(3))])
def ordered_dict(self, tree):
    return OrderedDict(y=tree["a"] + 1, x=tree["b"] * 2)


@program(lambda r: [r(3, 4)])
def structseq_of_torch(self, x):
    return torch.max(x * 2, dim=1), torch.sort(x + 1)


@program(lambda r: {"y": r(3), "x": r(3), "scale": 3})
def keywords(self, x, *, y, scale=1, bias=None):
    x = x if bias is None else x + bias
    return {"difference": x - y * scale}


@program(lambda r: [[r(2), r(3)], []], mutates="input:0", aliases="out:0=input:0 out:1=input:1")
def list_returned(self, tensors, nothing):
    tensors[0].add_(1)
    return tensors + [tensors[1] * 2] + nothing


