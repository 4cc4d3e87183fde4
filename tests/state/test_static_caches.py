"""Static caches: tensors of objects that are not modules, written in place and read through expand. The whole model compiles by each way in."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from accuracy import assert_accurate

import ingot
from ingot.backend import ingot_backend
from ingot.engine import _library


class Layer:
    def __init__(self):
        self.length, self.keys = torch.tensor(0), torch.zeros(2, 8, 4)


class Cached(torch.nn.Module):
    """As transformers' static caches: `length` counts, `keys` are written at places that follow from it and read for two heads each."""

    def __init__(self, buffers=False):
        super().__init__()
        self.layer = Layer()
        if buffers:  # as transformers.integrations.executorch does
            self.register_buffer("keys", self.layer.keys, persistent=False)
            self.register_buffer("length", self.layer.length, persistent=False)

    def forward(self, x):
        layer, n = self.layer, x.shape[1]
        layer.keys.index_copy_(1, torch.arange(n) + layer.length, x)
        layer.length.add_(n)
        return (layer.keys[:, None].expand(2, 2, 8, 4) * 0.5).flatten(0, 1)


def compiled_as(how, model, x):
    made = []

    def backend(graph, examples):
        made.append(ingot_backend(graph, examples, options={"min_block_size": 1}))
        return made[-1]

    if how == "program":
        program = torch.export.export(model, (x,), strict=True)
        module = ingot.compile(program, min_block_size=1)
    elif how in ("strict", "not strict"):
        module = ingot.compile(model, inputs=[x], strict=how == "strict", min_block_size=1)
    else:
        torch._dynamo.reset()
        return torch.compile(model, backend=backend, dynamic=how == "dynamic"), made
    return module, [module]


@pytest.mark.parametrize("buffers", [False, True], ids=["object", "buffers too"])
@pytest.mark.parametrize("how", ["not strict", "strict", "program", "just in time", "dynamic"])
@pytest.mark.one_in(2)
def test_a_cache_of_an_object(how, buffers):
    model = Cached(buffers)
    eager, exact = copy.deepcopy(model), copy.deepcopy(model)
    exact.layer.keys = exact.layer.keys.double()
    with torch.no_grad():
        call, made = compiled_as(how, model, torch.randn(2, 3, 4))
        assert not model.layer.length and not model.layer.keys.any()  # tracing wrote nothing
        for _ in range(2):
            x = torch.randn(2, 3, 4)
            assert_accurate(call(x), eager(x), exact(x.double()))
    assert made and all(not m.report.in_torch for m in made)
    assert torch.equal(model.layer.length, eager.layer.length) and torch.equal(model.layer.keys, eager.layer.keys)


class Tied(torch.nn.Module):
    """One tensor by three names, written by each."""

    def __init__(self):
        super().__init__()
        self.layer = Layer()
        self.register_buffer("a", self.layer.keys)
        self.register_buffer("b", self.layer.keys)

    def forward(self, x):
        self.a.add_(x)
        y = self.b * 2
        self.b.mul_(0.5)
        self.layer.keys.add_(1)
        return y + self.a


@pytest.mark.parametrize("how", ["not strict", "strict"])
def test_one_tensor_by_several_names(how, tmp_path):
    model = Tied()
    eager = copy.deepcopy(model)
    module, _ = compiled_as(how, model, torch.randn(2, 8, 4))
    assert not module.report.in_torch
    for _ in range(3):
        x = torch.randn(2, 8, 4)
        assert torch.equal(module(x), eager(x))
    assert torch.equal(model.a, eager.a) and model.b is model.layer.keys
    for kind, name in (("exported_program", "m.pt2"), ("ingot", "m.ingot")):
        ingot.save(module, tmp_path / name, format=kind)
    assert torch.equal(ingot.load(tmp_path / "m.pt2")(x), eager(x))


def test_tracing_leaves_tensors_as_they_are():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.n, self.k = torch.zeros(3), torch.zeros(2, 3)

        def forward(self, x):
            self.n[1:].add_(1)
            self.n.mul_(2)
            self.k[0].add_(x)
            return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,)) + self.n + self.k

    model = Counter()
    eager, x = copy.deepcopy(model), torch.ones(3)
    module = ingot.compile(model, inputs=[x])
    assert not model.n.any() and not model.k.any()
    for _ in range(3):
        assert torch.equal(module(x), eager(x)) and torch.equal(model.n, eager.n)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind, window", [("Llama", {}), ("Mistral", {"sliding_window": 4})])
