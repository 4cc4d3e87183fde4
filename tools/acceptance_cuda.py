"""The figures by which the GPU work is judged: `make acceptance-cuda`, on a machine with an NVIDIA H200.

Prints one line each: PASS or FAIL, the figure, the bar. A figure that cannot be measured prints FAIL with the reason. `--only WORD` runs the lines
whose name contains the word, `--list` names them.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections import defaultdict

from acceptance import ROOT, SCRATCH, gtest, last, line, main, pytest, shell

sys.path.insert(0, str(ROOT / "bench"))
BUILD_BARS = {"bert-large-f16-b1-s128": (6, 2), "resnet50-f16-b1": (12, 2), "llama-8b-bf16-token": (10, 4)}  # seconds with cold and with warm caches


def bench(*arguments, **environment):
    """{row: {peer: result}} from bench/cuda.py. For a row that did not run: {"all": {"failed": reason}}."""
    done = shell([sys.executable, "bench/cuda.py", "--json", *arguments], env={**os.environ, **environment})
    rows = defaultdict(lambda: {"all": {"failed": last(done.stderr) or "it did not run"}})
    for text in done.stdout.splitlines():
        if text.startswith("{"):
            result = json.loads(text)
            if result["row"] not in rows:
                rows[result["row"]] = {}
            rows[result["row"]][result["peer"]] = result
    return rows


def of_peer(peers, name):
    """The result of a peer, or {"failed": reason}."""
    return peers.get(name) or peers.get("all") or {"failed": "it did not run"}


@line("speed")
def speed():
    import cuda

    measured = bench()
    for row in cuda.ROWS:
        peers = measured[row.name]
        ours = of_peer(peers, "ingot")
        failed = [p for p in row.peers if "ms" not in peers.get(p, {})]
        if "ms" not in ours:
            yield row.name, last(ours["failed"]), f"{row.bar} ms, all peers run", False
            continue
        others = ", ".join(f"{p} {peers[p]['ms']:.3f}" for p in row.peers if p != "ingot" and p not in failed)
        errors = [peers.get(p, {}).get("error") for p in ("ingot", "eager")]
        said = ["none" if e is None else f"{e:.1e}" for e in errors]
        figure = f"{ours['ms']:.3f} ms, limit {ours['limit_ms']:.3f}, peers {others}, error {said[0]} (eager {said[1]})" + (f"; did not run: {', '.join(failed)}" if failed else "")
        yield row.name, figure, f"{row.bar} ms, all peers run", ours["ms"] <= row.bar and not failed and errors[0] is not None and math.isfinite(errors[0])


@line("build")
def build():
    """Build times besides capture, each in its own process."""
    cache = SCRATCH / "cache"
    for row, bars in BUILD_BARS.items():
        shutil.rmtree(cache, ignore_errors=True)
        for state, bar in zip(("cold", "warm"), bars):
            result = bench("--rows", row, "--peers", "ingot", "--rounds", "1", "--burst", "0.1", INGOT_CACHE_DIR=str(cache))[row]
            result = of_peer(result, "ingot")
            seconds = result.get("build_s")
            yield f"{row}, {state} cache", last(result["failed"]) if "failed" in result else f"{seconds:.2f} s", f"{bar} s", seconds is not None and seconds <= bar


@line("memory")
def memory():
    """Memory of each peer, in its own process, because a peer would reuse memory that another released to torch's allocator."""
    for row in BUILD_BARS:
        ours, eager = (of_peer(bench("--rows", row, "--peers", p, "--rounds", "1", "--burst", "0.1")[row], p) for p in ("ingot", "eager"))
        weights, mine, theirs = ours.get("weights_mb", 0), ours.get("memory_mb"), eager.get("memory_mb")
        bar = (theirs or 0) + weights // 4
        why = ours.get("failed") or eager.get("failed")
        figure = last(why) if why else f"{mine} MB besides weights of {weights} MB, eager {theirs} MB besides them"
        yield f"{row}: memory of the GPU, weights once", figure, f"{bar} MB: eager's and a quarter of the weights", None not in (mine, theirs) and mine <= bar


LOAD = """
import sys, time, torch, ingot
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.LayerNorm(1024)) for _ in range(24)]).half().cuda().eval().requires_grad_(False)
x = torch.randn(8, 1024, device="cuda", dtype=torch.float16)
ingot.save(ingot.compile(model, inputs=[x]), sys.argv[1], weights="strip")
torch.cuda.synchronize()
start = time.perf_counter()
ingot.load(sys.argv[1], device="cuda", weights=model.state_dict())
print((time.perf_counter() - start) * 1e3)
"""


@line("load")
def load():
    done = subprocess.run([sys.executable, "-c", LOAD, str(SCRATCH / "load.ingot")], capture_output=True, text=True, cwd=ROOT)
    milliseconds = float(done.stdout.split()[-1]) if done.returncode == 0 else None
    yield "a plan of 24 layers without the values of its weights", f"{milliseconds:.1f} ms" if milliseconds is not None else last(done.stderr), "50 ms", milliseconds is not None and milliseconds <= 50


@line("ops")
def ops():
    yield pytest("operator table on the GPU: every OpInfo sample, every dtype, static and dynamic", "tests/ops", "--backend", "cuda", spread=True)


