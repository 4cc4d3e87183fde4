"""Errors of GPUs in full, and plans compiled anew for the GPU at hand. A pretended driver (tests/pretend) makes this possible on any machine. Each test has its own process."""

import ctypes.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ingot
from ingot.engine import _library

BUILD = Path(_library.find("libingot.so.0")).parent
SITE = next(p for p in sys.path if p.endswith("-packages"))
LOAD = "ingot.load_engine({path!r}, device='cuda').session()"
DRIVER = "NVIDIA's driver (libcuda.so.1)"
UPDATE = "update NVIDIA's driver to one for CUDA 11.4 or later, or run on the CPU"

pytestmark = pytest.mark.skipif(not (BUILD / "pretend").exists(), reason="the libraries were built without tests")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def plan(tmp_path_factory, cache):
    """A product and a body, for sm_90 alone."""
    torch.manual_seed(0)
    model, path = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1)).eval(), tmp_path_factory.mktemp("plan")
    torch.export.save(torch.export.export(model, (torch.randn(2, 8),)), path / "model.pt2")
    done = command(["compile", path / "model.pt2", "-o", path / "gpu.ingot", "--set", "target=cuda:sm_90"], cache)
    assert done.returncode == 0, done.stderr
    return path / "gpu.ingot"


def environment(cache, pretend="", folder=BUILD / "pretend", **more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("INGOT_") and k != "LD_LIBRARY_PATH"}
    return {**kept, "LD_LIBRARY_PATH": str(folder), "INGOT_PRETEND": pretend, "INGOT_CACHE": "off", "INGOT_CACHE_DIR": str(cache), "INGOT_LIBRARY_DIR": str(BUILD), **more}


def command(arguments, cache, pretend="", nvrtc=True, **more):
    """The command line."""
    found = {"INGOT_LIBRARY_PATH": SITE} if nvrtc else {}
    return subprocess.run([BUILD / "ingot", *arguments], env=environment(cache, pretend, **found, **more), capture_output=True, text=True)


def python(code, cache, pretend="", **more):
    return subprocess.run([sys.executable, "-c", "import ingot\n" + code], env=environment(cache, pretend, **more), capture_output=True, text=True)


def told(code, *arguments, **named):
    """Class, message, origin and remedy of the error that a program gets."""
    lines = "".join(f"    {line}\n" for line in code.splitlines())
    done = python(f"import json\ntry:\n{lines}except ingot.Error as e:\n    print(json.dumps([type(e).__name__, e.message, e.origin, e.remedy]))\n", *arguments, **named)
    assert done.returncode == 0, done.stderr
    assert done.stdout, "there was no error"
    return tuple(json.loads(done.stdout))


def test_doctor_tells_of_gpus(cache):
    done = command(["doctor"], cache, "gpus=2,driver=12040,sm=90")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and [line.rsplit(", ", 1)[0] for line in lines[3:5]] == ["GPU 0: Pretend GPU, sm_90", "GPU 1: Pretend GPU, sm_90"]
    assert lines[5] == f"driver: CUDA 12.4, {BUILD}/pretend/libcuda.so.1"
    assert re.fullmatch(rf"NVRTC: 1[23]\.\d+, {re.escape(SITE)}/.*/libnvrtc.so.1[23]", lines[6])
    assert re.fullmatch(rf"cuBLASLt: \d+, {BUILD}/pretend/libcublasLt.so.13", lines[7])
    assert lines[8] == f"cuFFT: 12000, {BUILD}/pretend/libcufft.so.12"
    machine = json.loads(command(["doctor", "--json"], cache, "gpus=2,driver=12040,sm=90").stdout)
    assert [g["architecture"] for g in machine["gpus"]] == ["sm_90"] * 2 and [x["name"] for x in machine["libraries"]] == ["driver", "NVRTC", "cuBLASLt", "cuFFT"]
    done = command(["doctor"], cache, "gpus=0")
    assert done.returncode == 0 and done.stdout.splitlines()[3:6] == [
        "GPUs: none", "driver: starting NVIDIA's driver failed: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected",
        "  remedy: no GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES, or run on the CPU"]  # fmt: skip


