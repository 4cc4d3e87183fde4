"""End-to-end times on an NVIDIA GPU compared with every peer, in one run: `make bench-cuda`.

All peers of a row run in one process, share the model's weights, and run bursts alternately (order rotated). Reported for each:

- median milliseconds on the GPU (events around a call, calls one after the other), and of wall time (waiting for each call);
- seconds to the first result, and for ingot to build besides capture;
- error against float64 (bfloat16 rows: float32), and memory of the GPU;
- the limit: operations over the measured peak of a large matrix product, or weight bytes over measured read bandwidth, whichever is longer.

Lines are appended to bench/results/<gpu>.jsonl with the command. `--before FOLDER` adds the peer "before": another build of ingot, from a wheel unpacked in that folder, in its own process,
which waits while the others run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import images  # noqa: E402
from cpu import BEFORE, environment_of, ratios  # noqa: E402

os.environ.setdefault("HF_HUB_OFFLINE", "1")
PEERS = ["ingot", "ingot-timed", "eager", "inductor", "inductor-graphs", "max-autotune"]
TIMED_SECONDS = 5.0  # default build_seconds of the peer "ingot-timed"; the peer "ingot" uses its cost model
MODES = {"inductor": None, "inductor-graphs": "reduce-overhead", "max-autotune": "max-autotune"}


# ---- the models


@dataclass(frozen=True)
class Row:
    name: str
    make: Callable       # () -> module on the GPU, and a tuple of its inputs
    bar: float           # milliseconds
    peers: tuple = tuple(PEERS[:5])
    options: tuple = ()  # of ingot.compile, as pairs


def _first(module):
    """The module with its first tensor as result."""
    import torch

    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, *inputs):
            result = self.inner(*inputs)
            return result if isinstance(result, torch.Tensor) else result[0]

    return First().eval().requires_grad_(False)


def bert_large(batch, sequence):
    import torch
    import transformers

    config = transformers.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, attn_implementation="sdpa")
    ids = torch.randint(0, 30000, (batch, sequence), device="cuda")
    with torch.device("cuda"):
        model = transformers.BertModel(config, add_pooling_layer=False)
    return _first(model.to(torch.float16)), (ids, torch.ones_like(ids))


def vit(batch):
    import torch
    import torchvision

    model = torchvision.models.vit_b_16()
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)  # zeros otherwise, and all results equal
    return _first(model.to("cuda", torch.float16)), (torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.float16),)


def resnet(batch):
    import torch
    import torchvision

    layout = {"memory_format": torch.channels_last}
    return _first(torchvision.models.resnet50().to("cuda", torch.float16).to(**layout)), (torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.float16).to(**layout),)


def llama_8b():
    import torch
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, attn_implementation="sdpa", use_cache=False
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return _first(model), (torch.randint(0, 1000, (1, 1), device="cuda"),)


ROWS = [
    Row("bert-large-f16-b1-s128", lambda: bert_large(1, 128), 0.90),
    Row("bert-large-f16-b8-s128", lambda: bert_large(8, 128), 1.60),
    Row("bert-large-f16-b32-s384", lambda: bert_large(32, 384), 14.0),
    Row("vit-b16-f16-b1", lambda: vit(1), 0.50),
    Row("vit-b16-f16-b32", lambda: vit(32), 2.6),
    Row("resnet50-f16-b1", lambda: resnet(1), 0.38, tuple(PEERS)),
    Row("resnet50-f16-b32", lambda: resnet(32), 1.05, tuple(PEERS)),
    Row("llama-8b-bf16-token", llama_8b, 4.0),
    Row("llama-8b-int8-token", llama_8b, 2.35, ("ingot", "eager"), (("weight_dtype", "int8"),)),  # eager: bfloat16
]


def image(name, maker, bar, dtype="float16", peers=tuple(PEERS[:5])):
    def make():
        import torch

        return maker("cuda", getattr(torch, dtype))

    return Row(name, make, bar, peers)


def image_rows():
    net = images.torchvision_model
    return [
        image("sd15-unet-f16-b2", images.sd15_unet(), 5.3),
        image("vae-decoder-f16-512", images.vae_decoder(), 5.8),
        image("convnext-tiny-f16-b32", net("convnext_tiny", 32), 1.5),
        image("efficientnet-b0-f16-b32", net("efficientnet_b0", 32), 1.0),
        image("efficientnet-b0-f16-b1", net("efficientnet_b0", 1), 0.40),
        image("swin-t-f16-b32", net("swin_t", 32), 2.0),
        image("resnet50-tf32-b8", net("resnet50", 8), 0.75, "float32"),
        image("regnet-f16-b32", net("regnet_y_3_2gf", 32), 0),
        image("densenet121-f16-b32", net("densenet121", 32), 0),
        image("sdxl-unet-f16-b2", images.sdxl_unet(), 0),
        image("sd3-transformer-f16-b2", images.sd3_transformer(), 0),
        image("unet-f16-b8", images.written_out(images.unet_2d, 8, 3, 256, 256), 0),
        image("detector-f16-b8", images.written_out(images.detector, 8, 3, 640, 640), 0),
        image("vocoder-f16-b4", images.written_out(images.vocoder, 4, 80, 128), 0),
        image("sound-codec-f16-b4", images.written_out(images.sound_codec, 4, 1, 48000), 0),
        image("separator-f16-b4", images.written_out(images.separator, 4, 1, 32000), 0),
        image("unet-3d-f16-b2", images.written_out(images.unet_3d, 2, 1, 64, 64, 64), 0),
    ]


# ---- one row, in its own process


def burst(call, seconds):
    """(milliseconds on the GPU for each call, milliseconds of wall time for each call with waiting)."""
    import torch

    device, wall = [], []
    call()
    torch.cuda.synchronize()
    end = time.perf_counter() + seconds / 2
    while time.perf_counter() < end or len(device) < 10:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(11)]
        for mark in marks[:-1]:
            mark.record()
            call()
        marks[-1].record()
        torch.cuda.synchronize()
        device += [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]
    end = time.perf_counter() + seconds / 2
    while time.perf_counter() < end or len(wall) < 10:
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        wall.append((time.perf_counter() - start) * 1e3)
    return device, wall


def ceilings():
    """The measured FLOP/s of a large half-precision matrix product, and the measured read bandwidth in bytes/s."""
    import torch

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    x = torch.empty(1 << 31, device="cuda", dtype=torch.int8).zero_().view(torch.float32)
    product = min(burst(lambda: a @ a, 0.2)[0])
    read = min(burst(lambda: x.amax(), 0.2)[0])
    return 2 * 8192**3 / product * 1e3, x.nbytes / read * 1e3


def cost(module, inputs):
    """The operations of a call, by torch's counter, and the bytes of the weights that it reads whole."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    try:
        with FlopCounterMode(display=False) as counter:
            module(*inputs)
    except AssertionError:  # torch 2.11's counter does not know grouped heads: count the matrix products of a token instead
        return 2 * sum(p.numel() for p in module.parameters() if p.dim() == 2), sum(p.nbytes for p in module.parameters())
    tables = {id(m.weight) for m in module.modules() if isinstance(m, torch.nn.Embedding)}
    return counter.get_total_flops(), sum(p.nbytes for p in module.parameters() if id(p) not in tables)


