"""weight_dtype="int8": weights of matrix products are stored as int8 with a scale for each channel. The error against the float64 product of the decoded weights is within the rule of
tests/accuracy.py for eager with those weights."""

import copy
import sys
from pathlib import Path

import pytest
import torch
import transformers

import ingot

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate  # noqa: E402

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def decoded(weight: torch.Tensor) -> torch.Tensor:
    """[channels, K] as the engine stores it, in float64: q * scale with scale = max |w| / 127 in float32 and q = 127 w / max |w|, rounded half to even."""
    rows = weight.detach().float()
    most = rows.abs().amax(1, keepdim=True)
    q = torch.round(rows * 127 / torch.where(most == 0, 1.0, most)).clamp(-127, 127)
    return q.double() * (most / 127).double()


def replaced(module: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """The module in that dtype, with decoded weights in its linear layers. Tensors tied to a linear layer's weight stay unchanged."""
    out = copy.deepcopy(module)
    for layer in out.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.weight = torch.nn.Parameter(decoded(layer.weight), requires_grad=False)
    return out.to(dtype)


def check(module, inputs, compiled=None, depth=64, **option):
    dtype = next(p.dtype for p in module.parameters() if p.is_floating_point())
    engine = compiled if compiled is not None else ingot.compile(module, inputs=list(inputs), weight_dtype="int8", **option)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    with torch.no_grad():
        assert_accurate(engine(*inputs), replaced(module, dtype)(*inputs), replaced(module, torch.float64)(*wide), depth)
    return engine


def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(96, 130), torch.nn.GELU(), torch.nn.Linear(130, 41, bias=False), torch.nn.Tanh(), torch.nn.Linear(41, 7)).eval().requires_grad_(False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 5, 33, 150])
@pytest.mark.one_in(2)
def test_linear_layers(dtype, rows):
    torch.manual_seed(1)
    check(layers().to(dtype), [torch.randn(rows, 96).to(dtype)], depth=130)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sizes_that_vary(dtype):
    module = layers().to(dtype)
    engine = ingot.compile(module, inputs=[ingot.Input(min_shape=(0, 96), opt_shape=(8, 96), max_shape=(200, 96), dtype=dtype)], weight_dtype="int8")
    for rows in (0, 1, 2, 40, 200):
        check(module, [torch.randn(rows, 96).to(dtype)], engine, depth=130)


def test_the_same_bits_in_any_batch():
    module, x = layers().bfloat16(), torch.randn(150, 96).bfloat16()
    engine = ingot.compile(module, inputs=[ingot.Input(min_shape=(1, 96), opt_shape=(8, 96), max_shape=(150, 96), dtype=torch.bfloat16)], weight_dtype="int8", deterministic="batch")
    whole = engine(x)
    for rows in (1, 2, 3, 32, 33):
        assert torch.equal(engine(x[:rows]), whole[:rows]), rows


def llama(dtype, tied=False):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=112, vocab_size=120, tie_word_embeddings=tied)
    model = transformers.LlamaForCausalLM(config).eval().requires_grad_(False).to(dtype)

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids):
            return self.model(input_ids=ids, use_cache=False).logits

    return Logits()


def bert(dtype):
    torch.manual_seed(0)
    config = transformers.BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=112, vocab_size=120)
    model = transformers.BertModel(config).eval().requires_grad_(False).to(dtype)

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids):
            return self.model(input_ids=ids).last_hidden_state

    return Hidden()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [llama, bert])
