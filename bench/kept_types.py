"""What `kv_dtype` does to logits: the table of docs/llm.md. `python bench/kept_types.py`, some minutes on one core."""

import torch
import transformers

import ingot.llm

TOKENS, VOCABULARY, PAGE = 1024, 2000, 64


def model():
    """A random Llama of eight layers, whose matrices are drawn so wide that each token depends on those before it."""
    torch.manual_seed(0)
    sizes = dict(hidden_size=512, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4, vocab_size=VOCABULARY)
    made = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**sizes, eos_token_id=None, max_position_embeddings=TOKENS + 76)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 1.2 * parameter.shape[-1] ** -0.5)
    return made


def main():
    made, expected = model(), None
    ids = torch.randint(0, VOCABULARY, (1, TOKENS), generator=torch.Generator().manual_seed(1))
    for dtype in (torch.float32, torch.bfloat16):
        for kept in ("auto", "float16", "bfloat16", "int8"):
            if dtype == torch.bfloat16 and kept == "bfloat16":
                continue  # is its "auto"
            lm = ingot.llm.compile(made, max_length=TOKENS + 6, dtype=dtype, kv_dtype=kept)
            logits = lm.step(lm.new_state(), ids, logits="all")[0].double()
            expected = logits if expected is None else expected
            difference, same = (logits - expected).norm() / expected.norm(), (logits.argmax(-1) == expected.argmax(-1)).double().mean()
            print(f"| {str(dtype)[6:]} | {kept} | {lm._caches.pool.page_bytes // PAGE} | {float(difference):.4f} | {float(same):.3f} |", flush=True)


if __name__ == "__main__":
    main()
