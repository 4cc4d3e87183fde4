"""The wheel in a fresh environment, away from the sources: import, ingot.compile and torch.compile, the command line, and use without torch."""

import json
import os
import re
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch
from built import BUILD, ROOT, run, wheel  # noqa: F401 (a fixture)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate  # noqa: E402

pytestmark = pytest.mark.skipif(not os.environ.get("INGOT_TEST_ALL"), reason="builds a wheel and environments: INGOT_TEST_ALL=1")

PROGRAM = """
import sys
import ingot
assert "torch" not in sys.modules, "importing ingot imported torch"
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)).eval()
x = torch.randn(5, 16)
ahead = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 16), opt_shape=(5, 16), max_shape=(8, 16), name="x")])
ingot.save(ahead, "model.ingot")
with torch.no_grad():
    results = {"ahead": ahead(x), "loaded": ingot.load("model.ingot")(x), "in time": torch.compile(model, backend="ingot")(x), "eager": model(x), "exact": model.double()(x.double())}
torch.save((x, results), "results.pt")
import numpy
numpy.save("x.npy", x.numpy())
print(ingot.__file__)
print(*{line.split()[-1] for line in open("/proc/self/maps") if "libingot" in line}, sep="\\n")
"""

WITHOUT_TORCH = """
import importlib.util, sys
assert importlib.util.find_spec("torch") is None
import ingot, numpy
numpy.save("without_torch.npy", ingot.load_engine("model.ingot").session().run(numpy.load("x.npy"))[0])
"""


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """environment(wanted): the folder of a virtual environment with the wheel and the wanted packages of this Python."""

    def make(name, wanted):
        folder = tmp_path_factory.mktemp(name)
        run(sys.executable, "-m", "venv", folder, cwd=folder)
        packages = folder / "others" / "site-packages"
        packages.mkdir(parents=True)
        for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
            if wanted(path.name) and not path.name.startswith(("ingot", "torch_ingot", "pip")):
                (packages / path.name).symlink_to(path)
        site = Path(run(folder / "bin/python", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=folder).strip())
        (site / "others.pth").write_text(f"{packages}\n")
        run(folder / "bin/python", "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel, cwd=folder)
        return folder

    return make


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    return tmp_path_factory.mktemp("outside")


@pytest.fixture(scope="module")
def with_torch(environment, outside):
    folder = environment("with_torch", lambda name: True)
    return folder, run(folder / "bin/python", "-c", PROGRAM, cwd=outside).splitlines()


@pytest.fixture(scope="module")
def results(with_torch, outside):
    return torch.load(outside / "results.pt")[1]


@pytest.mark.parametrize("way", ["ahead", "loaded", "in time"])
def test_both_ways(results, way):
    assert_accurate(results[way], results["eager"], results["exact"], 32)


def test_everything_comes_from_the_wheel(with_torch):
    folder, lines = with_torch
    assert len(lines) >= 3  # the package, libingot, libingot_torch
    for path in lines:
        assert Path(path).resolve().is_relative_to(folder.resolve()), path


def test_command_line(with_torch, results, outside):
    import numpy

    command = with_torch[0] / "bin/ingot"
    assert run(command, "--version", cwd=outside) == "ingot 0.1.0\n"
    assert "instruction set" in run(command, "doctor", cwd=outside)
    (outside / "out").mkdir()
    said = run(command, "run", "model.ingot", "-i", "x=x.npy", "-o", "out", cwd=outside)
    (made,) = (outside / "out").iterdir()
    assert made.stem in said
    assert_accurate(torch.from_numpy(numpy.load(made)), results["eager"], results["exact"], 32)


def test_without_torch(with_torch, environment, results, outside):
    import numpy

    folder = environment("without_torch", lambda name: name.startswith("numpy"))
    run(folder / "bin/python", "-c", WITHOUT_TORCH, cwd=outside)
    assert_accurate(torch.from_numpy(numpy.load(outside / "without_torch.npy")), results["eager"], results["exact"], 32)


def test_c_programs_find_the_runtime(with_torch, outside):
    folder, program = with_torch[0], outside / "run_plan"
    include, library = run(folder / "bin/python", "-c", "import ingot; print(ingot.include_path()); print(ingot.library_path())", cwd=outside).split()
    run("cc", "-std=c11", ROOT / "examples/c/run_plan.c", "-o", program, f"-I{include}", f"-L{library}", f"-Wl,-rpath,{library}", "-lingot_runtime", cwd=outside)
    assert run(program, "model.ingot", "5,16", cwd=outside).startswith("output 0 [5, 4]:")


def test_built_again_it_is_the_same(wheel, tmp_path):
    run(sys.executable, ROOT / "tools/make_wheel.py", "--build", BUILD, "--out", tmp_path, cwd=tmp_path)
    assert next(tmp_path.iterdir()).read_bytes() == wheel.read_bytes()


def test_nothing_in_it_tells_where_it_was_built(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            assert str(ROOT).encode() not in archive.read(name), name
        names = archive.namelist()
        for licence in ("LICENSE", "licenses/fmt.txt", "licenses/CLI11.txt", "licenses/simdjson.txt", "licenses/FlatBuffers.txt", "licenses/xxHash.txt"):
            assert any(name.endswith(f".dist-info/licenses/{licence}") for name in names), licence
        parts = json.loads(archive.read(next(name for name in names if name.endswith("sboms/torch-ingot.cdx.json"))))
        of_the_compiler = {"libc++"} if BUILD.name == "portable" else set()
        known = {"fmt", "FlatBuffers", "xxHash", "simdjson", "CLI11"} | of_the_compiler
        assert {part["name"] for part in parts["components"]} == known and all(re.fullmatch(r"\d+(\.\d+)+", part["version"]) for part in parts["components"])
        assert "ingot/py.typed" in names


def test_its_tag_names_the_oldest_manylinux_it_runs_on(wheel, tmp_path):
    """An index takes manylinux tags alone. No library in it asks the system for a newer glibc than the tag says."""
    minor = int(wheel.name.split("manylinux_2_")[1].split("_")[0])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        assert f"Tag: py3-none-{wheel.stem.split('-')[-1]}\n" in archive.read(next(n for n in archive.namelist() if n.endswith("/WHEEL"))).decode()
    symbols = "".join(run("objdump", "-T", file, cwd=tmp_path) for file in sorted((tmp_path / "ingot/lib").iterdir()) if file.read_bytes()[:4] == b"\x7fELF")
    needed = [int(version) for version in re.findall(r"GLIBC_2\.(\d+)", symbols)]
    assert 17 <= max(needed) <= minor


def test_exceptions_pass_between_the_op_library_and_torch(wheel, tmp_path):
    """One unwinder for the process, GCC's, whatever compiler made the wheel; and no name of a C++ library is shared with torch's."""
    with zipfile.ZipFile(wheel) as archive:
        library = archive.extract("ingot/lib/libingot_torch.so", tmp_path)
    assert re.search(r"\*UND\*.*GCC_3\.0.*_Unwind_Resume", run("objdump", "-T", library, cwd=tmp_path))
    exported = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library, cwd=tmp_path).splitlines()}
    assert exported and all(name.startswith("ingot_torch_") for name in exported), exported


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The source distribution."""
    out = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-c", f"from scikit_build_core.build import build_sdist; build_sdist({str(out)!r})", cwd=ROOT)
    return next(out.iterdir())


def test_an_index_takes_both(wheel, source):
    """Metadata and readme by twine, the layout by check-wheel-contents."""
    assert run(sys.executable, "-m", "twine", "check", "--strict", wheel, source, cwd=wheel.parent).count("PASSED") == 2
    run(Path(sys.executable).parent / "check-wheel-contents", "--config", ROOT / "pyproject.toml", wheel, cwd=wheel.parent)


def test_it_has_all_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = [name.removeprefix("python/") for name in run("git", "ls-files", "python/ingot", cwd=ROOT).split()]
    assert {name for name in package if not name.endswith("README.md")} <= names


def test_a_source_distribution_has_what_a_build_reads(source):
    with tarfile.open(source) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    tracked = run("git", "ls-files", "src", "python", "include", "cmake", "licenses", cwd=ROOT).split()
    assert {name for name in tracked if Path(name).name != ".gitignore"} <= names
    assert {"CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO"} <= names and not any(name.startswith(("tests/", "bench/", "build/", ".venv")) for name in names)


def test_it_is_small(wheel):
    assert wheel.stat().st_size < 8e6
