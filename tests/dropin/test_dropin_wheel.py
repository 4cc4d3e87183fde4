"""The wheel torch-ingot-tensorrt: it gives the name torch_tensorrt, and leaves it to the genuine package."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys
assert "torch" not in sys.modules and "ingot" not in sys.modules
import importlib.util
assert importlib.util.find_spec("torch_tensorrt") is not None and "torch" not in sys.modules
import torch
import torch_tensorrt
import torch_tensorrt.dynamo.conversion as conversion
from torch_tensorrt.dynamo.runtime import TorchTensorRTModule
from torch_tensorrt._enums import dtype
import ingot.torch_tensorrt
assert torch_tensorrt is ingot.torch_tensorrt and conversion is ingot.torch_tensorrt.dynamo.conversion and dtype is torch_tensorrt.dtype
assert TorchTensorRTModule is ingot.torch_tensorrt.TorchTensorRTModule
assert torch_tensorrt.__spec__.name == "ingot.torch_tensorrt" and importlib.util.find_spec("torch_tensorrt.nothing") is None
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8)).eval()
x = torch.ones(2, 8)
with torch.no_grad():
    torch.testing.assert_close(torch_tensorrt.compile(model, inputs=[x], min_block_size=1)(x), model(x))
    torch.testing.assert_close(torch.compile(model, backend="tensorrt")(x), model(x))
print("done")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, ROOT / "tools/make_wheel.py", "--torch-tensorrt", "--out", out], check=True, capture_output=True)
    return next(out.iterdir())


def run(folder, program, *more):
    """In a process whose Python found the folder's .pth file, as it finds one in site-packages."""
    code = f"import site; site.addsitedir({str(folder)!r})\n{program}"
    done = subprocess.run([sys.executable, *more, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def site(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    return tmp_path


def test_it_gives_the_name(site):
    assert run(site, PROGRAM) == "done\n"


def test_scripts_find_where_the_package_lies(site):
    program = """
import importlib.util, os
spec = importlib.util.find_spec("torch_tensorrt")
assert os.path.isfile(spec.origin) and os.path.isfile(os.path.join(spec.submodule_search_locations[0], "_compile.py"))
import torch_tensorrt
assert os.path.samefile(torch_tensorrt.__file__, spec.origin) and torch_tensorrt._compile.__name__ == "ingot.torch_tensorrt._compile"
print(os.path.dirname(spec.origin))
"""
    assert run(site, program) == str(ROOT / "python/ingot/torch_tensorrt") + "\n"


def test_the_genuine_package_keeps_it(site):
    (site / "torch_tensorrt").mkdir()
    (site / "torch_tensorrt/__init__.py").write_text("genuine = True\n")
    (site / "torch_tensorrt/dynamo.py").write_text("genuine = True\n")
    program = """
import torch_tensorrt.dynamo
assert torch_tensorrt.genuine and torch_tensorrt.dynamo.genuine
import ingot.torch_tensorrt.dynamo
from torch._dynamo import list_backends
assert "tensorrt" not in list_backends()  # the genuine one registers it
assert ingot.torch_tensorrt.dynamo is not torch_tensorrt.dynamo and not hasattr(ingot.torch_tensorrt, "genuine")
"""
    run(site, program)


def test_modules_run_as_programs(site):
    program = "import runpy, sys; sys.argv = ['x']; runpy.run_module('torch_tensorrt.dynamo.tools.opset_coverage', run_name='__main__')"
    assert '"aten.relu.default"' in run(site, program)


def test_without_ingot_there_is_no_such_name(site):
    program = "import sys; sys.path = [p for p in sys.path if not p.endswith('/python')]\ntry:\n    import torch_tensorrt\nexcept ModuleNotFoundError as problem:\n    assert problem.name == 'torch_tensorrt'\nelse:\n    raise AssertionError"
    run(site, program, "-S")


def test_the_wheel_is_small_and_the_same_each_time(wheel, tmp_path):
    subprocess.run([sys.executable, ROOT / "tools/make_wheel.py", "--torch-tensorrt", "--out", tmp_path], check=True, capture_output=True)
    assert next(tmp_path.iterdir()).read_bytes() == wheel.read_bytes() and wheel.stat().st_size < 20_000
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
        assert b"Requires-Dist: torch-ingot[torch]==" in archive.read(next(n for n in archive.namelist() if n.endswith("METADATA")))


@pytest.mark.skipif(not os.environ.get("INGOT_TEST_ALL"), reason="makes a virtual environment: INGOT_TEST_ALL=1")
def test_pip_installs_and_removes_it(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", tmp_path], check=True)
    python = tmp_path / "bin/python"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    pip = [python, "-m", "pip", "-q"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", wheel], check=True)
    found = "import importlib.util as u; print(u.find_spec('torch_tensorrt') is not None)"
    assert subprocess.run([python, "-c", found], capture_output=True, text=True, env=environment).stdout == "True\n"
    subprocess.run([*pip, "uninstall", "-y", "torch-ingot-tensorrt"], check=True)
    assert subprocess.run([python, "-c", found], capture_output=True, text=True, env=environment).stdout == "False\n"