def build(peer, row, module, inputs, timed_seconds):
    """(the call, seconds to build besides capture, if the peer reports them)."""
    import torch

    if peer == "eager":
        return lambda: module(*inputs), None
    if peer.startswith("ingot"):
        import ingot

        program = torch.export.export(module, inputs)
        start = time.perf_counter()
        compiled = ingot.compile(program, build_seconds=timed_seconds if peer == "ingot-timed" else 0, **dict(row.options))
        return lambda: compiled(*inputs), time.perf_counter() - start
    compiled = torch.compile(module, dynamic=False, mode=MODES[peer])
    return lambda: compiled(*inputs), None


def started(peer, row, module, inputs, timed_seconds):
    """(the call, its first result, a dict of the start-up costs)."""
    import torch

    free = torch.cuda.mem_get_info()[0]
    start = time.perf_counter()
    call, built = build(peer, row, module, inputs, timed_seconds)
    result = call().clone()
    torch.cuda.synchronize()
    head = {"first_s": round(time.perf_counter() - start, 2), "build_s": built and round(built, 2)}
    call()
    torch.cuda.synchronize()
    return call, result, head | {"memory_mb": round((free - torch.cuda.mem_get_info()[0]) / 2**20)}


class Elsewhere:
    """The peer "before": the same row in a process with another build of ingot, which gets a command for each burst."""

    def __init__(self, row, arguments):
        command = [sys.executable, __file__, "--serve", row.name, "--build-seconds", str(arguments.build_seconds)]
        self.cache = tempfile.TemporaryDirectory()
        environment = {**environment_of(arguments.before), "INGOT_CACHE_DIR": self.cache.name}  # each builds its own code, and times it
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        self.head = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the process with the build of before died")
        return json.loads(line)

    def result(self):
        import torch

        return torch.load(self.head["result"], weights_only=True).cuda()

    def burst(self, seconds):
        print(seconds, file=self.process.stdin, flush=True)
        return self._answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        os.unlink(self.head["result"])
        self.cache.cleanup()


