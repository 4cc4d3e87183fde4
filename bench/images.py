"""Models of images, sound and diffusion for the benchmarks: real architectures of torchvision, timm and diffusers, random weights.

Each maker takes (device, dtype) and returns (module in eval mode with one tensor as result, tuple of its inputs). It imports the model's package when it is called.
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def wrapped(module, call):
    """A module whose forward is `call(module, *inputs)`, with the first tensor of its result."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, *inputs):
            result = call(self.inner, *inputs)
            return result if isinstance(result, torch.Tensor) else result[0]

    return Model().eval()


def trained(module):
    """The module with biases, scales and statistics as after training. With the initial 0 and 1, whole layers would have no effect."""
    import torch

    generator = torch.Generator().manual_seed(0)
    for t in [*module.parameters(), *module.buffers()]:
        if t.dim() == 1 and t.is_floating_point():
            t.data += 0.2 * torch.rand(t.shape, generator=generator)
    return module


def _ready(module, call, inputs, device, dtype, channels_last=False):
    """`module` on the device, wrapped in a module whose forward is `call(module, *inputs)`."""
    import torch

    layout = {"memory_format": torch.channels_last} if channels_last else {}
    moved = trained(wrapped(module, call)).requires_grad_(False).to(device, dtype).to(**layout)
    return moved, tuple(x.to(device, dtype if x.is_floating_point() else None).to(**(layout if x.dim() == 4 else {})) for x in inputs)


def _random(*shape):
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def import_torchvision():
    """torchvision, or None if it is absent. Its import, also by diffusers and transformers, needs the schemas of its compiled operators. A build for another torch lacks them, but no model
    here calls them."""
    import torch

    import_torchaudio()
    try:
        import torchvision
    except ModuleNotFoundError:
        return None
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import_torchvision.library = library
        import torchvision
    return torchvision


def import_torchaudio():
    """torchaudio, or None if it is absent. Its compiled part needs CUDA's libraries. Where they are absent it is left out, as torchaudio itself does where there is none, because no model
    here calls it."""
    import sys

    try:
        import torchaudio
    except ModuleNotFoundError:
        return None
    except OSError:
        sys.modules["torchaudio._extension.utils"]._LIB_DIR = Path(os.devnull)
        import torchaudio
    return torchaudio


def torchvision_model(name, batch, side=224, **config):
    def make(device, dtype):
        import torch

        torch.manual_seed(0)
        module = getattr(import_torchvision().models, name)(weights=None, **config)
        for layer in module.modules():  # ViT, ConvNeXt and the like start with zeros, and all results would be equal
            if isinstance(layer, torch.nn.Linear):
                torch.nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
            if hasattr(layer, "layer_scale"):
                torch.nn.init.uniform_(layer.layer_scale, 0.2, 0.8)
        return _ready(module, lambda m, x: m(x), (_random(batch, 3, side, side),), device, dtype, channels_last=str(device) != "cpu")

    return make


def sd15_unet(batch=2, side=64):
    def make(device, dtype):
        import torch

        import_torchvision()
        import diffusers

        torch.manual_seed(0)
        with torch.device(device):
            module = diffusers.UNet2DConditionModel(sample_size=side, cross_attention_dim=768)
        inputs = (_random(batch, 4, side, side), torch.full((batch,), 500), _random(batch, 77, 768))
        return _ready(module.cpu(), lambda m, x, t, text: m(x, t, text, return_dict=False), inputs, device, dtype)

    return make