@pytest.mark.skipif(any(ctypes.util.find_library(name) for name in ("cuda", "nvrtc", "cublasLt", "cufft")), reason="it is on this machine")
def test_doctor_tells_what_is_missing(cache, tmp_path):
    done = command(["doctor"], cache, nvrtc=False, folder=tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[3] == "GPUs: none"
    for line, name, remedy in zip(
            (4, 6, 8, 10), ("driver: NVIDIA's driver (libcuda.so.1)", "NVRTC: NVRTC (", "cuBLASLt: cuBLASLt (", "cuFFT: cuFFT ("),
            ("install NVIDIA's driver", "`pip install nvidia-cuda-nvrtc`", "`pip install nvidia-cublas`", "`pip install nvidia-cufft`")):
        assert lines[line].startswith(name) and "was not found on this machine" in lines[line] and lines[line + 1].startswith("  remedy: " + remedy)


def test_a_driver_without_gpus(plan, cache):
    assert told(LOAD.format(path=str(plan)), cache, "gpus=0") == (
        "DeviceError", "starting NVIDIA's driver failed: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected", "",
        "no GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES, or run on the CPU")  # fmt: skip


def test_no_such_gpu(plan, cache):
    assert told(f"ingot.load_engine({str(plan)!r}, device='cuda:2')", cache, "gpus=2") == (
        "InputError", "there is no GPU number 2: this process sees 2", "", "they are counted from 0; CUDA_VISIBLE_DEVICES may hide some")  # fmt: skip


def test_a_driver_that_is_too_old(plan, cache):
    old = BUILD / "pretend_old"
    assert told(LOAD.format(path=str(plan)), cache, folder=old) == (
        "VersionError", f"{DRIVER} ({old}/libcuda.so.1) has no function cuGraphInstantiateWithFlags: it is too old", "", UPDATE)  # fmt: skip
    assert told(LOAD.format(path=str(plan)), cache, "driver=11020") == (
        "VersionError", f"{DRIVER} ({BUILD}/pretend/libcuda.so.1) is one for CUDA 11.2: it is too old", "", UPDATE)  # fmt: skip


@pytest.mark.parametrize("sm, why", [(90, "CUDA_ERROR_INVALID_IMAGE, 200"), (120, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222")])
def test_code_that_is_newer_than_the_driver(plan, cache, sm, why):
    kind, message, origin, remedy = told(LOAD.format(path=str(plan)), cache, f"driver=12040,sm={sm}")
    assert (kind, re.sub(r"\d+ bytes", "N bytes", message), origin, remedy) == (
        "VersionError", f"loading N bytes of code on Pretend GPU (sm_{sm}) failed: it was compiled by CUDA 13.0, and the driver is one for CUDA 12.4 ({why})", "",
        "update NVIDIA's driver to one for CUDA 13.0 or later, or compile the plan again with NVRTC of CUDA 12.4 or earlier")  # fmt: skip


@pytest.mark.skipif(ctypes.util.find_library("cublasLt") is not None, reason="cuBLASLt is on this machine")
def test_cublaslt_is_missing(plan, cache, tmp_path):
    (tmp_path / "libcuda.so.1").symlink_to(BUILD / "pretend" / "libcuda.so.1")
    message = ('step 0 of function "forward": cuBLASLt (libcublasLt.so.13), which multiplies matrices on the GPU, was not found on this machine '
               "(libcublasLt.so.13: cannot open shared object file: No such file or directory)")  # fmt: skip
    remedy = "`pip install nvidia-cublas`, or name the folder that holds it in INGOT_LIBRARY_PATH"
    done = command(["run", plan, "--device", "cuda"], cache, nvrtc=False, folder=tmp_path)
    assert (done.returncode, done.stderr) == (18, f"ingot: {message}\n  remedy: {remedy}\n")
    if not any((Path(SITE) / "nvidia" / package).exists() for package in ("cublas", "cu13/lib/libcublasLt.so.13")):  # among pip's packages, where Python looks
        assert told(f"ingot.load_engine({str(plan)!r}, device='cuda')", cache, folder=tmp_path) == ("DeviceError", message, "", remedy)


@pytest.fixture(scope="module")
def spectrum(tmp_path_factory, cache):
    path = tmp_path_factory.mktemp("spectrum") / "gpu.ingot"
    archive = Path(__file__).resolve().parents[2] / "src/capture/testdata/spectrum.pt2"
    done = command(["compile", archive, "-o", path, "--set", "target=cuda:sm_90"], cache)
    assert done.returncode == 0, done.stderr
    return path


def launched(plan, cache, events, **named):
    """What a run starts, and what it says."""
    done = command(["run", plan, "--device", "cuda"], cache, INGOT_PRETEND_EVENTS=str(events), **named)
    assert done.returncode == 0, done.stderr
    return [line.split()[1] for line in events.read_text().splitlines() if line.startswith(("launch", "transform"))], done.stderr


def test_transforms_are_by_cufft(spectrum, cache, tmp_path):
    started, said = launched(spectrum, cache, tmp_path / "events")
    assert started.count("of") == 2 and any(name.startswith("cufft_fourier_to_real_f32") for name in started), started
    assert said == ""


def test_two_axes_are_one_transform(cache, tmp_path):
    class Low(torch.nn.Module):
        def forward(self, x):
            return torch.fft.irfft2(torch.fft.rfft2(x) * 0.5)

    torch.export.save(torch.export.export(Low(), (torch.randn(2, 6, 8),)), tmp_path / "low.pt2")
    done = command(["compile", tmp_path / "low.pt2", "-o", tmp_path / "m.ingot", "--set", "target=cuda:sm_90"], cache)
    assert done.returncode == 0, done.stderr
    started, _ = launched(tmp_path / "m.ingot", cache, tmp_path / "events")
    assert started.count("of") == 2 and not any(name.startswith("fourier_") for name in started), started


def test_a_timed_build_chooses_between_cufft_and_own_kernels(cache, tmp_path):
    archive = Path(__file__).resolve().parents[2] / "src/capture/testdata/spectrum.pt2"
    done = command(["compile", archive, "-o", tmp_path / "m.ingot", "--set", "target=cuda:sm_90", "--set", f"timing_cache={tmp_path / 'times'}", "--budget", "20"], cache)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "times").read_text().count("\tfourier for cuda:sm_90: cufft or transforms in shared memory, ") == 2


@pytest.mark.skipif(ctypes.util.find_library("cufft") is not None, reason="cuFFT is on this machine")
def test_without_cufft_transforms_are_by_own_kernels(spectrum, cache, tmp_path):
    (tmp_path / "libcuda.so.1").symlink_to(BUILD / "pretend" / "libcuda.so.1")
    started, said = launched(spectrum, cache, tmp_path / "events", nvrtc=False, folder=tmp_path)
    assert "of" not in started and any(name.startswith("fourier_to_real_f32") for name in started), started
    assert said == (
        "ingot: cuFFT (libcufft.so.12), which computes Fourier transforms on the GPU, was not found on this machine (libcufft.so.12: cannot open shared object file: No such file or "
        "directory): ingot's own kernels compute them. For faster ones: `pip install nvidia-cufft`, or name the folder that holds it in INGOT_LIBRARY_PATH\n")  # fmt: skip


@pytest.mark.skipif(ctypes.util.find_library("nvrtc") is not None, reason="NVRTC is on this machine")
def test_nvrtc_is_missing(plan, cache, tmp_path):
    missing = (
        "NVRTC (libnvrtc.so.13), which compiles code for the GPU, was not found on this machine (libnvrtc.so.13: cannot open shared object file: No such file or directory)\n"
        "  remedy: `pip install nvidia-cuda-nvrtc` (90 MB; a GPU is not needed), or name the folder that holds it in INGOT_LIBRARY_PATH\n")  # fmt: skip
    done = command(["compile", plan.parent / "model.pt2", "-o", tmp_path / "m.ingot", "--set", "target=cuda:sm_90"], cache, nvrtc=False)
    assert (done.returncode, done.stderr) == (18, "ingot: " + missing)
    done = command(["run", plan, "--device", "cuda"], cache, "sm=80", nvrtc=False)
    assert (done.returncode, done.stderr) == (18, "ingot: the plan has no program for cuda:sm_80, and none could be compiled from its graph: " + missing)


@pytest.mark.parametrize("settings", ["memory=100", "fail_allocation=2"])
def test_out_of_memory(plan, cache, settings):
    kind, message, origin, remedy = told(LOAD.format(path=str(plan)), cache, settings)
    assert re.fullmatch(r"the plan's weights: allocating \d+ bytes on Pretend GPU, where \d+ of \d+ are free, failed: " + re.escape("CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"), message), message
    assert (kind, origin, remedy) == ("MemoryError", "", "use smaller inputs, or free device memory that other programs or tensors hold")


# ---- a plan for another GPU


def lines(path, word):
    return [line.removeprefix(word + " ") for line in path.read_text().splitlines() if line.startswith(word)]


RUNS = {
    "load_engine": "import numpy as np\nsession = ingot.load_engine({path!r}, device='cuda').session()\nfor i in range(2):\n    session.run(np.zeros((2, 8), np.float32))",
    "load": "ingot.load({path!r}, device='cuda')",
}


FORKED = """
import json, os, signal
import numpy as np
x = np.zeros((2, 8), np.float32)
session = ingot.load_engine({path!r}, device='cuda').session()
session.run(x)
def told(call):
    try:
        call()
        print("no error", flush=True)
    except ingot.Error as e:
        print(json.dumps([type(e).__name__, e.message, e.remedy]), flush=True)
child = os.fork()
if child == 0:
    signal.alarm(60)
    told(lambda: session.run(x))
    told(lambda: ingot.load_engine({path!r}, device='cuda').session().run(x))
    del session
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
session.run(x)
"""


def test_a_child_of_a_process_that_used_the_gpu(plan, cache, tmp_path):
    """Not one call of the driver is made there, which might wait for ever."""
    events = tmp_path / "events"
    done = python(FORKED.format(path=str(plan)), cache, INGOT_PRETEND_EVENTS=str(events))
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == 2
    for kind, message, remedy in said:
        assert kind == "DeviceError" and message.endswith(" failed: this process was forked from one that had used CUDA, which does not work in a child")
        assert remedy == 'start it anew: multiprocessing.get_context("spawn"), or fork before CUDA is used'
    assert not lines(events, "mistake")


@pytest.mark.parametrize("way", ["load_engine", "load", "the command line"])
def test_a_plan_for_another_gpu_is_compiled_from_its_graph(plan, cache, tmp_path, way):
    events = tmp_path / "events"
    more = {"INGOT_LOG": "info", "INGOT_PRETEND_EVENTS": str(events)}
    if way == "the command line":
        done = command(["run", plan, "--device", "cuda"], cache, "sm=80", **more)
    else:
        done = python(RUNS[way].format(path=str(plan)), cache, "sm=80", **more)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"ingot: no program for this GPU: compiled for cuda:sm_80 +[\d.]+ ms\n", done.stderr), done.stderr
    assert set(lines(events, "module")) == {"cubin sm_80"} and not lines(events, "mistake")
    if way != "load":
        assert lines(events, "launch")
    # The same kernels as in a plan that was compiled for this GPU directly.
    wanted, others = tmp_path / "wanted.ingot", tmp_path / "others"
    assert command(["compile", plan.parent / "model.pt2", "-o", wanted, "--set", "target=cuda:sm_80"], cache).returncode == 0
    for path in (wanted, plan):
        others.unlink(missing_ok=True)
        assert command(["run", path, "--device", "cuda"], cache, "sm=80", INGOT_PRETEND_EVENTS=str(others)).returncode == 0
        seen = others.read_text() if path is wanted else seen
        assert others.read_text() == seen and "launch " in seen


def test_code_comes_from_the_cache(plan, tmp_path):
    for run in range(2):
        assert command(["run", plan, "--device", "cuda"], tmp_path, "sm=80").returncode == 0
        files = {f: f.stat().st_mtime_ns for f in (tmp_path / "code").iterdir()}
        assert files and run == 0 or files == before
        before = files


def test_a_newer_gpu_takes_the_ptx_as_it_is(plan, cache, tmp_path):
    events = tmp_path / "events"
    done = command(["run", plan, "--device", "cuda"], cache, "sm=120", INGOT_LOG="info", INGOT_PRETEND_EVENTS=str(events))
    assert (done.returncode, done.stderr) == (0, "") and set(lines(events, "module")) == {"ptx sm_90"}


class Writes(torch.nn.Module):
    """One engine, and a torch graph around it, so that the file's plan is another one."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen += self.up(x).amax(0)
        return torch.softmax(self.seen * x.sum(), 0)


@pytest.mark.parametrize("made", [lambda: torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1)), Writes], ids=["one engine", "a graph around it"])
def test_a_model_on_the_cpu_is_saved_for_a_gpu(made, cache, tmp_path, monkeypatch):
    monkeypatch.setenv("INGOT_CACHE_DIR", str(cache))
    model = made().eval()
    compiled = ingot.compile(model, inputs=[ingot.Input((2, 8))], target="cuda:sm_90", matmul_precision="tf32", deterministic="run")
    weights = next(name for name in model.state_dict() if name.endswith("weight"))
    compiled.update_weights({weights: torch.full((8, 8), 0.625)})
    ingot.save(compiled, tmp_path / "gpu.ingot")
    assert b"\0\0\x20\x3f" * 64 in (tmp_path / "gpu.ingot").read_bytes()
    said = command(["inspect", tmp_path / "gpu.ingot", "--json"], cache).stdout
    assert {"target": "cuda:sm_90", "matmul_precision": "tf32"}.items() <= json.loads(said)["provenance"].items()
    events = tmp_path / "events"
    done = command(["run", tmp_path / "gpu.ingot", "--device", "cuda"], cache, INGOT_PRETEND_EVENTS=str(events))
    assert done.returncode == 0, done.stderr
    seen = events.read_text()
    assert "mistake" not in seen and "module cubin sm_90\n" in seen and "launch " in seen


# ---- timing


def compile_line(model, made, *settings):
    return ["compile", model, "-o", made, "--set", "target=cuda:sm_90", *(s for setting in settings for s in ("--set", setting))]


def choices(path, cache):
    timings = json.loads(command(["inspect", path, "--json"], cache).stdout)["targets"][0]["timings"]
    return {t["choice"] for t in timings if t["machine"] == "Pretend GPU, cuBLASLt 130000" and t["problem"].startswith("product of f32")}


def test_a_timed_plan_takes_the_fastest(plan, cache, tmp_path):
    made, cached, events, times = tmp_path / "timed.ingot", tmp_path / "cached.ingot", tmp_path / "events", tmp_path / "times"
    done = command([*compile_line(plan.parent / "model.pt2", made, f"timing_cache={times}"), "--budget", "9"], cache, "algorithms=9,fastest=3", INGOT_LOG="info")
    assert done.returncode == 0 and re.fullmatch(r"ingot: timed 1 products +[\d.]+ ms", done.stderr.splitlines()[-1]), done.stderr
    assert choices(made, cache) == {"cublaslt 3"} and choices(plan, cache) == set()
    assert "timed: 1 products" in command(["inspect", made], cache).stdout
    for path, used in ((made, 3), (plan, 0)):
        events.unlink(missing_ok=True)
        assert command(["run", path, "--device", "cuda"], cache, "algorithms=9", INGOT_PRETEND_EVENTS=str(events)).returncode == 0
        assert {line[-1] for line in lines(events, "product")} == {str(used)} and not lines(events, "mistake")
    # Entries in the file are not timed again, but a GPU is still needed.
    for pretend, found in (("algorithms=9,fastest=5", {"cublaslt 3"}), ("gpus=0", set())):
        assert command(compile_line(plan.parent / "model.pt2", cached, f"timing_cache={times}"), cache, pretend).returncode == 0
        assert choices(cached, cache) == found
    assert cached.read_bytes() == plan.read_bytes()


def test_a_timing_cache_that_cannot_be_written_costs_no_plan(plan, cache, tmp_path):
    made, times = tmp_path / "timed.ingot", tmp_path / "none" / "times"
    done = command([*compile_line(plan.parent / "model.pt2", made, f"timing_cache={times}"), "--budget", "9"], cache, "algorithms=9,fastest=3")
    assert done.returncode == 0 and done.stderr == f"ingot: timing_cache: cannot write {times}: No such file or directory\n"
    assert choices(made, cache) == {"cublaslt 3"}


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """A product of half precision, which cuBLASLt can do and ingot's own kernel too."""
    path = tmp_path_factory.mktemp("halves") / "model.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(512, 512).half().eval(), (torch.randn(64, 512).half(),)), path)
    return path


LARGE = "algorithms=9,fastest=3,launch_time=1000000000"  # kernels of ingot's take longer than any product


def timed_halves(model, made, cache, pretend, *settings):
    """Of a build: kernels of the steps, what was timed, and what a run then does."""
    events = made.with_suffix(".events")
    done = command(compile_line(model, made, *settings), cache, pretend, INGOT_LOG="info")
    assert done.returncode == 0, done.stderr
    described = json.loads(command(["inspect", made, "--json"], cache).stdout)
    assert command(["run", made, "--device", "cuda"], cache, pretend, INGOT_PRETEND_EVENTS=str(events)).returncode == 0
    assert not lines(events, "mistake")
    (step,) = described["functions"][0]["programs"][0]["steps"]
    return step["kernel"], {t["choice"]: t for t in described["targets"][0]["timings"]}, lines(events, "product") + lines(events, "launch")


def test_the_library_and_an_own_kernel_are_timed(halves, cache, tmp_path):
    usual, own, library, cached = (tmp_path / f"{name}.ingot" for name in ("usual", "own", "library", "cached"))
    times = tmp_path / "times"
    kernel, timed, _ = timed_halves(halves, usual, cache, LARGE)
    assert (kernel, timed) == ("gemm_tiles", {})
    # The own kernel is faster, by one of its tiles that the cost model does not take by itself.
    kernel, timed, ran = timed_halves(halves, own, cache, "algorithms=9,fastest=3,fast_tile=0", "build_seconds=9", f"timing_cache={times}")
    tile = "gemm_tiles 128 x 128, 5 stages, 2 in turn, K by 1"
    assert kernel == "gemm_tiles" and set(timed) == {"gemm_tiles", tile} and all(line.endswith("_t0") for line in ran)
    assert timed[tile]["machine"] == "Pretend GPU" and timed[tile]["problem"].startswith("gemm_")
    assert timed["gemm_tiles"]["machine"] == "Pretend GPU, cuBLASLt 130000"
    assert timed["gemm_tiles"]["problem"].startswith("gemm for cuda:sm_90: gemm_tiles or cublaslt or gemm_implicit of 64 x 512 x 512, ")
    # What is in the file is not timed again: with time and without it is the same plan.
    for settings in (["build_seconds=9"], []):
        timed_halves(halves, cached, cache, LARGE, f"timing_cache={times}", *settings)
        assert cached.read_bytes() == own.read_bytes()
    # The library is faster: the plan has no code that nothing runs.
    kernel, timed, ran = timed_halves(halves, library, cache, LARGE, "build_seconds=9")
    assert kernel == "matmul" and set(timed) == {"cublaslt 3", "cublaslt"} and {line[-1] for line in ran} == {"3"}
    of_usual, of_library = (json.loads(command(["inspect", p, "--json"], cache).stdout)["targets"][0]["code"] for p in (usual, library))
    assert of_usual and not of_library


@pytest.mark.parametrize("fault", ["fail_call=9", "fail_call=30", "fail_call=60", "fail_allocation=2", "fail_allocation=3", "memory=400000"])
def test_a_gpu_that_fails_while_kernels_are_timed_leaves_the_usual_plan(halves, cache, tmp_path, fault):
    usual, made, times = tmp_path / "usual.ingot", tmp_path / "made.ingot", tmp_path / "times"
    assert command(compile_line(halves, usual), cache).returncode == 0
    done = command(compile_line(halves, made, "build_seconds=9", f"timing_cache={times}"), cache, f"algorithms=9,fastest=3,{fault}", INGOT_LOG="info")
    assert done.returncode == 0, done.stderr
    assert ("nothing is timed" in done.stderr or "timed 0 products" in done.stderr) and not times.exists(), done.stderr
    assert made.read_bytes() == usual.read_bytes()


def test_offers_say_what_was_timed(halves, cache, tmp_path):
    made = tmp_path / "made.ingot"
    library, own = "cublaslt: cost 4664, can be timed: algorithm", "gemm_tiles: cost 4460, can be timed: tile and parts of K"
    for pretend, settings, expected in (
        ("", [], ["  " + library, "* " + own]),
        (LARGE, ["build_seconds=9"], [f"* {library}, the fastest when it was timed", "  " + own]),
        ("", ["build_seconds=9"], ["  " + library, f"* {own}, the fastest when it was timed"]),
    ):
        timed_halves(halves, made, cache, pretend, *settings)
        said, _, timed = command(["inspect", made, "--offers"], cache).stdout.partition("timed for cuda:sm_90\n")
        near = [line[4:] for line in said.splitlines() if line.startswith("    ") and "gemm_implicit" not in line]
        assert sorted(near) == sorted(expected), said
        assert len(timed.splitlines()) == 2 * len(settings) and ("    cublaslt 3 for product of f16" in timed) == (pretend == LARGE), timed


@pytest.mark.parametrize("pretend, target, why", [
    ("gpus=0", "cuda:sm_90", "starting NVIDIA's driver failed: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"),
    ("sm=80", "cuda:sm_90", "the plan has no program for this GPU (sm_80): it was compiled for cuda:sm_90"),
])  # fmt: skip
def test_without_a_gpu_nothing_is_timed(plan, cache, tmp_path, pretend, target, why):
    for made, more in (("one", []), ("other", ["--set", "build_seconds=9"])):
        done = command(["compile", plan.parent / "model.pt2", "-o", tmp_path / made, "--set", f"target={target}", *more], cache, pretend, INGOT_LOG="info")
        assert done.returncode == 0 and (f"ingot: nothing is timed: {why}" in done.stderr.splitlines()) == bool(more), done.stderr
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


TIMED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1)).eval()
given = dict(build_seconds=9, timing_cache={times!r})
ingot.save(ingot.compile(model, inputs=[ingot.Input((2, 8))], target="cuda:sm_90", **given), {made!r})
x = torch.randn(2, 8)
with torch.no_grad():
    assert torch.allclose(torch.compile(model, backend="ingot", options=given)(x), model(x), atol=1e-6)
