"""The package's name and the files beside it: what pyproject.toml, messages and pages say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ingot
from ingot.engine import _library

ROOT = Path(__file__).resolve().parents[2]
TEXT = {".py", ".md", ".toml", ".sh", ".cpp", ".h", ".hpp", ".txt", ".cmake", ".yml", ""}


def test_a_wheel_that_is_tested_is_imported():
    """`make check-portable` names it in PYTHONPATH; no test puts the checkout before it."""
    wheels = [Path(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if (Path(folder) / "ingot/lib").is_dir()]
    assert all(Path(ingot.__file__).is_relative_to(wheel) for wheel in wheels[:1])
    assert not wheels or Path(_library.find("libingot.so.0")).is_relative_to(wheels[0])


def test_nothing_recommends_another_projects_package():
    """`ingot` on PyPI is somebody else's: ours is torch-ingot, in every message, page and dependency."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout.split("\0")
    found = []
    for name in filter(None, names):
        path = ROOT / name
        if path.suffix in TEXT and path.is_file() and path != Path(__file__).resolve():
            for line in re.findall(r"^.*(?:pip install[^\n`]* [\"']?ingot(?:\[|\b(?![-_/.]))|Requires-Dist: ingot|\"ingot\[).*$", path.read_text(errors="replace"), re.M):
                if "pip install ingot` installs another" not in line:
                    found.append(f"{name}: {line.strip()}")
    assert not found


@pytest.mark.parametrize("name", ["src/api/runtime_api.cpp", "src/cli/main.cpp", "src/compile/compile.h", "python/dropin/pyproject.toml", "README.md", "docs/index.md", "docs/versions.md"])
def test_versions_are_one(name):
    """Each place that names the package's version (docs/releasing.md) has that of python/ingot/__init__.py."""
    text = (ROOT / name).read_text()
    found = re.findall(r'(?:ersion |ingot |version\\": \\"|^version = "|\[torch\]==|^)(\d+\.\d+\.\d+)\b', text, re.M)
    assert found and set(found) == {ingot.__version__}, found


def test_headers_and_the_runtime_are_found():
    assert (Path(ingot.include_path()) / "ingot/kernel.h").exists() and (Path(ingot.library_path()) / "libingot_runtime.so").exists()


def test_a_package_of_the_same_name_is_named(tmp_path):
    """Another project's `ingot` writes into the same folder; importing ours beside it says so."""
    (tmp_path / "ingot").symlink_to(ROOT / "python/ingot")
    program = "import ingot"
    for other, warned in ((False, 0), (True, 1)):
        if other:
            (tmp_path / "ingot-0.0.1.dist-info").mkdir()
        done = subprocess.run([sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {program}"], capture_output=True, text=True, check=True)
        assert done.stderr.count("the distribution 'ingot' 0.0.1, another project's, is installed together with torch-ingot") == warned, done.stderr
        assert not other or "pip uninstall ingot" in done.stderr


def configured(folder, *settings):
    command = ["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-DCMAKE_DISABLE_FIND_PACKAGE_simdjson=ON", *settings]
    return subprocess.run(command, capture_output=True, text=True)


def test_what_a_build_lacks_is_named(tmp_path):
    done = configured(tmp_path)
    assert done.returncode and "apt install libsimdjson-dev" in done.stderr and "dnf install simdjson-devel" in done.stderr, done.stderr


def test_the_runtime_alone_needs_less(tmp_path):
    done = configured(tmp_path, "-DINGOT_RUNTIME_ONLY=ON")
    assert done.returncode == 0, done.stderr
    assert "simdjson" not in (tmp_path / "build.ninja").read_text() and "libingot_runtime.so.0:" in (tmp_path / "build.ninja").read_text()
