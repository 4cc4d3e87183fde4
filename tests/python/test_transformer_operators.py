"""torch's fused transformer operators and grouped GEMMs of experts against eager. Random draws seldom give operands that fit them."""

import sys
from pathlib import Path

import pytest
import torch
import transformers
import transformers.integrations.moe  # registers its operators

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate
from calls import Calls

import ingot


def compared(function, inputs, exact=None):
    compiled = ingot.compile(Calls(function).eval(), inputs=list(inputs), min_block_size=1)
    assert compiled.report.whole, compiled.report.summary()
    eager = function(*inputs)
    wide = exact if exact is not None else function(*(t.double() if t.is_floating_point() else t for t in inputs))
    assert_accurate(compiled(*inputs), eager, wide, max(t.numel() for t in inputs))


def groups(rows, matrices, dtype):
    torch.manual_seed(rows * matrices)
    ends = torch.sort(torch.randint(0, rows + 1, (matrices,))).values.to(torch.int32)
    ends[-1] = rows
    return torch.randn(rows, 16, dtype=dtype), torch.randn(matrices, 16, 32, dtype=dtype) / 4, ends


def by_hand(x, w, ends):
    starts = [0, *ends.tolist()[:-1]]
    return torch.cat([x[a:b].double() @ w[i].double() for i, (a, b) in enumerate(zip(starts, ends.tolist()))])


@pytest.mark.parametrize("matrices", [2, 8, 12], ids="{} groups".format)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("rows", [3, 40])
def test_grouped_products(rows, matrices, dtype):
    x, w, ends = groups(rows, matrices, dtype)
    exact = by_hand(x, w, ends)
    compared(lambda x, w, ends: torch.ops.transformers.grouped_mm_fallback(x, w, ends), (x, w, ends), exact)
    if dtype is torch.bfloat16:  # torch.export takes no other
        compared(lambda x, w, ends: torch._grouped_mm(x, w, offs=ends), (x, w, ends), exact)


def test_grouped_products_of_columns():
    x, w, ends = groups(16, 3, torch.bfloat16)
    exact = by_hand(x, w, ends).T
    compared(lambda w, x, ends: torch._grouped_mm(w.transpose(1, 2), x.t(), offs=ends), (w, x, ends), exact)


def test_experts_are_one_engine():
    sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64, num_key_value_heads=2, vocab_size=100)
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**sizes, num_local_experts=4, num_experts_per_tok=2)).eval()
    ids = torch.randint(0, 100, (2, 7))
    for way in ("ahead", "just in time"):
        reports = []

        def backend(graph, examples):
            reports.append((compiled := ingot.ingot_backend(graph, examples)).report)
            return compiled

        with torch.no_grad():
            if way == "ahead":
                module = ingot.compile(Calls(lambda i: model(i, use_cache=False).logits), inputs=[ids])
                reports.append(module.report)
            else:
                module = torch.compile(lambda i: model(i, use_cache=False).logits, backend=backend)
            made, eager = module(ids), model(ids, use_cache=False).logits
        assert [r.whole for r in reports] == [True], way
        assert_accurate(made, eager, eager, 4096)


MASKS = {
    "none": {},
    "of scores": {"src_mask": torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)},
    "of keys": {"src_key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2])},
    "of both": {"src_mask": torch.triu(torch.ones(5, 5, dtype=torch.bool), 1), "src_key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2])},
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_encoder_layer(norm_first, mask):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first, activation="gelu" if norm_first else "relu").eval().requires_grad_(False)
    x, reports = torch.randn(2, 5, 16), []

    def backend(graph, examples):
        reports.append((compiled := ingot.ingot_backend(graph, examples)).report)
        return compiled

    torch._dynamo.reset()
    with torch.no_grad():
        fast = torch.compile(layer, backend=backend)
        made, eager = fast(x, **MASKS[mask]), layer(x, **MASKS[mask])
        exact = layer.double()(x.double(), **MASKS[mask])
    assert [r.whole for r in reports] == [True], [r.summary() for r in reports]
    assert_accurate(made, eager, exact, 512)


def test_attention_with_weights():
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval().requires_grad_(False)
    x = torch.randn(2, 5, 16)
    operands = (attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias)
    for part in (0, 1):
        compared(lambda x, *w: torch._native_multi_head_attention(x, x, x, 16, 4, *w)[part], (x, *operands))
