"""Small random models of architectures that transformers has, whose greedy tokens are varied."""

import torch
import transformers

transformers.logging.set_verbosity_error()

VOCABULARY, LENGTH = 512, 320
_LLAMA = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=LENGTH)
_OTHER = dict(hidden_size=64, num_hidden_layers=2, vocab_size=VOCABULARY)
_UNTIED = dict(tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, pad_token_id=None)
CONFIGURATIONS = {
    "Llama": dict(_LLAMA),
    "Qwen2": dict(_LLAMA),
    "Qwen3": dict(_LLAMA, head_dim=16),
    "Gemma2": dict(_LLAMA, head_dim=16, sliding_window=16),
    "Gemma3Text": dict(_LLAMA, head_dim=16, sliding_window=16, layer_types=["sliding_attention", "full_attention"]),
    "Mistral": dict(_LLAMA, sliding_window=16),
    "Phi3": dict(_LLAMA),
    "GPT2": dict(n_embd=64, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=LENGTH),
    "GPTNeoX": dict(_OTHER, intermediate_size=128, num_attention_heads=4, max_position_embeddings=LENGTH),
    "OPT": dict(_OTHER, ffn_dim=128, num_attention_heads=4, max_position_embeddings=LENGTH, word_embed_proj_dim=64),
    "Mixtral": dict(_LLAMA, num_local_experts=4, sliding_window=None),
    "Mamba": dict(_OTHER, state_size=8),
    "Qwen3Moe": dict(_LLAMA, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64),
    "Mamba2": dict(_OTHER, state_size=8, num_heads=8, head_dim=16, n_groups=2),
    "GptOss": dict(_LLAMA, head_dim=16, num_local_experts=4, sliding_window=16),
    "DeepseekV3": dict(_LLAMA | dict(num_key_value_heads=4), n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=64, first_k_dense_replace=1, q_lora_rank=16,
                       kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=16),
    "Cohere2": dict(_LLAMA, sliding_window=16, sliding_window_pattern=2),
    "FalconH1": dict(_LLAMA, mamba_d_state=8, mamba_n_heads=4, mamba_d_head=32, mamba_d_ssm=128),
    # Those compute attention themselves, with a mask that transformers makes. Tables of positions have to reach to the end of the last page, which may be one more than max_length wants.
    "CodeGen": dict(n_embd=64, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=LENGTH, n_ctx=LENGTH, rotary_dim=8),
    "Falcon": dict(_OTHER, num_attention_heads=4, new_decoder_architecture=False, multi_query=True),
    "XGLM": dict(d_model=64, ffn_dim=128, num_layers=2, attention_heads=4, vocab_size=VOCABULARY, max_position_embeddings=LENGTH),
    "Mpt": dict(d_model=64, n_heads=4, n_layers=2, max_seq_len=LENGTH + 128, vocab_size=VOCABULARY),
    "Bloom": dict(hidden_size=64, n_layer=2, n_head=4, vocab_size=VOCABULARY),
}  # fmt: skip

SEEDS = {"GPTNeoX": 3, "OPT": 2, "CodeGen": 1, "Mpt": 1}  # of 0 to 3, those with the most different tokens; 0 is well for the others


def small(name):
    """A model with random weights: its matrices are drawn wide, so that each token depends on those before it."""
    torch.manual_seed(SEEDS.get(name, 0))
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, name + "Config")(**CONFIGURATIONS[name], **_UNTIED)).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "A_log" not in parameter_name:
                parameter.normal_(0, 1.2 * parameter.shape[-1] ** -0.5)
    return model
