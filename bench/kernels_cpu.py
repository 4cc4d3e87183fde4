"""Single kernels on the CPU compared with the libraries and inductor, interleaved in one process: `make bench-kernels`.

    python bench/kernels_cpu.py [--threads 2] [--only matmul,gemv,attention,fused] [--rounds 12]

ingot's time is that of the step inside the engine (Session.profile). A peer's time is that of its call, minus the same call on a tensor of one element. Every figure is the fastest of all
rounds, so that other load on the machine counts as little as possible. Peers of matmul: MKL (torch.nn.functional.linear), MKL with packed weights and oneDNN with reordered weights.
Lines are appended to bench/results/<machine>.jsonl.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from ctypes import byref, c_void_p, string_at
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
import ingot
from cpu import machine_name
from ingot.engine import _library

torch.set_grad_enabled(False)
SHAPES = [(48, 96, 256)]
SHAPES += [(m, n, k) for m in (128, 1024) for n, k in ((768, 768), (3072, 768), (768, 3072), (2304, 768))]
SHAPES += [(16, n, k) for n, k in ((384, 384), (1536, 384), (384, 1536))]


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def ours(module, inputs):
    """A function that returns the fastest total time of the engine's steps in `n` calls, in seconds."""
    session = ingot.compile(module, inputs=[ingot.Input.from_tensor(x) for x in inputs]).engine.session()
    arrays = [x.numpy() for x in inputs]
    made = session.run(*arrays)

    def measure(n):
        best = math.inf
        _library.text_of(_library.lib().ingot_session_profile, session.pointer, 1)
        for _ in range(n):
            session.run(*arrays, out=made)
            steps = json.loads(_library.text_of(_library.lib().ingot_session_profile, session.pointer, 1))["steps"]
            best = min(best, sum(s["nanoseconds"] for s in steps) * 1e-9)
        return best

    return measure


def peer(call):
    def measure(n):
        best = math.inf
        for _ in range(n):
            start = time.perf_counter()
            call()
            best = min(best, time.perf_counter() - start)
        return best

    call()
    call()
    return measure


def interleave(measures, rounds, n):
    best = dict.fromkeys(measures, math.inf)
    for _ in range(rounds):
        for name, measure in measures.items():
            best[name] = min(best[name], measure(n))
    return best


def problems_parser(description):
    """The argument parser of a benchmark with the forms `alone` and `between` two convolutions."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--form", default="between,alone")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--dry", action="store_true", help="print only")
    return parser


def report_problems(lines, arguments, script, machine=None):
    """Prints each line with eager's time and appends it to bench/results, then prints the geometric mean of each form."""
    log = Path(__file__).resolve().parent / "results" / f"{machine or machine_name()}.jsonl"
    command = f"python bench/{script} " + " ".join(sys.argv[1:])
    done = []
    for line in lines:
        done.append(line)
        limit = f" {line['limit']:6.2f} x limit" if "limit" in line else ""
        print(f"{line['ratio']:7.2f} x eager {line['ms']['eager']:9.3f} ms,{limit}  {line['kernel']}", flush=True)
        if not arguments.dry:
            with open(log, "a") as file:
                file.write(json.dumps({**line, "threads": arguments.threads, "time": time.strftime("%Y-%m-%d"), "command": command.strip()}) + "\n")
    for form in arguments.form.split(","):
        ratios = [line["ratio"] for line in done if line["kernel"].endswith(form)]
        if ratios:
            print(f"{form}: geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} over {len(ratios)}, {sum(r > 1.05 for r in ratios)} behind eager")


def less_overhead(best, overhead):
    return {name: max(t - overhead.get(name, 0), 1e-9) for name, t in best.items()}


def linear_peers(x, layer):
    weight, bias = layer.weight, layer.bias
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, x.shape[0])
    reordered = torch.ops.mkldnn._reorder_linear_weight(weight, x.shape[0])
    return {
        "mkl": peer(lambda: F.linear(x, weight, bias)),
        "mkl packed": peer(lambda: torch.ops.mkl._mkl_linear(x, packed, weight, bias, x.shape[0])),
        "onednn": peer(lambda: torch.ops.mkldnn._linear_pointwise(x, reordered, bias, "none", [], "")),
    }


