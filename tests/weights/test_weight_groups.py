"""Weights of 4 bits in groups: made by weight_dtype="int4", or by the model itself. The error against the float64 product of the decoded weights is within the rule of tests/accuracy.py for
eager with those weights."""

import copy
import sys
from pathlib import Path

import pytest
import torch

import ingot

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate  # noqa: E402

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def decoded(weight: torch.Tensor, group: int) -> torch.Tensor:
    """[channels, K] as the engine stores it, in float64: q * scale with scale = (the number of greatest magnitude) / -8 as bfloat16, and q = w / scale, rounded half to even, in -8 .. 7."""
    rows = weight.detach().float()
    if rows.shape[1] % group:
        return rows.double()
    w = rows.unflatten(1, (-1, group))
    top, bottom = w.amax(2, keepdim=True), w.amin(2, keepdim=True)
    scale = (torch.where(top > -bottom, top, bottom) / -8).bfloat16().float()
    q = torch.round(w / torch.where(scale == 0, 1.0, scale)).clamp(-8, 7)
    return (q.double() * scale.double()).flatten(1)


def replaced(module: torch.nn.Module, dtype: torch.dtype, group: int) -> torch.nn.Module:
    """The module with decoded weights in its linear layers, computed in that dtype."""
    out = copy.deepcopy(module).to(dtype)
    for layer, original in zip(out.modules(), module.modules()):
        if isinstance(layer, torch.nn.Linear):
            layer.weight = torch.nn.Parameter(decoded(original.weight, group).to(dtype), requires_grad=False)
    return out


def check(module, x, compiled=None, group=32, depth=256, **option):
    dtype = x.dtype
    engine = compiled if compiled is not None else ingot.compile(module, inputs=[x], weight_dtype="int4", weight_group=group, **option)
    with torch.no_grad():
        assert_accurate(engine(x), replaced(module, dtype, group)(x), replaced(module, torch.float64, group)(x.double()), depth)
    return engine


def layers(width=128):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(width, 160), torch.nn.GELU(), torch.nn.Linear(160, 41, bias=False), torch.nn.Tanh(), torch.nn.Linear(41, 7)).eval().requires_grad_(False)


def packings(compiled) -> list[str]:
    return [step["kernel"] for step in compiled.engine.inspect()["targets"][0]["prepare"]["steps"] if step["kernel"].startswith("matmul_pack")]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", [32, 64, 128])
def test_linear_layers(dtype, group):
    module = layers(256).to(dtype)
    module[0].weight[3, :group] = 0
    module[0].weight[5] *= 1e-3
    for rows in (1, 2, 5, 9, 70):
        check(module, torch.randn(rows, 256).to(dtype), group=group)


