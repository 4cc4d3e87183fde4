"""Sizes read from data, branches and loops, in one plan whose regions run one after another."""

import copy
import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

import ingot
from ingot.backend import ingot_backend

ROOT = Path(__file__).resolve().parents[2]


class Selected(nn.Module):
    """A boolean index, nonzero, and values of known size, together."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 8)

    def forward(self, x):
        h = self.linear(x)
        keep = h.amax(-1) > 0.3
        return h[keep].softmax(-1), keep.nonzero().squeeze(1), h.sum()


class MaskedSelect(nn.Module):
    def forward(self, x):
        return torch.masked_select(x, x > 0) * 2


class Nonzero(nn.Module):
    def forward(self, x):
        return (x > 0.5).nonzero() * 2, x.sum()


class MaskBesideIndex(nn.Module):
    """A mask over two axes and a list of positions behind it."""

    def forward(self, x):
        y = x.unsqueeze(-1) * torch.arange(3, dtype=x.dtype)
        return y[x > 0], y[:, x[0] > 0], y[x[:, 0] > 0][:, 1]


class PutMasked(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[y > 0] = y[y > 0].exp()
        return y.index_put((x < 0,), x[x < 0].abs(), accumulate=True)


class TwoReads(nn.Module):
    """The second size is read from the elements that the first one selects."""

    def forward(self, x):
        first = x[x[:, 0] > 0]
        return first[first[:, 1] > 0].cumsum(0), first.sum(0)


class Outer(nn.Module):
    def forward(self, x):
        v = x[x > 0.5]
        return v.unsqueeze(0) * v.unsqueeze(1)


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.a(x).relu(), lambda x: self.b(x) - 1, (x,)) + 1


class NestedBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        def inner(x):
            return torch.cond(x.mean() > 0.1, lambda x: self.a(x), lambda x: self.b(x).relu(), (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x * 3, (x,)).sum(-1), x + 1


class BranchOfSelected(nn.Module):
    def forward(self, x):
        v = x[x > 0]
        return torch.cond(v.sum() > 3, lambda v: v * 2, lambda v: v - 1, (v,))


class Loop(nn.Module):
    """As many turns as the data says: none, too."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        turns = (x[:, 0] > 0).sum()
        return while_loop(lambda i, x: i < turns, lambda i, x: (i + 1, self.linear(x).tanh()), (torch.zeros((), dtype=torch.int64), x))


class LoopThatSwaps(nn.Module):
    """The carried values swap places, so an iteration must not overwrite values that it still reads."""

    def forward(self, x):
        return while_loop(lambda a, b, i: i < 3, lambda a, b, i: (b + 1, a.clone(), i + 1), (x, x * 2, torch.zeros((), dtype=torch.int64)))[:2]


class LoopThatFillsRows(nn.Module):
    """Each turn writes a row of two carried values, in place. The former rows of the second are read beside."""

    def forward(self, x):
        def turn(i, sums, others):
            at = i.reshape(1)
            row = x.index_select(0, at) + others.sum(0)
            return i + 1, sums.index_copy(0, at, row), others.index_put((at,), row * 0.5)

        return while_loop(lambda i, sums, others: i < (x[:, 0] > 0).sum(), turn, (torch.zeros((), dtype=torch.int64), torch.zeros_like(x), x * 2))[1:]


class LoopThatKeepsTheFormer(nn.Module):
    """Of two carried values one is written in place, the other is what it was before; a third stays as it is."""

    def forward(self, x):
        def turn(i, rows, former, same):
            return i + 1, rows.index_copy(0, i.reshape(1), rows.sum(0)[None]), rows.clone(), same.clone()

        return while_loop(lambda i, rows, former, same: i < 2 + same[0, 0] * 0, turn, (torch.zeros((), dtype=torch.int64), x + 1, x * 1, x * 2))[1:]


class LoopOfLoops(nn.Module):
    """The inner loop writes elements of what the outer one carries."""

    def forward(self, x):
        def inner(n, j, x):
            return n + 0, j + 1, x.index_put((n.reshape(1), j.reshape(1)), x.sum() * 0.1)

        def turn(i, x):
            return i + 1, while_loop(lambda n, j, x: j < 3, inner, (i + 0, torch.zeros((), dtype=torch.int64), x))[2]

        return while_loop(lambda i, x: i < 2, turn, (torch.zeros((), dtype=torch.int64), x))[1]