def matmul(rounds):
    tiny = torch.nn.Linear(1, 1)
    overhead = interleave(linear_peers(torch.ones(1, 1), tiny), rounds, 50)
    ratios = []
    for m, n, k in SHAPES:
        layer, x = torch.nn.Linear(k, n), torch.randn(m, k)
        best = interleave({"ingot": ours(layer, [x]), **linear_peers(x, layer)}, rounds, max(3, int(2e9 / (2 * m * n * k))) if m * n * k < 1e9 else 3)
        best = less_overhead(best, overhead)
        flops = {name: 2e-9 * m * n * k / t for name, t in best.items()}
        rival = max(v for name, v in flops.items() if name != "ingot")
        ratios.append(flops["ingot"] / rival)
        yield {"kernel": f"matmul {m}x{n}x{k}", "gflops": {name: round(v, 1) for name, v in flops.items()}, "speed": round(ratios[-1], 3)}
    yield {"kernel": "matmul, geometric mean", "speed": round(math.exp(statistics.fmean(map(math.log, ratios))), 3)}


def limits(threads, seconds):
    out = c_void_p()
    _library.check(_library.lib().ingot_measure_machine(threads, seconds, byref(out)))
    text = string_at(out)
    _library.lib().ingot_string_release(out)
    return json.loads(text)


def gemv(rounds, threads):
    layer, x = torch.nn.Linear(4096, 4096, bias=False), torch.randn(1, 4096)
    call, best, bandwidth = ours(layer, [x]), math.inf, 0.0
    for _ in range(rounds):
        best = min(best, call(10))
        bandwidth = max(bandwidth, limits(threads, 0.4)["bytes_per_second"])
    speed = 4 * 4096 * 4096 / best
    yield {"kernel": "gemv 4096x4096", "gb_per_second": round(speed * 1e-9, 1), "read_bandwidth": round(bandwidth * 1e-9, 1), "speed": round(speed / bandwidth, 3)}


def attention(rounds):
    q, k, v = (torch.randn(1, 12, 512, 64) for _ in range(3))
    tiny = torch.randn(1, 1, 1, 8)
    overhead = peer(lambda: F.scaled_dot_product_attention(tiny, tiny, tiny))(200)
    best = interleave({"ingot": ours(Call(F.scaled_dot_product_attention), [q, k, v]), "torch": peer(lambda: F.scaled_dot_product_attention(q, k, v))}, rounds, 10)
    best["torch"] -= overhead
    yield {"kernel": "attention b1 h12 s512 d64", "ms": {n: round(t * 1e3, 3) for n, t in best.items()}, "speed": round(best["torch"] / best["ingot"], 3)}


def fused(rounds):
    x, y, r = (torch.randn(1024, 768) for _ in range(3))
    w, b = torch.randn(768), torch.randn(768)
    cases = {
        "softmax": (lambda x: torch.softmax(x, -1), (x,)),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (768,), w, b), (x, w, b)),
        "gelu(x + b) * y + r": (lambda x, b, y, r: F.gelu(x + b) * y + r, (x, b, y, r)),
    }
    tiny = torch.zeros(8)
    empty = torch.compile(lambda x: x + 1)
    overhead = peer(lambda: empty(tiny))(500)
    for name, (function, arguments) in cases.items():
        compiled = torch.compile(function)
        best = interleave({"ingot": ours(Call(function), arguments), "inductor": peer(lambda: compiled(*arguments))}, rounds, 30)
        best["inductor"] -= overhead
        yield {"kernel": f"{name} [1024, 768]", "us": {n: round(t * 1e6, 1) for n, t in best.items()}, "ratio": round(best["ingot"] / best["inductor"], 3)}


def measure(only, threads, rounds):
    torch.set_num_threads(threads)
    groups = {"matmul": lambda: matmul(rounds), "gemv": lambda: gemv(rounds, threads), "attention": lambda: attention(rounds), "fused": lambda: fused(rounds)}
    for name in only:
        yield from groups[name]()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="matmul,gemv,attention,fused")
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    log = Path(__file__).resolve().parent / "results" / f"{machine_name()}.jsonl"
    log.parent.mkdir(exist_ok=True)
    command = "python bench/kernels_cpu.py " + " ".join(sys.argv[1:])
    for line in measure(arguments.only.split(","), arguments.threads, arguments.rounds):
        line.update(threads=arguments.threads, time=time.strftime("%Y-%m-%d"), command=command.strip())
        with open(log, "a") as file:
            file.write(json.dumps(line) + "\n")
        print({k: v for k, v in line.items() if k not in ("time", "command", "threads")}, flush=True)


if __name__ == "__main__":
    main()
