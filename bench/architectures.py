"""Architectures for the ledger of doors (doors.py): every model of this folder in a small size, the models of tests/models, and more of transformers, timm, torchvision, diffusers and torchaudio.

Weights are random, sizes small: what matters is which operators a model has, and how each way into ingot captures them. An architecture imports its package when it is made.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass

import images
import models

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@dataclass(frozen=True)
class Architecture:
    """make() returns (module in eval mode, tuple of its inputs) in float32 on the CPU.

    open: for each input {axis: a letter}; axes of one letter have one size. None: the first axis of every input is the batch."""

    package: str
    make: Callable
    open: tuple | None = None


WORDS = 99
TEXT_AXES = {0: "B", 1: "S"}
LONGEST = {"B": 8, "S": 64}  # the ends of open ranges; they begin at 1, other letters are of LONGEST["S"]
ARCHITECTURES: dict[str, Architecture] = {}


def add(name, package, make, open=None):
    assert name not in ARCHITECTURES, name
    ARCHITECTURES[name] = Architecture(package, make, open)


def seeded(seed=1):
    import torch

    return torch.Generator().manual_seed(seed)


def noise(*shape):
    import torch

    return torch.randn(*shape, generator=seeded())


def integers(high, *shape):
    import torch

    return torch.randint(0, high, shape, generator=seeded())


# ---- layers of torch.nn


def layers(name, build, *inputs, open=None):
    """build(nn) is a list of layers, called one after the other, or a module. inputs: functions that make them."""

    def make():
        import torch

        torch.manual_seed(0)
        built = build(torch.nn)
        module = torch.nn.Sequential(*built) if isinstance(built, list) else built
        return images.trained(module.eval()), tuple(make() for make in inputs)

    add(name, "torch", make, open)


class Of:
    """A module of one inner module and a call of it: `Of(call)(nn)`."""

    def __init__(self, inner, call):
        self.inner, self.call = inner, call

    def __call__(self, nn):
        return images.wrapped(self.inner(nn), self.call)


def _functional():
    import torch

    return torch.nn.functional


_rows, _sequence, _image = lambda: noise(2, 16), lambda: noise(2, 9, 16), lambda: noise(2, 4, 12, 12)
layers("mlp", lambda nn: [nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(), nn.Linear(32, 4), nn.Softmax(-1)], _rows)
layers("convolutions-1d", lambda nn: [nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2), nn.ConvTranspose1d(8, 4, 4, 2), nn.PReLU(), nn.AdaptiveAvgPool1d(5)], lambda: noise(2, 4, 32))
layers("convolutions-2d", lambda nn: [nn.Conv2d(4, 8, 3, bias=False), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 8, 3, padding="same", groups=8), nn.BatchNorm2d(8), nn.Hardswish(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(200, 3)], _image)
layers("convolutions-3d", lambda nn: [nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ELU(), nn.MaxPool3d(2), nn.ConvTranspose3d(4, 2, 2, 2)], lambda: noise(2, 2, 4, 8, 8))
layers("norms", lambda nn: [nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.InstanceNorm2d(4, affine=True, track_running_stats=True), nn.LocalResponseNorm(2), nn.RMSNorm(12), nn.BatchNorm2d(4, affine=False)], _image)
layers("weight-norm", lambda nn: [nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 8, 3)), nn.Tanh(), nn.utils.parametrizations.spectral_norm(nn.Conv1d(8, 4, 1))], lambda: noise(2, 4, 16))
layers("lstm", Of(lambda nn: nn.LSTM(16, 8, 2, batch_first=True, bidirectional=True), lambda m, x: m(x)), _sequence)
layers("gru", Of(lambda nn: nn.GRU(16, 8, batch_first=True), lambda m, x: m(x)), _sequence)
layers("rnn", Of(lambda nn: nn.RNN(16, 8, batch_first=True), lambda m, x: m(x)), _sequence)
layers("cells", Of(lambda nn: nn.ModuleList([nn.LSTMCell(16, 8), nn.GRUCell(8, 8), nn.RNNCell(8, 8)]), lambda m, x: m[2](m[1](m[0](x)[0]))), _rows)
layers("transformer-encoder", lambda nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2), _sequence, open=(TEXT_AXES,))
layers("transformer-decoder", lambda nn: nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, batch_first=True, norm_first=True), 1), _sequence, _sequence, open=(TEXT_AXES, {0: "B", 1: "T"}))
layers("multihead-attention", Of(lambda nn: nn.MultiheadAttention(16, 4, batch_first=True), lambda m, x: m(x, x, x, need_weights=False)), _sequence, open=(TEXT_AXES,))
layers("attention-weights", Of(lambda nn: nn.MultiheadAttention(16, 4, batch_first=True), lambda m, x: m(x, x, x)[1]), _sequence, open=(TEXT_AXES,))
layers("causal-attention", Of(lambda nn: nn.Linear(16, 48), lambda m, x: _functional().scaled_dot_product_attention(*(p.unflatten(-1, (4, 4)).transpose(1, 2) for p in m(x).chunk(3, -1)), is_causal=True)), _sequence, open=(TEXT_AXES,))
layers("embeddings", Of(lambda nn: nn.ModuleList([nn.Embedding(WORDS, 16, padding_idx=0), nn.EmbeddingBag(WORDS, 16, mode="mean")]), lambda m, ids: m[0](ids).sum(1) + m[1](ids)), lambda: integers(WORDS, 2, 9))
layers("resizing", Of(lambda nn: nn.Identity(), lambda m, x: sum(_functional().interpolate(x, scale_factor=2, mode=mode).mean((2, 3)) for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"))), _image)
layers("grid-sample", Of(lambda nn: nn.Linear(576, 6), lambda m, x: _functional().grid_sample(x, _functional().affine_grid(m(x.flatten(1)).view(-1, 2, 3), list(x.shape), align_corners=False), align_corners=False)), _image)
layers("pixels", lambda nn: [nn.PixelShuffle(2), nn.PixelUnshuffle(3), nn.ChannelShuffle(3), nn.ReflectionPad2d(1), nn.ReplicationPad2d(1), nn.ZeroPad2d(1), nn.Unfold(2), nn.Softmin(1)], _image)
layers("activations", lambda nn: [nn.Linear(16, 16), nn.CELU(), nn.SELU(), nn.Mish(), nn.Softplus(), nn.Softsign(), nn.Hardtanh(), nn.LogSigmoid(), nn.Tanhshrink(), nn.GLU(), nn.LeakyReLU(), nn.ReLU6(), nn.LogSoftmax(-1)], _rows)
layers("losses", Of(lambda nn: nn.Linear(16, 5), lambda m, x, y: _functional().cross_entropy(m(x), y, reduction="none")), _rows, lambda: integers(5, 2))
layers("bilinear", Of(lambda nn: nn.Bilinear(16, 16, 4), lambda m, x: _functional().normalize(m(x, x)) @ _functional().one_hot(x.argmax(-1), 16).to(x.dtype)[:, :4].T), _rows)

# ---- transformers


def tokens(batch=2, sequence=9):
    return {"input_ids": integers(WORDS, batch, sequence)}


def text(batch=2, sequence=9):
    import torch

    return {**tokens(batch, sequence), "attention_mask": torch.ones(batch, sequence, dtype=torch.int64)}


def two_texts(batch=2, sequence=9):
    return {**text(batch, sequence), "decoder_input_ids": integers(WORDS, batch, sequence - 2)}


def image(side=32):
    return lambda: {"pixel_values": noise(2, 3, side, side)}


def sound(name="input_values", *shape):
    return lambda: {name: noise(*(shape or (2, 800)))}


def of_transformers(kind, inputs, call=None, **config):
    """A model of transformers: "Bert" is BertModel of BertConfig, "Bart ForConditionalGeneration" has another head. Its forward takes the inputs by position and returns the first tensor of the result."""

    def make():
        import torch

        images.import_torchvision()
        import transformers

        name, _, head = kind.partition(" ")
        torch.manual_seed(0)
        inner = getattr(transformers, name + (head or "Model"))(getattr(transformers, name + "Config")(**config))
        given, extra = inputs(), {"use_cache": False} if getattr(inner.config, "use_cache", None) else {}
        return images.wrapped(inner, call or (lambda m, *values: m(**dict(zip(given, values)), **extra))), tuple(given.values())

    return make


def transformer(name, kind, inputs, open=None, **config):
    add(name, "transformers", of_transformers(kind, inputs, **config), open)


_layers = dict(num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128)
_words = dict(vocab_size=WORDS, **_layers)
_grouped = dict(num_key_value_heads=2, **_words)
_text, _tokens, _texts = (TEXT_AXES,) * 2, (TEXT_AXES,), ({0: "B", 1: "S"}, {0: "B", 1: "S"}, {0: "B", 1: "T"})

for _name, _kind in {"bert": "Bert", "roberta": "Roberta", "albert": "Albert", "electra": "Electra", "mpnet": "MPNet"}.items():
    transformer(f"{_name}-2-layers", _kind, text, _text, **_words)
for _name, _kind in {"llama": "Llama ForCausalLM", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma": "Gemma", "gemma2": "Gemma2", "phi": "Phi", "phi3": "Phi3", "olmo2": "Olmo2",
                     "stablelm": "StableLm", "cohere": "Cohere", "granite": "Granite", "starcoder2": "Starcoder2", "gpt-neox": "GPTNeoX"}.items():  # fmt: skip
    _more = {"head_dim": 16} if _kind in ("Gemma", "Gemma2", "Qwen3") else {"pad_token_id": 0} if _kind in ("Phi3", "Cohere") else {}
    transformer(f"{_name}-2-layers", _kind, text, _text, **(_words if _kind == "GPTNeoX" else _grouped), **_more)
transformer("gpt2-2-layers", "GPT2 LMHeadModel", text, _text, vocab_size=WORDS, n_embd=64, n_layer=2, n_head=4, n_positions=64)
transformer("gptj", "GPTJ", text, _text, vocab_size=WORDS, n_embd=64, n_layer=2, n_head=4, n_positions=64, rotary_dim=8)
transformer("gpt-neo", "GPTNeo", text, _text, vocab_size=WORDS, hidden_size=64, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], max_position_embeddings=64)
transformer("bloom", "Bloom", text, _text, vocab_size=WORDS, hidden_size=64, n_layer=2, n_head=4)
transformer("opt", "OPT", text, _text, vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128, word_embed_proj_dim=64, max_position_embeddings=128, pad_token_id=1)
transformer("falcon", "Falcon", text, _text, vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4)
transformer("mpt", "Mpt", text, _text, vocab_size=WORDS, d_model=64, n_layers=2, n_heads=4)
transformer("mixtral-2-layers", "Mixtral", text, _text, num_local_experts=4, **_grouped)
transformer("qwen2-moe", "Qwen2Moe", text, _text, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=64, **_grouped)
transformer("mamba-2-layers", "Mamba", tokens, _tokens, vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, state_size=8)
transformer("mamba2", "Mamba2", tokens, _tokens, vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=4, head_dim=16, n_groups=1, chunk_size=8)
transformer("deberta-v2", "DebertaV2", text, _text, relative_attention=True, pos_att_type=["p2c", "c2p"], **_words)
transformer("modernbert", "ModernBert", text, _text, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, **_words)
transformer("fnet", "FNet", tokens, _tokens, vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, intermediate_size=128)
transformer("funnel", "Funnel", text, _text, vocab_size=WORDS, d_model=64, n_head=4, d_head=16, d_inner=128, block_sizes=[1, 1])
transformer("xlnet", "XLNet", text, _text, vocab_size=WORDS, d_model=64, n_layer=2, n_head=4, d_inner=128)
transformer("rwkv", "Rwkv", tokens, _tokens, vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, attention_hidden_size=64, intermediate_size=128)
transformer("squeezebert", "SqueezeBert", text, _text, embedding_size=64, **_words)
transformer("t5", "T5 ForConditionalGeneration", two_texts, _texts, vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
transformer("bart", "Bart", two_texts, _texts, vocab_size=WORDS, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=128)
transformer(
    "whisper", "Whisper ForConditionalGeneration", lambda: {"input_features": noise(2, 8, 40), "decoder_input_ids": integers(WORDS, 2, 9)}, ({0: "B"}, {0: "B", 1: "S"}), vocab_size=WORDS,
    num_mel_bins=8, encoder_layers=1, encoder_attention_heads=4, decoder_layers=1, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, d_model=32, max_source_positions=20,
    max_target_positions=64, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
)  # fmt: skip
for _name, _kind in {"vit": "ViT ForImageClassification", "deit": "DeiT", "dinov2": "Dinov2", "beit": "Beit", "vit-mae": "ViTMAE"}.items():
    if _kind != "ViTMAE":  # its masks are random
        transformer(f"{_name}-2-layers", _kind, image(), image_size=32, patch_size=8, **_layers)
transformer("siglip-vision", "SiglipVision", image(), image_size=32, patch_size=8, **_layers)
transformer("clip-vision", "CLIPVision", image(), image_size=32, patch_size=8, **_layers)
transformer("clip-text", "CLIPText", text, _text, max_position_embeddings=64, pad_token_id=1, bos_token_id=2, eos_token_id=3, **_words)
transformer("swin", "Swin", image(), image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4)
transformer("swinv2", "Swinv2", image(), image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4)
transformer("resnet-2-stages", "ResNet", image(), embedding_size=16, hidden_sizes=[32, 64], depths=[2, 2])
transformer("regnet", "RegNet", image(), embedding_size=16, hidden_sizes=[32, 64], depths=[1, 2], groups_width=16)
transformer("convnextv2", "ConvNextV2", image(), hidden_sizes=[16, 40], depths=[2, 2], num_stages=2)
transformer("mobilenet-v1", "MobileNetV1", image(), depth_multiplier=0.25, min_depth=8)
transformer("mobilenet-v2-hf", "MobileNetV2", image(), depth_multiplier=0.35)
transformer("efficientnet-hf", "EfficientNet", image(), image_size=32, width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320)
transformer("segformer", "Segformer", image(64), num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2])
transformer("poolformer", "PoolFormer", image(64), num_encoder_blocks=2, depths=[1, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2], padding=[2, 1], mlp_ratio=2.0)
transformer("mobilevit", "MobileViT", image(64), image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 24, 32, 40, 64])
transformer("wav2vec2", "Wav2Vec2", sound(), conv_dim=(32, 32), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, **_words)
transformer("hubert", "Hubert", sound(), conv_dim=(32, 32), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, **_words)
transformer("ast", "AST", sound("input_values", 2, 64, 32), max_length=64, num_mel_bins=32, frequency_stride=8, time_stride=8, patch_size=16, **_layers)
transformer("videomae", "VideoMAE", lambda: {"pixel_values": noise(2, 4, 3, 32, 32)}, image_size=32, patch_size=16, num_frames=4, **_layers)
transformer("patchtst", "PatchTST", lambda: {"past_values": noise(2, 32, 3)}, num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=32, num_attention_heads=4, num_hidden_layers=2, ffn_dim=64)
transformer("perceiver", "Perceiver", lambda: {"inputs": noise(2, 9, 24)}, ({0: "B", 1: "S"},), num_latents=8, d_latents=32, d_model=24, num_blocks=1, num_self_attends_per_block=2, num_self_attention_heads=4, num_cross_attention_heads=2)

# ---- this folder's models of images, sound and diffusion (images.py), and torchvision


def of_bench(maker):
    """A maker of images.py."""
    return lambda: maker("cpu", None)


for _name, _network, _shape in [
    ("unet", images.unet_2d, (2, 3, 32, 32)), ("sound-codec", images.sound_codec, (2, 1, 640)), ("detector", images.detector, (2, 3, 64, 64)), ("vocoder", images.vocoder, (2, 80, 4)),
    ("separator", images.separator, (2, 1, 640)), ("unet-3d", images.unet_3d, (2, 1, 8, 8, 8)),
]:  # fmt: skip
    add(_name, "torch", of_bench(images.written_out(_network, *_shape)))


def vision(name, of, side=64, **config):
    add(name, "torchvision", of_bench(images.torchvision_model(of, 2, side, **config)))


for _name, _of in {
    "mobilenet-v2": "mobilenet_v2", "mobilenet-v3": "mobilenet_v3_large", "efficientnet-b0": "efficientnet_b0", "resnet-50": "resnet50", "resnet-18": "resnet18", "regnet-y": "regnet_y_800mf",
    "shufflenet": "shufflenet_v2_x1_0", "squeezenet": "squeezenet1_1", "alexnet": "alexnet", "vgg-11-bn": "vgg11_bn",
}.items():  # fmt: skip
    vision(_name, _of)
vision("inception-v3", "inception_v3", 80, aux_logits=False, init_weights=False)


def of_torchvision(make, *shape):
    """make(torchvision.models) is a model in a small size."""
    return lambda: (images.trained(make(images.import_torchvision().models).eval()), (noise(*shape),))


def vision_class(name, make, *shape):
    add(name, "torchvision", of_torchvision(make, *(shape or (2, 3, 64, 64))))


vision_class("densenet", lambda m: m.DenseNet(8, (2, 2), 16, num_classes=10))
vision_class("convnext-torchvision", lambda m: m.ConvNeXt([m.convnext.CNBlockConfig(16, 32, 1), m.convnext.CNBlockConfig(32, None, 1)], layer_scale=0.5, num_classes=10))
vision_class("swin-torchvision", lambda m: m.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10))
vision_class("swin-v2-torchvision", lambda m: m.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10, block=m.swin_transformer.SwinTransformerBlockV2, downsample_layer=m.swin_transformer.PatchMergingV2))
vision_class("maxvit", lambda m: m.MaxVit((64, 64), 16, 4, [16, 32], [1, 1], 8, 0.0, num_classes=10))
vision_class("vit-torchvision", lambda m: m.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10), 2, 3, 32, 32)
vision_class("r3d-18", lambda m: m.video.r3d_18(weights=None), 1, 3, 4, 32, 32)
add("deeplab", "torchvision", of_bench(images.segmentation("deeplabv3_mobilenet_v3_large", 64)))
add("whisper-encoder", "transformers", of_bench(images.whisper_encoder(layers=1, width=64)))
add("minilm", "transformers", lambda: (models.minilm(), models.minilm.inputs(2, 16)), _text)
for _name, _family in {**models.SMALL, **models.SMALL_IMAGES}.items():
    add(_name, "transformers", lambda family=_family: (family(), family.inputs(2, 32 if isinstance(family, models.Images) else 16)), None if isinstance(_family, models.Images) else _text)

# ---- timm


def of_timm(name, side=64, blocks=None, **config):
    """blocks: how many of the model's blocks are kept."""

    def make():
        import torch

        images.import_torchvision()
        timm = importlib.import_module("timm")
        torch.manual_seed(0)
        module = timm.create_model(name, pretrained=False, **config).eval()
        if blocks is not None:
            module.blocks = module.blocks[:blocks]
        return images.trained(module), (noise(2, 3, side, side),)

    return make


