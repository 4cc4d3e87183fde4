"""Without PyTorch: functions that need it say so and name those that do not."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import ingot

PROGRAM = """
import importlib.abc, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import ingot, numpy
for name in ("compile", "explain", "load", "save", "Module", "ingot_backend"):
    try:
        getattr(ingot, name)
    except ModuleNotFoundError as problem:
        assert problem.name == "torch" and problem.__cause__ is None
        assert str(problem) == f"ingot.{name} needs PyTorch, which is not installed: pip install torch-ingot[torch]. Without it, ingot.load_engine(path) runs a .ingot file", problem
    else:
        raise SystemExit(name)
try:
    from ingot import load
except ImportError as problem:
    assert "load_engine" in str(problem), problem
print(ingot.load_engine("model.ingot").session().run(numpy.load("x.npy"))[0].tolist())
"""


@pytest.mark.parametrize("first", ["", "import ingot\n"])
def test_what_needs_torch_says_so(tmp_path, first):
    model, x = torch.nn.Linear(4, 2).eval(), torch.randn(3, 4)
    ingot.save(ingot.compile(model, inputs=[x]), tmp_path / "model.ingot")
    np.save(tmp_path / "x.npy", x.numpy())
    done = subprocess.run([sys.executable, "-c", first + PROGRAM], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        assert np.allclose(eval(done.stdout), model(x).numpy(), atol=1e-6)


def test_another_missing_module_is_told_as_it_is(monkeypatch):
    import importlib

    def missing(*_):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match="^No module named 'numpy'$"):
        ingot.__getattr__("compile")


def test_the_extra_is_the_wheels():
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert '[project.optional-dependencies]\ntorch = ["torch' in text
