"""Models of images, sound and diffusion for the benchmarks: real architectures of torchvision, timm and diffusers, random weights.

Each maker takes (device, dtype) and returns (module in eval mode with one tensor as result, tuple of its inputs). The package that a
model comes from is imported when it is made.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def _ready(module, call, inputs, device, dtype, channels_last=False):
    """`module` on the device, wrapped in a module whose forward is `call(module, *inputs)`."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, *inputs):
            result = call(self.inner, *inputs)
            return result if isinstance(result, torch.Tensor) else result[0]

    # Biases, scales and statistics as training leaves them: at 0 and 1, as they begin, whole layers would count for nothing.
    generator = torch.Generator().manual_seed(0)
    for t in [*module.parameters(), *module.buffers()]:
        if t.dim() == 1 and t.is_floating_point():
            t.data += 0.2 * torch.rand(t.shape, generator=generator)
    layout = {"memory_format": torch.channels_last} if channels_last else {}
    moved = Model().eval().requires_grad_(False).to(device, dtype).to(**layout)
    return moved, tuple(x.to(device, dtype if x.is_floating_point() else x.dtype).to(**(layout if x.dim() == 4 else {})) for x in inputs)


def _random(*shape):
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def torchvision_model(name, batch, side=224, **config):
    def make(device, dtype):
        import torch
        import torchvision

        torch.manual_seed(0)
        module = getattr(torchvision.models, name)(weights=None, **config)
        for layer in module.modules():  # zeros at first in ViT's and ConvNeXt's kin, and all results equal
            if isinstance(layer, torch.nn.Linear):
                torch.nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
            if hasattr(layer, "layer_scale"):
                torch.nn.init.uniform_(layer.layer_scale, 0.2, 0.8)
        return _ready(module, lambda m, x: m(x), (_random(batch, 3, side, side),), device, dtype, channels_last=str(device) != "cpu")

    return make


def sd15_unet(batch=2, side=64):
    def make(device, dtype):
        import diffusers
        import torch

        torch.manual_seed(0)
        with torch.device(device):
            module = diffusers.UNet2DConditionModel(sample_size=side, cross_attention_dim=768)
        inputs = (_random(batch, 4, side, side), torch.full((batch,), 500), _random(batch, 77, 768))
        return _ready(module.cpu(), lambda m, x, t, text: m(x, t, text, return_dict=False), inputs, device, dtype)

    return make


def sdxl_unet(batch=2, side=128):
    def make(device, dtype):
        import diffusers
        import torch

        torch.manual_seed(0)
        with torch.device(device):
            module = diffusers.UNet2DConditionModel(
                sample_size=side, block_out_channels=(320, 640, 1280), down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
                up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), transformer_layers_per_block=(1, 2, 10), attention_head_dim=(5, 10, 20),
                cross_attention_dim=2048, addition_embed_type="text_time", addition_time_embed_dim=256, projection_class_embeddings_input_dim=2816, use_linear_projection=True,
            )
        inputs = (_random(batch, 4, side, side), torch.full((batch,), 500), _random(batch, 77, 2048), _random(batch, 1280), torch.full((batch, 6), 512.0))

        def call(m, x, t, text, pooled, times):
            return m(x, t, text, added_cond_kwargs={"text_embeds": pooled, "time_ids": times}, return_dict=False)

        return _ready(module.cpu(), call, inputs, device, dtype)

    return make


def sd3_transformer(batch=2, side=64, layers=24):
    def make(device, dtype):
        import diffusers
        import torch

        torch.manual_seed(0)
        with torch.device(device):
            module = diffusers.SD3Transformer2DModel(
                sample_size=side, num_layers=layers, num_attention_heads=24, attention_head_dim=64, joint_attention_dim=4096, caption_projection_dim=1536, pooled_projection_dim=2048,
                pos_embed_max_size=192,
            )
        inputs = (_random(batch, 16, side, side), _random(batch, 154, 4096), _random(batch, 2048), torch.full((batch,), 500))
        return _ready(module.cpu(), lambda m, x, text, pooled, t: m(x, text, pooled, t, return_dict=False), inputs, device, dtype)

    return make


def vae_decoder(side=512, batch=1):
    def make(device, dtype):
        import diffusers
        import torch

        torch.manual_seed(0)
        module = diffusers.AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4,
            sample_size=side,
        )
        del module.encoder
        return _ready(module, lambda m, z: m.decode(z, return_dict=False), (_random(batch, 4, side // 8, side // 8),), device, dtype)

    return make
