"""Does what a user of the C and C++ interfaces does: installs ingot, builds the examples against the prefix alone, and runs a plan with them."""

import concurrent.futures
import os
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("INGOT_BUILD", "build/release")


def output_of(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    where = tmp_path_factory.mktemp("prefix")
    output_of("cmake", "--install", BUILD, "--prefix", where)
    return where


@pytest.fixture(scope="module")
def lib(prefix):
    return next(prefix.rglob("libingot_runtime.so")).parent


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    ).eval()


@pytest.fixture(scope="module")
def plan(prefix, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    batch = torch.export.Dim("B", min=1, max=8)
    torch.export.save(torch.export.export(model, (torch.randn(3, 16),), dynamic_shapes=({0: batch},)), folder / "mlp.pt2")
    output_of(prefix / "bin/ingot", "compile", folder / "mlp.pt2", "-o", folder / "mlp.ingot")
    return folder / "mlp.ingot"


def test_two_processes_build_the_same_bytes(prefix, plan):
    again = plan.with_suffix(".again")
    output_of(prefix / "bin/ingot", "compile", plan.with_suffix(".pt2"), "-o", again)
    assert again.read_bytes() == plan.read_bytes()


@pytest.fixture(scope="module", params=["c", "cpp"])
def example(request, prefix, lib, tmp_path_factory):
    compiler = {"c": ["cc", "-std=c11"], "cpp": ["c++", "-std=c++20"]}[request.param]
    flags = output_of("pkg-config", "--cflags", "--libs", "ingot_runtime", env=os.environ | {"PKG_CONFIG_PATH": str(lib / "pkgconfig")}).split()
    program = tmp_path_factory.mktemp("example") / "run_plan"
    output_of(*compiler, "-Wall", "-Wextra", "-Werror", ROOT / f"examples/{request.param}/run_plan.{request.param}", "-o", program, *flags)
    return lambda *a: subprocess.run([program, *a], capture_output=True, text=True, env=os.environ | {"LD_LIBRARY_PATH": str(lib)})


def test_values_are_eagers(example, plan, model):
    done = example(plan, "3,16")
    assert done.returncode == 0, done.stderr
    head, values = done.stdout.split(":")
    assert head == "output 0 [3, 4]"
    expected = model(torch.ones(3, 16)).flatten()[:8]
    # The programs print six digits.
    torch.testing.assert_close(torch.tensor([float(v) for v in values.split()]), expected, rtol=1e-5, atol=1e-6)


def test_usual_sizes(example, plan):
    assert example(plan).stdout.startswith("output 0 [")


def test_errors_are_told_in_full(example, plan):
    done = example(plan, "9,16")
    assert done.returncode == 1 and "has size 9, outside the range 1..8" in done.stderr and "remedy: " in done.stderr
    done = example("/nowhere.ingot")
    assert done.returncode == 1 and "cannot open /nowhere.ingot" in done.stderr


def test_cmake_finds_it(prefix, lib, plan, tmp_path):
    """find_package gives both libraries; a program needs the runtime by its versioned name."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(user C CXX)\nset(CMAKE_CXX_STANDARD 20)\nfind_package(ingot 0.1 REQUIRED)\n"
        f"add_executable(run_plan {ROOT}/examples/c/run_plan.c)\ntarget_link_libraries(run_plan ingot::runtime)\nif(NOT TARGET ingot::compiler)\n  message(FATAL_ERROR missing)\nendif()\n"
    )
    output_of("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    output_of("cmake", "--build", tmp_path / "build")
    assert output_of(tmp_path / "build/run_plan", plan, "3,16").startswith("output 0 [3, 4]")
    assert "libingot_runtime.so.0" in output_of("readelf", "-d", tmp_path / "build/run_plan") and (lib / "libingot_runtime.so").is_symlink()


def test_an_older_standard_is_named(tmp_path):
    (tmp_path / "old.cpp").write_text("#include <ingot/ingot.hpp>\n")
    done = subprocess.run(["c++", "-std=c++17", "-fsyntax-only", f"-I{ROOT / 'include'}", tmp_path / "old.cpp"], capture_output=True, text=True)
    assert done.returncode and "ingot.hpp needs C++20: compile with -std=c++20 or later" in done.stderr.splitlines()[1], done.stderr


def test_the_runtime_stands_alone(lib):
    needed = output_of("ldd", lib / "libingot_runtime.so")
    assert "libc.so" in needed and "torch" not in needed and "python" not in needed and "libingot.so" not in needed


def test_an_image_in_channels_last(prefix, example, tmp_path):
    """Files and programs have the caller's axes, however the plan reads them."""
    torch.manual_seed(0)
    conv = torch.nn.Conv2d(3, 4, 3).eval().to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 6, 5).to(memory_format=torch.channels_last)
    torch.export.save(torch.export.export(conv, (x,)), tmp_path / "image.pt2")
    output_of(prefix / "bin/ingot", "compile", tmp_path / "image.pt2", "-o", tmp_path / "image.ingot")
    assert "input input float32[2, 3, 6, 5], axes in memory: [0, 2, 3, 1]" in output_of(prefix / "bin/ingot", "inspect", tmp_path / "image.ingot")
    np.save(tmp_path / "x.npy", np.ascontiguousarray(x.numpy()))
    output_of(prefix / "bin/ingot", "run", tmp_path / "image.ingot", "--input", f"input={tmp_path / 'x.npy'}", "--output", tmp_path)
    made = torch.from_numpy(np.load(next(f for f in tmp_path.glob("*.npy") if f.name != "x.npy")))
    torch.testing.assert_close(made, conv(x), rtol=1e-5, atol=1e-6)
    done = example(tmp_path / "image.ingot", "2,3,6,5")
    assert done.stdout.startswith("output 0 [2, 4, 4, 3]:"), done.stderr
    expected = conv(torch.ones(2, 3, 6, 5)).flatten()[:8]
    torch.testing.assert_close(torch.tensor([float(v) for v in done.stdout.split(":")[1].split()]), expected, rtol=1e-5, atol=1e-6)
    done = example(tmp_path / "image.ingot", "2,4,6,5")
    assert done.returncode == 1 and "axis 1 of input \"input\" (shape [2, 4, 6, 5]) has size 4, but the plan was built for 3 there" in done.stderr


