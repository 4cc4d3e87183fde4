"""Scripts written as Torch-TensorRT's guides write them: they import torch_tensorrt and run unchanged."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/dropin"))
import ingot_torch_tensorrt  # noqa: E402

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


@pytest.fixture(autouse=True)
def named(monkeypatch):
    """The wheel's finder, for as long as a script runs."""
    before = {name for name in sys.modules if name.split(".")[0] == "torch_tensorrt"}
    finders = list(sys.meta_path)
    ingot_torch_tensorrt.install()
    yield
    torch._dynamo.reset()
    sys.meta_path[:] = finders
    for name in [n for n in sys.modules if n.split(".")[0] == "torch_tensorrt" and n not in before]:
        del sys.modules[name]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_a_script(script):
    if script.stem.startswith("transformers"):
        pytest.importorskip("transformers")
    torch.manual_seed(0)
    with torch.backends.cudnn.flags(allow_tf32=False):  # on a GPU, eager's float32 convolutions and ingot's are compared
        runpy.run_path(str(script), run_name="__main__")