try:
    ingot.load({made!r}, build_seconds=9)
except ingot.OptionError as e:
    print(e.message)
"""


def test_timing_from_python(cache, tmp_path):
    made, times = str(tmp_path / "timed.ingot"), tmp_path / "times"
    done = python(TIMED.format(made=made, times=str(times)), cache, "algorithms=4,fastest=2", INGOT_LOG="info", INGOT_LIBRARY_PATH=SITE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "option 'build_seconds' is for compiling, not for running\n"
    assert "ingot: timed 1 products" in done.stderr and "ingot: timed 0 products" in done.stderr
    assert choices(made, cache) == {"cublaslt 2"} and times.read_text().startswith("ingot timings 1\nPretend GPU, cuBLASLt 130000\tproduct of f32 to f32: a 8x8 ")


# ---- whose device code it is

FOREIGN = "the plan's device code was not compiled by this user on this machine, so it is not run"
ANEW = "ingot: no program for this GPU: compiled for cuda:sm_90"


def test_device_code_of_another_machine_is_compiled_anew(plan, cache, tmp_path):
    """Another cache stands for another user or machine."""
    other, events = tmp_path / "other", tmp_path / "events"

    def run(cache, *arguments, **more):
        events.unlink(missing_ok=True)
        done = command(["run", plan, "--device", "cuda", *arguments], cache, INGOT_PRETEND_EVENTS=str(events), INGOT_LOG="info", **more)
        return done, ANEW in done.stderr

    own, anew = run(cache)
    seen = events.read_text()
    assert own.returncode == 0 and not anew and "launch " in seen and "mistake" not in seen
    for arguments, where, expected in (([], other, True), (["--trust", "data"], cache, True), (["--trust", "data"], other, True), (["--trust", "code"], other, False)):
        done, anew = run(where, *arguments)
        assert done.returncode == 0 and anew == expected, done.stderr
        assert events.read_text() == seen  # the same modules, kernels and launches
    done, _ = run(other, nvrtc=False)
    assert done.returncode != 0 and "NVRTC" in done.stderr
    # Code that was compiled anew and saved counts as this machine's own.
    code = f"m = ingot.load({str(plan)!r}, device='cuda'{{more}})\ningot.save(m, {str(tmp_path / 'saved.ingot')!r})"
    for more, ours in (("", False), (", trust='code'", False)):
        assert python(code.format(more=more), other, INGOT_LIBRARY_PATH=SITE).returncode == 0
        assert (tmp_path / "saved.ingot").read_bytes() == plan.read_bytes()  # a file is saved as it was
        assert run(other)[1] != ours


RUNTIME_ALONE = """
import ctypes
class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int)] + [(n, ctypes.c_char_p) for n in ("message", "origin", "remedy")]
lib = ctypes.CDLL({library!r})
lib.ingot_last_error.restype = ctypes.POINTER(Error)
plan, options, weights = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert not lib.ingot_plan_load({path!r}, ctypes.byref(plan)) and not lib.ingot_options_create(ctypes.byref(options))
assert not lib.ingot_options_set(options, b"device", b"cuda")
assert lib.ingot_weights_create(plan, options, ctypes.byref(weights))
e = lib.ingot_last_error().contents
print(json.dumps([e.status, e.message.decode(), e.remedy.decode()]))
"""


def test_the_runtime_alone_has_no_compiler(plan, cache):
    code = RUNTIME_ALONE.format(library=str(BUILD / "libingot_runtime.so"), path=bytes(plan))
    done = python("import json\n" + code, cache, "sm=80")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [6, "the plan has no program for this GPU (sm_80): it was compiled for cuda:sm_90",
        'compile the model with "cuda:sm_80" among its targets (`ingot compile --set target=cuda:sm_80`), or load the plan with libingot, which compiles it']  # fmt: skip


def test_the_runtime_alone_runs_no_foreign_code(plan, cache, tmp_path):
    code = RUNTIME_ALONE.format(library=str(BUILD / "libingot_runtime.so"), path=bytes(plan))
    done = python("import json\n" + code, tmp_path / "other")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [6, FOREIGN, 'load the plan with libingot, which compiles its graph anew, or with trust "code" if you trust whoever made the file']
