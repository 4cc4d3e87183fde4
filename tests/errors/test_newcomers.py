"""What people write who meet ingot for the first time: it is taken, or one sentence says what to write."""

import logging
import subprocess
import sys
from collections import UserDict
from pathlib import Path

import fresh
import numpy as np
import pytest
import torch

import ingot

MODEL = torch.nn.Linear(4, 2).eval()
X = torch.randn(3, 4)


def told(kind, message, remedy, call):
    with pytest.raises(kind) as problem:
        call()
    assert message in problem.value.message and remedy in problem.value.remedy, str(problem.value)


@pytest.mark.parametrize("inputs", [X, ingot.Input((3, 4)), (X,), iter([X])], ids=["tensor", "Input", "tuple", "iterator"])
def test_one_input_alone(inputs):
    assert torch.allclose(ingot.compile(MODEL, inputs)(X), MODEL(X), atol=1e-6)


def test_explain_takes_one_input():
    assert ingot.explain(MODEL, X).whole


@pytest.mark.parametrize("batch", [{"input": X}, UserDict(input=X)], ids=["dict", "a batch of a tokenizer"])
def test_inputs_by_name(batch):
    told(ingot.InputError, f"inputs is a {type(batch).__name__} with the names 'input'", "kwarg_inputs=", lambda: ingot.compile(MODEL, batch))
    assert torch.allclose(ingot.compile(MODEL, kwarg_inputs=batch)(input=X), MODEL(X), atol=1e-6)
    told(ingot.InputError, "kwarg_inputs is a list", "inputs=[ids]", lambda: ingot.compile(MODEL, kwarg_inputs=[X]))


@pytest.mark.parametrize("shape", [[(3, 4)], (3, 4)], ids=["in a list", "alone"])
def test_a_shape_for_an_input(shape):
    told(ingot.InputError, "the inputs are numbers alone, (3, 4)", "inputs=[ingot.Input((3, 4))]", lambda: ingot.compile(MODEL, shape))


def test_something_else_for_inputs():
    told(ingot.InputError, "inputs is 3: a list of inputs is needed", "inputs=[ingot.Input(", lambda: ingot.compile(MODEL, 3))


def test_another_packages_keyword():
    told(ingot.OptionError, "there is no option 'example_inputs'", "did you mean 'inputs'?", lambda: ingot.compile(MODEL, example_inputs=[X]))
    told(ingot.OptionError, "there is no option 'example_kwarg_inputs'", "did you mean 'kwarg_inputs'?", lambda: ingot.compile(MODEL, example_kwarg_inputs={"input": X}))
    told(ingot.OptionError, "there is no option 'input'", "did you mean 'inputs'?", lambda: ingot.explain(MODEL, input=[X]))


def test_arrays_of_numpy():
    told(ingot.InputError, "inputs[0] is an array of NumPy's", "torch.from_numpy(array)", lambda: ingot.compile(MODEL, [X.numpy()]))
    compiled = ingot.compile(MODEL, X)
    for call in (compiled, compiled.profile, compiled.verify):
        told(ingot.InputError, "input 'input' is of type ndarray, but the engine takes a tensor there", "torch.from_numpy(input)", lambda: call(X.numpy()))


def test_a_class_of_models():
    told(ingot.InputError, "the model is the class Linear, and not an object of it", "ingot.compile(Linear(...).eval(), ...)", lambda: ingot.compile(torch.nn.Linear, X))


def test_a_model_of_onnx(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x07\x12\x04torch")
    told(ingot.FormatError, f"{path} is a model of ONNX, which ingot does not read", "torch.export.save(", lambda: ingot.compile(path))


def test_a_compiled_module():
    told(ingot.InputError, "it is compiled already", "ingot.save", lambda: ingot.compile(ingot.compile(MODEL, X), X))


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.drop, self.norm, self.rnn = torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(4), torch.nn.GRU(4, 4, 2, dropout=0.1)

    def forward(self, x):
        return self.norm(self.drop(self.linear(x)))


def test_a_model_in_training_mode(caplog):
    active = "the model is in training mode, where these are active: dropout in drop, rnn; batch norm in norm"
    with caplog.at_level(logging.WARNING, "ingot"):
        ingot.explain(Trained(), X)
    assert active + ". Inference wants model.eval() before the model is compiled" in caplog.messages
    told(ingot.UnsupportedError, active, "model.eval()", lambda: ingot.compile(Trained(), X, fallback="error"))
    caplog.clear()
    ingot.explain(Trained().eval(), X)
    ingot.explain(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Dropout(0)), X)
    assert not any("training" in message for message in caplog.messages)


