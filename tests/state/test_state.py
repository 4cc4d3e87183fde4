"""Buffers and inputs that a model writes: in place, in the caller's memory, from Python, numpy and the command line."""

import copy
import subprocess

import numpy as np
import pytest
import torch

import ingot
from ingot.engine import _library


class Cache(torch.nn.Module):
    """A cache of fixed size written at a position that a buffer counts; an input that is changed."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(4, 4)
        self.register_buffer("cache", torch.zeros(2, 16, 4))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, x, y):
        self.cache.index_copy_(1, self.position, self.project(x))
        self.cache[:, 15:] += 1
        self.position += 1
        y.mul_(2)
        return self.cache.sum(1) + y


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 1, 4, generator=generator), torch.randn(2, 4, generator=generator)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Cache().eval().requires_grad_(False)


def close(a, b):
    return torch.allclose(torch.as_tensor(a), torch.as_tensor(b), atol=1e-6)


def test_nothing_is_copied(model):
    compiled = ingot.compile(model, inputs=list(inputs(0)))
    steps = compiled.engine.inspect()["functions"][0]["programs"][0]["steps"]
    assert not [s["label"] for s in steps if "copy" in s["label"] or s["label"].startswith("write")]
    eager, pointer = copy.deepcopy(model), model.cache.data_ptr()
    for seed in range(3):
        x, y = inputs(seed)
        expected_y = y.clone()
        assert close(compiled(x, y), eager(x, expected_y)) and torch.equal(y, expected_y)
    assert close(model.cache, eager.cache) and torch.equal(model.position, eager.position) and model.cache.data_ptr() == pointer
    assert compiled.state_dict().keys() == {"cache", "position"} and compiled.cache.data_ptr() == pointer


def test_an_old_value_that_is_read_later_survives():
    class Swap(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.arange(4.0))
            self.register_buffer("b", -torch.arange(4.0))

        def forward(self, x):
            old = self.a.clone()
            self.a.copy_(self.b)
            self.b.copy_(old)
            return x + old.flip(0)

    model = Swap()
    eager, compiled = copy.deepcopy(model), ingot.compile(model, inputs=[torch.ones(4)])
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(4)), eager(torch.ones(4)))
        assert torch.equal(model.a, eager.a) and torch.equal(model.b, eager.b)


def test_a_saved_plan_has_no_cache_of_its_user(model, tmp_path):
    """A cache and its counter are in a file as they were when the model was compiled; other buffers that calls write are as they are."""

    class Both(Cache):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x, y):
            self.calls += 1
            return super().forward(x, y) + self.calls

    both = Both().eval().requires_grad_(False)
    both.cache[0, 3] = 7
    first = copy.deepcopy(both)
    for kind, before in ((model, copy.deepcopy(model)), (both, first)):
        compiled = ingot.compile(kind, inputs=list(inputs(0)))
        for seed in range(2):
            compiled(*inputs(seed))
        assert kind.position == 2
        before.load_state_dict({name: kind.state_dict()[name] for name in kind.state_dict() if name == "calls"}, strict=False)
        ingot.save(compiled, tmp_path / "cache.ingot")
        compiled.engine.save(tmp_path / "engine.ingot")
        ingot.save(compiled, tmp_path / "cache.pt2")
        assert kind.position == 2  # the model's own are left alone
        for name in ("cache.ingot", "engine.ingot", "cache.pt2"):
            loaded, eager = ingot.load(tmp_path / name), copy.deepcopy(before)
            assert torch.equal(loaded.cache, eager.cache) and loaded.position == 0
            for seed in (7, 8):
                assert close(loaded(*inputs(seed)), eager(*inputs(seed))) and close(loaded.cache, eager.cache)
            assert loaded.position == 2
            if name != "cache.pt2":
                ingot.save(loaded, tmp_path / "again.ingot")
                assert ingot.load(tmp_path / "again.ingot").position == 0


def test_sessions_of_numpy(model, tmp_path):
    compiled, eager = ingot.compile(model, inputs=list(inputs(0))), copy.deepcopy(model)
    session, other = compiled.engine.session(), compiled.engine.session()
    for seed in range(2):
        x, y = inputs(seed)
        expected, array = eager(x, y.clone()), y.numpy().copy()
        assert close(session.run(x.numpy(), array)[0], expected) and np.array_equal(array, 2 * y.numpy())
    assert close(session.state["cache"], eager.cache) and session.state["position"] == 2 and other.state["position"] == 0
    session.state["position"] = 9
    assert session.state["position"] == 9
    session.reset()
    assert session.state["position"] == 0 and not session.state["cache"].any()
    with pytest.raises(ingot.InputError, match="the engine has no state 'chache'"):
        session.state["chache"]
    with pytest.raises(ingot.InputError, match="the model writes input 'y', but the given array is read-only"):
        session.run(inputs(0)[0].numpy(), inputs(0)[1].tolist())


def test_memory_that_is_written_and_read_is_refused(model):
    compiled = ingot.compile(model, inputs=list(inputs(0)))
    x, _ = inputs(0)
    with pytest.raises(ingot.InputError) as caught:
        compiled(x, x[:, 0])
    assert "input 'x' and input 'y' share memory, and the model writes to one of them" in caught.value.message
    session = compiled.engine.session()
    array = x.numpy()
    with pytest.raises(ingot.InputError, match='"y" and "x" share memory, and the model writes to "y"'):
        session.run(array, array[:, 0])


def test_a_mutating_archive_on_the_command_line(model, tmp_path):
    """The raw dialect, with its writes in place, needs neither Python nor torch."""
    program = torch.export.export(copy.deepcopy(model), inputs(0))
    assert any("index_copy_" in str(n.target) for n in program.graph.nodes)
    torch.export.save(program, tmp_path / "cache.pt2")
    x, y = inputs(3)
    np.save(tmp_path / "x.npy", x.numpy())
    np.save(tmp_path / "y.npy", y.numpy())
    cli, plan, out = _library.find("ingot"), tmp_path / "cache.ingot", tmp_path / "out"
    subprocess.run([cli, "compile", tmp_path / "cache.pt2", "-o", plan], check=True, capture_output=True)
    subprocess.run([cli, "run", plan, "-i", f"x={tmp_path / 'x.npy'}", "-i", f"y={tmp_path / 'y.npy'}", "-o", out, "--repeat", "2"], check=True, capture_output=True)
    made = [model(x, y) for _ in range(2)][-1]
    assert close(np.load(next(p for p in out.iterdir() if p.stem not in ("x", "y", "cache", "position"))), made)
    assert close(np.load(out / "y.npy"), y) and close(np.load(out / "cache.npy"), model.cache) and np.load(out / "position.npy") == 2


class WrittenOnly(torch.nn.Module):
    """A buffer that is written and never read."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen.copy_(x)
        return x + 1


