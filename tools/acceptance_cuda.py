"""What the GPU work is judged by: `make acceptance-cuda`, on a machine with an NVIDIA H200.

Prints one line each: PASS or FAIL, the figure, the bar. What cannot be measured prints FAIL with the reason. `--only WORD` runs the lines
whose name contains the word, `--list` names them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

from acceptance import ROOT, SCRATCH, last, line, main, pytest, shell, succeeds

sys.path.insert(0, str(ROOT / "bench"))
BUILD_BARS = {"bert-large-f16-b1-s128": (6, 2), "resnet50-f16-b1": (12, 2), "llama-8b-bf16-token": (10, 4)}  # seconds with cold and with warm caches


def bench(*arguments, **environment):
    """{row: {peer: result}} of bench/cuda.py."""
    done = shell([sys.executable, "bench/cuda.py", "--json", *arguments], env={**os.environ, **environment})
    rows = {}
    for text in done.stdout.splitlines():
        if text.startswith("{"):
            result = json.loads(text)
            rows.setdefault(result["row"], {})[result["peer"]] = result
    if not rows:
        raise RuntimeError(last(done.stderr))
    return rows


@line("speed")
def speed():
    for row, peers in bench().items():
        ours = peers.get("ingot", {})
        others = {p: r["ms"] for p, r in peers.items() if p != "ingot" and "ms" in r}
        failed = [p for p, r in peers.items() if "ms" not in r]
        if "ms" not in ours:
            yield row, ours.get("failed", "ingot did not run"), "runs", False
            continue
        best = min(others, key=others.get) if others else "nothing"
        figure = f"{ours['ms']:.3f} ms, limit {ours['limit_ms']:.3f}, best peer {best} {others.get(best, 0):.3f}, error {ours['error']:.1e} (eager {peers.get('eager', {}).get('error', 0):.1e})"
        yield row, figure + (f"; did not run: {', '.join(failed)}" if failed else ""), f"{ours['bar']} ms", ours["ms"] <= ours["bar"] and not failed


@line("build")
def build():
    """Besides capture, in a process of its own each time."""
    cache = SCRATCH / "cache"
    for row, bars in BUILD_BARS.items():
        shutil.rmtree(cache, ignore_errors=True)
        for state, bar in zip(("cold", "warm"), bars):
            result = bench("--rows", row, "--peers", "ingot", "--rounds", "1", "--burst", "0.1", INGOT_CACHE_DIR=str(cache))[row]["ingot"]
            seconds = result.get("build_s")
            yield f"{row}, {state} cache", result.get("failed") or f"{seconds:.2f} s", f"{bar} s", seconds is not None and seconds <= bar


@line("memory")
def memory():
    for row in BUILD_BARS:
        peers = bench("--rows", row, "--peers", "ingot,eager", "--rounds", "1", "--burst", "0.1")[row]
        ours, eager = (peers[p].get("memory_mb") for p in ("ingot", "eager"))
        bar = (eager or 0) + peers["eager"].get("weights_mb", 0) // 4
        yield f"{row}: memory of the GPU besides the model's weights", f"{ours} MB, eager {eager} MB", f"{bar} MB: eager's and a quarter of the weights", ours is not None and ours <= bar


LOAD = """
import sys, time, torch, ingot
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.LayerNorm(1024)) for _ in range(24)]).half().cuda().eval().requires_grad_(False)
x = torch.randn(8, 1024, device="cuda", dtype=torch.float16)
ingot.save(ingot.compile(model, inputs=[x]), sys.argv[1], weights="strip")
torch.cuda.synchronize()
start = time.perf_counter()
ingot.load_engine(sys.argv[1], device="cuda")
print((time.perf_counter() - start) * 1e3)
"""


@line("load")
def load():
    done = subprocess.run([sys.executable, "-c", LOAD, str(SCRATCH / "load.ingot")], capture_output=True, text=True, cwd=ROOT)
    milliseconds = float(done.stdout.split()[-1]) if done.returncode == 0 else None
    yield "a plan of 24 layers without the values of its weights", f"{milliseconds:.1f} ms" if milliseconds is not None else last(done.stderr), "50 ms", milliseconds is not None and milliseconds <= 50


@line("ops")
def ops():
    yield pytest("operator table on the GPU: every OpInfo sample, every dtype, static and dynamic", "tests/ops", "--backend", "cuda")


@line("models")
def models():
    yield pytest("BERT, DistilBERT, GPT-2, Llama, Qwen2, ViT and others on the GPU, static and dynamic", "tests/models/test_models.py", "-k", "cuda")


@line("python")
def python():
    yield pytest("torch.compile, saving, states, streams, threads, recordings on CUDA tensors", "tests/python/test_cuda.py")
    yield pytest("errors", "tests/errors/test_devices.py")


@line("sanitizer")
def sanitizer():
    for tool in ("memcheck", "racecheck"):
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--target-processes", "all", sys.executable, "-m", "pytest", "-q", "-x", "tests/ops", "--backend", "cuda", "-k", "float32 or float16"]
        yield succeeds(f"compute-sanitizer {tool} on the sample of tests/ops", command)


@line("without a GPU")
def without():
    yield pytest("NVRTC compiles what tests/ops emit, for sm_80 and sm_90", "tests/ops", "--backend", "sm_80", "--backend", "sm_90")


if __name__ == "__main__":
    sys.exit(main(__doc__))
