"""What streaming half of a model's weights costs compared with the copies alone: milliseconds of a call over streamed bytes at the measured speed of copies from page-locked memory.

    python bench/weight_streaming.py [--model llama-8b|layers] [--share 0.5] [--seconds 5] [--json FILE]

The model is made on the GPU, moved to the host and compiled there for this GPU; its plan is loaded with option memory_bytes, so that the device holds `share` of the weights,
the ring included. `llama-8b`: Llama 3 8B's sizes in bfloat16, one token, random weights (needs transformers, 40 GB of host memory). `layers`: 32 linear layers of 4096 in
bfloat16, one row, for a quick look. Bar: 1.25. Results are compared with those of all weights on the device, bit by bit. Needs an NVIDIA GPU; ends at once without one.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

import ingot

sys.path.insert(0, str(Path(__file__).resolve().parent))

BAR = 1.25


def layers():
    with torch.device("cuda"):
        made = [layer for _ in range(32) for layer in (torch.nn.Linear(4096, 4096, bias=False), torch.nn.SiLU())]
    return torch.nn.Sequential(*made).to(torch.bfloat16).eval(), (torch.randn(1, 4096, dtype=torch.bfloat16),)


def llama_8b():
    from cuda import llama_8b as made

    model, inputs = made()
    return model, tuple(t.cpu() for t in inputs)


MODELS = {"llama-8b": llama_8b, "layers": layers}


def copies_per_second(bytes=1 << 30, times=8) -> float:
    """Bytes a second from page-locked memory to the GPU."""
    host, device = torch.empty(bytes, dtype=torch.uint8, pin_memory=True), torch.empty(bytes, dtype=torch.uint8, device="cuda")
    found = []
    for _ in range(times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        device.copy_(host, non_blocking=True)
        end.record()
        torch.cuda.synchronize()
        found.append(bytes / begin.elapsed_time(end) * 1e3)
    return statistics.median(found)


def milliseconds(call, seconds) -> float:
    """Median of calls one after another."""
    for _ in range(4):
        call()
    torch.cuda.synchronize()
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(found) < 10:
        begin, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        done.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(done))
    return statistics.median(found)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=MODELS, default="llama-8b")
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", help="a file that the line is appended to")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("no NVIDIA GPU here: nothing to stream to")
        return
    torch.manual_seed(0)
    model, inputs = MODELS[args.model]()
    model = model.cpu()
    torch.cuda.empty_cache()
    target = "cuda:sm_{}{}".format(*torch.cuda.get_device_capability())
    with tempfile.TemporaryDirectory() as folder:
        plan = f"{folder}/plan.ingot"
        ingot.save(ingot.compile(model, list(inputs), target=target), plan, weights="strip")
        weights, given = {**dict(model.named_parameters()), **dict(model.named_buffers())}, [t.cuda() for t in inputs]
        whole = ingot.load(plan, device="cuda", weights=weights)
        wanted, without = whole(*given).clone(), milliseconds(lambda: whole(*given), args.seconds)
        total = whole.engine.memory()["resident"]
        del whole
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = torch.cuda.mem_get_info()[0]
        begin = time.perf_counter()
        streamed = ingot.load(plan, device="cuda", weights=weights, memory_bytes=int(total * args.share))
        loading = time.perf_counter() - begin
        memory, same = streamed.engine.memory(), torch.equal(streamed(*given), wanted)
        held = before - torch.cuda.mem_get_info()[0]
        rate, taken, rate_after = copies_per_second(), milliseconds(lambda: streamed(*given), args.seconds), copies_per_second()
        same = same and torch.equal(streamed(*given), wanted)
    limit = memory["streamed"] / max(rate, rate_after) * 1e3
    line = {
        "model": args.model, "gpu": torch.cuda.get_device_name(), "weights_gb": total / 1e9, "resident_gb": memory["resident"] / 1e9, "streamed_gb": memory["streamed"] / 1e9,
        "ring_gb": memory["ring"] / 1e9, "device_gb": held / 1e9, "copy_gb_s": max(rate, rate_after) / 1e9, "ms": taken, "copies_ms": limit,
        "over_copies": taken / limit, "bar": BAR, "all_on_device_ms": without, "load_s": loading, "same_bits": same,
    }  # fmt: skip
    for name, value in line.items():
        print(f"{name:>17}: {value:.3f}" if isinstance(value, float) else f"{name:>17}: {value}")
    if args.json:
        with open(args.json, "a") as out:
            out.write(json.dumps(line) + "\n")
    sys.exit(0 if same and taken <= BAR * limit else 1)


if __name__ == "__main__":
    main()