class Counted(nn.Module):
    """A buffer that is read in the first region and written in the last."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        found = x[x > self.count * 0.1]
        self.count.add_((x > 0).sum())
        return self.linear(x) + self.count, found * 2


MODELS = [Selected, MaskedSelect, Nonzero, MaskBesideIndex, PutMasked, TwoReads, Outer, Branch, NestedBranch, BranchOfSelected, Loop, LoopThatSwaps, LoopThatFillsRows, LoopThatKeepsTheFormer, LoopOfLoops, Counted]


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def same(ours, theirs):
    assert len(flat(ours)) == len(flat(theirs))
    for a, b in zip(flat(ours), flat(theirs)):
        assert a.shape == b.shape and a.dtype == b.dtype
        torch.testing.assert_close(a, b)


def inputs(rows, count=3):
    generator = torch.Generator().manual_seed(rows)
    made = [torch.randn(rows, 4, generator=generator) for _ in range(count)]
    return [*made, torch.zeros(rows, 4), torch.ones(rows, 4), -torch.ones(rows, 4)]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.one_in(3)
def test_ahead_of_time(kind, tmp_path):
    """Dynamic sizes: one engine, saved, loaded, and in a separate session."""
    model = kind().eval()
    eager = copy.deepcopy(model)
    rows = ingot.Input(min_shape=(2, 4), opt_shape=(5, 4), max_shape=(40, 4), dtype=torch.float32)
    compiled = ingot.compile(model, inputs=[rows], fallback="error")
    assert compiled.report.whole
    assert any(f.get("regions") for f in compiled.engine.inspect()["functions"]), "it is one straight function"
    for n in (2, 5, 17, 40, 5):
        for x in inputs(n):
            same(compiled(x), eager(x))
    ingot.save(compiled, tmp_path / "model.ingot")
    loaded, engine = ingot.load(tmp_path / "model.ingot"), ingot.load_engine(tmp_path / "model.ingot")
    session = engine.session()
    if not list(model.buffers()):
        for x in inputs(9):
            same(loaded(x), eager(x))
            results = [torch.from_numpy(r) for r in session.run(x.numpy())]
            for a, b in zip(results, flat(eager(x))):
                assert a.shape == b.shape
                torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.one_in(3)
def test_torch_compile(kind):
    torch.compiler.reset()
    model = kind().eval()
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, backend="ingot")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        for n in (5, 7):
            for x in inputs(n):
                same(compiled(x), eager(x))


class SizesInside(nn.Module):
    """A branch and a loop in it that compute with the size of a tensor which neither reads."""

    def forward(self, x, y, turns):
        rows = y.shape[0]

        def grown(x):
            return while_loop(lambda i, z: i < turns, lambda i, z: (i + 1, z * 0.5 + torch.arange(rows).sum() + rows), (torch.zeros((), dtype=torch.int64), x))[1]

        return torch.cond(x.sum() > 0, grown, lambda x: x + torch.ones(rows).sum(), (x,))


def test_sizes_that_dynamo_hands_to_regions():
    torch.compiler.reset()
    reports, model = [], SizesInside()

    def backend(graph, examples):
        made = ingot_backend(graph, examples)
        reports.append(made.report)
        return made

    compiled = torch.compile(model, backend=backend, dynamic=True)
    for rows, sign, turns in ((3, 1, 4), (5, -1, 2), (4, 1, 0)):
        given = sign * torch.rand(6, 4), torch.rand(rows, 2), torch.tensor(turns)
        same(compiled(*given), model(*given))
    assert len(reports) == 1 and reports[0].whole, reports


class ByRows(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * 5 if x.shape[0] == self.rows else x * 3, lambda x: x - 1, (x,))


@pytest.mark.parametrize("low", [0, 1])
def test_a_range_that_begins_with_few_rows(low):
    rows = ingot.Input(min_shape=(low, 4), opt_shape=(5, 4), max_shape=(9, 4))
    for model in (Branch().eval(), Loop().eval(), ByRows(20)):
        compiled = ingot.compile(model, inputs=[rows], fallback="error")
        for n in range(low, 4):
            same(compiled(torch.ones(n, 4)), model(torch.ones(n, 4)))
    for few in (1, 3):  # what the code of a region asks about a size is checked
        compiled = ingot.compile(ByRows(few), inputs=[rows], fallback="error")
        same(compiled(torch.ones(2, 4)), 3 * torch.ones(2, 4))
        with pytest.raises(ingot.InputError, match=f"captured for x.shape\\[0\\] != {few}"):
            compiled(torch.ones(few, 4))


class OfTwo(nn.Module):
    def forward(self, x, y):
        chosen = torch.cond(x.sum() > 0, lambda x, y: x + y, lambda x, y: x - y, (x, y))
        return chosen, while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * 0.5 + y), (torch.zeros((), dtype=torch.int64), x))[1]


def test_sizes_with_names_are_those_of_regions():
    """Regions know a size by the name that the caller gives it, also where the name makes two sizes one."""
    rows = {"min_shape": (2, 4), "opt_shape": (5, 4), "max_shape": (9, 4), "shared_dims": {0: "rows"}}
    compiled = ingot.compile(OfTwo(), inputs=[ingot.Input(**rows), ingot.Input(**rows)], fallback="error")
    for n in (2, 9):
        for x, y in (inputs(n, 2)[:2], inputs(n, 2)[-2:]):
            same(compiled(x, y), OfTwo()(x, y))


def test_ranges_behind_one_size():
    """A region that was traced for one size does not keep the next trace of it from open sizes."""
    model = Branch().eval()
    ingot.compile(model, inputs=[torch.ones(5, 4)], fallback="error")
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(2, 4), opt_shape=(5, 4), max_shape=(9, 4))], fallback="error")
    same(compiled(torch.ones(7, 4)), model(torch.ones(7, 4)))


@pytest.mark.parametrize("kind", [Selected, TwoReads, Branch, NestedBranch, Loop, LoopThatFillsRows, LoopThatKeepsTheFormer, LoopOfLoops, Outer])
def test_the_reference_agrees(kind):
    """The interpreter on the whole graph, and every step of the plan by itself."""
    model = kind().eval()
    x = inputs(6)[0]
    compiled = ingot.compile(model, inputs=[x], fallback="error")
    report = compiled.verify(x)
    assert not [s for s in report.steps if s["over"]] and len(report.steps) > 1


class Item(nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x[:k].cumsum(0), x[k:].sum()


def test_item():
    x = torch.randn(6, 3)
    compiled = ingot.compile(Item(), inputs=[x, torch.tensor(3)], fallback="error")
    for k in range(7):
        same(compiled(x, torch.tensor(k)), Item()(x, torch.tensor(k)))
    with pytest.raises(ingot.InputError, match=r"a size that the model reads from data \(u\d+\) is 7, outside 0..6"):
        compiled(x, torch.tensor(7))
    with pytest.raises(ingot.InputError, match="is -1, outside"):
        compiled(x, torch.tensor(-1))
    same(compiled(x, torch.tensor(2)), Item()(x, torch.tensor(2)))


def test_a_size_without_bound():
    class Range(nn.Module):
        def forward(self, n):
            return torch.arange(n.item()) * 2.0

    compiled = ingot.compile(Range(), inputs=[torch.tensor(4)], fallback="error")
    for k in (0, 1, 4, 1000):
        same(compiled(torch.tensor(k)), Range()(torch.tensor(k)))


def test_a_size_in_a_weight():
    class Resized(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("size", torch.tensor(3))

        def forward(self, x):
            return x[: self.size.item()] * 2, x + self.size

    model, x = Resized(), torch.randn(6, 3)
    compiled = ingot.compile(model, inputs=[x], fallback="error")
    for k in (3, 0, 6):
        model.size.fill_(k)
        for ours, theirs in zip(compiled(x), model(x)):
            same(ours, theirs)


def test_steps_are_timed_and_memory_may_be_given():
    compiled = ingot.compile(MaskedSelect(), inputs=[torch.randn(8, 4)], fallback="error")
    session, x = compiled.engine.session(), torch.randn(8, 4)
    profile = session.profile(x.numpy(), runs=2)
    assert profile and all(step["nanoseconds"] >= 0 for step in profile)
    room = torch.full((32,), -1.0)
    count = int((x > 0).sum())
    session.run(x.numpy(), out=[room.numpy()])
    same(room[:count], MaskedSelect()(x))
    assert (room[count:] == -1).all()
    with pytest.raises(ingot.InputError, match="needs .* bytes, and the tensor given for it has 4"):
        session.run(torch.ones(8, 4).numpy(), out=[room[:1].numpy()])


def test_partly_in_torch_reads_sizes_in_torch():
    """If a part of the model runs in torch, torch reads the sizes, and the report says so."""

    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            h = self.linear(x).relu() + torch.special.airy_ai(x)
            return h[h > 0.5] * 2

    model = Partly()
    x = torch.randn(5, 4)
    compiled = ingot.compile(model, inputs=[x])
    same(compiled(x), model(x))
    assert not compiled.report.whole and "it comes from the values of a tensor" in str(compiled.report)


def test_what_control_flow_cannot_hold_runs_in_torch():
    class Random(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: torch.special.airy_ai(x), lambda x: x + 1, (x,)) * 2

    x = torch.randn(3, 4)
    compiled = ingot.compile(Random(), inputs=[x])
    for sample in inputs(3):
        same(compiled(sample), Random()(sample))
    with pytest.raises(ingot.UnsupportedError, match="inside it aten.special_airy_ai"):
        ingot.compile(Random(), inputs=[x], fallback="error")


def test_saved_as_a_torch_program(tmp_path):
    x = torch.randn(5, 4)
    for kind in (Branch, Loop):
        model = kind().eval()
        ingot.save(ingot.compile(model, inputs=[x], fallback="error"), tmp_path / "model.pt2", format="exported_program")
        same(torch.export.load(tmp_path / "model.pt2").module()(x), model(x))
        same(ingot.load(tmp_path / "model.pt2")(x), model(x))
    with pytest.raises(ingot.UnsupportedError, match="sizes of the results are read from data"):
        ingot.save(ingot.compile(MaskedSelect(), inputs=[x], fallback="error"), tmp_path / "open.pt2", format="exported_program")


def test_numbers_among_the_results():
    class Numbers(nn.Module):
        def forward(self, x):
            return x * 2, (x > 0).nonzero().shape[0]

    compiled = ingot.compile(Numbers(), inputs=[torch.randn(5, 4)])
    for x in inputs(5):
        result, count = compiled(x)
        same(result, x * 2)
        assert count == int((x > 0).sum())


def test_inspect_shows_regions(tmp_path):
    compiled = ingot.compile(Loop(), inputs=[torch.randn(5, 4)], fallback="error")
    ingot.save(compiled, tmp_path / "loop.ingot")
    cli = os.environ.get("INGOT_CLI", ROOT / "build" / "release" / "ingot")
    text = subprocess.run([cli, "inspect", tmp_path / "loop.ingot"], capture_output=True, text=True, check=True).stdout
    assert "loop: forward." in text and ".condition" in text and ".body" in text


class SliceByNumbers(torch.nn.Module):
    """Begin and end of a slice come from data. torch has a separate symbol for its length, and asserts that it is not 0."""

    def __init__(self):
        super().__init__()
        self.weight, self.linear = torch.nn.Parameter(torch.randn(16, 8)), torch.nn.Linear(8, 8)

    def forward(self, n, x):
        k = torch.clamp(n.sum() * 2, max=8)
        rows = self.weight[(8 - k).item() : (k + 8).item()]
        torch._check(rows.shape[0] != 0)
        return self.linear(rows.unsqueeze(0)).sum(1) + self.linear(x)


@pytest.mark.parametrize("kept", [[], ["aten.slice.Tensor"]], ids=["here", "in torch"])
def test_slice_by_numbers(kept):
    """With the slice in torch the engine that makes the numbers runs before it, and the one that reads it behind it: they are two."""
    torch.manual_seed(0)
    model, x = SliceByNumbers().requires_grad_(False), torch.randn(3, 8)
    compiled = ingot.compile(torch.export.export(model, (torch.tensor([1, 2]), x), strict=False), torch_executed_ops=kept)
    assert (compiled.report.whole, len(compiled.report.segments)) == ((False, 2) if kept else (True, 1))
    for n in ([1, 2], [1, 0], [7, 9]):
        torch.testing.assert_close(compiled(torch.tensor(n), x), model(torch.tensor(n), x))


class Writes(torch.nn.Module):
    """Counters and a row buffer that regions write; `kind` says which."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.register_buffer("rows", torch.zeros(6, 4))
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x, n):
        return getattr(self, self.kind)(x, n)

    def loop(self, x, n):
        def turn(i, y):
            self.rows.index_add_(0, i.reshape(1), y.unsqueeze(0))
            self.calls.add_(1)
            return i + 1, y * 0.5 + self.rows[0]

        first = self.rows[1] + 0
        last = while_loop(lambda i, y: i < n, turn, (torch.zeros((), dtype=torch.int64), x))[1]
        return first, last, self.rows * 2

    def branch(self, x, n):
        def more(x):
            self.calls.add_(x)
            return x + self.calls

        return torch.cond(n > 2, more, lambda x: x * 2, (x,)), self.calls[1:]

    def branch_in_loop(self, x, n):
        def turn(i, y):
            def even(y):
                self.calls.add_(1)
                return y + 1

            return i + 1, torch.cond(i % 2 == 0, even, lambda y: y * self.calls, (y,))

        return while_loop(lambda i, y: i < n, turn, (torch.zeros((), dtype=torch.int64), x))[1]

    def given(self, x, n):
        def turn(i, y):
            x.mul_(2)
            return i + 1, y + x

        return while_loop(lambda i, y: i < n, turn, (torch.zeros((), dtype=torch.int64), x * 3))[1]

    def carried(self, x, n):
        def turn(i, y):
            y.add_(1)
            return i + 1, y * self.calls

        return while_loop(lambda i, y: i < n, turn, (torch.zeros((), dtype=torch.int64), x * 2))[1]

    def carried_input(self, x, n):
        """The first turn has the caller's tensor."""

        def turn(i, y):
            y.add_(1)
            return i + 1, y * 2

        return while_loop(lambda i, y: i < n, turn, (torch.zeros((), dtype=torch.int64), x))[1] + x

    def carried_rows(self, x, n):
        """A part of a buffer, and a value that is read behind the loop. Turns write elements of them."""
        sums = x * 2

        def turn(i, rows, sums):
            rows.index_put_((i.reshape(1) % 2,), sums + 1)
            sums[1:].mul_(0.5)
            return i + 1, rows.clone(), rows[0] + sums

        return while_loop(lambda i, rows, sums: i < n, turn, (torch.zeros((), dtype=torch.int64), self.rows[2:4], sums))[1:], sums + 1

    def carried_in_loops(self, x, n):
        def inner(j, y, z):
            y.mul_(2)
            z.add_(y)
            return j + 1, y + 1, z * 0.5

        def turn(i, y):
            z = y * 3
            j, inner_y, inner_z = while_loop(lambda j, y, z: j < 2, inner, (torch.zeros((), dtype=torch.int64), y, z))
            return i + 1, inner_y + inner_z + y + z

        return while_loop(lambda i, y: i < n, turn, (torch.zeros((), dtype=torch.int64), x))[1]

    def carried_in_a_branch(self, x, n):
        def even(y):
            y.add_(1)
            return y * self.calls

        def turn(i, y):
            return i + 1, torch.cond(i % 2 == 0, even, lambda y: y - 1, (y,)) + y

        return while_loop(lambda i, y: i < n, turn, (torch.zeros((), dtype=torch.int64), x * 2))[1]

    def carried_twice(self, x, n):
        def turn(i, y, z):
            y.add_(1)
            return i + 1, y * 2, z + y

        return while_loop(lambda i, y, z: i < n, turn, (torch.zeros((), dtype=torch.int64), x, x))[1:]

    def written_by_the_condition(self, x, n):
        def more(i, y):
            y.add_(1)
            return i < n

        return while_loop(more, lambda i, y: (i + 1, y * 2), (torch.zeros((), dtype=torch.int64), x))[1]

    def beside_a_view(self, x, n):
        row = self.rows[2]

        def more(x):
            self.rows.add_(1)
            return x + row

        return torch.cond(n > 2, more, lambda x: x * 2, (x,))