def serve(row, arguments):
    """The other side of Elsewhere."""
    import torch

    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, inputs = row.make()
    call, result, head = started("ingot", row, module, inputs, arguments.build_seconds)
    with tempfile.NamedTemporaryFile(suffix=".pt", delete=False) as file:
        torch.save(result.cpu(), file)
    print(json.dumps(head | {"result": file.name}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(burst(call, float(line))), file=answers, flush=True)


def run_row(row, peers, arguments):
    """Yields a dict for each peer."""
    import torch

    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    module, inputs = row.make()
    flops, size = cost(module, inputs)
    peak, bandwidth = ceilings()
    limit = max(flops / peak, size / bandwidth) * 1e3
    torch.cuda.empty_cache()
    weights_mb = round(sum(p.nbytes for p in module.parameters()) / 2**20)
    wide = torch.float32 if inputs[0].dtype is torch.bfloat16 or size > 4e9 else torch.float64
    results, calls = {}, {}
    for peer in peers:
        try:
            calls[peer], result, head = started(peer, row, module, inputs, arguments.build_seconds)
            results[peer] = {"row": row.name, "peer": peer} | head | {"result": result.double()}
        except Exception as problem:  # reported, and the others continue
            results[peer] = {"row": row.name, "peer": peer, "failed": f"{type(problem).__name__}: {problem}"[:400]}
    bursts = {peer: lambda seconds, call=call: burst(call, seconds) for peer, call in calls.items()}
    if arguments.before:
        before = Elsewhere(row, arguments)
        bursts[BEFORE] = before.burst
        results[BEFORE] = {"row": row.name, "peer": BEFORE} | before.head | {"result": before.result().double()}
    times, rounds = {peer: ([], []) for peer in bursts}, {peer: [] for peer in bursts}
    for k in range(arguments.rounds):
        order = list(bursts)
        for peer in order[k % len(order) :] + order[: k % len(order)]:
            device, wall = bursts[peer](arguments.burst)
            times[peer][0].extend(device)
            times[peer][1].extend(wall)
            rounds[peer].append(device)
    if arguments.before:
        before.close()
        if "ingot" in rounds:
            results[BEFORE] |= ratios(rounds[BEFORE], rounds["ingot"])
    bursts.clear()
    calls.clear()
    torch._dynamo.reset()
    exact = module.to(wide)(*(x.to(wide) if x.is_floating_point() else x for x in inputs)).double()
    for peer, (device, wall) in times.items():
        error = float((results[peer].pop("result") - exact).abs().max())
        results[peer] |= {"ms": round(statistics.median(device), 4), "ms_min": round(min(device), 4), "wall_ms": round(statistics.median(wall), 4), "calls": len(device), "error": error}
    for result in results.values():
        yield result | {"bar": row.bar, "limit_ms": round(limit, 4), "weights_mb": weights_mb, "tflops": round(peak / 1e12), "tb_per_s": round(bandwidth / 1e12, 2), "time": time.strftime("%Y-%m-%d")}


def here(row, peers, arguments):
    """The results of a row in this process."""
    import torch

    warnings.filterwarnings("ignore")
    try:
        return list(run_row(row, [p for p in peers if p in row.peers], arguments))
    except Exception as problem:
        return [{"row": row.name, "peer": "all", "failed": f"{type(problem).__name__}: {problem}"[-400:]}]
    finally:
        torch._dynamo.reset()
        torch.cuda.empty_cache()


# ---- all rows


def gpu_name():
    """The name of the GPU's file in bench/results."""
    import torch

    return torch.cuda.get_device_name().lower().replace(" ", "-")


def main():
    main_rows, rows = [row.name for row in ROWS], {row.name: row for row in [*ROWS, *image_rows()]}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default=",".join(main_rows), help="names, or beginnings of names, with commas; \"images\" is all rows of images.py")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--burst", type=float, default=0.3, help="seconds of each burst")
    parser.add_argument("--build-seconds", type=float, default=TIMED_SECONDS, metavar="N", help="build_seconds of ingot-timed: how long ingot.compile may time offers on the GPU (default %(default)g)")
    parser.add_argument("--before", metavar="FOLDER", help="also compare with the build of ingot whose wheel is unpacked there")
    parser.add_argument("--worker", metavar="ROW")
    parser.add_argument("--serve", metavar="ROW", help="(a process of --before)")
    parser.add_argument("--in-process", action="store_true", help="all rows in one process: quicker, but what a row leaves in the allocator counts for the next one's memory")
    parser.add_argument("--json", action="store_true", help="print the lines as JSON only")
    arguments = parser.parse_args()
    if arguments.rows == "images":
        arguments.rows = ",".join(n for n in rows if n not in main_rows)
    peers = arguments.peers.split(",")
    if unknown := [p for p in peers if p not in PEERS]:
        parser.error(f"no peer is called {unknown[0]!r}; there are {', '.join(PEERS)}")
    if unknown := [wanted for wanted in arguments.rows.split(",") if not any(n.startswith(wanted) for n in rows)]:
        parser.error(f"no row's name begins with {unknown[0]!r}; there are {', '.join(rows)}")
    if arguments.serve:
        warnings.filterwarnings("ignore")
        serve(rows[arguments.serve], arguments)
        return
    if arguments.worker:
        warnings.filterwarnings("ignore")
        row = rows[arguments.worker]
        for result in run_row(row, [p for p in peers if p in row.peers], arguments):
            print(json.dumps(result), flush=True)
        return
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("bench/cuda.py needs an NVIDIA GPU and a torch that sees it")
    log = HERE / "results" / f"{gpu_name()}.jsonl"
    command = "python bench/cuda.py " + " ".join(sys.argv[1:])
    for name in [n for n in rows if any(n.startswith(wanted) for wanted in arguments.rows.split(","))]:
        worker = [sys.executable, __file__, "--worker", name, "--peers", arguments.peers, "--rounds", str(arguments.rounds), "--burst", str(arguments.burst)]
        worker += ["--build-seconds", str(arguments.build_seconds)] + (["--before", arguments.before] if arguments.before else [])
        if arguments.in_process:
            results = here(rows[name], peers, arguments)
        else:
            with tempfile.TemporaryDirectory() as cache:
                done = subprocess.run(worker, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "INGOT_CACHE_DIR": cache})
            results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            if not results:
                results = [{"row": name, "peer": "all", "failed": done.stderr[-400:]}]
        with open(log, "a") as file:
            for result in results:
                file.write(json.dumps(result | {"command": command.strip()}) + "\n")
        if arguments.json:
            print("\n".join(json.dumps(r) for r in results), flush=True)
            continue
        ours = next((r["ms"] for r in results if r["peer"] == "ingot" and "ms" in r), None)
        print(f"{name}: limit {results[0].get('limit_ms')} ms, bar {rows[name].bar}")
        for r in results:
            if "failed" in r:
                print(f"  {r['peer']:16s} failed: {r['failed']}")
            else:
                ratio = f"{r['ms'] / ours:5.2f}x" if ours else ""
                build_s = f"build {r['build_s']:6.2f} s" if r["build_s"] else ""
                print(f"  {r['peer']:16s} {r['ms']:9.4f} ms {ratio:7s} wall {r['wall_ms']:9.4f}  error {r['error']:.1e}  first {r['first_s']:6.2f} s  {r['memory_mb']} MB  {build_s}")
            if "rounds" in r:
                print(f"  before over now {r['before_over_now']:.3f}, rounds {r['rounds']}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