class Numpy(torch.nn.Module):
    def forward(self, x):
        return torch.from_numpy(x.numpy() * 2)


class Slice(torch.nn.Module):
    def forward(self, x):
        return x[: int(x.sum().item())]


class Bounded(torch.nn.Module):
    """Slice as its remedy says."""

    def forward(self, x):
        n = x.sum().long().item()
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        return x[:n]


class Branch(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            self.seen = 1
            return x.nonzero()
        return x


def test_remedies_fit_their_causes(capfd, caplog):
    told(ingot.UnsupportedError, "leaves torch for NumPy", "write it with functions of torch", lambda: ingot.compile(Numpy(), X))
    told(ingot.InputError, "the model cannot be captured with these inputs", "the model takes in eager PyTorch", lambda: ingot.compile(MODEL, torch.ones(3, 5)))
    told(ingot.UnsupportedError, "", "its bounds by torch._check", lambda: ingot.compile(Slice(), torch.ones(8)))
    told(ingot.UnsupportedError, "", "torch.where", lambda: ingot.compile(Branch(), X))
    assert capfd.readouterr().err == "" and "failed while attempting" not in caplog.text, "torch's own long logs are for debugging"
    assert torch.equal(ingot.compile(Bounded(), torch.ones(8), fallback="error")(torch.tensor([1.0, 1, 0, 0, 0, 0, 0, 0])), torch.tensor([1.0, 1]))


def test_the_ending_decides_the_format(tmp_path):
    compiled = ingot.compile(MODEL, X)
    ingot.save(compiled, tmp_path / "model.pt2")
    assert torch.allclose(torch.export.load(tmp_path / "model.pt2").module()(X), MODEL(X), atol=1e-6)
    ingot.save(compiled, tmp_path / "model.bin")
    assert (tmp_path / "model.bin").read_bytes().startswith(b"\x89ingot")
    for ending, what in ((".onnx", "models of ONNX"), (".pt", "what torch.save writes"), (".engine", "TensorRT")):
        told(ingot.OptionError, what, 'format="ingot" writes a plan under any name', lambda: ingot.save(compiled, tmp_path / f"model{ending}"))
        assert not (tmp_path / f"model{ending}").exists()
    ingot.save(compiled, tmp_path / "model.pt", format="ingot")


def test_a_disk_without_room(tmp_path, monkeypatch):
    from ingot import files

    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 10}))
    told(ingot.IoError, "bytes, and its disk has 10 bytes left", "free room", lambda: ingot.save(ingot.compile(MODEL, X), tmp_path / "model.pt2"))
    assert not list(tmp_path.iterdir())


