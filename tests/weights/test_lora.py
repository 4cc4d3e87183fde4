"""`Module.add_lora`: adapters in every kind of module, from tensors and from other projects' files."""

import concurrent.futures
import copy
import gc
import json
import time

import pytest
import torch

import ingot

safetensors = pytest.importorskip("safetensors.torch")


class Block(torch.nn.Module):
    """Queries, keys and values that are merged; a convolution; a table that is tied to a head."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(16, 16) for _ in range(3))
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3, groups=1), torch.nn.LayerNorm(16)
        self.embed, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(16, 12, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids, image):
        x = self.norm(self.embed(ids))
        x = torch.nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))
        return self.head(x), self.conv(image)


CALL = torch.arange(6)[None], torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
TARGETS = ("q.weight", "conv.weight"), ("q.weight", "v.weight", "embed.weight")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Block().eval().requires_grad_(False)


def lora(model, names, seed, rank=3):
    g, made = torch.Generator().manual_seed(seed), {}
    for name in names:
        w = model.get_parameter(name)
        made[name] = (torch.randn(rank, *w.shape[1:], generator=g) * 0.2, torch.randn(w.shape[0], rank, *[1] * (w.dim() - 2), generator=g) * 0.2, 0.7)
    return made


def eager(model, *adapters):
    made = copy.deepcopy(model)
    for name, (a, b, scale) in (pair for adapter in adapters for pair in adapter.items()):
        w = made.get_parameter(name)
        w.add_((scale * b.flatten(1) @ a.flatten(1)).view(w.shape))
    return made(*CALL)


def check(module, expected):
    for given, wanted in zip(module(*CALL), expected):
        torch.testing.assert_close(given, wanted, atol=1e-4, rtol=1e-4)


def compiled(model, **options):
    return ingot.compile(model, inputs=list(CALL), min_block_size=1, **options)


def reloaded(module, path, **options):
    ingot.save(module, path, **options)
    return ingot.load(path)


KINDS = {
    "compiled": lambda model, path: compiled(model),
    "with torch": lambda model, path: compiled(model, torch_executed_ops=["aten.conv2d", "aten.embedding"]),
    "loaded": lambda model, path: reloaded(compiled(model), path / "m.ingot"),
    "saved program": lambda model, path: reloaded(compiled(model), path / "m.pt2", format="exported_program"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_adapters_together_alone_and_away(kind, model, tmp_path):
    module, before = KINDS[kind](model, tmp_path), copy.deepcopy(model.state_dict())
    a, b = lora(model, TARGETS[0], 1), lora(model, TARGETS[1], 2)
    check(module, eager(model))
    module.add_lora("a", a)
    check(module, eager(model, a))
    module.add_lora("b", b)
    check(module, eager(model, a, b))
    for names, adapters in [(("b",), [b]), ((), []), (("a",), [a]), (("b", "a"), [a, b])]:
        module.use_lora(*names)
        check(module, eager(model, *adapters))
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    module.remove_lora("a")
    check(module, eager(model, b))
    for format in ("ingot", "exported_program"):
        try:
            check(reloaded(module, tmp_path / f"{format}.pt2", format=format), eager(model, b))
        except ingot.UnsupportedError:
            assert kind in ("with torch", "loaded", "saved program")
    module.remove_lora("b")
    check(module, eager(model))
    with pytest.raises(ingot.InputError, match="no adapter 'b'"):
        module.use_lora("b")


@pytest.mark.parametrize("kind", ["compiled", "with torch", "loaded"])
def test_the_models_weights_are_followed_below(kind, model, tmp_path):
    module, a = KINDS[kind](model, tmp_path), lora(model, TARGETS[0], 1)
    module.add_lora("a", a)
    module.use_lora()
    model.q.weight.mul_(0.5)  # with the adapter and without
    model.k.bias.add_(1)
    model.conv.weight.add_(0.1)
    if kind == "loaded":
        module.update_weights(model.state_dict())
    check(module, eager(model))
    module.use_lora("a")
    check(module, eager(model, a))
    with torch.no_grad():
        value = torch.randn(16, 16)
        module.update_weights({"q.weight": value})
        model.load_state_dict({"q.weight": value}, strict=False)
    check(module, eager(model, a))


def test_half_is_rounded_once(model):
    torch.manual_seed(0)
    linear = torch.nn.Linear(64, 64, bias=False).bfloat16().requires_grad_(False)
    module = ingot.compile(linear, inputs=[torch.zeros(64, 64, dtype=torch.bfloat16)], min_block_size=1)
    total = linear.weight.float()
    for name in "abc":
        down, up = torch.randn(4, 64).half() * 0.1, torch.randn(64, 4) * 0.1
        module.add_lora(name, {"weight": (down, up, 0.3)}, scale=2)
        total = total + 0.6 * (up @ down.float())
    got = module(torch.eye(64, dtype=torch.bfloat16)).t()
    assert (got != total.bfloat16()).sum() <= 2  # the order of a sum may decide a tie
    assert not torch.equal(got, linear.weight)


def test_what_it_costs(model):
    module, a = compiled(model), lora(model, TARGETS[0], 1)
    module.add_lora("a", a)
    module(*CALL)
    kept = module._kind.adapters._sets[("a",)]
    module.use_lora()
    module.use_lora("a")
    assert module._kind.adapters._sets[("a",)] is kept  # not merged anew
    for name in "bcdefg":
        module.add_lora(name, a)
    assert len(module._kind.adapters._sets) == 4
    for name in "abcdefg":
        module.remove_lora(name)
    module(*CALL)
    del kept
    gc.collect()
    assert not module.engine.forks and not module._kind.adapters._sets


@pytest.mark.parametrize("kind", ["compiled", "with torch"])
def test_a_run_has_one_choice(kind):
    """Both layers have the adapter or neither: a call beside a change gives one of two results."""

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)

        def forward(self, x):
            return self.b(torch.erfinv(self.a(x)))

    net, x = Two().eval().requires_grad_(False), torch.eye(8)
    net.a.weight.copy_(torch.eye(8) * 0.5), net.b.weight.copy_(torch.eye(8))
    module = ingot.compile(net, inputs=[x], min_block_size=1, **({"torch_executed_ops": ["aten.erfinv"]} if kind == "with torch" else {}))
    low = torch.eye(8)
    module.add_lora("a", {"a.weight": (low, low, 0.25), "b.weight": (low, low, 1.0)})
    allowed = [module(x).clone()]
    module.use_lora()
    allowed.append(module(x).clone())
    assert not torch.equal(*allowed)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        running = [pool.submit(lambda: [module(x) for _ in range(100)]) for _ in range(3)]
        while not all(r.done() for r in running):
            module.use_lora("a")
            module.use_lora()
            time.sleep(0.001)
        found = {next((i for i, wanted in enumerate(allowed) if torch.equal(made, wanted)), None) for r in running for made in r.result()}
    assert found <= {0, 1}


def state(model, names, form, seed=3):
    """The same adapter as tensors by weight, and under the names of PEFT, diffusers or kohya."""
    direct, tensors = lora(model, names, seed), {}
    for name, (a, b, _) in direct.items():
        module = name.removesuffix(".weight")
        prefix, ends = {
            "peft": ("base_model.model.", (".lora_A.weight", ".lora_B.weight")),
            "peft in memory": ("base_model.model.", (".lora_A.default.weight", ".lora_B.default.weight")),
            "diffusers": ("unet.", (".lora.down.weight", ".lora.up.weight")),
            "diffusers, newer": ("unet.", (".lora_A.weight", ".lora_B.weight")),
            "kohya": ("lora_unet_", (".lora_down.weight", ".lora_up.weight")),
        }[form]
        key = prefix + (module.replace(".", "_") if form == "kohya" else module)
        tensors[key + ends[0]], tensors[key + ends[1]] = a, b
        if form == "kohya":
            tensors[key + ".alpha"] = torch.tensor(6.0)
    scale = {"peft": 4 / 3, "peft in memory": 4 / 3, "kohya": 2.0}.get(form, 1.0)
    return {name: (a, b, scale) for name, (a, b, _) in direct.items()}, tensors


@pytest.mark.parametrize("form", ["peft", "peft in memory", "diffusers", "diffusers, newer", "kohya"])
def test_names_of_others(form, model, tmp_path):
    module, config = compiled(model), {"peft_type": "LORA", "r": 3, "lora_alpha": 4}
    direct, tensors = state(model, TARGETS[0], form)
    expected = eager(model, direct)
    module.add_lora("tensors", tensors, config=config if "peft" in form else None)
    check(module, expected)
    module.remove_lora("tensors")
    safetensors.save_file(tensors, tmp_path / "adapter_model.safetensors")
    if "peft" in form:
        with pytest.raises(ingot.InputError, match="alpha"):
            module.add_lora("file", tmp_path / "adapter_model.safetensors")
        (tmp_path / "adapter_config.json").write_text(json.dumps(config))
        module.add_lora("folder", tmp_path)
        check(module, expected)
        module.remove_lora("folder")
    module.add_lora("file", tmp_path / "adapter_model.safetensors", scale=0.5)
    check(module, eager(model, {n: (a, b, s / 2) for n, (a, b, s) in direct.items()}))


def test_configurations(model):
    module, (direct, tensors) = compiled(model), state(model, TARGETS[0], "peft")
    base = {"peft_type": "LORA", "lora_alpha": 3}
    for config, scales in [({"use_rslora": True}, (3**0.5,) * 2), ({"alpha_pattern": {"q": 6}}, (2.0, 1.0))]:
        module.add_lora("a", tensors, config={**base, **config})
        check(module, eager(model, {n: (a, b, s) for (n, (a, b, _)), s in zip(direct.items(), scales)}))
        module.remove_lora("a")
    for config, error, text in [
        ({"use_dora": True}, ingot.UnsupportedError, "DoRA"),
        ({"peft_type": "LOHA"}, ingot.UnsupportedError, "LOHA"),
        ({"alpha_pattern": {"^q$": 6}}, ingot.UnsupportedError, "regular expression"),
        ({"lora_alpha": "many"}, ingot.FormatError, "lora_alpha"),
    ]:
        with pytest.raises(error, match=text):
            module.add_lora("a", tensors, config={**base, **config})
    other = {"text_encoder.layer.lora.down.weight": torch.zeros(1, 4), "text_encoder.layer.lora.up.weight": torch.zeros(4, 1)}
    module.add_lora("a", {**state(model, TARGETS[0], "diffusers")[1], **other})  # a pipeline's: the other component is left out
    check(module, eager(model, {n: (a, b, 1.0) for n, (a, b, _) in direct.items()}))


A, B = torch.zeros(2, 16), torch.zeros(16, 2)
WRONG = {
    "unknown": ({"q.wieght": (A, B, 1)}, "no weight 'q.wieght'.*did you mean 'q.weight'"),
    "shape": ({"q.weight": (A[:, :5], B, 1)}, r"do not have the shape of weight 'q.weight', which is float32 \[16, 16\].*rank r A has r rows and 16 columns"),
    "rank": ({"q.weight": (A, B[:, :1], 1)}, "do not have the shape"),
    "integers": ({"q.weight": (A.int(), B, 1)}, "A of weight 'q.weight' is int32"),
    "bias": ({"q.bias": (A, B, 1)}, "no product of matrices"),
    "scale": ({"q.weight": (A, B, float("nan"))}, "no finite number"),
    "scale of no float32": ({"q.weight": (A, B, 1e300)}, "no finite number of float32"),
    "no triple": ({"q.weight": (A, B)}, r"not \(A, B, scale\)"),
    "nothing": ({}, "empty"),
    "a number": (3, "an adapter is int"),
    "mixed": ({"q.lora_A.weight": A, "q.lora_B.weight": 3}, "not a tensor by name"),
    "half a pair": ({"unet.q.lora_A.weight": A}, "without its other matrix"),
    "no module": ({"unet.w.lora_A.weight": A, "unet.w.lora_B.weight": B}, "module .*w.* that the model has not"),
    "one too many": ({"q.lora_A.weight": A, "q.lora_B.weight": B, "q.lora_A.a.weight": A}, "one matrix of one module"),
    "meta": ({"q.weight": (A.to("meta"), B, 1)}, "A of weight 'q.weight'"),
}


@pytest.mark.parametrize("config", [{"alpha_pattern": [1]}, {"fan_in_fan_out": "yes"}, {"lora_alpha": "y"}])
def test_a_configuration_that_is_wrong(config, model):
    module, state = SHARED.setdefault("module", compiled(model)), {"q.lora_A.weight": A, "q.lora_B.weight": B}
    with pytest.raises(ingot.FormatError, match=next(iter(config))):
        module.add_lora("a", state, config={"lora_alpha": 1, **config})


def test_names_and_scales_of_other_types(model):
    module = SHARED.setdefault("module", compiled(model))
    with pytest.raises(ingot.InputError, match="no adapter \\['a'\\]"):
        module.use_lora(["a"])
    with pytest.raises(ingot.InputError, match="'x', and has to be a number"):
        module.add_lora("a", {"q.weight": (A, B, 1)}, scale="x")


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_refused_changes_nothing(wrong, model):
    module, (adapter, text) = SHARED.setdefault("module", compiled(model)), WRONG[wrong]
    expected = [t.clone() for t in module(*CALL)]
    with pytest.raises(ingot.InputError, match=f"(?s){text}"):
        module.add_lora("a", adapter)
    check(module, expected)
    with pytest.raises(ingot.InputError, match="no adapter"):
        module.remove_lora("a")


SHARED: dict = {}


def test_where_there_is_no_engine(model):
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(4, 4))

        def forward(self, x):
            return torch.linalg.eigvalsh(x + self.w)

    module = ingot.compile(Odd().eval(), inputs=[torch.eye(4)])
    try:
        module.add_lora("a", {"w": (torch.ones(1, 4), torch.ones(4, 1), 1.0)})
    except ingot.UnsupportedError as problem:
        assert "merge the adapter" in problem.remedy
    else:
        torch.testing.assert_close(module(torch.eye(4)), torch.linalg.eigvalsh(torch.eye(4) + 2))
    with pytest.raises(ingot.FormatError, match="not a safetensors file"):
        compiled(model).add_lora("a", __file__)
    with pytest.raises(ingot.IoError, match="nowhere"):
        compiled(model).add_lora("a", "/nowhere.safetensors")


def as_on_a_gpu(lows, dtype):
    """What a GPU multiplies, here for the CPU's product."""
    from ingot.module.adapters import Factors, _in_type

    return [Factors(*(m[0] for m in _in_type(low.scale * low.up[None], low.down[None], dtype))) for low in lows]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1e-4, 1.0, 40.0])
