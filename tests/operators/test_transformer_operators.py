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
    compared(lambda x, w, ends: torch._grouped_mm(x, w, offs=ends), (x, w, ends), exact)


def test_grouped_products_just_in_time():
    """torch's own rule for the shape takes bfloat16 alone."""
    x, w, ends = groups(40, 3, torch.float32)
    made = torch.compile(lambda x, w, ends: torch._grouped_mm(x, w, offs=ends), backend="ingot", fullgraph=True)
    for rows in (40, 24):
        with torch.no_grad():
            torch.testing.assert_close(made(x[:rows], w, ends.clamp(max=rows)), by_hand(x[:rows], w, ends.clamp(max=rows)).float())


def test_grouped_products_of_columns():
    x, w, ends = groups(16, 3, torch.bfloat16)
    exact = by_hand(x, w, ends).T
    compared(lambda w, x, ends: torch._grouped_mm(w.transpose(1, 2), x.t(), offs=ends), (w, x, ends), exact)


def by_rows(x, w, ends):
    """The reference: rows behind the last end are 0."""
    y = torch.zeros(len(x), w.shape[2], dtype=torch.float64)
    start = 0
    for matrix, end in zip(w.double(), ends.tolist()):
        y[start:end] = x[start:end].double() @ matrix
        start = max(start, end)
    return y


# The ends of the rows of experts: none for one, all for one, one row, rows of no expert, none at all.
ENDS = {"none for one": [4, 4, 9, 9, 12], "all for one": [0, 0, 12, 12, 12], "all for the last": [0, 0, 0, 0, 12], "nobody's": [1, 5, 5, 7, 8], "none": [0, 0, 0, 0, 0]}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("integers", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_rows_of_experts(ends, integers, dtype):
    """On the CPU and by the reference; the matrices lie along their rows or their columns, are given in each call or are the model's own."""
    torch.manual_seed(0)
    x, w, ends = torch.randn(12, 16, dtype=dtype), torch.randn(5, 24, 16, dtype=dtype) / 4, torch.tensor(ENDS[ends], dtype=integers)
    exact = by_rows(x, w.transpose(1, 2), ends)

    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(w)

        def forward(self, x, ends):
            return torch.ops.transformers.grouped_mm_fallback(x, self.w.transpose(1, 2), ends)

    def given(x, w, ends):
        return torch.ops.transformers.grouped_mm_fallback(x, w, ends)

    for target in ("cpu", "reference"):
        for module, inputs in ((Own(), (x, ends)), (Calls(given), (x, w.transpose(1, 2), ends)), (Calls(given), (x, w.transpose(1, 2).contiguous(), ends))):
            compiled = ingot.compile(module.eval().requires_grad_(False), inputs=list(inputs), min_block_size=1, target=target)
            assert compiled.report.whole
            assert_accurate(compiled(*inputs), exact.to(dtype), exact, 16)


def test_rows_of_experts_of_any_number():
    torch.manual_seed(0)
    w = torch.randn(12, 16, 8)
    compiled = ingot.compile(Calls(lambda x, ends: torch.ops.transformers.grouped_mm_fallback(x, w, ends)).eval(), inputs=[ingot.Input(min_shape=[1, 16], opt_shape=[20, 16], max_shape=[300, 16]), torch.tensor([2] * 12)], min_block_size=1)
    for rows in (1, 2, 5, 33, 300):
        x, ends = torch.randn(rows, 16), torch.sort(torch.randint(0, rows + 1, (12,))).values
        exact = by_rows(x, w, ends)
        assert_accurate(compiled(x, ends), exact.float(), exact, 16)


_sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_key_value_heads=2, vocab_size=100, use_cache=False)
EXPERTS = {
    "mixtral": lambda: transformers.MixtralForCausalLM(transformers.MixtralConfig(**_sizes, num_local_experts=4, num_experts_per_tok=2)),
    "qwen3": lambda: transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**_sizes, moe_intermediate_size=24, num_experts=12, num_experts_per_tok=3, head_dim=8)),
    "gpt-oss": lambda: transformers.GptOssForCausalLM(transformers.GptOssConfig(**_sizes, num_local_experts=6, num_experts_per_tok=2, head_dim=8)),
    "deepseek": lambda: transformers.DeepseekV3ForCausalLM(
        transformers.DeepseekV3Config(
            **{**_sizes, "num_key_value_heads": 4}, moe_intermediate_size=24, n_routed_experts=8, num_experts_per_tok=2, n_group=2, topk_group=1, q_lora_rank=16, kv_lora_rank=16,
            qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, first_k_dense_replace=1,
        )
    ),
}


@pytest.mark.parametrize("written", ["grouped_mm", "batched_mm", "eager"])
@pytest.mark.parametrize("name", EXPERTS)
@pytest.mark.one_in(2)
def test_experts_are_one_engine(name, written):
    """However transformers writes them: also in a loop over those that data chose."""
    torch.manual_seed(0)
    model = EXPERTS[name]().eval().requires_grad_(False)
    model.set_experts_implementation(written)
    for tokens in (7, 1):
        ids = torch.randint(0, 100, (1, tokens))
        for way in ("ahead", "just in time"):
            reports = []

            def backend(graph, examples):
                reports.append((compiled := ingot.ingot_backend(graph, examples)).report)
                return compiled

            with torch.no_grad():
                if way == "ahead":
                    module = ingot.compile(Calls(lambda i: model(i).logits), inputs=[ids])
                    reports.append(module.report)
                else:
                    # Dynamo knows its own backends by their functions.
                    torch._dynamo.reset()
                    module = torch.compile(lambda i: model(i).logits, backend=backend if written != "eager" else "ingot", fullgraph=True)
                made, eager = module(ids), model(ids).logits
            assert [r.whole for r in reports] == ([True] if (way, written) != ("just in time", "eager") else []), way
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
