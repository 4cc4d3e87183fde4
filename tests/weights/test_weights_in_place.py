"""A compiled module's weights are the model's own: a change that torch counts, or that changes the whole tensor, is in the next call and in the next file, however the engine stores the weight."""

import copy
import gc
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot.engine import _op, tensor_changes


class Everything(torch.nn.Module):
    """Weights that are packed (products), joined (query, key, value), folded (batch norm behind a convolution), read where they are (embedding, scale), both
    (embedding and head), computed from one another, columns of a larger matrix, buffers, tensors that are not parameters."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(50, 32)
        self.conv = torch.nn.Conv1d(32, 32, 3, padding=1)
        self.norm = torch.nn.BatchNorm1d(32)
        self.q, self.k, self.v = (torch.nn.Linear(32, 32) for _ in range(3))
        self.up, self.down = torch.nn.Linear(32, 96), torch.nn.Linear(96, 32)
        self.after = torch.nn.LayerNorm(32)
        self.head = torch.nn.Linear(32, 50, bias=False)
        self.head.weight = self.embed.weight
        self.turned = torch.nn.Parameter(torch.randn(96, 64).t()[::2])
        self.register_buffer("scale", torch.rand(32) + 0.5)
        self.register_buffer("mask", torch.ones(32), persistent=False)
        self.gain = torch.rand(32) + 0.5
        with torch.no_grad():
            for values in (*self.norm.parameters(), self.norm.running_mean, self.norm.running_var, self.after.bias):
                values.uniform_(0.5, 1.5)

    def forward(self, ids):
        x = self.embed(ids) * (self.scale * self.gain)
        x = x + self.norm(self.conv(x.transpose(1, 2))).transpose(1, 2)
        heads = [linear(x).unflatten(-1, (4, 8)).transpose(1, 2) for linear in (self.q, self.k, self.v)]
        x = x + torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = x + self.down(torch.nn.functional.gelu(self.up(x) + x @ self.turned))
        return self.head(self.after(x) * self.mask)


IDS = torch.arange(14).reshape(2, 7)
WAYS = {"one engine": {}, "gelu in torch": {"torch_executed_ops": ["gelu"], "min_block_size": 1}}


@pytest.fixture
def model():
    return Everything().eval()


@pytest.fixture(params=list(WAYS))
def options(request):
    return WAYS[request.param]


def check(call, model, *inputs):
    inputs = inputs or (IDS,)
    exact = copy.deepcopy(model).double()
    for name in ("gain",):
        if hasattr(exact, name):
            setattr(exact, name, getattr(exact, name).double())
    with torch.no_grad():
        assert_accurate(call(*inputs), model(*inputs), exact(*(x.double() if x.is_floating_point() else x for x in inputs)), depth=256)


def tensors(model):
    return {**dict(model.named_parameters()), **dict(model.named_buffers()), "gain": model.gain}


def test_each_weight_by_itself(model, options):
    compiled = ingot.compile(model, inputs=[IDS], **options)
    check(compiled, model)
    before = compiled(IDS)
    for name, tensor in tensors(model).items():
        if tensor.is_floating_point():
            with torch.no_grad():
                tensor.mul_(1.25)
            after = compiled(IDS)
            assert not torch.equal(after, before), name
            check(compiled, model)
            before = after


def add(p):
    p.add_(0.125)


def copy_(p):
    p.copy_(torch.rand(p.shape))


def part(p):
    p[..., :1].mul_(3)


def detached(p):
    p.detach().mul_(1.5)


def other_memory(p):
    p.data = torch.rand(p.shape)


def other_memory_of_the_same_tensor(p):
    p.share_memory_()
    p.mul_(1.5)


def inference(p):
    with torch.inference_mode():
        p.add_(0.25)


def uncounted(p):
    p.data.mul_(1.5)


def by_numpy(p):
    p.detach().numpy()[...] += 0.125


@pytest.mark.parametrize("change", [add, copy_, part, detached, other_memory, other_memory_of_the_same_tensor, inference, uncounted, by_numpy])
@pytest.mark.one_in(5)
def test_all_weights(model, options, change):
    compiled = ingot.compile(model, inputs=[IDS], **options)
    check(compiled, model)
    for _ in range(2):
        with torch.no_grad():
            for tensor in tensors(model).values():
                if tensor.is_floating_point():
                    change(tensor)
        check(compiled, model)


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, lr=0.1),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    lambda p: torch.optim.Adam(p, lr=0.01),
    lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
], ids=["sgd", "sgd foreach", "adam", "adamw foreach", "adam fused"])  # fmt: skip
@pytest.mark.one_in(5)
def test_training(model, options, make):
    compiled, optimizer = ingot.compile(model, inputs=[IDS], **options), make(model.parameters())
    for _ in range(3):
        before = compiled(IDS)
        with torch.enable_grad():
            model(IDS).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        assert not torch.equal(compiled(IDS), before)
        check(compiled, model)


def replaced_parameters(model):
    model.up.weight = torch.nn.Parameter(torch.rand(96, 32))
    model.embed.weight = model.head.weight = torch.nn.Parameter(torch.rand(50, 32))
    model.scale = torch.rand(32)
    model.norm.running_mean = torch.rand(32)


def replaced_modules(model):
    model.q, model.conv, model.after = torch.nn.Linear(32, 32), torch.nn.Conv1d(32, 32, 3, padding=1), torch.nn.LayerNorm(32)
    with torch.no_grad():
        model.after.bias.fill_(0.5)


def loaded(model):
    model.load_state_dict({k: v * 1.5 for k, v in model.state_dict().items()})


def loaded_into_a_part(model):
    model.down.load_state_dict({k: v * 1.5 for k, v in model.down.state_dict().items()})


def assigned(model):
    model.load_state_dict({k: v * 1.5 for k, v in model.state_dict().items()}, assign=True)  # num_batches_tracked too, which nothing reads


@pytest.mark.parametrize("change", [replaced_parameters, replaced_modules, loaded, loaded_into_a_part, assigned])
@pytest.mark.one_in(4)
def test_other_tensors(model, options, change):
    compiled = ingot.compile(model, inputs=[IDS], **options)
    before = compiled(IDS)
    change(model)
    after = compiled(IDS)
    assert not torch.equal(after, before)
    check(compiled, model)
    with torch.no_grad():  # and they are followed from there on
        for tensor in tensors(model).values():
            if tensor.is_floating_point():
                tensor.mul_(0.875)
    assert not torch.equal(compiled(IDS), after)
    check(compiled, model)


# ---- files


@pytest.mark.parametrize("format, ending", [("ingot", "ingot"), ("exported_program", "pt2"), ("aot_inductor", "pt2")])
@pytest.mark.parametrize("change", ["in place", "replaced"])
@pytest.mark.one_in(3)
def test_the_next_file_has_them(model, format, ending, change, tmp_path):
    compiled = ingot.compile(model, inputs=[IDS])
    before = compiled(IDS)
    if change == "in place":
        with torch.no_grad():
            for tensor in tensors(model).values():
                if tensor.is_floating_point():
                    tensor.mul_(1.25)
    else:
        replaced_parameters(model)
    path = tmp_path / f"model.{ending}"
    ingot.save(compiled, path, format=format)
    loaded = ingot.load(path, trust="code") if format == "aot_inductor" else ingot.load(path)
    assert not torch.equal(loaded(IDS), before)
    check(loaded, model)


def test_engines_without_torch_see_them(model):
    compiled = ingot.compile(model, inputs=[IDS])
    session, before = compiled.engine.session(), compiled(IDS)
    with torch.no_grad():
        model.up.weight.mul_(2)
    for found in (session.run(IDS.numpy())[0], compiled.engine.reference(IDS.numpy())[0]):
        check(lambda x, found=found: torch.from_numpy(found), model)
    with torch.no_grad():
        model.up.weight.mul_(0.5)
    assert torch.equal(torch.from_numpy(session.run(IDS.numpy())[0]), before)


@pytest.mark.parametrize("format, ending", [("ingot", "ingot"), ("exported_program", "pt2")])
def test_a_loaded_module(model, format, ending, tmp_path):
    """A saved program's weights are the loaded module's parameters; those of a .ingot file are the tensors given to load."""
    path = tmp_path / f"model.{ending}"
    ingot.save(ingot.compile(model, inputs=[IDS]), path, format=format)
    given = {n: t.clone() for n, t in model.state_dict().items()}
    loaded = ingot.load(path, weights=given) if format == "ingot" else ingot.load(path)
    owned = given if format == "ingot" else loaded.state_dict(keep_vars=True)
    with torch.no_grad():
        for name in ("up.weight", "q.bias", "scale", "head.weight", "norm.running_var"):
            owned[name].mul_(1.5)
            dict(model.state_dict(keep_vars=True))[name].mul_(1.5)
            check(loaded, model)


def test_given_weights(model, options):
    """Tensors given to update_weights are read in place, until the model's own change."""
    compiled, other = ingot.compile(model, inputs=[IDS], **options), copy.deepcopy(model)
    given = {"up.weight": torch.rand(96, 32), "scale": torch.rand(32)}
    compiled.update_weights(given)
    with torch.no_grad():
        other.up.weight.copy_(given["up.weight"]), other.scale.copy_(given["scale"])
        check(compiled, other)
        for tensor in (given["up.weight"], given["scale"], other.up.weight, other.scale):
            tensor.mul_(1.5)
        check(compiled, other)
        model.q.weight.mul_(2), other.q.weight.mul_(2)  # another one
        check(compiled, other)
        model.up.weight.mul_(2), other.up.weight.copy_(model.up.weight)  # the same
        check(compiled, other)
        given["up.weight"].mul_(2)
        check(compiled, other)
    compiled.engine.update_weights({"up.weight": given["up.weight"]}) if not options else compiled.update_weights({"up.weight": given["up.weight"]})
    with torch.no_grad():
        given["up.weight"].add_(1), other.up.weight.copy_(given["up.weight"])
        check(compiled, other)


