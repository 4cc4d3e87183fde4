"""Errors of GPUs in full, on a driver that pretends (tests/pretend), so on any machine, each in a process of its own."""

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
from ingot import _engine

BUILD = Path(_engine.find("libingot.so")).parent
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
    return {**kept, "LD_LIBRARY_PATH": str(folder), "INGOT_PRETEND": pretend, "INGOT_CACHE_DIR": str(cache), "INGOT_LIBRARY_DIR": str(BUILD), **more}


def command(arguments, cache, pretend="", nvrtc=True, **more):
    """The command line."""
    found = {"INGOT_LIBRARY_PATH": SITE} if nvrtc else {}
    return subprocess.run([BUILD / "ingot", *arguments], env=environment(cache, pretend, **found, **more), capture_output=True, text=True)


def python(code, cache, pretend="", **more):
    return subprocess.run([sys.executable, "-c", "import ingot\n" + code], env=environment(cache, pretend, **more), capture_output=True, text=True)


def told(code, *arguments, **named):
    """Class, message, origin and remedy of the error that a program meets."""
    lines = "".join(f"    {line}\n" for line in code.splitlines())
    done = python(f"import json\ntry:\n{lines}except ingot.Error as e:\n    print(json.dumps([type(e).__name__, e.message, e.origin, e.remedy]))\n", *arguments, **named)
    assert done.returncode == 0, done.stderr
    assert done.stdout, "there was no error"
    return tuple(json.loads(done.stdout))


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


def there(library, package):
    return ctypes.util.find_library(library) is not None or (Path(SITE) / "nvidia" / package).exists()


@pytest.mark.skipif(there("cublasLt", "cublas"), reason="cuBLASLt is there")
def test_cublaslt_is_missing(plan, cache, tmp_path):
    (tmp_path / "libcuda.so.1").symlink_to(BUILD / "pretend" / "libcuda.so.1")
    assert told(f"ingot.load_engine({str(plan)!r}, device='cuda')", cache, folder=tmp_path) == (
        "DeviceError", 'step 0 of function "forward": cuBLASLt (libcublasLt.so.13), which multiplies matrices on the GPU, was not found on this machine '
        "(libcublasLt.so.13: cannot open shared object file: No such file or directory)", "",
        "`pip install nvidia-cublas`, or name the folder that holds it in INGOT_LIBRARY_PATH")  # fmt: skip


@pytest.mark.skipif(ctypes.util.find_library("nvrtc") is not None, reason="NVRTC is on this machine")
def test_nvrtc_is_missing(plan, cache, tmp_path):
    missing = (
        "NVRTC (libnvrtc.so.13), which compiles code for the GPU, was not found on this machine (libnvrtc.so.13: cannot open shared object file: No such file or directory)\n"
        "  remedy: `pip install nvidia-cuda-nvrtc` (90 MB; a GPU is not needed), or name the folder that holds it in INGOT_LIBRARY_PATH\n")  # fmt: skip
    done = command(["compile", plan.parent / "model.pt2", "-o", tmp_path / "m.ingot", "--set", "target=cuda:sm_90"], cache, nvrtc=False)
    assert (done.returncode, done.stderr) == (18, "ingot: " + missing)


@pytest.mark.parametrize("settings, what, bytes", [("memory=100", "the plan's weights", r"\d+"), ("fail_allocation=2", "the plan's weights", r"\d+")])
def test_out_of_memory(plan, cache, settings, what, bytes):
    kind, message, origin, remedy = told(LOAD.format(path=str(plan)), cache, settings)
    assert re.fullmatch(f"{what}: allocating {bytes} bytes on Pretend GPU, where {bytes} of {bytes} are free, failed: " + re.escape("CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"), message), message
    assert (kind, origin, remedy) == ("MemoryError", "", "use smaller inputs, or free device memory that other programs or tensors hold")