def sdxl_unet(batch=2, side=128):
    def make(device, dtype):
        import torch

        import_torchvision()
        import diffusers

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
        import torch

        import_torchvision()
        import diffusers

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
        import torch

        import_torchvision()
        import diffusers

        torch.manual_seed(0)
        module = diffusers.AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4,
            sample_size=side,
        )
        del module.encoder
        return _ready(module, lambda m, z: m.decode(z, return_dict=False), (_random(batch, 4, side // 8, side // 8),), device, dtype)

    return make


def segmentation(name, side=256, **config):
    """A torchvision segmentation model. Its result is the map of classes."""

    def make(device, dtype):
        import torch

        torch.manual_seed(0)
        module = getattr(import_torchvision().models.segmentation, name)(weights=None, weights_backbone=None, **config)
        return _ready(module, lambda m, x: m(x)["out"], (_random(1, 3, side, side),), device, dtype)

    return make


def whisper_encoder(batch=1, layers=4, width=384):
    def make(device, dtype):
        import torch

        import_torchvision()
        from transformers import WhisperConfig
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        torch.manual_seed(0)
        module = WhisperEncoder(WhisperConfig(encoder_layers=layers, d_model=width, encoder_attention_heads=width // 64, encoder_ffn_dim=4 * width))
        return _ready(module, lambda m, x: m(x).last_hidden_state, (_random(batch, 80, 3000),), device, dtype)

    return make


def written_out(network, *shape):
    """A network of this file, `network(nn)`, on an input of `shape`."""

    def make(device, dtype):
        import torch

        torch.manual_seed(0)
        return _ready(network(torch), lambda m, x: m(x), (_random(*shape),), device, dtype)

    return make


def unet_2d(torch, width=32):
    """A U-Net: two convolutions per level, max pooling down, bilinear resizing or transposed convolutions up, concatenated skips."""
    nn = torch.nn

    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            w = width
            self.down = nn.ModuleList([block(3, w), block(w, 2 * w), block(2 * w, 4 * w)])
            self.pool = nn.MaxPool2d(2)
            self.up = nn.ModuleList([nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(4 * w, 2 * w, 1)), nn.ConvTranspose2d(2 * w, w, 2, stride=2)])
            self.merge = nn.ModuleList([block(4 * w, 2 * w), block(2 * w, w)])
            self.last = nn.Conv2d(w, 2, 1)

        def forward(self, x):
            first = self.down[0](x)
            second = self.down[1](self.pool(first))
            y = self.down[2](self.pool(second))
            y = self.merge[0](torch.cat([self.up[0](y), second], 1))
            y = self.merge[1](torch.cat([self.up[1](y), first], 1))
            return self.last(y)

    return UNet()


def unet_3d(torch, width=16):
    nn = torch.nn

    def block(a, b):
        return nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01), nn.Conv3d(b, b, 3, padding=1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            w = width
            self.first, self.second = block(1, w), block(2 * w, 2 * w)
            self.down = nn.Conv3d(w, 2 * w, 3, stride=2, padding=1)
            self.up = nn.ConvTranspose3d(2 * w, w, 2, stride=2)
            self.merge, self.last = block(2 * w, w), nn.Conv3d(w, 3, 1)

        def forward(self, x):
            first = self.first(x)
            y = self.up(self.second(self.down(first)))
            return self.last(self.merge(torch.cat([y, first], 1)))

    return UNet()


def sound_codec(torch, width=64):
    """A 1-D encoder and decoder of strides 4 with dilated residual units, as in SEANet."""
    nn = torch.nn

    class Unit(nn.Module):
        def __init__(self, channels, dilation):
            super().__init__()
            self.layers = nn.Sequential(nn.ELU(), nn.Conv1d(channels, channels // 2, 3, padding=dilation, dilation=dilation), nn.ELU(), nn.Conv1d(channels // 2, channels, 1))

        def forward(self, x):
            return x + self.layers(x)

    w = width
    return nn.Sequential(
        nn.Conv1d(1, w // 2, 7, padding=3), Unit(w // 2, 1), nn.ELU(), nn.Conv1d(w // 2, w, 8, stride=4, padding=2), Unit(w, 3), nn.ELU(), nn.Conv1d(w, 2 * w, 8, stride=4, padding=2),
        nn.ELU(), nn.ConvTranspose1d(2 * w, w, 8, stride=4, padding=2), Unit(w, 3), nn.ELU(), nn.ConvTranspose1d(w, w // 2, 8, stride=4, padding=2), Unit(w // 2, 1), nn.ELU(),
        nn.Conv1d(w // 2, 1, 7, padding=3),
    )


def vocoder(torch, width=256):
    """HiFi-GAN's generator: transposed convolutions, each followed by the mean of residual blocks of three sizes."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, channels, k):
            super().__init__()
            self.first = nn.ModuleList(nn.Conv1d(channels, channels, k, dilation=d, padding=d * (k - 1) // 2) for d in (1, 3, 5))
            self.second = nn.ModuleList(nn.Conv1d(channels, channels, k, padding=(k - 1) // 2) for _ in range(3))

        def forward(self, x):
            for a, b in zip(self.first, self.second):
                x = x + b(functional.leaky_relu(a(functional.leaky_relu(x, 0.1)), 0.1))
            return x

    class Generator(nn.Module):
        def __init__(self):
            super().__init__()
            self.before = nn.Conv1d(80, width, 7, padding=3)
            self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
            for i, (stride, k) in enumerate(((8, 16), (8, 16), (2, 4), (2, 4))):
                self.ups.append(nn.ConvTranspose1d(width >> i, width >> (i + 1), k, stride, padding=(k - stride) // 2))
                self.blocks.append(nn.ModuleList(Block(width >> (i + 1), r) for r in (3, 7, 11)))
            self.after = nn.Conv1d(width >> 4, 1, 7, padding=3)

        def forward(self, x):
            x = self.before(x)
            for up, blocks in zip(self.ups, self.blocks):
                x = up(functional.leaky_relu(x, 0.1))
                x = (blocks[0](x) + blocks[1](x) + blocks[2](x)) / 3
            return torch.tanh(self.after(functional.leaky_relu(x)))

    return Generator()


def separator(torch, channels=128, hidden=256, blocks=8):
    """Conv-TasNet: an encoder of short windows, dilated depthwise 1-D blocks with norms over channels and time, masks, a decoder."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, dilation):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv1d(channels, hidden, 1), nn.PReLU(), nn.GroupNorm(1, hidden), nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden), nn.PReLU(), nn.GroupNorm(1, hidden),
            )
            self.residual, self.skip = nn.Conv1d(hidden, channels, 1), nn.Conv1d(hidden, channels, 1)

        def forward(self, x):
            y = self.layers(x)
            return x + self.residual(y), self.skip(y)

    class TasNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Conv1d(1, 256, 16, stride=8, bias=False), nn.ConvTranspose1d(256, 1, 16, stride=8, bias=False)
            self.enter = nn.Sequential(nn.GroupNorm(1, 256), nn.Conv1d(256, channels, 1))
            self.blocks = nn.ModuleList(Block(2**i) for i in range(blocks))
            self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(channels, 2 * 256, 1), nn.Sigmoid())

        def forward(self, x):
            frames = self.encoder(x)
            y, skips = self.enter(frames), 0
            for block in self.blocks:
                y, skip = block(y)
                skips = skips + skip
            masks = self.mask(skips).view(x.shape[0], 2, 256, -1)
            return self.decoder((masks * frames.unsqueeze(1)).flatten(0, 1)).view(x.shape[0], 2, -1)

    return TasNet()


def detector(torch, width=16):
    """A YOLO-v8-like network: split bottlenecks, pooled pyramid, features upsampled and joined on three scales."""
    nn = torch.nn

    def conv(a, b, k=1, stride=1):
        return nn.Sequential(nn.Conv2d(a, b, k, stride, k // 2, bias=False), nn.BatchNorm2d(b, eps=1e-3), nn.SiLU())

    class Bottleneck(nn.Module):
        def __init__(self, c, add):
            super().__init__()
            self.layers, self.add = nn.Sequential(conv(c, c, 3), conv(c, c, 3)), add

        def forward(self, x):
            return x + self.layers(x) if self.add else self.layers(x)

    class Split(nn.Module):
        def __init__(self, a, b, n=1, add=True):
            super().__init__()
            self.enter, self.leave = conv(a, b), conv((2 + n) * b // 2, b)
            self.steps = nn.ModuleList(Bottleneck(b // 2, add) for _ in range(n))

        def forward(self, x):
            parts = list(self.enter(x).chunk(2, 1))
            for step in self.steps:
                parts.append(step(parts[-1]))
            return self.leave(torch.cat(parts, 1))

    class Pyramid(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.enter, self.leave, self.pool = conv(c, c // 2), conv(2 * c, c), nn.MaxPool2d(5, 1, 2)

        def forward(self, x):
            parts = [self.enter(x)]
            for _ in range(3):
                parts.append(self.pool(parts[-1]))
            return self.leave(torch.cat(parts, 1))

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            w = width
            self.a = nn.Sequential(conv(3, w, 3, 2), conv(w, 2 * w, 3, 2), Split(2 * w, 2 * w), conv(2 * w, 4 * w, 3, 2), Split(4 * w, 4 * w, 2))
            self.b = nn.Sequential(conv(4 * w, 8 * w, 3, 2), Split(8 * w, 8 * w, 2))
            self.c = nn.Sequential(conv(8 * w, 16 * w, 3, 2), Split(16 * w, 16 * w), Pyramid(16 * w))
            self.up = nn.Upsample(scale_factor=2)
            self.d, self.e = Split(24 * w, 8 * w, add=False), Split(12 * w, 4 * w, add=False)
            self.f, self.g = conv(4 * w, 4 * w, 3, 2), Split(12 * w, 8 * w, add=False)
            self.heads = nn.ModuleList(nn.Sequential(conv(c, 4 * w, 3), nn.Conv2d(4 * w, 144, 1)) for c in (4 * w, 8 * w, 16 * w))

        def forward(self, x):
            a = self.a(x)
            b = self.b(a)
            c = self.c(b)
            d = self.d(torch.cat([self.up(c), b], 1))
            e = self.e(torch.cat([self.up(d), a], 1))
            f = self.g(torch.cat([self.f(e), d], 1))
            return torch.cat([head(y).flatten(2) for head, y in zip(self.heads, (e, f, c))], 2)

    return Detector()


class OnCpu:
    """A maker of this file in the form that cpu.py needs: () -> module, in float32."""

    def __init__(self, make, names=("x",)):
        self._make, self.names = make, names

    def __call__(self):
        return self._make("cpu", None)[0]

    def inputs(self, *_):
        return self._make("cpu", None)[1]

    def flops(self, module, *_):
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            module(*self.inputs())
        return float(counter.get_total_flops())


_net = torchvision_model
CPU = {
    "mobilenet-v2": _net("mobilenet_v2", 1),
    "mobilenet-v3": _net("mobilenet_v3_large", 1),
    "efficientnet-b0": _net("efficientnet_b0", 1),
    "densenet-121": _net("densenet121", 1),
    "resnet-50": _net("resnet50", 1),
    "resnet-50-b8": _net("resnet50", 8),
    "regnet-y": _net("regnet_y_800mf", 1),
    "shufflenet": _net("shufflenet_v2_x1_0", 1),
    "convnext-tiny": _net("convnext_tiny", 1),
    "swin-tiny": _net("swin_t", 1),
    "unet": written_out(unet_2d, 1, 3, 128, 128),
    "sound-codec": written_out(sound_codec, 1, 1, 16000),
    "detector": written_out(detector, 1, 3, 320, 320),
    "deeplab": segmentation("deeplabv3_mobilenet_v3_large", 256),
    "vae-decoder": vae_decoder(128),
    "vocoder": written_out(vocoder, 1, 80, 32),
    "separator": written_out(separator, 1, 1, 16000),
    "unet-3d": written_out(unet_3d, 1, 1, 32, 32, 32),
    "whisper-encoder": whisper_encoder(),
}
