"""uint16, uint32 and uint64: what torch computes with them on the CPU, in engines and bit for bit."""

import copy
import random
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from torch.utils._pytree import tree_leaves

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from calls import Calls

import ingot
from ingot.backend import ingot_backend
from ingot.engine import _library


def has_operators() -> bool:
    try:
        return bool((torch.ones(2, dtype=torch.uint16) * 2).sum() == 4)
    except NotImplementedError:
        return False


pytestmark = [
    pytest.mark.usefixtures("no_gradients"),
    pytest.mark.skipif(not has_operators(), reason="this torch has no product of these types on the CPU"),
]

SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
WIDE_UNSIGNED = pytest.mark.parametrize("kind", SIGNED, ids=[str(t).removeprefix("torch.") for t in SIGNED])


def values(kind, count=48, seed=0):
    """0, 1, the largest ones, those around the largest signed one, and random ones."""
    signed = SIGNED[kind]
    ends = torch.tensor([0, 1, 2, 3, -1, -2, torch.iinfo(signed).max, torch.iinfo(signed).min, torch.iinfo(signed).min + 1], dtype=signed)
    others = torch.randint(torch.iinfo(signed).min, torch.iinfo(signed).max, (count - len(ends),), dtype=signed, generator=torch.Generator().manual_seed(seed))
    return torch.cat([ends, others])[torch.randperm(count, generator=torch.Generator().manual_seed(seed))].view(kind)


def pair(kind):
    """Two tensors, of which some elements are equal."""
    a, b = values(kind, seed=1), values(kind, seed=2)
    return a, torch.where(torch.arange(len(a)) % 5 == 0, a, b)


def bits(x):
    return x if x.dtype is torch.bool else (torch.view_as_real(x) if x.is_complex() else x).contiguous().reshape(-1).view(torch.uint8)


def assert_equal(ours, theirs):
    ours, theirs = tree_leaves(ours), tree_leaves(theirs)
    assert len(ours) == len(theirs)
    for number, (a, b) in enumerate(zip(ours, theirs)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), number
        assert torch.equal(bits(a), bits(b)), (number, a, b)


AT = torch.tensor([0, 2, 1])
TYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, *SIGNED]


def _writes(a, b):
    c = a.clone()
    c[3:9] = b[:6]
    c.view(6, 8)[:, 2].mul_(3)
    c[0] = 5
    c.view(SIGNED[a.dtype])[1:].add_(1)
    made = torch.zeros_like(c)
    made[2:4].fill_(7)
    made[4:].copy_(b[4:].float() * 0 + 2.5)
    return c, made, c.view(6, 8).t()


OPERATORS = {
    "to other types": lambda a, b: tuple(a.to(t) for t in TYPES),
    "from other types": lambda a, b: tuple((a & 0x7F).to(t).to(a.dtype) for t in TYPES),
    "from signed": lambda a, b: tuple(a.view(torch.int8).to(t).to(a.dtype) for t in (torch.int8, torch.int16, torch.int32, torch.int64, torch.float32)),
    "through floats": lambda a, b: ((a.to(torch.float64) * 0.9).to(a.dtype), (a.float() * 0.9).to(a.dtype)),
    "arithmetic": lambda a, b: (a * b, a * 3, a * -1, a / b, a / 7, a * a[3], a * torch.tensor(3), torch.tensor([3, 4]) * a[3], a * 2.5, a + 0.5, a - b.half(), 1 - a.float(), torch.outer(a, b)),
    "bits": lambda a, b: (a & b, a | b, a ^ b, a & 255, a.view(SIGNED[a.dtype]) >> 3, *(a.view(t) for t in (torch.uint8, torch.int16, *SIGNED)), (a ^ b).view(SIGNED[a.dtype]).float()),
    "as floats": lambda a, b: (a.view({2: torch.float16, 4: torch.float32, 8: torch.float64}[a.dtype.itemsize]) == 0, (a & 255).to(a.dtype).view(torch.uint8).view(a.dtype)),
    "comparisons": lambda a, b: (a == b, a != b, a == 3, a == -1, a < 2.5, a >= b.float(), torch.isclose(a, b), torch.isin(a, 3), (a == b).all(), a.any(), a.all()),
    "choices": lambda a, b: (torch.where(a == b, a, b), torch.where(a != b, a, 0), torch.where(a != b, a, 0.5)),
    "one number": lambda a, b: (a.signbit(), a.floor(), a.ceil(), a.round(), a.trunc(), a.isnan(), a.isinf(), a.isfinite(), a.isposinf(), a.isneginf(), a.positive(), a.nan_to_num(), a.conj(), a.real, a.angle()),
    "sums": lambda a, b: (a.sum(), a.view(6, 8).sum(1), a.prod(), a.view(6, 8).prod(0), a.nansum(), (a & 255).sum(dtype=torch.float32), (a & 255).mean(dtype=torch.float64), (a & 255).cumsum(0, dtype=torch.float32)),
    "order": lambda a, b: (a.view(6, 8).sort(1), a.view(6, 8).sort(0, descending=True), (a & 3).sort(stable=True), a.argsort(stable=True), a.unique(), (a & 7).unique(return_inverse=True, return_counts=True), (a & 1).unique_consecutive(return_counts=True)),
    "elements": lambda a, b: (a[AT], a[a != 0], torch.nn.functional.embedding(AT, a.view(6, 8)), torch.cat([a, b]), torch.cat([a, b.float()]), torch.stack([a, b]), a.roll(3), a.repeat(2), a.repeat_interleave(2)),
    "fills": lambda a, b: (torch.nn.functional.pad(a, (1, 2)), torch.nn.functional.pad(a, (2, 1), value=65535), torch.full((3,), 65535, dtype=a.dtype) * a[:3], torch.ones_like(a), torch.full_like(a, -1), a.new_zeros(3)),
    "views": lambda a, b: (a.view(6, 8).t(), a.view(6, 8)[1:, ::2], a.unfold(0, 3, 2), a.expand(2, 48), a.view(4, 12).permute(1, 0).reshape(-1), *a.chunk(3), a.view(6, 8).diagonal()),
    "writes": _writes,
}  # fmt: skip