@line("models")
def models():
    yield pytest("BERT, DistilBERT, GPT-2, Llama, Qwen2, ViT and others on the GPU, static and dynamic", "tests/models/test_models.py", "-k", "cuda", spread=True)


SEGMENTS = """
import sys, torch, ingot, models
family, of_images = sys.argv[1], sys.argv[2] == "images"
make = (models.FULL_IMAGES if of_images else models.SMALL)[family]
module = make().half().cuda().requires_grad_(False)
for kind in ("static", "dynamic"):
    if of_images:
        fixed, ranges = (2, 3, 224, 224), ((1, 3, 224, 224), (2, 3, 224, 224), (4, 3, 224, 224))
        named = [("pixel_values", torch.float16)]
    else:
        fixed, ranges = (2, 9), ((1, 1), (2, 16), (8, 64))
        named = [(n, torch.int64) for n in ("input_ids", "attention_mask")]
    shape = dict(shape=fixed) if kind == "static" else dict(zip(("min_shape", "opt_shape", "max_shape"), ranges), shared_dims={0: "B"} if of_images else {0: "B", 1: "S"})
    compiled = ingot.compile(module, inputs=[ingot.Input(name=n, dtype=d, **shape) for n, d in named])
    x = [torch.randn(fixed, device="cuda").to(d) if of_images else torch.ones(fixed, device="cuda", dtype=d) for _, d in named]
    good = compiled.engine.device == "cuda:0" and bool(torch.isfinite(compiled(*x)).all())
    r = compiled.report
    print(f"{kind}: {len(r.segments)} segment, {r.in_engine} of {r.operators} operators", "whole" if r.whole and len(r.segments) == 1 and good else "not whole")
"""


@line("segments")
def segments():
    named = {"BERT": "bert", "DistilBERT": "distilbert", "GPT-2": "gpt2", "Llama": "llama", "Qwen2": "qwen2", "ViT": "vit-b16", "ResNet-50": "resnet50", "ConvNeXt": "convnext-tiny"}
    for name, family in named.items():
        kind = "images" if name in ("ViT", "ResNet-50", "ConvNeXt") else "text"
        path = os.pathsep.join([str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
        done = shell([sys.executable, "-W", "ignore", "-c", SEGMENTS, family, kind], env={**os.environ, "PYTHONPATH": path})
        said = [text for text in done.stdout.splitlines() if text.startswith(("static", "dynamic"))]
        passed = done.returncode == 0 and len(said) == 2 and all(text.endswith(" whole") and not text.endswith("not whole") for text in said)
        yield name, "; ".join(said) if done.returncode == 0 else last(done.stderr), "one segment, all of it on the GPU, static and dynamic", passed


@line("python")
def python():
    yield pytest("torch.compile, saving, states, streams, threads, recordings on CUDA tensors", "tests/modules/test_cuda.py")


@line("threads")
def threads():
    yield pytest("16 threads on 16 streams give right results, from Python", "tests/modules/test_cuda.py::test_sixteen_threads_on_sixteen_streams", strict=True)
    yield gtest("16 sessions in 16 threads on 16 streams give right results, from C++", "test_runtime", "Gpu.SessionsOfManyThreads")


@line("errors")
def errors():
    """Errors on the pretended driver, which works on any machine; those of a real GPU are in the lines before."""
    of = "tests/errors/test_pretend_gpu.py::test_"
    yield pytest("no GPU, and none of that number", of + "a_driver_without_gpus", of + "no_such_gpu", strict=True)
    yield pytest("the driver is too old", of + "a_driver_that_is_too_old", of + "code_that_is_newer_than_the_driver", strict=True)
    yield pytest("cuBLASLt or NVRTC is missing", of + "cublaslt_is_missing", of + "nvrtc_is_missing", strict=True)
    yield pytest("cuFFT is missing: own kernels run", of + "without_cufft_transforms_are_by_own_kernels", strict=True)
    yield pytest("no memory when a plan is loaded", of + "out_of_memory", strict=True)
    yield gtest("no memory when it is loaded and when it runs; others go on", "test_gpu", "Gpu.NoMemory*:Gpu.EachAllocationFailsOnce")
    yield pytest("a plan without code for this GPU: compiled from its graph, or an error without a compiler", of + "a_plan_for_another_gpu_is_compiled_from_its_graph", of + "the_runtime_alone_has_no_compiler",
                 strict=True)  # fmt: skip
    yield pytest("of devices and arguments", "tests/errors/test_devices.py")


@line("sanitizer")
def sanitizer():
    for tool in ("memcheck", "racecheck"):
        # A failed driver call of another library during its import is not an error of a kernel.
        before = ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "9", "--target-processes", "all"]
        yield pytest(f"compute-sanitizer {tool} on the sample of tests/ops", "tests/ops", "--backend", "cuda", "-k", "float32 or float16", everything=False, spread=True, before=before)


@line("without a GPU")
def without():
    yield pytest("NVRTC compiles what tests/ops emit, for sm_80 and sm_90", "tests/ops", "--backend", "sm_80", "--backend", "sm_90", spread=True, CUDA_VISIBLE_DEVICES="")


if __name__ == "__main__":
    sys.exit(main(__doc__))
