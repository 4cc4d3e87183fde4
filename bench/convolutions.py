"""Convolutions of all kinds compared with eager, interleaved in one process.

    python bench/convolutions.py [--threads 1] [--only "transposed|grouped"] [--rounds 12] [--form between,alone] [--peers eager,inductor,onednn]

Each problem is measured in two forms. `between` puts it between two 1x1 convolutions from and to four channels: its input and result are intermediates, so ingot chooses their layout. `alone`
uses the model's own input and result, which are [N, C, ...]. Figures are the fastest of all rounds, in milliseconds. `ratio` is ingot's time over eager's (below 1: faster). `limit` is ingot's
time over that of the multiplications at the machine's measured peak. Lines are appended to bench/results/<machine>.jsonl.

    python bench/convolutions.py --device cuda [--dtype float16] [--form alone] [--part 1/8 --rounds 0]

On a GPU eager is cuDNN in channels_last with `benchmark=True`, and times are those of a recorded CUDA graph of several calls, so without the time to launch them.
`--part K/N` takes every Nth problem; several processes with `--rounds 0` fill the cache of device code before one process measures.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import ingot
from kernels_cpu import interleave, limits, peer, problems_parser, report_problems

torch.set_grad_enabled(False)
nn = torch.nn
CONVOLUTIONS = {False: (nn.Conv1d, nn.Conv2d, nn.Conv3d), True: (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)}


def dense(c, o, k, size, **more):
    return c, o, k, size, more


def depthwise(c, k, size, stride=1, multiplier=1, **more):
    return c, c * multiplier, k, size, {"groups": c, "stride": stride, **({} if "padding" in more else {"padding": k // 2}), **more}


def up(c, o, k, size, stride, **more):
    return c, o, k, size, {"transposed": True, "stride": stride, **more}


# Name: input channels, output channels, kernel, sizes, arguments of the layer.
PROBLEMS = {
    # 2-D, dense
    "dense 3x3 64 at 56": dense(64, 64, 3, (56, 56), padding=1),
    "dense 3x3 128 at 28": dense(128, 128, 3, (28, 28), padding=1),
    "dense 3x3 256 at 14": dense(256, 256, 3, (14, 14), padding=1),
    "dense 3x3 512 at 7": dense(512, 512, 3, (7, 7), padding=1),
    "dense 3x3 /2 64 to 128 at 56": dense(64, 128, 3, (56, 56), padding=1, stride=2),
    "dense 3x3 128 to 32 at 28": dense(128, 32, 3, (28, 28), padding=1),
    "dense 5x5 32 at 28": dense(32, 32, 5, (28, 28), padding=2),
    "1x1 64 to 256 at 56": dense(64, 256, 1, (56, 56)),
    "1x1 256 to 64 at 56": dense(256, 64, 1, (56, 56)),
    "1x1 16 to 96 at 112": dense(16, 96, 1, (112, 112)),
    "1x1 96 to 24 at 56": dense(96, 24, 1, (56, 56)),
    "1x1 /2 256 to 512 at 56": dense(256, 512, 1, (56, 56), stride=2),
    "first 7x7 /2 3 to 64 at 224": dense(3, 64, 7, (224, 224), padding=3, stride=2),
    "first 3x3 /2 3 to 32 at 224": dense(3, 32, 3, (224, 224), padding=1, stride=2),
    "last 3x3 32 to 3 at 128": dense(32, 3, 3, (128, 128), padding=1),
    "few 3x3 8 at 128": dense(8, 8, 3, (128, 128), padding=1),
    "dilated 3x3 64 by 2 at 28": dense(64, 64, 3, (28, 28), padding=2, dilation=2),
    "dilated 3x3 64 by 4 at 28": dense(64, 64, 3, (28, 28), padding=4, dilation=4),
    "dense 3x3 64 at 28 of 8": dense(64, 64, 3, (28, 28), padding=1, batch=8),
    "dense 3x3 32 at 112": dense(32, 32, 3, (112, 112), padding=1),
    "dense 3x3 96 at 35": dense(96, 96, 3, (35, 35), padding=1),
    "dense 3x3 64 at 56 without padding": dense(64, 64, 3, (56, 56)),
    "dense 3x3 /2 256 to 512 at 14": dense(256, 512, 3, (14, 14), padding=1, stride=2),
    "dense 5x5 /2 16 to 32 at 112": dense(16, 32, 5, (112, 112), padding=2, stride=2),
    "dense 7x7 64 at 28": dense(64, 64, 7, (28, 28), padding=3),
    "dense 1x7 128 at 17": dense(128, 128, (1, 7), (17, 17), padding=(0, 3)),
    "dense 7x1 128 at 17": dense(128, 128, (7, 1), (17, 17), padding=(3, 0)),
    "dense 3x3 circular 32 at 28": dense(32, 32, 3, (28, 28), padding=1, padding_mode="circular"),
    "dense 3x3 reflected 32 at 28": dense(32, 32, 3, (28, 28), padding=1, padding_mode="reflect"),
    "dense 3x3 same 64 at 27": dense(64, 64, 3, (27, 27), padding="same"),
    "dense 3x3 48 to 80 at 30": dense(48, 80, 3, (30, 30), padding=1),
    "patches 16x16 3 to 384 at 224": dense(3, 384, 16, (224, 224), stride=16),
    "patches 4x4 3 to 96 at 224": dense(3, 96, 4, (224, 224), stride=4),
    "patches 2x2 96 to 192 at 56": dense(96, 192, 2, (56, 56), stride=2),
    "first 3x3 /2 1 to 16 at 224": dense(1, 16, 3, (224, 224), padding=1, stride=2),
    "first 3x3 3 to 64 at 128": dense(3, 64, 3, (128, 128), padding=1),
    "last 9x9 64 to 3 at 64": dense(64, 3, 9, (64, 64), padding=4),
    "last 1x1 64 to 21 at 64": dense(64, 21, 1, (64, 64)),
    "1x1 512 to 2048 at 7": dense(512, 2048, 1, (7, 7)),
    "1x1 2048 to 512 at 7": dense(2048, 512, 1, (7, 7)),
    "1x1 1024 to 256 at 14": dense(1024, 256, 1, (14, 14)),
    "1x1 32 to 16 at 112": dense(32, 16, 1, (112, 112)),
    "1x1 128 at 28 of 8": dense(128, 128, 1, (28, 28), batch=8),
    "1x1 960 to 160 at 7": dense(960, 160, 1, (7, 7)),
    "1x1 3 to 16 at 128": dense(3, 16, 1, (128, 128)),
    "1x1 512 to 1000 at 1": dense(512, 1000, 1, (1, 1)),
    "dilated 3x3 256 by 12 at 33": dense(256, 256, 3, (33, 33), padding=12, dilation=12),
    # 2-D, grouped
    "grouped 3x3 128 in 2 at 28": dense(128, 128, 3, (28, 28), padding=1, groups=2),
    "grouped 3x3 128 in 4 at 28": dense(128, 128, 3, (28, 28), padding=1, groups=4),
    "grouped 3x3 128 in 32 at 56": dense(128, 128, 3, (56, 56), padding=1, groups=32),
    "grouped 3x3 /2 256 in 32 at 56": dense(256, 256, 3, (56, 56), padding=1, stride=2, groups=32),
    "grouped 3x3 512 in 32 at 14": dense(512, 512, 3, (14, 14), padding=1, groups=32),
    "grouped 1x1 256 in 8 at 28": dense(256, 256, 1, (28, 28), groups=8),
    "grouped 3x3 96 to 192 in 12 at 28": dense(96, 192, 3, (28, 28), padding=1, groups=12),
    "grouped 3x3 48 in 3 at 40": dense(48, 48, 3, (40, 40), padding=1, groups=3),
    "grouped 5x5 64 in 8 at 28": dense(64, 64, 5, (28, 28), padding=2, groups=8),
    "grouped 3x3 240 in 10 at 28": dense(240, 240, 3, (28, 28), padding=1, groups=10),
    "grouped 1x1 240 to 60 in 3 at 28": dense(240, 60, 1, (28, 28), groups=3),
    # 2-D, depthwise
    "depthwise 3x3 32 at 112": depthwise(32, 3, (112, 112)),
    "depthwise 3x3 /2 96 at 112": depthwise(96, 3, (112, 112), stride=2),
    "depthwise 3x3 144 at 56": depthwise(144, 3, (56, 56)),
    "depthwise 3x3 192 at 28": depthwise(192, 3, (28, 28)),
    "depthwise 3x3 576 at 14": depthwise(576, 3, (14, 14)),
    "depthwise 3x3 960 at 7": depthwise(960, 3, (7, 7)),
    "depthwise 5x5 /2 144 at 56": depthwise(144, 5, (56, 56), stride=2),
    "depthwise 5x5 240 at 28": depthwise(240, 5, (28, 28)),
    "depthwise 5x5 672 at 14": depthwise(672, 5, (14, 14)),
    "depthwise 7x7 96 at 56": depthwise(96, 7, (56, 56)),
    "depthwise 3x3 x2 64 at 28": depthwise(64, 3, (28, 28), multiplier=2),
    "depthwise 3x3 x4 32 at 56": depthwise(32, 3, (56, 56), multiplier=4),
    "depthwise 3x3 64 by 2 at 28": depthwise(64, 3, (28, 28), padding=2, dilation=2),
    "depthwise 3x3 64 at 56 of 4": depthwise(64, 3, (56, 56), batch=4),
    "depthwise 3x3 3 at 224": depthwise(3, 3, (224, 224)),
    "depthwise 3x3 16 without padding at 113": depthwise(16, 3, (113, 113), padding=0),
    "depthwise 3x3 /2 32 at 113": depthwise(32, 3, (113, 113), stride=2),
    "depthwise 7x7 768 at 7": depthwise(768, 7, (7, 7)),
    "depthwise 1x21 64 at 64": depthwise(64, (1, 21), (64, 64), padding=(0, 10)),
    "depthwise 21x1 64 at 64": depthwise(64, (21, 1), (64, 64), padding=(10, 0)),
    # 2-D, transposed
    "transposed 2x2 /2 64 to 32 at 32": up(64, 32, 2, (32, 32), 2),
    "transposed 3x3 /2 64 to 32 at 32": up(64, 32, 3, (32, 32), 2, padding=1, output_padding=1),
    "transposed 4x4 /2 128 to 64 at 28": up(128, 64, 4, (28, 28), 2, padding=1),
    "transposed 4x4 /4 64 to 32 at 28": up(64, 32, 4, (28, 28), 4),
    "transposed 3x3 /1 64 at 28": up(64, 64, 3, (28, 28), 1, padding=1),
    "transposed 4x4 /2 64 in 4 at 28": up(64, 64, 4, (28, 28), 2, padding=1, groups=4),
    "transposed 4x4 /2 64 in 64 at 28": up(64, 64, 4, (28, 28), 2, padding=1, groups=64),
    "transposed 5x5 /2 64 to 3 at 64": up(64, 3, 5, (64, 64), 2, padding=2, output_padding=1),
    "transposed 2x2 /2 256 to 128 at 14": up(256, 128, 2, (14, 14), 2),
    "transposed 4x4 /2 512 to 256 at 4": up(512, 256, 4, (4, 4), 2, padding=1),
    "transposed 3x3 /2 16 to 1 at 14": up(16, 1, 3, (14, 14), 2, padding=1, output_padding=1),
    # 1-D
    "1-D 3 128 at 2000": dense(128, 128, 3, (2000,), padding=1),
    "1-D 8 /4 1 to 64 at 16000": dense(1, 64, 8, (16000,), stride=4),
    "1-D 8 /4 64 to 128 at 4000": dense(64, 128, 8, (4000,), padding=2, stride=4),
    "1-D 7 by 3 64 at 4000": dense(64, 64, 7, (4000,), padding=9, dilation=3),
    "1-D depthwise 3 512 at 2000": depthwise(512, 3, (2000,)),
    "1-D depthwise 31 256 at 500": depthwise(256, 31, (500,)),
    "1-D grouped 3 256 in 8 at 1000": dense(256, 256, 3, (1000,), padding=1, groups=8),
    "1-D transposed 8 /4 128 to 64 at 1000": up(128, 64, 8, (1000,), 4, padding=2),
    "1-D transposed 16 /8 128 to 64 at 500": up(128, 64, 16, (500,), 8, padding=4),
    "1-D transposed 8 /4 64 to 1 at 4000": up(64, 1, 8, (4000,), 4),
    "1-D 1 256 at 1000": dense(256, 256, 1, (1000,)),
    "1-D 10 /5 1 to 512 at 16000": dense(1, 512, 10, (16000,), stride=5),
    "1-D 3 /2 80 to 384 at 3000": dense(80, 384, 3, (3000,), padding=1, stride=2),
    "1-D 3 64 at 1000 of 8": dense(64, 64, 3, (1000,), padding=1, batch=8),
    "1-D 7 32 to 1 at 8000": dense(32, 1, 7, (8000,), padding=3),
    "1-D depthwise 4 768 at 512": depthwise(768, 4, (512,), padding=3),
    "1-D depthwise 3 by 4 128 at 3000": depthwise(128, 3, (3000,), padding=4, dilation=4),
    # 3-D
    "3-D 3 16 at 24": dense(16, 16, 3, (24, 24, 24), padding=1),
    "3-D 3 64 at 12": dense(64, 64, 3, (12, 12, 12), padding=1),
    "3-D 3 /2 16 to 32 at 24": dense(16, 32, 3, (24, 24, 24), padding=1, stride=2),
    "3-D first 3 1 to 16 at 32": dense(1, 16, 3, (32, 32, 32), padding=1),
    "3-D depthwise 3 32 at 16": depthwise(32, 3, (16, 16, 16)),
    "3-D grouped 3 32 in 4 at 16": dense(32, 32, 3, (16, 16, 16), padding=1, groups=4),
    "3-D transposed 2 /2 32 to 16 at 12": up(32, 16, 2, (12, 12, 12), 2),
    "3-D transposed 4 /2 32 to 16 at 12": up(32, 16, 4, (12, 12, 12), 2, padding=1),
    "3-D 1 64 at 16": dense(64, 64, 1, (16, 16, 16)),
    "3-D 1x3x3 32 at 8 x 28": dense(32, 32, (1, 3, 3), (8, 28, 28), padding=(0, 1, 1)),
    "3-D 3x1x1 32 at 8 x 28": dense(32, 32, (3, 1, 1), (8, 28, 28), padding=(1, 0, 0)),
    "3-D first 3x7x7 /2 3 to 32 at 8 x 56": dense(3, 32, (3, 7, 7), (8, 56, 56), padding=(1, 3, 3), stride=(1, 2, 2)),
    "3-D depthwise 5 16 at 16": depthwise(16, 5, (16, 16, 16)),
    "3-D dilated 3 16 by 2 at 16": dense(16, 16, 3, (16, 16, 16), padding=2, dilation=2),
}


def layers(problem, form):
    """The module, an input, and the number of multiply-adds of the convolution."""
    c, o, k, size, more = problem
    more = dict(more)
    transposed, batch = more.pop("transposed", False), more.pop("batch", 1)
    layer = CONVOLUTIONS[transposed][len(size) - 1](c, o, k, **more)
    point = CONVOLUTIONS[False][len(size) - 1]
    x = torch.randn(batch, c, *size)
    y = layer(x)
    places = math.prod(size) if transposed else math.prod(y.shape[2:])
    work = batch * places * layer.weight.numel()
    if form == "alone":
        return layer.eval(), x, work
    model = nn.Sequential(point(4, c, 1), nn.ReLU(), layer, nn.ReLU(), point(o, 4, 1)).eval()
    return model, torch.randn(batch, 4, *size), work + 4 * batch * (c * math.prod(size) + o * math.prod(y.shape[2:]))


def inductor(model, x):
    """torch.compile with weights packed for oneDNN beforehand."""
    torch._dynamo.reset()
    compiled = torch.compile(model, options={"freezing": True})
    return peer(lambda: compiled(x))


def onednn(layer, x):
    """oneDNN on a packed weight, with the result in oneDNN's preferred layout; None if torch has no such call for the layer."""
    if not isinstance(layer, CONVOLUTIONS[False][1:]) or layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        return None
    order = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    shape, image = (layer.padding, layer.stride, layer.dilation, layer.groups), x.contiguous(memory_format=order)
    weight = torch.ops.mkldnn._reorder_convolution_weight(layer.weight, *shape, list(x.shape))
    return peer(lambda: torch.ops.mkldnn._convolution_pointwise(image, weight, layer.bias, *shape, "none", [], ""))


