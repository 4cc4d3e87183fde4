"""Results of pointwise operators have eager's strides for all layouts of operands, by ingot.compile and torch.compile."""

import operator

import pytest
import torch
from ingot.engine import _library

import ingot


def layouts(dtype=torch.float32):
    base = torch.arange(1, 121).to(dtype)
    row_major = base.reshape(2, 3, 4, 5)
    return {
        "row-major": row_major,
        "channels_last": row_major.to(memory_format=torch.channels_last),
        "permuted": base.reshape(5, 2, 4, 3).permute(1, 3, 2, 0),
        "expanded": base[:30].reshape(2, 3, 1, 5).expand(2, 3, 4, 5),
        "with gaps": torch.arange(1, 961).to(dtype).reshape(4, 6, 8, 5)[::2, ::2, ::2],
        "broadcast": base[:20].reshape(5, 4).T,
        "one each channel": base[:3].reshape(1, 3, 1, 1),
    }


PAIRS = [(a, b) for a in layouts() for b in ("channels_last", "permuted", "broadcast") if a != b]


def operators(left, right):
    """Operator definitions of two tensors that torch tags as pointwise and that accept the dtypes."""
    a, b = torch.ones(2, dtype=left), torch.ones(2, dtype=right)
    for row in _library.ops():
        namespace, name, overload = row["name"].split(".")
        if namespace != "aten":  # a package's own, there once it is imported
            continue
        target = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        tensors = [p for p in row["parameters"] if p["type"] == "Tensor"]
        required = [p for p in row["parameters"] if "default" not in p]
        if torch.Tag.pointwise in target.tags and len(tensors) == len(required) == 2:
            try:
                target(a, b)
            except (RuntimeError, NotImplementedError):
                continue
            yield target


class All(torch.nn.Module):
    def __init__(self, targets):
        super().__init__()
        self.targets = targets

    def forward(self, a, b):
        return tuple(target(a, b) for target in self.targets) + (torch.div(a, b, rounding_mode="floor"), torch.floor_divide(b, a))


def meaningful(t):
    return [stride for stride, size in zip(t.stride(), t.shape) if size != 1]


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float32), (torch.int32, torch.float64), (torch.int32, torch.int32)], ids=lambda d: f"{d[0]}-{d[1]}".replace("torch.", ""))
@pytest.mark.one_in(2)
def test_results_lie_as_in_eager(dtypes, way):
    targets = list(operators(*dtypes))
    assert len(targets) > 25
    model, problems = All(targets).eval(), []
    for left, right in PAIRS[::1 if way == "compile" else 2]:
        a, b = layouts(dtypes[0])[left], layouts(dtypes[1])[right]
        torch._dynamo.reset()
        with torch.no_grad():
            call = ingot.compile(model, inputs=[a, b]) if way == "compile" else torch.compile(model, backend="ingot")
            for target, got, eager in zip([*targets, "div floor", operator.floordiv], call(a, b), model(a, b)):
                if meaningful(got) != meaningful(eager):
                    problems.append(f"{target} of {left} and {right}: {got.stride()}, eager's are {eager.stride()}")
    assert not problems, "\n".join(problems)


class Written(torch.nn.Module):
    def forward(self, x, mask):
        own = x * 2
        return x.masked_fill_(mask, 2.0).reciprocal(), x.reciprocal().diagonal(0, 1, 2), own.masked_fill_(mask, 1.0), own + 1


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_what_is_written_in_place_keeps_its_order(way):
    """masked_fill gives another than masked_fill_."""
    inputs = torch.ones(1, 2, 2).transpose(1, 2), torch.ones(1, 2, 2, dtype=torch.bool)
    with torch.no_grad():
        call = ingot.compile(Written(), inputs=list(inputs)) if way == "compile" else torch.compile(Written(), backend="ingot")
        for got, eager in zip(call(*inputs), Written()(*inputs), strict=True):
            assert torch.equal(got, eager) and meaningful(got) == meaningful(eager)