def test_a_server(prefix, lib, plan, model, tmp_path):
    """Several clients at once get eager's results. An invalid line gets an error, and the next line is answered."""
    flags = output_of("pkg-config", "--cflags", "--libs", "ingot_runtime", env=os.environ | {"PKG_CONFIG_PATH": str(lib / "pkgconfig")}).split()
    output_of("c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", ROOT / "examples/cpp/server.cpp", "-o", tmp_path / "server", *flags)
    with subprocess.Popen([tmp_path / "server", plan, "2"], stdout=subprocess.PIPE, text=True, env=os.environ | {"LD_LIBRARY_PATH": str(lib)}) as server:
        try:
            port = int(server.stdout.readline().split()[-1])

            def asked(x):
                with socket.create_connection(("localhost", port), timeout=20) as connection, connection.makefile("rw") as talk:
                    replies = []
                    for line in (" ".join(str(v) for v in x.flatten().tolist()), "1 2 3", " ".join(["1"] * 16 * 9), "1 " * 16):
                        talk.write(line + "\n")
                        talk.flush()
                        replies.append(talk.readline())
                    return replies

            inputs = [torch.randn(rows, 16) for rows in (1, 3, 8, 2)]
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for x, (values, short, long, ones) in zip(inputs, pool.map(asked, inputs)):
                    torch.testing.assert_close(torch.tensor([float(v) for v in values.split()]), model(x).detach().flatten(), rtol=1e-4, atol=1e-5)
                    assert short == "error: give 16 numbers for each row\n" and long.startswith("error: axis 0 of input") and "range 1..8" in long
                    torch.testing.assert_close(torch.tensor([float(v) for v in ones.split()]), model(torch.ones(16)).detach(), rtol=1e-4, atol=1e-5)
        finally:
            server.kill()