for _name in ("mobilenetv4_conv_small", "ghostnet_100", "repvgg_a0", "regnetx_002", "res2net50_14w_8s", "edgenext_xx_small", "mobilevitv2_050", "efficientvit_b0", "convnextv2_atto", "poolformer_s12",
              "fastvit_t8", "dm_nfnet_f0", "ecaresnet26t", "resnest14d", "mobileone_s0", "inception_next_atto", "starnet_s1"):  # fmt: skip
    add(f"timm-{_name.replace('_', '-')}", "timm", of_timm(_name))
for _name, _config in {
    "deit_tiny_patch16_224": {"depth": 2}, "mixer_s32_224": {"blocks": 2}, "gmlp_ti16_224": {"blocks": 2}, "resmlp_12_224": {"blocks": 2}, "cait_xxs24_224": {"depth": 2},
    "xcit_nano_12_p16_224": {"depth": 2}, "pit_ti_224": {}, "visformer_tiny": {"depth": [1, 1, 1]}, "coat_lite_tiny": {"serial_depths": [1, 1, 1, 1]},
    "crossvit_tiny_240": {"depth": [[1, 2, 0]]}, "twins_svt_small": {"depths": [1, 1, 2, 1]}, "eva02_tiny_patch14_224": {"depth": 2}, "levit_128s": {"depth": (1, 1, 1)},
    "tiny_vit_5m_224": {"depths": [1, 1, 1, 1]}, "efficientformer_l1": {"depths": [1, 1, 1, 1]},
}.items():  # fmt: skip
    add(f"timm-{_name.replace('_', '-')}", "timm", of_timm(_name, 240 if "240" in _name else 224, **_config))