PEERS = {"eager": lambda model, x: peer(lambda: model(x)), "inductor": inductor, "onednn": onednn}


def chosen(only, part):
    """Of the problems whose names match, every Nth from the Kth on."""
    k, n = map(int, part.split("/"))
    return [(name, problem) for name, problem in PROBLEMS.items() if re.search(only, name)][k - 1 :: n]


def recorded(call, together=8):
    """A measure like `peer`, of a recorded graph of so many calls: seconds on the GPU for each."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(together):
            call()

    def measure(n):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(n):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e-3 / (n * together)

    measure.call = call  # a graph needs the kernels of what it recorded
    return measure


def measure_on_gpu(problems, forms, rounds, dtype, flops, bandwidth):
    """Lines like those of `measure`. The limit is the multiplications at `flops`, or all bytes at `bandwidth`."""
    torch.backends.cudnn.benchmark = True
    for name, problem in problems:
        for form in forms:
            torch.manual_seed(0)
            model, x, work = layers(problem, form)
            order = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim(), torch.contiguous_format)
            model, x = model.to("cuda", dtype, memory_format=order), x.to("cuda", dtype).contiguous(memory_format=order)
            try:
                compiled = ingot.compile(model, inputs=[x])
            except Exception as problem_met:  # shown, and the others continue
                print(f"{name}, {form}: {type(problem_met).__name__}: {problem_met}"[:300], flush=True)
                continue
            y = compiled(x)
            if rounds == 0:
                continue
            best = interleave({"ingot": recorded(lambda: compiled(x)), "eager": recorded(lambda: model(x))}, rounds, 3)
            bound = max(2 * work / flops, sum(t.nbytes for t in (x, y, *model.parameters())) / bandwidth)
            yield {
                "kernel": f"convolution {name}, {str(dtype).split('.')[1]}, {form}",
                "ms": {n: round(t * 1e3, 5) for n, t in best.items()},
                "ratio": round(best["ingot"] / best["eager"], 3),
                "limit": round(best["ingot"] / bound, 2),
            }


def measure(problems, forms, peers, rounds, threads, peak):
    for name, problem in problems:
        for form in forms:
            torch.manual_seed(0)
            model, x, work = layers(problem, form)
            compiled = ingot.compile(model, inputs=[x])
            calls = {"ingot": peer(lambda: compiled(x)), **{name: PEERS[name](model, x) for name in peers}}
            best = interleave({name: call for name, call in calls.items() if call}, rounds, 3)
            yield {
                "kernel": f"convolution {name}, {form}",
                "ms": {n: round(t * 1e3, 4) for n, t in best.items()},
                "ratio": round(best["ingot"] / best["eager"], 3),
                "limit": round(best["ingot"] / (2 * work / peak), 2),
            }


def main():
    parser = problems_parser(__doc__.split("\n")[0])
    parser.add_argument("--peers", default="eager", help="eager, which is what ratios are of, inductor, onednn")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float16", choices=["float16", "bfloat16", "float32"], help="on a GPU")
    parser.add_argument("--part", default="1/1", metavar="K/N")
    arguments = parser.parse_args()
    problems, forms = chosen(arguments.only, arguments.part), arguments.form.split(",")
    if arguments.device == "cuda":
        import cuda

        return report_problems(measure_on_gpu(problems, forms, arguments.rounds, getattr(torch, arguments.dtype), *cuda.ceilings()), arguments, "convolutions.py", cuda.gpu_name())
    torch.set_num_threads(arguments.threads)
    peak = limits(arguments.threads, 0.3)["flops"]
    report_problems(measure(problems, forms, arguments.peers.split(","), arguments.rounds, arguments.threads, peak), arguments, "convolutions.py")


if __name__ == "__main__":
    main()