# ---- weights that do not fit


def told(call):
    with pytest.raises(ingot.InputError) as caught:
        call()
    return caught.value.message


def test_other_dtypes_and_sizes(model, options, tmp_path):
    compiled = ingot.compile(model, inputs=[IDS], **options)
    before, own = compiled(IDS), model.up.weight
    said = "weight 'up.weight' is float32 [96, 16] now, but the engine was built for float32 [96, 32]"
    model.up.weight = torch.nn.Parameter(torch.rand(96, 16))
    for _ in range(2):
        assert told(lambda: compiled(IDS)) == said
    assert told(lambda: ingot.save(compiled, tmp_path / "m.ingot")) == said and not list(tmp_path.iterdir())
    model.up.weight = own
    assert torch.equal(compiled(IDS), before)
    model.half()
    assert "is float16" in told(lambda: compiled(IDS))
    model.float()
    check(compiled, model)


def test_tied_weights_that_are_untied(model):
    compiled = ingot.compile(model, inputs=[IDS])
    model.head.weight = torch.nn.Parameter(model.embed.weight.detach().clone())
    check(compiled, model)  # the same values still
    with torch.no_grad():
        model.head.weight[0] += 1
    assert told(lambda: compiled(IDS)).endswith("were one tensor when the model was compiled, and have different values now")
    model.head.weight = model.embed.weight
    check(compiled, model)