# ---- diffusers


def of_diffusers(kind, inputs, **config):
    def make():
        import torch

        images.import_torchvision()
        diffusers = importlib.import_module("diffusers")
        torch.manual_seed(0)
        module, given = getattr(diffusers, kind)(**config).eval(), inputs()
        return images.trained(images.wrapped(module, lambda m, *values: m(**dict(zip(given, values)), return_dict=False))), tuple(given.values())

    return make


def diffusion(name, kind, inputs, open=None, **config):
    add(name, "diffusers", of_diffusers(kind, inputs, **config), open)


def times(batch=2):
    import torch

    return torch.full((batch,), 500)


_blocks = dict(block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8)
diffusion(
    "sd15-unet", "UNet2DConditionModel", lambda: {"sample": noise(2, 4, 16, 16), "timestep": times(), "encoder_hidden_states": noise(2, 7, 32)}, sample_size=16, cross_attention_dim=32,
    attention_head_dim=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), **_blocks,
)  # fmt: skip


def small_sdxl():
    import torch

    images.import_torchvision()
    diffusers = importlib.import_module("diffusers")
    torch.manual_seed(0)
    module = diffusers.UNet2DConditionModel(
        sample_size=16, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), transformer_layers_per_block=(1, 2), attention_head_dim=(2, 4),
        cross_attention_dim=32, addition_embed_type="text_time", addition_time_embed_dim=8, projection_class_embeddings_input_dim=80, use_linear_projection=True, **_blocks,
    )

    def call(m, x, t, text, pooled, ids):
        return m(x, t, text, added_cond_kwargs={"text_embeds": pooled, "time_ids": ids}, return_dict=False)

    return images.trained(images.wrapped(module.eval(), call)), (noise(2, 4, 16, 16), times(), noise(2, 7, 32), noise(2, 32), torch.full((2, 6), 512.0))