class SetAndCounted(torch.nn.Module):
    """A number that one call sets and then increments: its old value is not read."""

    def __init__(self):
        super().__init__()
        self.register_buffer("at", torch.tensor(0), persistent=False)

    def forward(self, x):
        self.at.copy_(x[0])
        self.at.add_(1)
        return x + self.at


class PartWritten(torch.nn.Module):
    """Of two buffers one is read as it was, the other one is overwritten, and only in part."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(3))
        self.register_buffer("log", torch.zeros(2, 3))

    def forward(self, x):
        self.log[0] = self.last
        self.log[1].copy_(x * 2)
        self.last.copy_(x)
        return x.exp()


class GrowingCache(torch.nn.Module):
    """A cache and its length, as transformers' static caches have them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("length", torch.tensor(0))
        self.register_buffer("keys", torch.zeros(1, 2, 8, 4))

    def forward(self, x):
        self.keys.index_copy_(2, torch.arange(x.shape[2]) + self.length, x)
        self.length.add_(x.shape[2])
        return self.keys * 2


WRITTEN = {
    "written only": (WrittenOnly, lambda call: torch.randn(3), None),
    "set and counted": (SetAndCounted, lambda call: torch.tensor([3 + call]), None),
    "part written": (PartWritten, lambda call: torch.randn(3), None),
    "cache": (GrowingCache, lambda call: torch.randn(1, 2, 2, 4), None),
    "cache, open length": (GrowingCache, lambda call: torch.randn(1, 2, 1 + call, 4), ingot.Input(min_shape=(1, 2, 1, 4), opt_shape=(1, 2, 1, 4), max_shape=(1, 2, 8, 4))),
}


WAYS = [(name, way) for name in WRITTEN for way in ("compiled", "ingot", "exported_program", "torch.compile")] + [("part written", "aot_inductor")]


@pytest.mark.parametrize("name, way", WAYS)
@pytest.mark.one_in(4)
def test_a_buffer_that_is_written_need_not_be_read(name, way, tmp_path):
    kind, example, spec = WRITTEN[name]
    torch.manual_seed(0)
    eager, ours = kind(), kind()
    if way == "torch.compile":
        torch._dynamo.reset()
        run = torch.compile(ours, backend="ingot", dynamic=spec is not None)
        buffers = dict(ours.named_buffers())
    else:
        run = ingot.compile(ours, inputs=[spec or example(0)])
        assert run.report.whole
        buffers = dict(ours.named_buffers())
        if way != "compiled":
            path = tmp_path / "model.pt2"
            ingot.save(run, path, format=way)
            run = ingot.load(path, trust="code") if way == "aot_inductor" else ingot.load(path)
            # A package keeps all buffers inside; a program keeps those inside that are not in the state dict.
            shown = {"ingot": buffers, "exported_program": ours.state_dict(), "aot_inductor": {}}[way]
            buffers = {name: getattr(run, name) for name in shown}
    for call in range(3):
        x = example(call)
        assert close(run(x), eager(x))
        for name, buffer in buffers.items():
            assert torch.equal(buffer, getattr(eager, name)), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("end", [lambda y: y, torch.relu, torch.nn.functional.hardswish])
@pytest.mark.one_in(2)
def test_a_product_added_in_place(dtype, end):
    """State that the epilogue of a GEMM reads is not overwritten by its sums first."""

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(40, 70))
            self.register_buffer("total", torch.randn(50, 70))

        def forward(self, x):
            self.total.add_(end(x @ self.weight))
            return self.total * 2

    torch.manual_seed(0)
    model = Sum().requires_grad_(False).to(dtype)
    x = torch.randn(50, 40, dtype=dtype)
    other = copy.deepcopy(model)
    compiled = ingot.compile(model, inputs=[x])
    for _ in range(2):
        torch.testing.assert_close(compiled(x), other(x), rtol=2e-2 if dtype == torch.bfloat16 else 1e-4, atol=2e-1 if dtype == torch.bfloat16 else 1e-4)