@WIDE_UNSIGNED
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.one_in(5)
def test_operators(name, kind):
    a, b = pair(kind)
    compiled = ingot.compile(Calls(OPERATORS[name]), inputs=[a, b], min_block_size=1)
    assert compiled.report.in_torch == 0, [(n["target"], n["reason"]) for n in compiled.report.nodes if n["segment"] is None]
    assert_equal(compiled(a.clone(), b.clone()), OPERATORS[name](a, b))


def all_of_them(a, b):
    return [x for f in OPERATORS.values() for x in tree_leaves(f(a, b))]


@WIDE_UNSIGNED
def test_torch_compile(kind):
    a, b = pair(kind)
    reports = []

    def backend(graph, examples):
        reports.append((made := ingot_backend(graph, examples, options={"min_block_size": 1})).report)
        return made

    made = torch.compile(all_of_them, backend=backend)(a.clone(), b.clone())
    assert sum(len(r.segments) for r in reports) > 0 and sum(r.in_torch for r in reports) == 0
    assert_equal(made, all_of_them(a, b))


@WIDE_UNSIGNED
def test_the_reference(kind):
    a, b = pair(kind)
    assert_equal(ingot.compile(Calls(all_of_them), inputs=[a, b], target="reference", min_block_size=1)(a.clone(), b.clone()), all_of_them(a, b))