add("sdxl-unet", "diffusers", small_sdxl)
diffusion("unet-2d-diffusers", "UNet2DModel", lambda: {"sample": noise(2, 3, 16, 16), "timestep": times()}, sample_size=16, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8, **_blocks)
diffusion(
    "sd3-transformer", "SD3Transformer2DModel", lambda: {"hidden_states": noise(2, 16, 8, 8), "encoder_hidden_states": noise(2, 7, 32), "pooled_projections": noise(2, 64), "timestep": times()},
    sample_size=8, num_layers=2, num_attention_heads=4, attention_head_dim=8, joint_attention_dim=32, caption_projection_dim=32, pooled_projection_dim=64, pos_embed_max_size=8,
)  # fmt: skip


def flux_inputs():
    import torch

    return {"hidden_states": noise(2, 16, 16), "encoder_hidden_states": noise(2, 7, 32), "pooled_projections": noise(2, 32), "timestep": noise(2).abs(), "img_ids": torch.zeros(16, 3), "txt_ids": torch.zeros(7, 3)}


diffusion("flux-transformer", "FluxTransformer2DModel", flux_inputs, tuple({0: "B"} if i < 4 else {} for i in range(6)), patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(4, 4, 8))
diffusion("dit", "DiTTransformer2DModel", lambda: {"hidden_states": noise(2, 4, 8, 8), "timestep": times(), "class_labels": integers(10, 2)}, sample_size=8, num_layers=2, num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=8, num_embeds_ada_norm=10)
diffusion("pixart", "PixArtTransformer2DModel", lambda: {"hidden_states": noise(2, 4, 8, 8), "encoder_hidden_states": noise(2, 7, 32), "timestep": times()}, sample_size=8, num_layers=2, num_attention_heads=4, attention_head_dim=8, cross_attention_dim=32, caption_channels=32, use_additional_conditions=False)
diffusion("autoencoder-kl", "AutoencoderKL", lambda: {"sample": noise(2, 3, 16, 16)}, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, sample_size=16, **_blocks)
diffusion("autoencoder-tiny", "AutoencoderTiny", lambda: {"sample": noise(2, 3, 32, 32)}, encoder_block_out_channels=(16, 16), decoder_block_out_channels=(16, 16), num_encoder_blocks=(1, 2), num_decoder_blocks=(2, 1))
diffusion("vq-model", "VQModel", lambda: {"sample": noise(2, 3, 16, 16)}, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, sample_size=16, num_vq_embeddings=32, **_blocks)
diffusion("prior-transformer", "PriorTransformer", lambda: {"hidden_states": noise(2, 32), "timestep": times(), "proj_embedding": noise(2, 32), "encoder_hidden_states": noise(2, 7, 32)}, num_attention_heads=4, attention_head_dim=8, num_layers=2, embedding_dim=32, num_embeddings=7, additional_embeddings=4)
diffusion("ltx-video", "LTXVideoTransformer3DModel", lambda: {"hidden_states": noise(2, 16, 8), "encoder_hidden_states": noise(2, 7, 32), "timestep": times(), "encoder_attention_mask": integers(2, 2, 7), "num_frames": 1, "height": 4, "width": 4}, in_channels=8, out_channels=8, num_attention_heads=2, attention_head_dim=16, cross_attention_dim=32, num_layers=2, caption_channels=32)

