"""as_strided in engines reads what eager reads: the memory of its operand, however that lies, or torch runs it."""

import json
import random

import pytest
import torch

import ingot


def module(forward):
    return type("Model", (torch.nn.Module,), {"forward": lambda self, x: forward(x)})()


def left(compiled) -> list[str]:
    """The operators that torch runs."""
    return [node["target"] for node in json.loads(compiled.report.to_json())["nodes"] if node["segment"] is None]


LAYOUTS = {
    "row-major": lambda x: x * 2,
    "turned": lambda x: (x * 2).t(),
    "part": lambda x: (x * 2)[1:],
    "gaps": lambda x: (x * 2)[:, ::2],
    "expanded": lambda x: (x * 2)[:1].expand(3, 6),
    "input": lambda x: x,
    "part of the input": lambda x: x[:3, 1:],
}
# (sizes, strides, offset): the memory of 4 x 6 elements.
WHOLE = {
    "rows": ((3, 6), (6, 1), None),
    "one element": ((), (), 9),
    "no element": ((0, 6), (6, 1), 8),
    "axes of size 1": ((6, 1, 1), (1, 17, 5), 6),
    "columns": ((2, 3), (1, 6), 6),
    "diagonal": ((3,), (7,), 6),
    "repeated": ((3, 2), (0, 6), 6),
    "every second": ((2, 3), (6, 2), 6),
}


@pytest.mark.parametrize("laid", LAYOUTS)
@pytest.mark.parametrize("part", WHOLE)
def test_is_eager_or_left_to_torch(laid, part):
    program = module(lambda x: LAYOUTS[laid](x).as_strided(*WHOLE[part]) + 1)
    x = torch.randn(4, 6)
    compiled = ingot.compile(program, inputs=[x])
    assert torch.equal(compiled(x), program(x))
    if laid in ("row-major", "turned", "input"):
        assert not left(compiled)


@pytest.mark.parametrize("sizes, strides, offset", [((20, 5), (1, 1), None), ((3, 8), (8, 1), None), ((4, 3, 2), (5, 2, 1), 1)])
def test_windows_that_cross_rows(sizes, strides, offset):
    program, x = module(lambda x: (x * 2).as_strided(sizes, strides, offset).sum(-1)), torch.randn(4, 6)
    compiled = ingot.compile(program, inputs=[x])
    assert not left(compiled)
    torch.testing.assert_close(compiled(x), program(x))


OPEN = {
    "itself": lambda x: x.as_strided((x.shape[0], x.shape[1]), (x.shape[1], 1)),
    "turned": lambda x: (x + 1).as_strided((x.shape[1], x.shape[0]), (1, x.shape[1])),
    "diagonal": lambda x: (x + 1).as_strided((min(x.shape[0], 3),), (x.shape[1] + 1,)),
    "last row": lambda x: (x + 1).as_strided((x.shape[1],), (1,), (x.shape[0] - 1) * x.shape[1]),
    "merged": lambda x: (x + 1).as_strided((x.shape[0] * x.shape[1],), (1,)),
}


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.one_in(3)
def test_open_sizes(name, way):
    program = module(lambda x: OPEN[name](x) * 2)
    given = [torch.randn(3, 5), torch.randn(4, 7), torch.randn(8, 9)]
    torch._dynamo.reset()
    if way == "compile":
        compiled = ingot.compile(program, inputs=[ingot.Input(min_shape=(3, 4), opt_shape=(4, 7), max_shape=(8, 16))])
        assert not left(compiled)
    else:
        compiled = torch.compile(program, backend="ingot", dynamic=True)
    for x in given:
        with torch.no_grad():
            assert torch.equal(compiled(x), program(x))


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("offset", [None, 7])
def test_the_inputs_memory_counts(way, offset):
    """as_strided with an offset counts from the start of the memory, which may be before the input."""
    program = module(lambda x: x.as_strided((2, 2), (6, 1), offset) * 2)
    torch._dynamo.reset()
    example = torch.randn(4, 6)
    compiled = ingot.compile(program, inputs=[example]) if way == "compile" else torch.compile(program, backend="ingot")
    for x in (example, torch.randn(8, 6)[2:6], torch.randn(6, 4).t()):
        try:
            with torch.no_grad():
                result = compiled(x)
        except ingot.InputError as problem:
            assert way == "compile" and "has another layout in memory than the example" in str(problem) and (offset or x.stride() != example.stride())
            continue
        assert torch.equal(result, program(x))


def whole(x):
    y = x * 2
    y += 1
    return y.view(6, 4).as_strided((3, 6), (4, 1), 2)


def part(x):
    y = x * 2
    y[1:] *= 3
    return y.t().as_strided((2, 3), (1, 6))


def after(x):
    y = x * 2
    z = y.as_strided((3, 6), (4, 1))
    y[1:] += 1
    return z * 1


def turned(x):
    y = (x * 2).t().contiguous().t()
    y += 1
    return torch.relu(y).t().as_strided((5,), (5,)), y.as_strided((5,), (5,))


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("program", [whole, part, after, turned], ids=lambda f: f.__name__)
def test_writes(program, way, no_gradients):
    """What is written before it is a new value with the same memory. What is written after it, or lies otherwise, torch runs."""
    torch._dynamo.reset()
    model, x = module(program), torch.randn(4, 6)
    options = {"fallback": "error"} if program in (whole, part) else {}
    compiled = ingot.compile(model, inputs=[x], **options) if way == "compile" else torch.compile(model, backend="ingot", options=options)
    theirs = program(x)
    for ours, exact in zip(*([r] if isinstance(r, torch.Tensor) else r for r in (compiled(x), theirs))):
        assert torch.equal(ours, exact) and ours.stride() == exact.stride()


def test_random_programs():
    """Chains of views, then as_strided within the memory: as eager, and in an engine where the operand is dense."""
    pick = random.Random(0)
    for _ in range(30):
        shape = [pick.choice((1, 2, 3, 5)) for _ in range(pick.randint(1, 4))]
        order, memory = pick.sample(range(len(shape)), len(shape)), torch.tensor(shape).prod().item()
        sizes = [pick.choice((0, 1, 2, 3)) for _ in range(pick.randint(0, 3))]
        strides = [pick.randint(0, 6) for _ in sizes]
        reach = sum((n - 1) * s for n, s in zip(sizes, strides)) if 0 not in sizes else 0
        if reach >= memory:
            continue
        offset = pick.choice((None, pick.randint(0, memory - 1 - reach)))
        program = module(lambda x: (x - 1).permute(order).as_strided(sizes, strides, offset) * 2)
        x = torch.arange(float(memory)).view(shape)
        assert torch.equal(ingot.compile(program, inputs=[x])(x), program(x)), (shape, order, sizes, strides, offset)


def test_a_decomposed_program():
    """torch's decomposition of adaptive_avg_pool2d to one element makes as_strided behind channels_last."""
    model = module(lambda x: torch.nn.functional.adaptive_avg_pool2d(x.sin().permute(0, 3, 1, 2), 1).flatten(1))
    x = torch.randn(2, 8, 8, 3)
    program = torch.export.export(model, (x,)).run_decompositions()
    assert any(node.target is torch.ops.aten.as_strided.default for node in program.graph.nodes)
    compiled = ingot.compile(program)
    assert not left(compiled)
    torch.testing.assert_close(compiled(x), model(x))