def told(*arguments):
    done = subprocess.run([_library.find("ingot"), *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stderr


def held(x):
    return x.view(SIGNED[x.dtype]) if x.dtype in SIGNED else torch.view_as_real(x) if x.is_complex() else x


@WIDE_UNSIGNED
def test_a_file(kind, tmp_path):
    """The command line: a plan's inputs and results are signed integers with the same bits."""
    a, b = pair(kind)
    torch.export.save(torch.export.export(Calls(all_of_them), (a, b)), tmp_path / "m.pt2")
    assert told("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.ingot") == (0, "")
    engine = ingot.load(tmp_path / "m.ingot").engine
    for name, x in zip("ab", (a, b)):
        numpy.save(tmp_path / f"{name}.npy", held(x).numpy())
    given = [f"{name}={tmp_path / file}.npy" for name, file in zip(engine.input_names, "ab")]
    assert told("run", tmp_path / "m.ingot", "-i", given[0], "-i", given[1], "-o", tmp_path) == (0, "")
    expected = list(map(held, tree_leaves(all_of_them(a, b))))
    made = [torch.from_numpy(numpy.load(tmp_path / f"{name}.npy")) for name in engine.output_names]
    assert_equal([x.view(torch.bfloat16) if y.dtype is torch.bfloat16 else x for x, y in zip(made, expected)], expected)
    assert_equal(ingot.compile(str(tmp_path / "m.pt2"), min_block_size=1)(a, b), all_of_them(a, b))

    numpy.save(tmp_path / "a.npy", a.numpy())
    code = f'write x.view("i{a.dtype.itemsize}") with numpy.save: plans hold the bits as signed integers'
    assert told("run", tmp_path / "m.ingot", "-i", given[0], "-i", given[1])[1] == (
        f"ingot: {tmp_path / 'a.npy'} is not a .npy file that can be read: its integers are unsigned\n  remedy: {code}\n")  # fmt: skip


STEPS = [
    lambda x, y: x * y,
    lambda x, y: x & y,
    lambda x, y: x | y,
    lambda x, y: x ^ y,
    lambda x, y: torch.where(x == y, x, y * 3),
    lambda x, y: x.sort()[0],
    lambda x, y: x.roll(5),
    lambda x, y: torch.cat([y[7:], x[:7]]),
    lambda x, y: x[y.argsort(stable=True)],
    lambda x, y: x.view(6, 8).t().reshape(-1),
    lambda x, y: (x.to(torch.float64) * 0.5).to(x.dtype),
    lambda x, y: x.float().sqrt().to(x.dtype) if x.dtype is torch.uint16 else x.to(torch.uint16).to(x.dtype),
    lambda x, y: (x.view(SIGNED[x.dtype]) + 1).view(x.dtype),
    lambda x, y: (x != y).to(x.dtype),
    lambda x, y: x.view(torch.uint8).flip(0).view(x.dtype),
    lambda x, y: torch.nn.functional.pad(x[1:], (0, 1), value=9),
    lambda x, y: x.sum().to(x.dtype) * y,
    lambda x, y: x.view(6, 8)[:, :1].expand(6, 8).reshape(-1).clone().mul_(y),
]


@WIDE_UNSIGNED
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.one_in(2)
def test_random_programs(seed, kind):
    chance = random.Random(seed)
    steps = [(chance.choice(STEPS), chance.randrange(2 + n), chance.randrange(2 + n)) for n in range(16)]

    def program(a, b):
        made = [a, b]
        for step, i, j in steps:
            made.append(step(made[i], made[j]))
        return made[2:]

    a, b = pair(kind)
    compiled = ingot.compile(Calls(program), inputs=[a, b], min_block_size=1)
    assert compiled.report.in_torch == 0
    assert_equal(compiled(a.clone(), b.clone()), program(a, b))


class Held(torch.nn.Module):
    """A table, and a buffer that is written in place."""

    def __init__(self, kind):
        super().__init__()
        self.register_buffer("table", torch.tensor([[0, 1, 65535], [40000, 7, 3]]).to(kind))
        self.register_buffer("seen", torch.tensor([65535, 2, 3]).to(kind))

    def forward(self, x, at):
        y = x * self.table[at]
        self.seen.mul_(y[0])
        return y, y.float() / 65535, self.seen.clone()


@WIDE_UNSIGNED
def test_weights_and_states(kind, tmp_path):
    x, at = torch.tensor([[3, 65535, 1], [7, 2, 60000]]).to(kind), torch.tensor([1, 0])
    model = Held(kind)
    eager = copy.deepcopy(model)
    compiled = ingot.compile(model, inputs=[x, at], min_block_size=1)
    assert compiled.report.in_torch == 0
    for _ in range(3):
        assert_equal(compiled(x, at), eager(x, at))
    assert_equal(model.seen, eager.seen)
    for m in (model, eager):
        m.table.fill_(9)  # changes are followed
    assert_equal(compiled(x, at), eager(x, at))
    table = torch.tensor([[1, 2, 3], [4, 5, 65535]]).to(kind)
    compiled.update_weights({"table": table}, strict=False)
    eager.table.copy_(table)
    assert_equal(compiled(x, at), eager(x, at))

    ingot.save(compiled, tmp_path / "m.pt2", format="exported_program")
    assert_equal(ingot.load(tmp_path / "m.pt2")(x, at), eager(x, at))
    name = str(kind).removeprefix("torch.")
    with pytest.raises(ingot.UnsupportedError) as caught:
        ingot.save(compiled, tmp_path / "m.ingot")
    assert str(caught.value) == (
        f"seen is {name}, and a plan takes, gives and keeps signed integers\n"
        f'  remedy: save it with format="exported_program", or use view(torch.{str(SIGNED[kind]).removeprefix("torch.")}) at the ends of the model')  # fmt: skip


@WIDE_UNSIGNED
def test_a_table_in_a_plan(kind, tmp_path):
    model = Held(kind)

    def scaled(x):
        return x * model.table.float()

    x = torch.randn(2, 3)
    ingot.save(ingot.compile(Calls(scaled), inputs=[x]), tmp_path / "m.ingot")
    assert_equal(ingot.load(tmp_path / "m.ingot")(x), scaled(x))


@WIDE_UNSIGNED
def test_branches_and_loops(kind, tmp_path):
    def model(a, b):
        a, b = torch.cond((a != b).any(), lambda x, y: (x * y, x & y), lambda x, y: (x & y, x * y), (a, b))
        n, c = torch._higher_order_ops.while_loop(lambda n, c: n < 3, lambda n, c: (n + 1, c * 3 ^ b), (torch.tensor(0), a))
        return a, b, c

    program = torch.export.export(Calls(model), pair(kind))
    torch.export.save(program, tmp_path / "m.pt2")
    assert told("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.ingot") == (0, "")
    compiled = ingot.compile(program, min_block_size=1)
    assert compiled.report.in_torch == 0
    for inputs in (pair(kind), (pair(kind)[0],) * 2):
        assert_equal(compiled(*inputs), program.module()(*inputs))


@WIDE_UNSIGNED
def test_open_sizes(kind):
    def model(x):
        return x * 3, x.to(torch.float64).sum(1), x.reshape(-1).sort()[0]

    compiled = ingot.compile(Calls(model), inputs=[ingot.Input(min_shape=(0, 3), opt_shape=(2, 3), max_shape=(16, 3), dtype=kind, name="x")], min_block_size=1)
    for rows in (0, 1, 2, 16):
        x = values(kind, 48)[: rows * 3].view(rows, 3)
        assert_equal(compiled(x), model(x))


REFUSED_BY_TORCH = {
    "add": lambda a, b: a + b,
    "neg": lambda a, b: -a,
    "lt": lambda a, b: a < b,
    "maximum": torch.maximum,
    "max": lambda a, b: a.max(),
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "bitwise_not": lambda a, b: ~a,
    "rshift": lambda a, b: a >> 3,
    "matmul": lambda a, b: a.view(6, 8) @ b.view(8, 6),
    "clamp": lambda a, b: a.clamp(1, 5),
    "topk": lambda a, b: a.topk(2),
    "index_put": lambda a, b: a.index_put((AT,), b[:3]),
}


@WIDE_UNSIGNED
def test_what_torch_refuses(kind):
    """Such an operator stays in torch, between engines, and its error is torch's."""
    a, b = pair(kind)
    for name, function in REFUSED_BY_TORCH.items():
        with pytest.raises(NotImplementedError) as eager:
            function(a, b)
        compiled = ingot.compile(Calls(lambda a, b: function(a * 3, b)), inputs=[a, b], min_block_size=1)
        reasons = [n["reason"] for n in compiled.report.nodes if n["segment"] is None]
        assert len(reasons) == 1 and f"u{8 * kind.itemsize}" in reasons[0], (name, reasons)
        with pytest.raises(NotImplementedError) as ours:
            compiled(a, b)
        assert str(ours.value) == str(eager.value), name


def test_elements_that_torch_moves_on_one_device_alone():
    """The CPU has no flip, gather and index_select of these types, and a GPU has: they move bits."""
    for kind in SIGNED:
        a, _ = pair(kind)
        for function in (lambda a: a.flip(0), lambda a: a.gather(0, AT), lambda a: a.index_select(0, AT), lambda a: a.count_nonzero()):
            made = ingot.compile(Calls(function), inputs=[a], min_block_size=1)(a)
            assert_equal(made.view(SIGNED[kind]) if made.dtype is kind else made, function(a.view(SIGNED[kind])))


def test_a_number_beyond_int64(tmp_path):
    def model(a):
        return a * 3 * 2**63

    a = torch.tensor([1, 2, 5]).to(torch.uint64)
    compiled = ingot.compile(Calls(model), inputs=[a], min_block_size=1)
    assert [n["reason"] for n in compiled.report.nodes] == ["", "the number 9223372036854775808 is larger than an int64"]
    assert_equal(compiled(a), model(a))
    torch.export.save(torch.export.export(Calls(model), (a,)), tmp_path / "m.pt2")
    code, said = told("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.ingot")
    assert code != 0 and "aten.mul.Tensor: the number 9223372036854775808 is larger than an int64" in said