def test_tensors_of_inference_mode():
    """Torch counts no writes to them."""
    with torch.inference_mode():
        model = Everything().eval()
        compiled = ingot.compile(model, inputs=[IDS])
        check(compiled, model)
        model.load_state_dict({k: v * 1.5 for k, v in model.state_dict().items()})
        check(compiled, model)
        model.up.weight = torch.nn.Parameter(torch.rand(96, 32))
        check(compiled, model)
        model.up.weight.mul_(2)
        check(compiled, model)


# ---- the way there


def test_the_short_way_is_there():
    """Without the fast path each call would check each weight in Python."""
    tensor_changes._layout.cache_clear()
    with torch.inference_mode(), torch._subclasses.FakeTensorMode():
        assert tensor_changes._layout() is not None
    assert not tensor_changes.Snapshot([torch.nn.Parameter(torch.rand(3)), torch.rand(2, 2).t(), torch.empty(0), torch.eye(2).to_sparse()], [True] * 4).unknown


def test_without_the_short_way(model, options, monkeypatch):
    monkeypatch.setattr(tensor_changes, "_layout", lambda: None)
    compiled = ingot.compile(model, inputs=[IDS], **options)
    check(compiled, model)
    with torch.no_grad():
        model.up.weight.mul_(2)
    check(compiled, model)
    model.scale = torch.rand(32)
    check(compiled, model)