WRITES = ["loop", "branch", "branch_in_loop", "given", "carried", "carried_input", "carried_rows", "carried_in_loops", "carried_in_a_branch"]
WRITES_IN_TORCH = ["beside_a_view", "carried_twice", "written_by_the_condition"]
REFUSED = pytest.mark.skipif(torch.__version__.startswith("2.11"), reason="torch 2.11 refuses functions of cond and while_loop that write")


@REFUSED
@pytest.mark.parametrize("jit", [False, True], ids=["aot", "jit"])
@pytest.mark.parametrize("kind", [*WRITES, *WRITES_IN_TORCH])
def test_regions_that_write(kind, jit):
    """Buffers, inputs and carried values. Beside a view of the same memory, and in a condition, torch runs the writes."""
    torch._dynamo.reset()
    ours, eager, reports = Writes(kind).eval(), Writes(kind).eval(), []
    x = torch.randn(4)

    def backend(graph, examples):
        made = ingot_backend(graph, examples, options={"min_block_size": 1})
        reports.append(made.report)
        return made

    with torch.no_grad():
        compiled = torch.compile(ours, backend=backend) if jit else ingot.compile(ours, inputs=[x.clone(), torch.tensor(3)], min_block_size=1)
        for n in (3, 0, 2, 5):
            given, again = x.clone(), x.clone()
            torch.testing.assert_close(compiled(given, torch.tensor(n)), eager(again, torch.tensor(n)))
            torch.testing.assert_close((given, *ours.buffers()), (again, *eager.buffers()))
    (report,) = reports if jit else (compiled.report,)
    assert report.whole == (kind in WRITES)