# ---- torchaudio


def of_torchaudio(name, inputs, call=lambda m, *values: m(*values), **config):
    def make():
        import torch

        torchaudio = images.import_torchaudio() or importlib.import_module("torchaudio")
        torch.manual_seed(0)
        return images.trained(images.wrapped(getattr(torchaudio.models, name)(**config).eval(), call)), inputs()

    return make


def lengths(*of):
    import torch

    return torch.tensor(of)


add("torchaudio-wav2letter", "torchaudio", of_torchaudio("Wav2Letter", lambda: (noise(2, 1, 1600),), num_classes=20))
add("torchaudio-deepspeech", "torchaudio", of_torchaudio("DeepSpeech", lambda: (noise(2, 1, 9, 20),), n_feature=20, n_hidden=32, n_class=12))
add("torchaudio-conv-tasnet", "torchaudio", of_torchaudio("ConvTasNet", lambda: (noise(2, 1, 640),), enc_num_feats=32, msk_num_feats=16, msk_num_hidden_feats=32, msk_num_layers=2, msk_num_stacks=1))
add("torchaudio-conformer", "torchaudio", of_torchaudio("Conformer", lambda: (noise(2, 9, 32), lengths(9, 7)), input_dim=32, num_heads=4, ffn_dim=64, num_layers=2, depthwise_conv_kernel_size=5))
add("torchaudio-emformer", "torchaudio", of_torchaudio("Emformer", lambda: (noise(2, 12, 32), lengths(8, 8)), input_dim=32, num_heads=4, ffn_dim=64, num_layers=2, segment_length=4, right_context_length=2))
add("torchaudio-wavernn", "torchaudio", of_torchaudio("WaveRNN", lambda: (noise(2, 1, 100), noise(2, 1, 10, 9)), upsample_scales=[4, 5], n_classes=16, hop_length=20, n_rnn=32, n_fc=32, n_freq=10, n_hidden=16, n_output=16))
add("torchaudio-hdemucs", "torchaudio", of_torchaudio("HDemucs", lambda: (noise(1, 2, 16384),), sources=["drums", "bass"], channels=8, depth=6, nfft=4096))
add("torchaudio-tacotron2", "torchaudio", of_torchaudio("Tacotron2", lambda: (integers(20, 2, 6), lengths(6, 6), noise(2, 8, 4), lengths(4, 4)), n_symbol=20, n_mels=8, symbol_embedding_dim=32, encoder_embedding_dim=32, decoder_rnn_dim=32, prenet_dim=16, attention_rnn_dim=32, attention_hidden_dim=16, postnet_embedding_dim=32))