@pytest.mark.parametrize("length", [1, 9])
@pytest.mark.one_in(4)
def test_models_of_transformers(make, dtype, length):
    check(make(dtype), [torch.randint(0, 120, (2, length))], depth=1000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tied_embeddings_are_read_as_they_are(dtype):
    check(llama(dtype, tied=True), [torch.randint(0, 120, (1, 5))], depth=1000)


def test_torch_compile():
    module, x = layers(), torch.randn(3, 96)
    check(module, [x], torch.compile(module, backend="ingot", options={"weight_dtype": "int8"}), depth=130)


@pytest.mark.parametrize("format", ["ingot", "exported_program"])
def test_saved_and_loaded(format, tmp_path):
    module, x = layers().bfloat16(), torch.randn(3, 96).bfloat16()
    engine = check(module, [x], depth=130)
    path = tmp_path / ("model.ingot" if format == "ingot" else "model.pt2")
    ingot.save(engine, path, format=format)
    assert torch.equal(ingot.load(path)(x), engine(x))


def test_equal_models_give_equal_plans(tmp_path):
    for name in ("a", "b"):
        ingot.save(ingot.compile(layers(), inputs=[torch.randn(3, 96)], weight_dtype="int8"), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


class Merged(torch.nn.Module):
    """One GEMM with the weights of three layers, one of which is read elsewhere too."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(32, 32, bias=False) for _ in range(3))

    def forward(self, x):
        return torch.nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


@pytest.mark.parametrize("from_file", [False, True])
def test_a_weight_that_changes_is_encoded_anew(from_file, tmp_path):
    torch.manual_seed(0)
    module, x = Merged().eval().requires_grad_(False), torch.randn(2, 5, 32)
    engine = check(copy.deepcopy(module), [x])
    if from_file:
        ingot.save(engine, tmp_path / "model.ingot")
        engine = ingot.load(tmp_path / "model.ingot")
    for name, value in list(module.state_dict().items()):
        changed = value * 1.7 - 0.1
        module.load_state_dict({name: changed}, strict=False)
        engine.update_weights({name: changed}, strict=False)
        check(module, [x], engine)


class Shared(torch.nn.Module):
    """A weight of a product, by its columns and by its rows, that is also added."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(48, 48))

    def forward(self, x):
        return (x @ self.w.T) @ self.w + self.w[0]


def test_a_weight_that_is_read_in_several_ways():
    torch.manual_seed(0)
    module, x = Shared().eval().requires_grad_(False), torch.randn(4, 48)
    columns, rows = decoded(module.w), decoded(module.w.T).T
    exact = (x.double() @ columns.T) @ rows + module.w[0].double()
    eager = (x @ columns.float().T) @ rows.float() + module.w[0]
    assert_accurate(ingot.compile(module, inputs=[x], weight_dtype="int8")(x), eager, exact, depth=96)


class Odd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 3, bias=False)
        self.layer.weight.data[1] = 0

    def forward(self, x):
        return self.layer(x)


def test_channels_of_zeros_nan_and_infinity():
    module, x = Odd().eval().requires_grad_(False), torch.rand(4, 16) + 1
    y = check(module, [x])(x)
    assert torch.equal(y[:, 1], torch.zeros(4))
    for bad in (float("nan"), float("inf"), -float("inf")):
        module.layer.weight.data[2, 3] = bad
        y = ingot.compile(copy.deepcopy(module), inputs=[x], weight_dtype="int8")(x)
        assert y[:, 2].isnan().all() and y[:, :2].isfinite().all()


class Encoded(torch.nn.Module):
    """Weights that a model encoded itself, as torchao does: with the scale on the weight, or after the GEMM."""

    def __init__(self, behind, dtype):
        super().__init__()
        self.behind = behind
        self.register_buffer("q", torch.randint(-127, 128, (40, 64), dtype=torch.int8))
        self.register_buffer("scale", (torch.rand(40) / 100).to(dtype))

    def forward(self, x):
        if self.behind:
            return torch.nn.functional.linear(x, self.q.to(x.dtype)) * self.scale
        return torch.nn.functional.linear(x, self.q.to(x.dtype) * self.scale[:, None])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("behind", [False, True])
def test_weights_that_a_model_encoded_itself(behind, dtype):
    torch.manual_seed(0)
    module = Encoded(behind, dtype).eval()
    for rows in (1, 40):
        x = torch.randn(rows, 64).to(dtype)
        engine = ingot.compile(module, inputs=[x])
        exact = torch.nn.functional.linear(x.double(), module.q.double() * module.scale.double()[:, None])
        assert_accurate(engine(x), module(x), exact, depth=64)
        # Prepare makes no floats of them: numbers, and at most the scales.
        sizes = [d["bytes"] for d in engine.engine.inspect()["targets"][0]["derived"]]
        assert sum(sizes) <= (40 + 32) * 64 + 4096 + 40 * 4, sizes


def test_convolutions_by_windows_stay_as_they_are():
    torch.manual_seed(0)
    module, x = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, stride=2)).eval().requires_grad_(False), torch.randn(1, 3, 12, 12)
    assert torch.equal(ingot.compile(module, inputs=[x], weight_dtype="int8")(x), ingot.compile(module, inputs=[x])(x))


def test_convolutions_of_one_pixel():
    torch.manual_seed(0)
    module, x = torch.nn.Conv2d(64, 96, 1).eval().requires_grad_(False), torch.randn(2, 64, 5, 5)
    rounded = copy.deepcopy(module)
    rounded.weight.copy_(decoded(module.weight.flatten(1)).reshape(module.weight.shape))
    engine = ingot.compile(module, inputs=[x], weight_dtype="int8", min_block_size=1)
    assert_accurate(engine(x), rounded(x), rounded.double()(x.double()), depth=64)
    sizes = [d["bytes"] for d in engine.engine.inspect()["targets"][0]["derived"]]
    assert sum(sizes) < 96 * 64 + 4096 + 96 * 4 + 1024, sizes  # int8, packed, and scales


@pytest.mark.parametrize("dtype", DTYPES)
def test_verified_step_by_step(dtype):
    ids = torch.randint(0, 120, (1, 6))
    assert ingot.compile(llama(dtype), inputs=[ids], weight_dtype="int8").verify(ids).first is None


def test_the_reference_computes_the_same(tmp_path):
    module, x = layers(), torch.randn(3, 96)
    engine = ingot.compile(module, inputs=[x], weight_dtype="int8", target="reference")
    ingot.save(engine, tmp_path / "model.ingot")
    check(module, [x], ingot.load(tmp_path / "model.ingot", device="reference"), depth=130)


def test_values_of_the_option():
    with pytest.raises(ingot.OptionError, match='option weight_dtype is "int3"; "none", "int8" or "int4" is needed'):
        ingot.compile(layers(), inputs=[torch.randn(3, 96)], weight_dtype="int3")