@REFUSED
@torch.no_grad()
@pytest.mark.parametrize("kind", ["carried_input", "carried_rows", "carried_in_loops"])
def test_saved_loops_that_write_what_they_carry(kind, tmp_path):
    """An engine's file and a torch program, with an open size."""
    model, x = Writes(kind).eval(), torch.randn(4)
    eager = copy.deepcopy(model)
    size = ingot.Input(min_shape=(4,), opt_shape=(4,), max_shape=(4,)) if kind == "carried_rows" else ingot.Input(min_shape=(2,), opt_shape=(4,), max_shape=(9,))
    compiled = ingot.compile(model, inputs=[size, torch.tensor(3)], fallback="error")
    ingot.save(compiled, tmp_path / "loop.ingot")
    ingot.save(compiled, tmp_path / "loop.pt2", format="exported_program")
    for run in (ingot.load(tmp_path / "loop.ingot"), ingot.load(tmp_path / "loop.pt2"), torch.export.load(tmp_path / "loop.pt2").module()):
        theirs = copy.deepcopy(eager)
        for n in (3, 0, 4):
            given, again = x.clone(), x.clone()
            same_leaves(run(given, torch.tensor(n)), theirs(again, torch.tensor(n)))
            torch.testing.assert_close(given, again)


def same_leaves(ours, theirs):
    for a, b in zip(*map(torch.utils._pytree.tree_leaves, (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("condition", [lambda x: x.sum() > 0, lambda x: x.shape[0] > 4], ids=["data", "sizes"])
@pytest.mark.parametrize("least", [0, 1])
def test_other_axes_keep_their_range(condition, least):
    class Chosen(torch.nn.Module):
        def forward(self, x):
            return torch.cond(condition(x), lambda x: x * 2, lambda x: x + 1, (x,))

    compiled = ingot.compile(Chosen(), inputs=[ingot.Input(min_shape=(least, least), opt_shape=(4, 3), max_shape=(8, 8))])
    assert compiled.report.whole
    for rows in (least, 5):
        for columns in (least, 1, 2, 8):
            x = torch.rand(rows, columns)
            assert compiled(x).equal(Chosen()(x)), (rows, columns)


class Scanned(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        state, each = torch._higher_order_ops.scan(lambda c, x: (torch.tanh(c + x), c * x), torch.zeros(4, 8), self.before(x).relu().softmax(-1))
        return self.after(state).softmax(-1), each


def test_a_scan_is_a_loop():
    """More of it: tests/fixes/test_fix_scans.py."""
    x, model = torch.randn(5, 4, 8), Scanned()
    compiled = ingot.compile(model, inputs=[x], fallback="error")
    for made, expected in zip(compiled(x), model(x), strict=True):
        torch.testing.assert_close(made, expected)
