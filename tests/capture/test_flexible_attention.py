"""flex_attention: functions of scores and masks, with tensors of the model in them, by every way in, in one engine."""

import sys
from pathlib import Path

import pytest
import torch
import transformers
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot

LENGTH = 64


class Attention(torch.nn.Module):
    def __init__(self, score=None, mask=None, **options):
        super().__init__()
        torch.manual_seed(0)
        self.bias = torch.nn.Parameter(torch.randn(4, LENGTH, LENGTH))
        self.register_buffer("documents", torch.arange(LENGTH).remainder(3).sort().values)
        self.score, self.mask, self.options = score, mask, options

    def forward(self, q, k, v):
        mask = None if self.mask is None else create_block_mask(lambda b, h, i, j: self.mask(self, b, h, i, j), None, None, q.shape[2], k.shape[2], device=q.device)
        score = None if self.score is None else lambda score, b, h, i, j: self.score(self, score, b, h, i, j)
        return flex_attention(q, k, v, score_mod=score, block_mask=mask, **self.options)


FORMS = {
    "plain": {},
    "scale": {"scale": 0.3},
    "distance": {"score": lambda self, score, b, h, q, k: score - 0.1 * (q - k).abs() * (h + 1)},
    "soft cap": {"score": lambda self, score, b, h, q, k: 20 * torch.tanh(score / 20)},
    "a bias": {"score": lambda self, score, b, h, q, k: score + self.bias[h, q, k]},
    "causal": {"mask": lambda self, b, h, q, k: q >= k},
    "documents": {"mask": lambda self, b, h, q, k: self.documents[q] == self.documents[k]},
    "window, and rows without a key": {"mask": lambda self, b, h, q, k: (q - k < 8) & (q >= k) & (q != 5)},
    "both": {"score": lambda self, score, b, h, q, k: score + self.bias[h, q, k], "mask": lambda self, b, h, q, k: q >= k},
}


def by_program(model, inputs):
    return ingot.compile(torch.export.export(model, inputs, strict=False))


def ahead(model, inputs):
    return ingot.compile(model, inputs=list(inputs))


def just_in_time(model, inputs):
    left = []
    torch._dynamo.reset()
    torch.compile(model, backend="ingot", options={"dryrun": lambda report: left.append(report.in_torch)})(*inputs)
    assert left == [0]
    torch._dynamo.reset()
    return torch.compile(model, backend="ingot")


@pytest.mark.parametrize("way", [ahead, by_program, just_in_time])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.one_in(5)
def test_forms(form, way):
    model = Attention(**FORMS[form]).eval()
    inputs = tuple(torch.randn(2, 4, LENGTH, 16) for _ in range(3))
    compiled = way(model, inputs)
    if way is not just_in_time:
        assert compiled.report.whole, compiled.report
    with torch.no_grad():
        given, eager = compiled(*inputs), model(*inputs)
        exact = model.double()(*(x.double() for x in inputs))
    assert_accurate(given, eager, exact, depth=LENGTH)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.one_in(3)
def test_shared_heads_and_the_sums_of_rows(dtype, tmp_path):
    model = Attention(FORMS["soft cap"]["score"], FORMS["window, and rows without a key"]["mask"], enable_gqa=True, return_lse=True).eval()
    inputs = [torch.randn(2, heads, LENGTH, 16, dtype=dtype) for heads in (4, 2, 2)]
    compiled = ahead(model, inputs)
    assert compiled.report.whole, compiled.report
    ingot.save(compiled, tmp_path / "model")
    with torch.no_grad():
        exact = model(*(x.double() for x in inputs))
        for call in (compiled, ingot.load(tmp_path / "model")):
            for y, e, x in zip(call(*inputs), model(*inputs), exact, strict=True):
                assert_accurate(y, e, x, depth=LENGTH)


def test_open_sizes():
    model = Attention(FORMS["distance"]["score"]).eval()
    spec = ingot.Input(min_shape=(2, 4, 2, 16), opt_shape=(2, 4, 16, 16), max_shape=(8, 4, 128, 16), shared_dims={0: "B", 2: "S"})
    compiled = ingot.compile(model, inputs=[spec] * 3, fallback="error")
    for batch, length in ((2, 2), (3, 77), (8, 128)):
        inputs = [torch.randn(batch, 4, length, 16) for _ in range(3)]
        assert_accurate(compiled(*inputs), model(*inputs), model(*(x.double() for x in inputs)), depth=length)


def test_a_language_model_of_transformers():
    torch.manual_seed(0)
    sizes = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_key_value_heads=2, vocab_size=50)
    model, eager = (transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, attn_implementation=kind)).eval().requires_grad_(False) for kind in ("flex_attention", "eager"))
    eager.load_state_dict(model.state_dict())  # transformers itself would compile flex_attention by inductor, for 20 seconds
    ids = torch.randint(0, 50, (2, 32))
    compiled = torch.compile(model, backend="ingot")
    given, expected = (m(ids, use_cache=False).logits for m in (compiled, eager))
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)