@pytest.mark.one_in(2)
def test_static_cache_of_transformers(kind, window, dynamic):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 50, "head_dim": 8}
    config = getattr(transformers, f"{kind}Config")(**sizes, **window)
    torch.manual_seed(0)
    model, made = transformers.AutoModelForCausalLM.from_config(config).eval(), []

    def backend(graph, examples):
        made.append(ingot_backend(graph, examples))
        return made[-1]

    def ran(call, ids):
        cache, results, at = transformers.StaticCache(config=config, max_cache_len=8), [], 0
        for part in ids.split([3, 1, 1, 1], 1):
            results.append(call(input_ids=part, past_key_values=cache, use_cache=True, cache_position=torch.arange(at, at + part.shape[1])).logits)
            at += part.shape[1]
        return results

    torch._dynamo.reset()
    ids = torch.tensor([[3, 5, 7, 11, 13, 17]])
    with torch.no_grad():
        for y, eager, exact in zip(ran(torch.compile(model, backend=backend, dynamic=dynamic), ids), ran(model, ids), ran(copy.deepcopy(model).double(), ids)):
            assert_accurate(y, eager, exact, depth=64)
    assert made and not [n for m in made for n in m.report.nodes if n["segment"] is None]


class Converted(torch.nn.Module):
    """Writes to what `to` gives for a tensor of that type: the tensor itself, unless a copy is asked for."""

    def __init__(self, convert):
        super().__init__()
        self.convert = convert

    def forward(self, x):
        x = x * 2
        self.convert(x).add_(1)
        return x * 3


CONVERSIONS = {
    "type": lambda x: x.to(torch.float32),
    "device": lambda x: x.to("cpu"),
    "device and type": lambda x: x.to("cpu", torch.float32),
    "options": lambda x: x.to(device="cpu", dtype=torch.float32),
    "a copy": lambda x: x.to(torch.float32, copy=True),
    "another type": lambda x: x.to(torch.float64),
}


def by_command(program, folder):
    """A program in a file, compiled by the command line."""
    torch.export.save(program, folder / "m.pt2")
    subprocess.run([_library.find("ingot"), "compile", folder / "m.pt2", "-o", folder / "m.ingot"], check=True, capture_output=True)
    return ingot.load(folder / "m.ingot")


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_what_is_converted_to_its_own_type_is_the_tensor_itself(convert, tmp_path):
    model, x = Converted(convert), torch.randn(5)
    assert torch.equal(by_command(torch.export.export(model, (x,)), tmp_path)(x), model(x))


@pytest.mark.parametrize("cache", [False, True], ids=["without a cache", "with a static one"])
@pytest.mark.parametrize("name", ["Llama", "Qwen2"])
def test_decoders_of_transformers_by_the_command_line(name, cache, tmp_path):
    transformers = pytest.importorskip("transformers")
    executorch = pytest.importorskip("transformers.integrations.executorch")
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=37, max_position_embeddings=64, use_cache=cache)
    torch.manual_seed(0)
    model = getattr(transformers, name + "ForCausalLM")(getattr(transformers, name + "Config")(**sizes)).eval().requires_grad_(False)
    ids = torch.arange(7)[None]
    if cache:
        model.generation_config = transformers.GenerationConfig(use_cache=True, cache_implementation="static", cache_config={"batch_size": 1, "max_cache_len": 16, "device": "cpu"})
        decoder, calls = executorch.TorchExportableModuleWithStaticCache(model), [{"input_ids": ids[:, i : i + 1], "cache_position": torch.tensor([i])} for i in range(4)]
    else:
        decoder, calls = Logits(model), [{"ids": ids}, {"ids": ids + 3}]
    with torch.no_grad():
        program = torch.export.export(decoder, (), calls[0], strict=False)
        module, eager = by_command(program, tmp_path), program.module()
        for call in calls:
            torch.testing.assert_close(module(**call), eager(**call))


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids, use_cache=False).logits
