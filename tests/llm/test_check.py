"""Models that ingot.llm would compute otherwise than transformers does are refused before anything is built, with the reason."""

import pytest
import torch
import transformers
from llm_architectures import LENGTH, small

import ingot
import ingot.llm
from ingot.llm import graph

SMALL = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=97, max_position_embeddings=64)


def refused(model, said):
    with pytest.raises(ingot.UnsupportedError, match=said) as caught:
        ingot.llm.compile(model, max_length=32)
    assert "torch.compile its generate()" in caught.value.remedy


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["CodeGen", "Bloom", "Mpt"])
@pytest.mark.one_in(3)
def test_without_its_mask_a_model_is_refused(name, dtype, monkeypatch):
    """Random models of two layers say the same next token for long even so."""
    model = small(name).to(dtype)
    graph.check(model, graph.entries_of(model), 32)
    monkeypatch.setattr(graph, "_mask", lambda *args, **kwargs: torch.zeros(1, 1, 1, 1, dtype=dtype))
    refused(model, f"{type(model).__name__} gives other logits over ingot.llm's caches than by itself: they differ by")


def test_a_window_of_a_mask_alone():
    config = transformers.Llama4TextConfig(**SMALL, attention_chunk_size=4, num_local_experts=2, interleave_moe_layer_step=1, head_dim=8)
    refused(transformers.Llama4ForCausalLM(config).eval(), "Llama4ForCausalLM has layers that see 4 tokens by a mask alone")


def test_caches_of_their_own():
    config = transformers.GPTNeoConfig(hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], vocab_size=97, max_position_embeddings=512)
    with pytest.raises(ingot.UnsupportedError, match="GPTNeoForCausalLM gives other logits"):  # its windows of 256 are at the end of the cache
        ingot.llm.compile(transformers.GPTNeoForCausalLM(config).eval(), max_length=400)
    refused(transformers.MiniMaxForCausalLM(transformers.MiniMaxConfig(**SMALL, num_local_experts=4, head_dim=8, block_size=16)).eval(), r"does not take ingot.llm's caches \(ValueError: MiniMax uses cache")
    config = transformers.RecurrentGemmaConfig(**SMALL, lru_width=32, attention_window_size=16, block_types=["recurrent", "attention"], head_dim=8)
    refused(transformers.RecurrentGemmaForCausalLM(config).eval(), "gives other logits")


def test_nothing_of_the_model_changes():
    model = small("Llama")
    before = model.config._attn_implementation
    ingot.llm.compile(model, max_length=LENGTH)
    assert model.config._attn_implementation == before and not graph._masks