class Chains(torch.nn.Module):
    def forward(self, image, line, flags, mask):
        return (
            torch.ops.aten.zero(image).unbind(1)[0].ceil(),  # views of a result whose recorded strides are others than eager's
            torch.pow(2, image).permute(1, 0, 3, 2),
            torch.ops.aten.im2col(image, [1, 2], [1, 1], [0, 0], [1, 1]),
            torch.nn.functional.max_pool1d(line, 2),
            torch.addr(line[0], image[0, 0, :, 0], image[0, 0, 0]),
            torch.logical_and(flags.to(image), image),  # `to` takes the other tensor's type alone
            torch.logical_and(mask.to(image), image),
        )


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_what_follows_from_other_strides(way):
    image = torch.ones(16).as_strided((2, 2, 2, 2), (8, 1, 4, 2))
    inputs = (image, torch.ones(1, 2, 2).transpose(1, 2), torch.ones(2, dtype=torch.bool), torch.ones(2, 2, 2, dtype=torch.bool).transpose(0, 2))
    with torch.no_grad():
        call = ingot.compile(Chains(), inputs=list(inputs)) if way == "compile" else torch.compile(Chains(), backend="ingot")
        for got, eager in zip(call(*inputs), Chains()(*inputs), strict=True):
            assert torch.equal(got, eager) and meaningful(got) == meaningful(eager)


class Rolled(torch.nn.Module):
    def forward(self, x, places):
        rolls = [torch.roll(x, *how) for how in (((1, -2), (2, 3)), (1, 1), (-1, -1), (4, 2), ((1, 0), (2, 3)), (3,))]
        return *rolls, torch.nn.functional.max_unpool2d(x, places, 2), torch.nn.functional.max_unpool2d(x.contiguous(), places, 2)


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_channels_last_of_roll_and_unpooling(way):
    """roll keeps it, but for an axis by none or all of its places (torch joins an empty part) and where all axes are one."""
    x = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
    places = (torch.arange(20).reshape(4, 5) * 4).expand(2, 3, 4, 5).contiguous()
    with torch.no_grad():
        call = ingot.compile(Rolled(), inputs=[x, places]) if way == "compile" else torch.compile(Rolled(), backend="ingot")
        for got, eager in zip(call(x, places), Rolled()(x, places), strict=True):
            assert torch.equal(got, eager) and meaningful(got) == meaningful(eager)


class Attends(torch.nn.Module):
    def __init__(self, batch_first, bias):
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(16, 4, batch_first=batch_first, bias=bias)

    def forward(self, x, y):
        return *self.inner(x, x, x), *self.inner(x, y, y, need_weights=False)[:1]


@pytest.mark.parametrize(
    "batch_first, bias, way",
    [(True, True, "compile"), (True, True, "open"), (True, True, "torch.compile"), (True, False, "compile"), (False, True, "compile")],  # torch.compile itself takes no account of biases
)
def test_attention_as_its_kernel_for_inference(batch_first, bias, way):
    """Batch first, eager has a kernel whose results are contiguous; it takes self-attention only, with biases. Without it they are transposed views."""
    model, x, y = Attends(batch_first, bias).eval(), torch.randn(2, 5, 16), torch.randn(2, 5, 16)
    if way == "open":
        inputs = [ingot.Input(min_shape=(1, 1, 16), opt_shape=(2, 5, 16), max_shape=(4, 9, 16), shared_dims={0: "B", 1: "L"})] * 2
    with torch.no_grad():
        call = torch.compile(model, backend="ingot") if way == "torch.compile" else ingot.compile(model, inputs=inputs if way == "open" else [x, y])
        for got, eager in zip(call(x, y), model(x, y), strict=True):
            torch.testing.assert_close(got, eager)
            assert meaningful(got) == meaningful(eager)