def test_a_package_without_a_compiler(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("InductorError: No working C++ compiler found in torch._inductor.config.cpp.cxx")

    monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", fails)
    told(ingot.DeviceError, "needs a C++ compiler", "apt install g++", lambda: ingot.save(ingot.compile(MODEL, X), tmp_path / "model.pt2", format="aot_inductor"))


def test_names_of_types():
    assert ingot.compile(MODEL, X, autocast="fp16").engine is not None
    assert (ingot.Input((1,), dtype="fp32").dtype, ingot.Input((1,), dtype="fp16").dtype) == ("float32", "float16")
    told(ingot.OptionError, 'option autocast is "fp8"', "", lambda: ingot.compile(MODEL, X, autocast="fp8"))


def test_sessions_take_names():
    engine = ingot.compile(MODEL, ingot.Input((3, 4), name="x")).engine
    assert repr(engine) == "Engine(inputs=[x: float32], outputs=[linear: float32], device='cpu')"
    session, x = engine.session(), X.numpy()
    (expected,) = session.run(x)
    for made in (session.run(x=x), session.run({"x": x}), session.run(None, {"x": x}), session.run([x])):
        assert np.array_equal(made[0], expected)
    told(ingot.InputError, "the engine has no input 'xx'; its inputs are x", "did you mean 'x'?", lambda: session.run(xx=x))
    told(ingot.InputError, "in order and by name at once", "session.run(ids=x, mask=mask)", lambda: session.run(x, x=x))
    told(ingot.InputError, "input 'x' is missing", "", lambda: session.run({}))


def test_a_loaded_plan_has_a_report(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    compiled = ingot.compile(model, X)
    ingot.save(compiled, tmp_path / "model.ingot")
    loaded = ingot.load(tmp_path / "model.ingot").report
    assert str(loaded) == str(compiled.report) and loaded.whole and loaded.in_torch == 0
    assert [{**s, "gain_us": 0, "cost_us": 0} for s in compiled.report.segments] == loaded.segments  # a plan has no estimates
    assert [(n["name"], n["target"]) for n in loaded.nodes] == [(n["name"], n["target"]) for n in compiled.report.nodes]
    assert all("linear.py" in n["origin"] for n in loaded.nodes if "linear" in n["target"]) and "3 of 3 operators" in loaded._repr_html_()


def test_gpus_before_ampere(tmp_path):
    """What docs/install.md says of them: Turing has code, by NVRTC; Volta has none, also for a model that needs no NVRTC."""
    pytest.importorskip("nvidia", reason="compiles by NVRTC")
    for model in (torch.nn.Identity(), torch.nn.Flatten()):
        told(ingot.UnsupportedError, "does not compile for cuda:sm_70", "take a target from cuda:sm_75 on", lambda model=model: ingot.compile(model, torch.randn(3, 4), target="cpu,cuda:sm_70"))
    folder = str(next(p for p in map(Path, sys.path) if (p / "nvidia").is_dir()))
    program = f"""
import os
os.environ["INGOT_LIBRARY_PATH"] = {folder!r}
import torch, ingot
model = torch.nn.Sequential(torch.nn.Softmax(-1), torch.nn.GELU())
print(ingot.compile(model, torch.randn(3, 4), target="cuda:sm_75").engine.targets)
try:
    ingot.compile(model, torch.randn(3, 4), target="cuda:sm_70")
except ingot.UnsupportedError as problem:
    print(problem)
"""
    done = fresh.run(program, cwd=tmp_path, warnings=False)
    first, message, remedy = done.stdout.splitlines()
    assert first == "cuda:sm_75" and "does not compile for cuda:sm_70: its GPUs begin with sm_75" in message and "take a target from cuda:sm_75 on" in remedy, done.stderr


def test_a_name_of_an_input_is_not_one_of_a_call():
    module = ingot.compile(MODEL, ingot.Input((3, 4), name="x"))
    told(ingot.InputError, "unexpected keyword argument 'x'; the model was compiled with the arguments input", "the names of the model's forward", lambda: module(x=X))


def test_a_plan_is_compiled_already(tmp_path):
    path = tmp_path / "model.ingot"
    ingot.save(ingot.compile(MODEL, X), path)
    done = subprocess.run([sys.executable, "-m", "ingot", "compile", path, "-o", tmp_path / "z"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (15, f"ingot: {path} is a plan: it is compiled already\n  remedy: run it with `ingot run`, or compile the .pt2 archive that it was made of\n")


def test_a_checkpoint_is_no_program(tmp_path):
    torch.save(MODEL.state_dict(), tmp_path / "weights.pt")
    told(ingot.FormatError, "is a checkpoint that torch.save wrote", "load_state_dict", lambda: ingot.load(tmp_path / "weights.pt"))


def test_no_warning_comes_of_torchs_copies(recwarn):
    ingot.compile(Bounded(), torch.ones(8))
    assert not [w for w in recwarn if "LeafSpec" in str(w.message)]


def test_the_package_runs_as_the_command():
    assert subprocess.run([sys.executable, "-m", "ingot", "--version"], capture_output=True, text=True, check=True).stdout == f"ingot {ingot.__version__}\n"