def test_the_memory_of_a_weight():
    module = torch.nn.Linear(1024, 512, bias=False).requires_grad_(False)
    engine = check(module, torch.randn(1, 1024), depth=1024)
    sizes = [d["bytes"] for d in engine.engine.inspect()["targets"][0]["derived"]]
    assert sizes == [512 * 1024 // 2 + 512 * 1024 // 32 * 2 + 4096], sizes  # 4 bits each, and a scale of two bytes for 32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sizes_that_vary(dtype):
    module = layers().to(dtype)
    engine = ingot.compile(module, inputs=[ingot.Input(min_shape=(0, 128), opt_shape=(8, 128), max_shape=(200, 128), dtype=dtype)], weight_dtype="int4")
    for rows in (0, 1, 2, 6, 7, 40, 200):
        check(module, torch.randn(rows, 128).to(dtype), engine)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_same_bits_in_any_batch(dtype):
    module, x = layers().to(dtype), torch.randn(150, 128).to(dtype)
    engine = ingot.compile(module, inputs=[ingot.Input(min_shape=(1, 128), opt_shape=(8, 128), max_shape=(150, 128), dtype=dtype)], weight_dtype="int4", deterministic="batch")
    whole = engine(x)
    for rows in (1, 2, 3, 6, 7, 32, 33):
        assert torch.equal(engine(x[:rows]), whole[:rows]), rows


def test_torch_compile():
    module, x = layers(), torch.randn(3, 128)
    check(module, x, torch.compile(module, backend="ingot", options={"weight_dtype": "int4"}))


@pytest.mark.parametrize("format", ["ingot", "exported_program"])
def test_saved_and_loaded(format, tmp_path):
    module, x = layers().bfloat16(), torch.randn(3, 128).bfloat16()
    engine = check(module, x)
    path = tmp_path / ("model.ingot" if format == "ingot" else "model.pt2")
    ingot.save(engine, path, format=format)
    assert torch.equal(ingot.load(path)(x), engine(x))


def test_a_changed_weight_is_encoded_again():
    module, x = layers(), torch.randn(3, 128)
    engine = check(module, x)
    module[0].weight.mul_(1.5)
    check(module, x, engine)


@pytest.mark.parametrize("dtype", DTYPES)
def test_verified_step_by_step(dtype):
    module, x = layers().to(dtype), torch.randn(3, 128).to(dtype)
    assert ingot.compile(module, inputs=[x], weight_dtype="int4").verify(x).first is None


def test_the_reference_computes_the_same(tmp_path):
    module, x = layers(), torch.randn(3, 128)
    ingot.save(ingot.compile(module, inputs=[x], weight_dtype="int4", target="reference"), tmp_path / "model.ingot")
    check(module, x, ingot.load(tmp_path / "model.ingot", device="reference"))


def test_values_of_the_options():
    x = torch.randn(3, 128)
    with pytest.raises(ingot.OptionError, match='option weight_group is "48"; 32, 64 or 128 is needed'):
        ingot.compile(layers(), inputs=[x], weight_dtype="int4", weight_group=48)


def bytes_of(compiled, target=0) -> list[int]:
    """Bytes of packed weights."""
    return [d["bytes"] for d in compiled.engine.inspect()["targets"][target]["derived"] if d["name"].startswith("packed")]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_plan_for_a_gpu_holds_weights_in_groups(dtype):
    # Without a GPU: what prepare makes, and that NVRTC compiles it.
    engine = ingot.compile(torch.nn.Linear(256, 72, bias=False).to(dtype), inputs=[torch.randn(3, 256).to(dtype)], weight_dtype="int4", weight_group=64, target="cuda:sm_90")
    assert bytes_of(engine) == [80 * 256 // 2 + 80 * 256 // 64 * 2]  # panels of 16 columns; a scale of two bytes for 64


class Grouped(torch.nn.Module):
    """A layer with weights in groups, as torchao's exported graphs compute it."""

    def __init__(self, dtype, zeros, group=32, columns=40, depth=256):
        super().__init__()
        made = torch.Generator().manual_seed(3)
        self.register_buffer("q", torch.randint(-8, 8, (columns, depth), generator=made, dtype=torch.int8))
        self.register_buffer("scale", (torch.rand(columns, depth // group, generator=made) * 0.1 + 0.01).to(dtype))
        self.register_buffer("zero", torch.randint(-8, 8, (columns, depth // group), generator=made, dtype=torch.int8) if zeros else None)
        self.group, self.dtype = group, dtype

    def weight(self, dtype):
        w = self.q.clamp(-8, 7).unflatten(1, (-1, self.group)).to(dtype)
        if self.zero is not None:
            w = w - self.zero[:, :, None].to(dtype)
        return (w * self.scale[:, :, None].to(dtype)).flatten(1)

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight(self.dtype))


class OfBytes(torch.nn.Module):
    """Weights of 8 bits without sign: a form that no kernel reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bytes", torch.randint(0, 256, (40, 64), dtype=torch.uint8))

    def forward(self, x):
        return torch.nn.functional.linear(x, (self.bytes.to(x.dtype) - 128) * 0.01)


def test_weights_that_become_floats_are_named(caplog):
    x, module = torch.randn(3, 64), OfBytes()
    with caplog.at_level("INFO", "ingot"):
        engine = ingot.compile(module, inputs=[x])
    assert 'weights of integers become floats when the model is loaded for cpu, as no kernel there reads their form: "bytes"' in caplog.text
    assert_accurate(engine(x), module(x), module(x.double()), depth=64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("group", [32, 128])
def test_weights_that_a_model_encoded_itself(dtype, zeros, group):
    module = Grouped(dtype, zeros, group)
    for rows in (1, 3, 40):
        x = torch.randn(rows, 256).to(dtype)
        engine = ingot.compile(module, inputs=[x])
        assert_accurate(engine(x), module(x), torch.nn.functional.linear(x.double(), module.weight(torch.float64)), depth=256)
        assert packings(engine) == ["matmul_pack_groups"]
    engine = ingot.compile(module, inputs=[x], target="cuda:sm_90")
    of_group = (2 if dtype == torch.bfloat16 else 4) + zeros
    assert bytes_of(engine) == [48 * 256 // 2 + 48 * 256 // group * of_group]


class Held(torch.Tensor):
    """A weight that holds numbers and scales, and computes with them: what torchao's weights are."""

    @staticmethod
    def __new__(cls, q, scale):
        return torch.Tensor._make_wrapper_subclass(cls, q.shape, dtype=scale.dtype, device=q.device)

    def __init__(self, q, scale):
        self.q, self.scale = q, scale

    def __tensor_flatten__(self):
        return ["q", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inside, context, size, stride):
        return Held(inside["q"], inside["scale"])

    def plain(self):
        return (self.q.to(self.scale.dtype).unflatten(1, (self.scale.shape[1], -1)) * self.scale[:, :, None]).flatten(1)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.linear:
            return function(args[0], args[1].plain(), *args[2:], **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return Held(args[0].q, args[0].scale)
        raise NotImplementedError(f"{function} of a held weight")


def held(columns=24, depth=64):
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(depth, columns), torch.nn.Tanh(), torch.nn.Linear(columns, 5)).eval().requires_grad_(False)
    q, scale = torch.randint(-8, 8, (columns, depth), dtype=torch.int8), torch.rand(columns, depth // 32) * 0.1
    module[0].weight = torch.nn.Parameter(Held(q, scale), requires_grad=False)
    return module


@pytest.mark.parametrize("way", ["compile", "program", "torch.compile"])
def test_weights_that_are_tensor_subclasses(way, tmp_path):
    module, x = held(), torch.randn(3, 64)
    plain = held()
    plain[0].weight = torch.nn.Parameter(module[0].weight.plain(), requires_grad=False)
    if way == "torch.compile":
        compiled = torch.compile(module, backend="ingot", options={"fallback": "error"})
    else:
        compiled = ingot.compile(module if way == "compile" else torch.export.export(module, (x,), strict=False), inputs=[x], fallback="error")
        assert compiled.report.whole
        ingot.save(compiled, tmp_path / "model.ingot")
        assert torch.equal(ingot.load(tmp_path / "model.ingot")(x), compiled(x))
    with torch.no_grad():
        assert_accurate(compiled(x), plain(x), copy.deepcopy(plain).double()(x.double()), depth=64)
        if way == "torch.compile":  # a change inside is seen
            module[0].weight.scale.mul_(2)
            assert not torch.allclose(compiled(x), plain(x))
            plain[0].weight = torch.nn.Parameter(module[0].weight.plain(), requires_grad=False)
            assert_accurate(compiled(x), plain(x), copy.deepcopy(plain).double()(x.double()), depth=64)


# ---- the real package, where it is installed


def quantised(config, dtype):
    torchao = pytest.importorskip("torchao.quantization")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(128, 96), torch.nn.ReLU(), torch.nn.Linear(96, 64)).eval().requires_grad_(False).to(dtype)
    made = {
        "int8": lambda: torchao.Int8WeightOnlyConfig(),
        "int4": lambda: torchao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=torchao.PerGroup(32)),
        "int8 activations": lambda: torchao.Int8DynamicActivationInt8WeightConfig(),
    }[config]()
    module = module[:1] if config == "int8 activations" else module
    torchao.quantize_(module, made)
    return module


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("config", ["int8", "int4", "int8 activations"])
@pytest.mark.parametrize("way", ["compile", "program", "torch.compile"])
def test_torchao(way, config, dtype):
    module = quantised(config, dtype)
    x = torch.randn(3, 128).to(dtype)
    if way == "torch.compile":
        torch._dynamo.reset()
        compiled = torch.compile(module, backend="ingot", options={"fallback": "error"})
    else:
        compiled = ingot.compile(module if way == "compile" else torch.export.export(module, (x,), strict=False), inputs=[x], fallback="error")
        if config == "int4":
            assert packings(compiled) == ["matmul_pack_groups"] * 2
    with torch.no_grad():
        eager, found = module(x), compiled(x)
        plain = torch.nn.Sequential(torch.nn.Linear(128, 96), torch.nn.ReLU(), torch.nn.Linear(96, 64)).double()
        if config == "int8 activations":  # one layer: what rounds the activations of a second one may differ in the last bit before it
            scale, zero = torch.ops.torchao.choose_qparams_affine(x, "SYMMETRIC", [1, 128], torch.int8, -128, 127, 1.1920928955078125e-07, torch.float32, torch.int8, True)
            x = torch.ops.torchao.quantize_affine(x, [1, 128], scale, zero, torch.int8, -128, 127).double() * scale.double()
        for i in range(0, len(module), 2):
            weight = module[i].weight
            scale = weight.scale.double().repeat_interleave(weight.shape[1] // weight.scale.shape[1], 1)
            plain[i].weight.data.copy_(weight.qdata.double() * scale)
            plain[i].bias.data.copy_(module[i].bias.double())
        assert_accurate(found, eager, plain[: len(module)](x.double()), depth=128)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", ["compile", "program"])
def test_torchao_for_a_gpu(way, dtype, tmp_path):
    module, x = quantised("int4", dtype), torch.randn(3, 128).to(dtype)
    compiled = ingot.compile(module if way == "compile" else torch.export.export(module, (x,), strict=False), inputs=[x], fallback="error", target="cuda:sm_90")
    of_group = (2 if dtype == torch.bfloat16 else 4) + 1  # a scale, and the zero that torchao keeps
    assert bytes_of(compiled) == [96 * 128 // 2 + 96 * 128 // 32 * of_group, 64 * 128 // 2 + 64 * 128 // 32 * of_group]  # 96 of K are a chunk of 128
    ingot.save(compiled, tmp_path / "model.ingot")