def test_nothing_is_prepared_twice(model, monkeypatch):
    compiled, calls = ingot.compile(model, inputs=[IDS]), []
    refresh = type(compiled.engine.watch)._refresh
    monkeypatch.setattr(type(compiled.engine.watch), "_refresh", lambda self: calls.append(1) or refresh(self))
    for _ in range(3):
        compiled(IDS)
    assert not calls
    with torch.no_grad():
        model.up.weight.mul_(2), model.q.weight.mul_(2)
    for _ in range(3):
        compiled(IDS)
    assert len(calls) == 1
    compiled.update_weights({"up.weight": torch.rand(96, 32)})
    compiled(IDS)
    assert len(calls) == 1


class Remembers(torch.nn.Module):
    """Has a cache, which calls write where data say."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(4, 4)
        self.register_buffer("cache", torch.zeros(50, 4))

    def forward(self, ids):
        self.cache.index_copy_(0, ids[0], self.up(torch.ones(ids.shape[1], 4)))
        return self.cache.sum(0)


@pytest.mark.parametrize("kind", [Everything, Remembers])
def test_models_go_when_nobody_has_them(kind):
    model = kind().eval()
    compiled = ingot.compile(model, inputs=[IDS])
    compiled(IDS)
    gone = [weakref.ref(part) for part in (compiled.engine, compiled.engine.watch, model, model.up.weight)]
    assert kind is Everything or list(compiled.engine.first) == ["cache"]
    del model, compiled
    gc.collect()
    assert [part() for part in gone] == [None] * 4


def test_engines_that_go_while_another_comes():
    """A garbage collection may begin at any allocation, also while the op library looks through the engines that it knows."""
    one, other = (ingot.compile(layer, inputs=[torch.ones(3)], min_block_size=1).engine for layer in (torch.nn.ReLU(), torch.nn.Tanh()))
    kept = [_op.Runner(one) for _ in range(40)]
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # the collections below look at what comes after, and not at all of torch
    try:
        for allocations in range(1, 90, 2):
            gc.disable()
            gc.collect()
            circle = [_op.Runner(one)]
            circle.append(circle)
            del circle
            gc.set_threshold(gc.get_count()[0] + allocations)
            gc.enable()
            kept.append(_op.Runner(other))
    finally:
        gc.set_threshold(*before)
        gc.enable()
    assert len(kept) == 40 + 45


def test_an_engine_alone(model):
    engine = ingot.compile(model, inputs=[IDS]).engine
    gc.collect()
    with torch.no_grad():
        model.up.weight.mul_(2), model.q.weight.mul_(2)
    check(lambda x: torch.from_numpy(engine.session().run(x.numpy())[0]), model)


def test_what_a_watch_sees():
    p, q = torch.nn.Parameter(torch.rand(4)), torch.rand(2, 2)
    seen = tensor_changes.Watch()
    changes = [
        lambda: p.data.__setattr__("requires_grad", False),
        lambda: p.add_(1),
        lambda: p.data.add_(1),
        lambda: p.detach().numpy().fill(3),
        lambda: q.t_(),
        lambda: setattr(p, "data", torch.rand(4)),
        lambda: torch.utils.swap_tensors(p, torch.nn.Parameter(torch.rand(4))),
        lambda: q.share_memory_(),
        lambda: q.untyped_storage().resize_(0),
    ]
    for i, change in enumerate(changes):
        seen.adopt(tensor_changes.Snapshot([p, q], [True, True]))
        assert not seen.snapshot.unknown and seen.same() and seen.snapshot.changed() == [False, False]
        with torch.no_grad():
            change()
        assert seen.same() == (i == 0) and any(seen.snapshot.changed()) == (i > 0), i
    q = torch.rand(4)
    seen.adopt(tensor_changes.Snapshot([q], [False]))  # False: only its address counts
    q.add_(1)
    assert seen.same()


@pytest.mark.parametrize("t", [
    torch.ones(3, 5)[1:, 2:4], torch.ones(2, 3, 4).permute(2, 0, 1), torch.ones(6, 2).t()[:, ::2], torch.ones(9, dtype=torch.bfloat16)[3:8], torch.ones(()), torch.ones(3, dtype=torch.bool)[1:],
    torch.ones(2, dtype=torch.int64),
], ids=lambda t: f"{t.dtype} {tuple(t.shape)} {t.stride()}")  # fmt: skip
def test_elements_that_a_watch_reads(t):
    """The first, the middle and the last, of any strides and dtype."""
    seen = tensor_changes.Watch()
    for at in ([0] * t.dim(), [n // 2 for n in t.shape], [n - 1 for n in t.shape]):
        seen.adopt(tensor_changes.Snapshot([t], [True]))
        assert not seen.snapshot.unknown and seen.same() and seen.snapshot.changed() == [False]
        t.data[tuple(at)] = 0
        assert not seen.same() and seen.snapshot.changed() == [True]
        t.data[...] = 1
    assert tensor_changes.Snapshot([torch.empty(0)], [True]).changed() == [False]


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_an_adapter_that_is_swapped(way):
    """PEFT's and diffusers' hot-swap writes all matrices of an adapter through `.data`, zeros where the new one has a smaller rank or no matrix."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, x = torch.nn.Sequential(Adapted(torch.nn.Linear(8, 8)), torch.nn.ReLU(), Adapted(torch.nn.Linear(8, 8))).eval(), torch.randn(3, 8)
    with torch.no_grad():
        module = ingot.compile(model, inputs=[x], min_block_size=1) if way == "compile" else torch.compile(model, backend="ingot", options={"min_block_size": 1})
        before = module(x)
        for layer in (model[0].down, model[0].up):
            layer.weight.data.fill_(0)
            layer.weight.data[:1].copy_(torch.randn(1, layer.in_features))
        model[2].up.weight.data.fill_(0.0)
        torch.testing.assert_close(module(x), model(x))
        assert not torch.allclose(module(x), before)


