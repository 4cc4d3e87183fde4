"""tools/new_op.py and tools/new_kernel.py, run in a copy of the sources; with INGOT_TEST_ALL=1 their output is compiled and run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(ROOT, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "results"))
    return tmp_path


def make(copy, *arguments):
    done = subprocess.run(["make", "-s", *arguments], cwd=copy, capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": ""})
    return done.returncode, done.stdout + done.stderr


def test_rows(copy):
    file = copy / "src/ops/pointwise.cpp"
    before = file.read_text()
    for schema, text in {
        "frac(Tensor self) -> Tensor": '''    {"frac(Tensor self)",
     [](Value /*self*/) -> Value { fail(Code::unsupported, "frac is not written yet"); }},\n''',
        "aten::odd.out(Tensor[] xs, Tensor? w=None, int[2] size=[1, 1], *, SymInt[] n, float eps=1e-05, ScalarType? t=None, Tensor(a!) out) -> (Tensor, Tensor(a!))":
        '''    {"odd.out(Tensor[] xs, Tensor? w=None, int[2] size=[1, 1], *, SymInt[] n, float eps=1e-05, ScalarType? t=None, Tensor(a!) out)", Types::each,
     [](std::vector<Value> /*xs*/, std::optional<Value> /*w*/, std::vector<int64_t> /*size*/, std::vector<Dim> /*n*/, double /*eps*/, std::optional<DType> /*t*/, '''
        '''Value /*out*/) -> std::vector<Value> { fail(Code::unsupported, "odd.out is not written yet"); }},\n''',
    }.items():  # fmt: skip
        code, said = make(copy, "new-op", f"SCHEMA={schema}", "FAMILY=pointwise")
        assert code == 0 and said.startswith("src/ops/pointwise.cpp:"), said
        assert text in file.read_text()
        line = int(said.split(":")[1])
        assert file.read_text().splitlines()[line - 1] == text.splitlines()[0]
    after = file.read_text()
    assert after.startswith(before[: before.rindex("\n};")])


def test_refusals(copy):
    assert "the families are activation, comparison," in make(copy, "new-op", "SCHEMA=frac(Tensor self) -> Tensor", "FAMILY=nope")[1]
    assert "not a schema: 'frac'" in make(copy, "new-op", "SCHEMA=frac", "FAMILY=pointwise")[1]
    assert "no body takes an argument of type Stream" in make(copy, "new-op", "SCHEMA=f(Stream s) -> Tensor", "FAMILY=pointwise")[1]
    assert "src/kernels/scan is there already" in make(copy, "new-kernel", "NAME=scan")[1]
    assert "'A b' is not a name for a kernel" in make(copy, "new-kernel", "NAME=A b")[1]


def test_kernel_folder(copy):
    code, said = make(copy, "new-kernel", "NAME=two_words")
    assert code == 0 and "Conformance" in said
    assert sorted(str(p.relative_to(copy / "src")) for p in (copy / "src").rglob("two_words*.*")) == [
        "backend/cpu/kernels/two_words/run/two_words.cpp", "backend/cpu/kernels/two_words/two_words.cpp", "backend/cpu/kernels/two_words/two_words_test.cpp",
        "kernels/two_words/run/two_words_args.cpp", "kernels/two_words/run/two_words_args.h", "kernels/two_words/two_words.cpp"]  # fmt: skip
    assert "X(two_words)" in (copy / "src/kernels/definitions.cpp").read_text() and "X(two_words)" in (copy / "src/backend/cpu/run/kernels.def").read_text()
    done = subprocess.run([sys.executable, "tools/check_layers.py"], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not os.environ.get("INGOT_TEST_ALL"), reason="compiles for minutes: INGOT_TEST_ALL=1")
def test_what_is_written_compiles_and_runs(copy):
    assert make(copy, "new-kernel", "NAME=two_words")[0] == 0
    assert make(copy, "new-op", "SCHEMA=odd.name(Tensor[] xs, Tensor? w=None, int[2] size=[1, 1], *, SymInt[] n, float eps=1e-05) -> (Tensor, Tensor)", "FAMILY=shape")[0] == 0
    build = copy / "build"
    subprocess.run(["cmake", "-G", "Ninja", "-S", ".", "-B", build], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build, "-j1", "--target", "test_backend_cpu", "test_compile", "ingot_cli"], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([build / "test_backend_cpu", "--gtest_filter=two_words.*"], capture_output=True, text=True)
    assert done.returncode == 0 and "2 tests" in done.stdout, done.stdout
    done = subprocess.run([build / "test_compile", "--gtest_filter=Conformance.Cpu"], capture_output=True, text=True)
    assert done.returncode != 0 and "two_words is in no plan" in done.stdout, done.stdout
    assert "aten.odd.name " in subprocess.run([build / "ingot", "ops", "odd"], capture_output=True, text=True).stdout
