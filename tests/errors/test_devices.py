"""Errors about devices, in full, on a machine without a GPU (those that need one are in tests/modules/test_cuda.py)."""

import pytest
import torch

import ingot
from ingot.backend import ingot_backend

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
    with torch.no_grad(), pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(linear, backend=ingot_backend, options={"target": "cuda:sm_90"})(torch.ones(2, 4))
    inner = caught.value.inner_exception
    assert (type(inner), inner.message, inner.remedy) == (
        ingot.OptionError, "option target is 'cuda:sm_90', but the model is on cpu", "model.cuda() for a GPU that is here; ingot.compile and ingot.save for a file")
    assert told(ingot.OptionError, lambda: ingot.compile(linear, inputs=[Input((2, 4))], device="cuda")) == (
        "option device is 'cuda', but the model is on cpu", "", "move the model there, then compile it")


def test_a_torch_device_as_target(linear):
    x = torch.ones(2, 4)
    for target in (torch.device("cpu"), [torch.device("cpu")]):
        assert ingot.compile(linear, inputs=[x], target=target, device=torch.device("cpu")).engine.targets == "cpu"
    with torch.no_grad():
        torch.compile(linear, backend=ingot_backend, options={"target": torch.device("cpu")})(x)
    assert told(ingot.OptionError, lambda: ingot.compile(linear, inputs=[x], target=torch.device("mps"))) == (
        "option target is 'mps'; engines run on the CPU and on NVIDIA GPUs", "", 'give "cpu", or a GPU\'s architecture such as "cuda:sm_90"')  # fmt: skip
    assert told(ingot.OptionError, lambda: ingot.compile(linear, inputs=[x], target=90)) == (
        "option target is 90, not a name", "", 'give "cpu", a GPU\'s architecture such as "cuda:sm_90", a torch.device, or a list of these')  # fmt: skip
    if not torch.cuda.is_available():
        assert told(ingot.OptionError, lambda: ingot.explain(linear, inputs=[x], target=torch.device("cuda"))) == (
            "option target is 'cuda', but torch finds no GPU here whose architecture that would be", "", 'name the architecture, such as "cuda:sm_90"')  # fmt: skip
    else:
        assert ingot.compile(linear.cuda(), inputs=[x.cuda()], target=torch.device("cuda")).engine.targets.startswith("cuda:sm_")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(linear, tmp_path):
    ingot.save(ingot.compile(linear, inputs=[Input((2, 4))]), tmp_path / "m.ingot")
    assert told(ingot.DeviceError, lambda: ingot.load(tmp_path / "m.ingot", device="cuda")) == NO_DRIVER
    assert told(ingot.DeviceError, lambda: ingot.load_engine(tmp_path / "m.ingot", device="cuda:1")) == NO_DRIVER


def test_no_such_device(linear, tmp_path):
    ingot.save(ingot.compile(linear, inputs=[Input((2, 4))]), tmp_path / "m.ingot")
    assert told(ingot.OptionError, lambda: ingot.load(tmp_path / "m.ingot", device="gpu")) == ('option device is "gpu"; "cpu", "cuda", "cuda:1", "reference" or "auto" is needed', "", "")


# ---- a model on the CPU for a GPU elsewhere: saved here, not run


NOT_HERE = (
    "the model is on the CPU, and was compiled for cuda:sm_90: it cannot run here", "",
    'ingot.save it, and ingot.load the file where the GPU is; target="cpu,cuda:sm_90" for a module that runs here too')  # fmt: skip


class Writes(torch.nn.Module):
    """One engine, and a torch graph around it."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(4, 8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen += self.up(x).amax(0)
        return torch.softmax(self.seen * x.sum(), 0)


@pytest.mark.parametrize("made", [lambda: torch.nn.Linear(4, 3), Writes], ids=["one engine", "a graph around it"])
def test_a_model_for_a_gpu_elsewhere_does_not_run(made, tmp_path):
    model, x = made().eval(), torch.ones(2, 4)
    compiled = ingot.compile(model, inputs=[Input((2, 4))], target="cuda:sm_90")
    assert compiled.engine.device is None and compiled.report.whole
    for call in (lambda: compiled(x), lambda: compiled.engine.session(), lambda: compiled.profile(x), lambda: compiled.engine.reference(x.numpy())):
        assert told(ingot.DeviceError, call) == NOT_HERE
    assert told(ingot.UnsupportedError, lambda: ingot.save(compiled, tmp_path / "m.pt2", format="exported_program")) == (
        "a torch program runs where its tensors are, on the CPU, and the engine in this one is for cuda:sm_90", "",
        'save it with format="ingot", or compile model.cuda() where there is a GPU')  # fmt: skip
    ingot.save(compiled, tmp_path / "m.ingot")
    assert told(ingot.VersionError, lambda: ingot.load(tmp_path / "m.ingot", device="cpu")) == (
        "the plan has no program for the CPU: it was compiled for cuda:sm_90", "", 'compile the model with "cpu" among its targets')


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_an_archive_for_a_gpu_elsewhere(linear, tmp_path):
    torch.export.save(torch.export.export(linear, (torch.ones(2, 4),)), tmp_path / "m.pt2")
    compiled = ingot.compile(tmp_path / "m.pt2", target="cuda:sm_90")
    assert told(ingot.DeviceError, lambda: compiled(torch.ones(2, 4))) == NOT_HERE
    ingot.save(compiled, tmp_path / "m.ingot")
    assert told(ingot.DeviceError, lambda: ingot.load(tmp_path / "m.ingot")) == NO_DRIVER


def test_a_file_for_both(linear, tmp_path):
    x = torch.randn(2, 4)
    for target in (["cpu", "cuda:sm_90"], "cpu,cuda:sm_90", ("cuda:sm_90", "cpu")):
        compiled = ingot.compile(linear, inputs=[Input((2, 4))], target=target)
        assert compiled.engine.device == "cpu" and compiled.engine.targets == (target if isinstance(target, str) else ",".join(target))
        ingot.save(compiled, tmp_path / "both.ingot")
        for module in (compiled, ingot.load(tmp_path / "both.ingot")):
            torch.testing.assert_close(module(x), linear(x), rtol=1e-5, atol=1e-5)