def test_one_product_in_the_type_of_the_weight(dtype, size):
    """It is as exact as the sum in float32."""
    from ingot.module.adapters import LowRank, merged

    g = torch.Generator().manual_seed(1)
    base = torch.randn(48, 64, generator=g).to(dtype)
    parts = [LowRank(torch.randn(r, 64, generator=g) * size, torch.randn(48, r, generator=g) / size, scale) for r, scale in ((4, 0.5), (3, -1.25))]
    exact = base.double() + sum(scale * (up.double() @ down.double()) for down, up, scale in parts)
    made = merged(base, as_on_a_gpu(parts, dtype))
    assert made.dtype is dtype and made.shape == base.shape
    rounding = torch.finfo(dtype).eps / 2 * exact.abs()
    assert ((made.double() - exact).abs() <= rounding + 2**-16 * 30).all() and ((made.double() - exact).abs() <= 1.01 * rounding + 2**-18).double().mean() > 0.9
    torch.testing.assert_close(merged(base, as_on_a_gpu([LowRank(p.down, torch.zeros_like(p.up), p.scale) for p in parts], dtype)), base)


def test_one_product_of_a_convolution_weight():
    from ingot.module.adapters import LowRank, merged

    for base in (torch.randn(8, 3, 3, 3), torch.randn(8, 3, 3, 3).to(memory_format=torch.channels_last)):
        down, up = torch.randn(2, 27), torch.randn(8, 2)
        torch.testing.assert_close(merged(base, as_on_a_gpu([LowRank(down, up, 2.0)], torch.float32)), base + 2 * (up @ down).view(8, 3, 3, 3))


