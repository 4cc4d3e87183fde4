"""Operators that read through indices or windows, on the CPU compared with eager, interleaved in one process.

    python bench/reads.py [--threads 1] [--only "bilinear|pool"] [--rounds 12] [--form between,alone] [--dtype float32]

Operators on images are measured in two forms: `between` two 1x1 convolutions from and to four channels, where ingot chooses the layout, and `alone` on the model's own input and result. Figures
are the fastest of all rounds, in milliseconds. `ratio` is ingot's time over eager's (below 1: faster). Lines are appended to bench/results/<machine>.jsonl.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import ingot
from kernels_cpu import interleave, peer, problems_parser, report_problems

torch.set_grad_enabled(False)
nn = torch.nn
F = torch.nn.functional
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class Call(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *inputs):
        return self.call(*inputs)


def resize(size, mode, **more):
    return Call(lambda x: F.interpolate(x, size=size, mode=mode, **more))


# Of one image: name: sizes, the layer.
IMAGES = {
    "bilinear 64 at 56 to 112": ((1, 64, 56, 56), resize((112, 112), "bilinear")),
    "bilinear corners 256 at 32 to 64": ((2, 256, 32, 32), resize((64, 64), "bilinear", align_corners=True)),
    "bilinear 21 at 33 to 257": ((1, 21, 33, 33), resize((257, 257), "bilinear")),
    "bilinear 3 at 256 to 224": ((1, 3, 256, 256), resize((224, 224), "bilinear")),
    "nearest 64 at 56 to 112": ((1, 64, 56, 56), resize((112, 112), "nearest")),
    "nearest 64 at 56 to 100": ((1, 64, 56, 56), resize((100, 100), "nearest")),
    "bicubic 64 at 56 to 112": ((1, 64, 56, 56), resize((112, 112), "bicubic")),
    "bicubic 3 at 224 to 256": ((1, 3, 224, 224), resize((256, 256), "bicubic")),
    "antialias bilinear 3 at 512 to 224": ((1, 3, 512, 512), resize((224, 224), "bilinear", antialias=True)),
    "antialias bicubic 3 at 512 to 224": ((1, 3, 512, 512), resize((224, 224), "bicubic", antialias=True)),
    "linear 1-D 128 at 1000 to 2000": ((2, 128, 1000), resize((2000,), "linear")),
    "trilinear 16 at 16 to 32": ((1, 16, 16, 16, 16), resize((32, 32, 32), "trilinear")),
    "max_pool 3 /2 64 at 112": ((1, 64, 112, 112), nn.MaxPool2d(3, 2, 1)),
    "max_pool 2 256 at 32": ((2, 256, 32, 32), nn.MaxPool2d(2)),
    "max_pool 5 /1 128 at 20": ((1, 128, 20, 20), nn.MaxPool2d(5, 1, 2)),
    "max_pool 13 /1 128 at 20": ((1, 128, 20, 20), nn.MaxPool2d(13, 1, 6)),
    "avg_pool 3 /1 64 at 56": ((1, 64, 56, 56), nn.AvgPool2d(3, 1, 1)),
    "avg_pool 2 256 at 32": ((2, 256, 32, 32), nn.AvgPool2d(2)),
    "max_pool with indices 2 64 at 56": ((1, 64, 56, 56), Call(lambda x: F.max_pool2d(x, 2, return_indices=True)[1].float())),
    "max_pool 1-D 3 128 at 2000": ((2, 128, 2000), nn.MaxPool1d(3, 2)),
    "max_pool 3-D 2 32 at 16": ((1, 32, 16, 16, 16), nn.MaxPool3d(2)),
    "adaptive_avg_pool 512 at 7 to 1": ((2, 512, 7, 7), nn.AdaptiveAvgPool2d(1)),
    "adaptive_avg_pool 256 at 30 to 7": ((1, 256, 30, 30), nn.AdaptiveAvgPool2d(7)),
    "adaptive_max_pool 256 at 30 to 7": ((1, 256, 30, 30), nn.AdaptiveMaxPool2d(7)),
    "adaptive_max_pool 256 at 28 to 7": ((1, 256, 28, 28), nn.AdaptiveMaxPool2d(7)),
    "pixel_shuffle 64 at 64": ((1, 64, 64, 64), nn.PixelShuffle(2)),
    "reflection pad 64 at 56": ((1, 64, 56, 56), nn.ReflectionPad2d(1)),
    "roll 64 at 56": ((1, 64, 56, 56), Call(lambda x: torch.roll(x, (3, 3), (2, 3)))),
}

# Others: name: the inputs, the call.
OTHERS = {
    "grid_sample 64 at 56": lambda: ((torch.randn(1, 64, 56, 56), torch.rand(1, 56, 56, 2) * 2 - 1), Call(lambda x, g: F.grid_sample(x, g, align_corners=False))),
    "grid_sample 32 at 14, many": lambda: ((torch.randn(8, 32, 14, 14), torch.rand(8, 300, 4, 2) * 2 - 1), Call(lambda x, g: F.grid_sample(x, g, align_corners=False))),
    "grid_sample bicubic 16 at 56": lambda: ((torch.randn(1, 16, 56, 56), torch.rand(1, 56, 56, 2) * 2 - 1), Call(lambda x, g: F.grid_sample(x, g, mode="bicubic", align_corners=False))),
    "grid_sample border 3 at 224": lambda: ((torch.randn(1, 3, 224, 224), torch.rand(1, 224, 224, 2) * 2 - 1), Call(lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=False))),
    "affine_grid 224": lambda: ((torch.randn(2, 2, 3),), Call(lambda t: F.affine_grid(t, (2, 3, 224, 224), align_corners=False))),
    "fold 3x3 64 at 56": lambda: ((torch.randn(1, 64 * 9, 56 * 56),), nn.Fold((56, 56), 3, padding=1)),
    "fold 7x7 /3 16 at 56": lambda: ((torch.randn(2, 16 * 49, 18 * 18),), nn.Fold((56, 56), 7, padding=1, stride=3)),
    "unfold 3x3 64 at 56": lambda: ((torch.randn(1, 64, 56, 56),), nn.Unfold(3, padding=1)),
    "embedding 30000 x 256, 512": lambda: ((torch.randint(0, 30000, (4, 128)),), nn.Embedding(30000, 256)),
    "embedding_bag 10000 x 64, 2048 in 256": lambda: ((torch.randint(0, 10000, (2048,)), torch.arange(0, 2048, 8)), nn.EmbeddingBag(10000, 64, mode="sum")),
    "embedding_bag 2-D mean 10000 x 128": lambda: ((torch.randint(0, 10000, (64, 20)),), nn.EmbeddingBag(10000, 128, mode="mean")),
    "index_select 4096 x 64": lambda: ((torch.randn(4096, 64), torch.randint(0, 4096, (2000,))), Call(lambda x, i: x.index_select(0, i))),
    "index_select axis 1": lambda: ((torch.randn(64, 4096), torch.randint(0, 4096, (2000,))), Call(lambda x, i: x.index_select(1, i))),
    "gather axis 1": lambda: ((torch.randn(64, 4096), torch.randint(0, 4096, (64, 2000))), Call(lambda x, i: x.gather(1, i))),
    "take two axes": lambda: ((torch.randn(256, 256), torch.randint(0, 256, (20000,)), torch.randint(0, 256, (20000,))), Call(lambda x, i, j: x[i, j])),
    "roll 8 x 197 x 768": lambda: ((torch.randn(8, 197, 768),), Call(lambda x: torch.roll(x, 5, 1))),
    "roll windows 1 x 56 x 56 x 96": lambda: ((torch.randn(1, 56, 56, 96),), Call(lambda x: torch.roll(x, (-3, -3), (1, 2)))),
    "flip": lambda: ((torch.randn(64, 1000),), Call(lambda x: x.flip(1))),
}


def images(form):
    for name, (sizes, layer) in IMAGES.items():
        x = torch.randn(*sizes)
        if form == "alone":
            yield name, layer.eval(), (x,)
            continue
        point, channels = CONVOLUTIONS[len(sizes) - 3], layer(x).shape[1]
        model = nn.Sequential(point(4, sizes[1], 1), nn.ReLU(), layer, nn.ReLU(), point(channels, 4, 1))
        yield name, model.eval(), (torch.randn(sizes[0], 4, *sizes[2:]),)


def problems(form):
    yield from images(form)
    if form == "alone":
        for name, make in OTHERS.items():
            inputs, layer = make()
            yield name, layer.eval(), inputs


def measure(only, forms, rounds, dtype):
    for form in forms:
        torch.manual_seed(0)
        for name, model, inputs in problems(form):
            if not re.search(only, name):
                continue
            model = model.to(dtype)
            inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
            compiled = ingot.compile(model, inputs=list(inputs))
            calls = {"ingot": peer(lambda: compiled(*inputs)), "eager": peer(lambda: model(*inputs))}
            best = interleave(calls, rounds, 3)
            yield {"kernel": f"{name}, {form}", "ms": {n: round(t * 1e3, 4) for n, t in best.items()}, "ratio": round(best["ingot"] / best["eager"], 3)}


def main():
    parser = problems_parser(__doc__.split("\n")[0])
    parser.add_argument("--dtype", default="float32")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    report_problems(measure(arguments.only, arguments.form.split(","), arguments.rounds, getattr(torch, arguments.dtype)), arguments, "reads.py")


if __name__ == "__main__":
    main()