def test_threads(model, options):
    """Calls from many threads while nothing changes, and after each change."""
    compiled, wrong = ingot.compile(model, inputs=[IDS], **options), []
    for _ in range(5):
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1.0625)
        barrier, found = threading.Barrier(4), []

        def work():
            try:
                barrier.wait()
                found.extend(compiled(IDS) for _ in range(10))
            except BaseException as problem:
                wrong.append(problem)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        assert not wrong and all(torch.equal(found[0], y) for y in found)
        check(lambda x: found[0], model)


# ---- other parts of the memory that a weight has


class Table(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(shape), requires_grad=False)

    def forward(self, x):
        return x @ (self.w * 2) if self.w.dim() == 2 else x.sum() * (self.w * 2)


MOVES = {
    "another part": ((8, 8), lambda t: t[1]),
    "its transpose": ((8, 8), lambda t: t[0].t()),
    "one row for all": ((8, 8), lambda t: t[0, :1].expand(8, 8)),
    "another number": ((), lambda t: t[1]),
    "six axes": ((2, 2, 2, 2, 2, 2), lambda t: t[0].permute(5, 4, 3, 2, 1, 0)),
}


@pytest.mark.parametrize("asked", ["by words", "each by itself"])
@pytest.mark.parametrize("move", MOVES)
def test_data_of_the_same_memory(move, asked, monkeypatch):
    """p.data = ... without a change of address, which torch does not count."""
    if asked != "by words":
        monkeypatch.setattr(tensor_changes, "_layout", lambda: None)
    shape, part = MOVES[move]
    memory, x = torch.randn(2, *shape), torch.randn(3, 8)
    model = Table(shape).eval()
    model.w.data = memory[0]
    compiled = ingot.compile(model, inputs=[x])
    torch.testing.assert_close(compiled(x), model(x))
    model.w.data = part(memory)
    torch.testing.assert_close(compiled(x), model(x))


def test_data_of_another_shape():
    model, x = Table((8, 8)).eval(), torch.randn(3, 8)
    compiled = ingot.compile(model, inputs=[x])
    model.w.data = model.w.data[:, :4]
    with pytest.raises(ingot.InputError, match=r"weight 'w' is float32 \[8, 4\] now, but the engine was built for float32 \[8, 8\]"):
        compiled(x)


class Adapted(torch.nn.Module):
    """A layer with an adapter, as PEFT's are: it merges through `.data`, which torch does not count."""

    def __init__(self, base):
        super().__init__()
        self.base_layer, self.down, self.up, self.merged_adapters = base, torch.nn.Linear(8, 2, bias=False), torch.nn.Linear(2, 8, bias=False), []

    def forward(self, x):
        return self.base_layer(x) if self.merged_adapters else self.base_layer(x) + self.up(self.down(x))

    def merge(self):
        self.base_layer.weight.data += self.up.weight @ self.down.weight
        self.merged_adapters.append("default")


