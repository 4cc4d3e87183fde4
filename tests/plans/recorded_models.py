"""Twenty small models, random weights, whose plans are recorded: name -> (module, inputs)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import torch
import transformers
from models import SMALL, SMALL_IMAGES
from torch import nn

import ingot

MODELS = {}


def model(make):
    MODELS[make.__name__] = make
    return make


def batch(*shape, dtype="float32", name="x"):
    """1 to 64 samples."""
    return ingot.Input(min_shape=(1, *shape), opt_shape=(8, *shape), max_shape=(64, *shape), dtype=dtype, name=name, shared_dims={0: "B"})


def ids(batch, tokens):
    return torch.zeros(batch, tokens, dtype=torch.int64)


def of_bench(family, size):
    return family(), list(family.inputs(2, size))


for name in ("distilbert", "roberta", "gpt2", "qwen2"):
    MODELS[name] = lambda name=name: of_bench(SMALL[name], 16)
for name in ("vit", "resnet", "convnext"):
    MODELS[name] = lambda name=name: of_bench(SMALL_IMAGES[name], 32)


@model
def bert_any_batch_and_length():
    def tokens(name):
        return ingot.Input(min_shape=(1, 1), opt_shape=(4, 32), max_shape=(16, 64), dtype="int64", name=name, shared_dims={0: "B", 1: "S"})

    return SMALL["bert"](), [tokens("input_ids"), tokens("attention_mask")]


@model
def bert_half():
    config = transformers.BertConfig(vocab_size=100, hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=256, attn_implementation="sdpa")
    return First(transformers.BertModel(config, add_pooling_layer=False)).half(), [ids(8, 64)]


def small_llama(dtype, **more):
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=256, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, intermediate_size=512, attn_implementation="sdpa", use_cache=False, **more
    )
    return transformers.LlamaForCausalLM(config).to(dtype)


@model
def llama_one_token():
    return First(small_llama(torch.bfloat16)), [ids(1, 1)]


@model
def llama_prompt():
    return First(small_llama(torch.bfloat16)), [ids(1, 128)]


@model
def llama_static_cache():
    """A Llama with a static cache, whose tensors are buffers that the model writes."""
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    decoder = small_llama(torch.float32)
    decoder.config.use_cache = True
    decoder.generation_config = transformers.GenerationConfig(use_cache=True, cache_implementation="static", max_length=32, cache_config={"batch_size": 1, "max_cache_len": 32})
    return Decoder(TorchExportableModuleWithStaticCache(decoder, batch_size=1, max_cache_len=32)), [ids(1, 1), torch.zeros(1, dtype=torch.int64)]


@model
def t5_encoder():
    config = transformers.T5Config(vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=1, num_heads=4)
    return First(transformers.T5EncoderModel(config)), [ids(2, 16)]


@model
def whisper_encoder():
    config = transformers.WhisperConfig(d_model=64, encoder_layers=1, encoder_attention_heads=4, encoder_ffn_dim=128, num_mel_bins=16, max_source_positions=32)
    return First(transformers.models.whisper.modeling_whisper.WhisperEncoder(config)), [torch.zeros(1, 16, 64)]


class MobileBlock(nn.Module):
    """Of a MobileNet: wider, each channel by itself, gated by their means, narrower."""

    def __init__(self, stride):
        super().__init__()
        self.wide = nn.Sequential(nn.Conv2d(16, 64, 1, bias=False), nn.BatchNorm2d(64), nn.Hardswish())
        self.depthwise = nn.Sequential(nn.Conv2d(64, 64, 5, stride, 2, groups=64, bias=False), nn.BatchNorm2d(64), nn.Hardswish())
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(64, 16, 1), nn.ReLU(), nn.Conv2d(16, 64, 1), nn.Hardsigmoid())
        self.narrow = nn.Sequential(nn.Conv2d(64, 16, 1, bias=False), nn.BatchNorm2d(16))

    def forward(self, x):
        y = self.depthwise(self.wide(x))
        y = self.narrow(y * self.gate(y))
        return x + y if y.shape == x.shape else y


@model
def mobile_blocks():
    return nn.Sequential(MobileBlock(1), MobileBlock(2)), [torch.zeros(1, 16, 32, 32)]


@model
def wav2vec2():
    config = transformers.Wav2Vec2Config(
        vocab_size=32, hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=128, conv_dim=(32, 32), conv_stride=(5, 2), conv_kernel=(10, 3),
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    inner = transformers.Wav2Vec2Model(config)
    nn.utils.parametrize.remove_parametrizations(inner.encoder.pos_conv_embed.conv, "weight")
    return First(inner), [torch.zeros(1, 1600)]


@model
def swin():
    config = transformers.SwinConfig(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)
    return First(transformers.SwinModel(config)), [torch.zeros(1, 3, 32, 32)]


class Block(nn.Module):
    """Of a U-Net: normalised groups, convolutions, a skip, a smaller image and back."""

    def __init__(self):
        super().__init__()
        self.norm, self.time = nn.GroupNorm(8, 32), nn.Linear(64, 32)
        self.first, self.second = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(64, 32, 3, padding=1)
        self.down, self.up = nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ConvTranspose2d(32, 32, 2, stride=2)

    def forward(self, x, time):
        y = self.first(nn.functional.silu(self.norm(x))) + self.time(time)[:, :, None, None]
        small = nn.functional.interpolate(self.up(self.down(y)), scale_factor=0.5)
        return self.second(torch.cat([y, nn.functional.interpolate(small, scale_factor=2.0, mode="nearest")], 1)) + x


@model
def unet_block():
    return Block().half(), [torch.zeros(2, 32, 16, 16, dtype=torch.float16), torch.zeros(2, 64, dtype=torch.float16)]


@model
def clip_text():
    config = transformers.CLIPTextConfig(vocab_size=100, hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=128, max_position_embeddings=16, eos_token_id=2)
    return First(transformers.CLIPTextModel(config)), [ids(2, 16)]


class Ranking(nn.Module):
    """Sorts, sums as it goes, gathers and scatters."""

    def forward(self, x, at):
        best, where = x.topk(4)
        order = x.argsort(descending=True)
        sums = x.softmax(-1).gather(1, order).cumsum(-1)
        return best, where, torch.zeros_like(x).scatter_add(1, at, sums), x.index_select(1, at[0])


@model
def ranking():
    return Ranking(), [batch(32), batch(32, dtype="int64", name="at")]


class Decoder(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, token, place):
        return self.inner(input_ids=token, cache_position=place)


class First(nn.Module):
    """The module with its first tensor as result."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        result = self.inner(x)
        return result if isinstance(result, torch.Tensor) else result[0]


def made(name):
    """(module in eval mode, inputs), the same each time."""
    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    return module.eval().requires_grad_(False), inputs