def test_factors_of_equal_shape_are_made_together():
    from ingot.module.adapters import LowRank, factors_of, merged

    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        lows = [LowRank(torch.randn(2, 6).half(), torch.randn(5, 2), scale) for scale in (0.5, -2.0, 3.0)]
        base = torch.randn(5, 6).to(dtype)
        for low, factors in zip(lows, factors_of(lows, dtype, torch.device("cpu"))):
            exact = base.double() + low.scale * (low.up.double() @ low.down.double())
            low.up.zero_()  # the factors are copies
            torch.testing.assert_close(merged(base, [factors]), exact.to(dtype), atol=1e-5, rtol=2 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_autocast_does_not_change_the_sum(dtype):
    from ingot.module.adapters import LowRank, factors_of, merged

    base, lows = torch.randn(5, 6).to(dtype), [LowRank(torch.randn(2, 6), torch.randn(5, 2), 1.0) for _ in range(2)]

    def made():
        return merged(base, factors_of(lows, dtype, base.device))

    plain = made()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(made(), plain)


def test_what_a_gpu_is_asked_for(monkeypatch):
    """One call for weights of equal shape, with the addresses of their matrices. Here a function with memory of the host answers it."""
    import ctypes
    from types import SimpleNamespace

    from ingot.engine import _values
    from ingot.module import adapters

    asked = []

    def add_products(pointer, dtype, sizes, memory, count, stream):
        (m, n, k), dtype = sizes, getattr(torch, _values._DTYPES[dtype])
        asked.append((m, n, k, count))
        for group in range(count):
            up, down, base, to = (
                torch.frombuffer((ctypes.c_uint8 * (rows * columns * dtype.itemsize)).from_address(memory[4 * group + i]), dtype=dtype).view(rows, columns)
                for i, (rows, columns) in enumerate(((m, k), (k, n), (m, n), (m, n)))
            )
            to.copy_(base.double() + up.double() @ down.double())
        return 0

    monkeypatch.setattr(adapters, "lib", lambda: SimpleNamespace(ingot_weights_add_products=add_products))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=None))
    bases = {name: torch.randn(shape) for name, shape in (("a", (8, 6)), ("b", (5, 2, 3, 1)), ("c", (8, 6)), ("d", (8, 6)))}
    bases["c"] = bases["c"].t().contiguous().t()
    bases["d"] = bases["d"].half()
    lows = {name: [adapters.LowRank(torch.randn(2, base[0].numel()), torch.randn(base.shape[0], 2), scale) for scale in (0.5, 2.0)] for name, base in bases.items()}
    parts = {name: adapters.factors_of(lows[name], torch.float32, torch.device("cpu")) if name == "d" else as_on_a_gpu(lows[name], bases[name].dtype) for name in bases}
    made = adapters.merged_by_library(None, torch.device("cpu"), bases, bases.get, parts)
    assert asked == [(8, 6, 16, 2), (5, 6, 16, 1)]
    for name, base in bases.items():
        exact = base + sum(low.scale * (low.up @ low.down) for low in lows[name]).view(base.shape)
        torch.testing.assert_close(made[name], exact.to(base.dtype), atol=1e-2 if name == "d" else 1e-5, rtol=1e-3)