@pytest.mark.parametrize("way", ["compile", "torch.compile", "mutable"])
def test_a_layer_that_was_merged_and_put_back(way):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)).eval(), torch.randn(3, 8)
    ways = {
        "compile": lambda: ingot.compile(model, inputs=[x], min_block_size=1),
        "torch.compile": lambda: torch.compile(model, backend="ingot", options={"min_block_size": 1}),
        "mutable": lambda: ingot.MutableModule(model, min_block_size=1),
    }
    with torch.no_grad():
        module = ways[way]()
        before = module(x)
        model[0] = Adapted(model[0])
        model[0].merge()
        model[0] = model[0].base_layer
        torch.testing.assert_close(module(x), model(x))
        assert not torch.allclose(module(x), before)


class Sliced(torch.nn.Module):
    """Walks slices of its lists, as decoders of transformers do: each slice is a new list, in which all layers are registered."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))
        self.tail = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
        self.scales = torch.nn.ParameterList(torch.rand(8) for _ in range(3))

    def forward(self, x):
        for layer in self.layers[:3]:
            x = layer(x)
        for scale in self.scales[:2]:
            x = x * scale
        return self.tail[:2](x)


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_slices_of_lists_do_not_count_as_writes(way, monkeypatch):
    torch._dynamo.reset()
    model, x, replaced = Sliced().eval(), torch.randn(3, 8), []
    with torch.no_grad():
        module = ingot.compile(model, inputs=[x], min_block_size=1) if way == "compile" else torch.compile(model, backend="ingot", options={"min_block_size": 1})
        module(x)
        replace = ingot.Engine.replace
        monkeypatch.setattr(ingot.Engine, "replace", lambda self, values, *args, **kwargs: replaced.extend(values) or replace(self, values, *args, **kwargs))
        for _ in range(3):
            model(x)
            torch.testing.assert_close(module(x), model(x))
        assert not replaced
        model.layers[1].weight.mul_(2)
        torch.testing.assert_close(module(x), model(x))
        assert len(replaced) == 1


def test_graphs_of_a_model_do_not_count_as_writes():
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval(), torch.randn(3, 8)
    with torch.no_grad():
        module = ingot.compile(model, inputs=[x], min_block_size=1)
        module(x)
        torch.export.unflatten(torch.export.export(model, (x,))).forward(x)
        ingot.compile(model, inputs=[x], min_block_size=1)
        followed = [w for w in tensor_changes._watches if w.snapshot.ids & {id(p) for p in model.parameters()}]
        assert followed and not any(w._written for w in followed)


def test_dynamo_does_not_guard_watches():
    """A function that registers a layer is compiled once, however many models are watched meanwhile."""
    from torch._dynamo.testing import CompileCounter

    class Holder(torch.nn.Module):
        pass

    def layered(x):
        holder = Holder()
        holder.act = torch.nn.ReLU()
        return holder.act(x) + 1

    kept = [ingot.compile(torch.nn.Linear(2, 2), inputs=[torch.randn(1, 2)])]
    counter = CompileCounter()
    torch._dynamo.reset()
    call = torch.compile(layered, backend=counter)
    x = torch.randn(2)
    call(x)
    first = counter.frame_count
    kept.append(ingot.compile(torch.nn.Linear(2, 2), inputs=[torch.randn(1, 2)]))
    assert torch.equal(call(x), layered(x))
    assert first > 0 and counter.frame_count == first


@pytest.mark.parametrize("dtype, before, after", [(torch.float64, 0.5, -0.5), (torch.float64, 1.0, 2.0), (torch.int64, 1, 1 + 2**40)])
def test_uncounted_writes_that_change_high_bytes_alone(dtype, before, after):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("w", torch.full((40,), before, dtype=dtype))

        def forward(self, x):
            return x + self.w

    model, x = Model(), torch.zeros(40, dtype=dtype)
    compiled = ingot.compile(model, inputs=[x])
    compiled(x)
    model.w.numpy()[...] = after
    assert torch.equal(compiled(x), model(x))
