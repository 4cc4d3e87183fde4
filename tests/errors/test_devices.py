"""Errors about devices, in full, on a machine without a GPU (those that need one stand in tests/python/test_cuda.py)."""

import pytest
import torch

import ingot

Input = ingot.Input
NO_DRIVER = (
    "NVIDIA's driver (libcuda.so.1) was not found on this machine (libcuda.so.1: cannot open shared object file: No such file or directory)", "",
    "install NVIDIA's driver for this GPU (in a container: start it with the GPU passed in, such as --gpus all), or run on the CPU")  # fmt: skip


def told(kind, call):
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    return caught.value.message, caught.value.origin, caught.value.remedy


@pytest.fixture
def linear():
    return torch.nn.Linear(4, 3).eval()


def test_the_model_is_elsewhere_than_the_target(linear):
    assert told(ingot.OptionError, lambda: ingot.compile(linear, inputs=[Input((2, 4))], target="cuda:sm_90")) == (
        "option target is 'cuda:sm_90', but the model is on cpu", "", 'model.cuda() for a GPU that is here; target="cpu,cuda:sm_90" for a file that runs on both')
    assert told(ingot.OptionError, lambda: ingot.compile(linear, inputs=[Input((2, 4))], device="cuda")) == (
        "option device is 'cuda', but the model is on cpu", "", "move the model there, then compile it")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(linear, tmp_path):
    ingot.save(ingot.compile(linear, inputs=[Input((2, 4))]), tmp_path / "m.ingot")
    assert told(ingot.DeviceError, lambda: ingot.load(tmp_path / "m.ingot", device="cuda")) == NO_DRIVER
    assert told(ingot.DeviceError, lambda: ingot.load_engine(tmp_path / "m.ingot", device="cuda:1")) == NO_DRIVER


def test_no_such_device(linear, tmp_path):
    ingot.save(ingot.compile(linear, inputs=[Input((2, 4))]), tmp_path / "m.ingot")
    assert told(ingot.OptionError, lambda: ingot.load(tmp_path / "m.ingot", device="gpu")) == ('option device is "gpu"; "cpu", "cuda", "cuda:1" or "auto" is needed', "", "")
