"""`ingot.register_kernel`: an operator's own kernel runs inside the engine."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import ingot
from ingot.engine import _library

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "files"))
import crafted  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SHAPE = [ingot.Input(min_shape=(0, 6), opt_shape=(4, 6), max_shape=(64, 6))]


@torch.library.custom_op("own::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float, times: int, negate: bool = False) -> torch.Tensor:
    return x * factor**times * (-1 if negate else 1)


@torch.library.custom_op("own::split", mutates_args=())
def split(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    found = x >= 0
    return x.sum(1), torch.where(found.any(1), found.int().argmax(1), -1).int()


@torch.library.custom_op("own::turn", mutates_args=())
def turn(x: torch.Tensor) -> torch.Tensor:
    return x.flatten().flip(0).reshape(x.shape)


@torch.library.custom_op("own::add_to", mutates_args=("to",))
def add_to(x: torch.Tensor, to: torch.Tensor, factor: float) -> torch.Tensor:
    to.add_(x, alpha=factor)
    return to.sum().reshape(1)


@torch.library.custom_op("own::only_adds", mutates_args=("to",))
def only_adds(x: torch.Tensor, to: torch.Tensor, factor: float) -> None:
    to.add_(x, alpha=factor)


@torch.library.custom_op("own::fails", mutates_args=())
def fails(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


scale.register_fake(lambda x, factor, times, negate=False: torch.empty(x.shape))
split.register_fake(lambda x: (x.new_empty(x.shape[0]), x.new_empty(x.shape[0], dtype=torch.int32)))
turn.register_fake(lambda x: torch.empty_like(x, memory_format=torch.contiguous_format))
add_to.register_fake(lambda x, to, factor: x.new_empty(1))
only_adds.register_fake(lambda x, to, factor: None)
fails.register_fake(lambda x: torch.empty_like(x))


def built(folder, name="libown.so", source=ROOT / "tests/modules/own_kernels.c"):
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", f"-I{ROOT}/include", source, "-o", folder / name], check=True)
    return folder / name


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return built(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module", autouse=True)
def kernels(library):
    made = [ingot.register_kernel(op, cpu=(library, op._opoverload._schema.name[5:])) for op in (scale, split, turn, add_to, fails)]
    made.append(ingot.register_kernel("own::only_adds", cpu=f"{library}:add_to", in_place=("to",)))
    yield
    for kernel in made:
        kernel.remove()


class Block(torch.nn.Module):
    """Work around a kernel: its operand is a transposed view of a product, its result is read transposed and in a concatenation."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(6, 5)

    def forward(self, x):
        y = scale(torch.relu(self.linear(x)).transpose(0, 1), 1.5, 2)
        return torch.cat([y.transpose(0, 1), x], 1), y.sum(0)


@pytest.fixture(scope="module")
def block():
    model = Block().eval()
    return model, ingot.compile(model, inputs=SHAPE)


@pytest.mark.parametrize("rows", [4, 1, 0, 64, 5])
def test_it_is_in_the_engine_at_every_size(block, rows):
    model, compiled = block
    assert compiled.report.whole
    x = torch.randn(rows, 6)
    torch.testing.assert_close(compiled(x), model(x))
    torch.testing.assert_close(compiled(x.t().contiguous().t()), model(x))


def test_torch_compile(block):
    model, _ = block
    compiled = torch.compile(model, backend="ingot", dynamic=True, options={"fallback": "error"})
    for rows in (3, 7):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(compiled(x), model(x))


def test_several_results_and_types():
    class Model(torch.nn.Module):
        def forward(self, x, h, flags):
            sums, first = split(x)
            return sums + 1, first * 2, turn(h), turn(flags[:, ::2])

    model = Model()
    x, h, flags = torch.randn(5, 7), torch.randn(3, 4).half(), torch.rand(3, 4) > 0.5
    compiled = ingot.compile(model, inputs=[x, h, flags], fallback="error")
    torch.testing.assert_close(compiled(x, h, flags), model(x, h, flags))
    bf16 = ingot.compile(model, inputs=[x, h.bfloat16(), flags], fallback="error")
    torch.testing.assert_close(bf16(x, h.bfloat16(), flags), model(x, h.bfloat16(), flags))


def test_sizes_are_numbers_too():
    class Model(torch.nn.Module):
        def forward(self, x):
            return scale(x, 2.0, x.shape[0], True)

    compiled = ingot.compile(Model(), inputs=SHAPE, fallback="error")
    for rows in (2, 5):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(compiled(x), Model()(x))


class Writes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3, 4))

    def forward(self, x, y):
        mine = x.clone()
        new = add_to(y, mine, 2.0)
        only_adds(y, self.total, 1.0)
        only_adds(mine, x, 1.0)
        return mine + new, self.total * 1


@pytest.mark.parametrize("way", ["ahead", "just in time"])
def test_operators_that_write(way):
    eager, model = Writes(), Writes()
    compiled = ingot.compile(model, inputs=[torch.randn(3, 4), torch.randn(3, 4)], fallback="error") if way == "ahead" else torch.compile(model, backend="ingot", options={"fallback": "error"})
    for _ in range(3):
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        mine = x.clone()
        torch.testing.assert_close(compiled(mine, y), eager(x, y))
        torch.testing.assert_close(mine, x)
    torch.testing.assert_close((compiled if way == "ahead" else model).total, eager.total)


def test_a_state_is_written_where_it_is(tmp_path):
    compiled = ingot.compile(Writes(), inputs=[torch.randn(3, 4), torch.randn(3, 4)])
    ingot.save(compiled, tmp_path / "w.ingot")
    shown = subprocess.run([_library.find("ingot"), "inspect", tmp_path / "w.ingot", "--programs"], capture_output=True, text=True, check=True).stdout
    assert "external | own::only_adds: y f32[3, 4]{4, 1}, total f32[3, 4]{4, 1} -> total f32[3, 4]{4, 1}" in shown


def test_writing_a_part_of_a_tensor_stays_in_torch():
    class Model(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            only_adds(x[:1], y[1:2], 1.0)
            return y

    x = torch.randn(3, 4)
    compiled = ingot.compile(Model(), inputs=[x])
    assert "writes a part of a tensor in place" in str(compiled.report)
    torch.testing.assert_close(compiled(x), Model()(x))


def test_weights_alone_are_done_once():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(6, 6))

        def forward(self, x):
            return x @ scale(self.weight, 2.0, 1)

    model = Model()
    compiled = ingot.compile(model, inputs=SHAPE)
    x = torch.randn(2, 6)
    torch.testing.assert_close(compiled(x), model(x))
    with torch.no_grad():
        model.weight.mul_(3)
    torch.testing.assert_close(compiled(x), model(x))


def test_many_threads(block):
    model, compiled = block
    wrong = []

    def work(seed):
        x = torch.randn(seed + 1, 6, generator=torch.Generator().manual_seed(seed))
        want = model(x)
        for _ in range(20):
            if not all(torch.allclose(a, b, atol=1e-5) for a, b in zip(compiled(x), want)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong


# ---- plans


@pytest.fixture(scope="module")
def saved(block, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "block.ingot"
    ingot.save(block[1], path)
    return path


def test_a_plan_runs_when_it_is_trusted(block, saved, tmp_path):
    x = torch.randn(3, 6)
    torch.testing.assert_close(ingot.load(saved, trust="code")(x), block[0](x))
    np.save(tmp_path / "x.npy", x.numpy())
    run = [_library.find("ingot"), "run", saved, "-i", f"x={tmp_path}/x.npy", "-o", tmp_path]
    refused = subprocess.run(run, capture_output=True, text=True)
    assert refused.returncode != 0 and "the kernels own::scale" in refused.stderr and "--trust code" in refused.stderr
    subprocess.run([*run, "--trust", "code"], check=True, capture_output=True)
    torch.testing.assert_close(torch.from_numpy(np.load(next(p for p in tmp_path.glob("*.npy") if np.load(p).shape == (3, 11)))), block[0](x)[0])


@pytest.mark.parametrize("trust", ["auto", "data"])
def test_a_plan_does_not_run_when_it_is_not_trusted(saved, trust):
    for load in (lambda: ingot.load(saved, trust=trust), lambda: ingot.load_engine(saved, trust=trust), lambda: ingot.load_engine(saved, device="reference", trust=trust)):
        with pytest.raises(ingot.InputError, match=r"the kernels own::scale, and is not trusted to\n  remedy: load it with trust \"code\""):
            load()


def test_a_signed_plan_runs(saved, tmp_path):
    """Whoever signs a plan is trusted like the author of a program."""
    for arguments in (("keygen", tmp_path / "me"), ("sign", saved, "--key", tmp_path / "me.key", "-o", tmp_path / "s.ingot")):
        subprocess.run([_library.find("ingot"), *arguments], check=True, capture_output=True)
    session = ingot.load_engine(tmp_path / "s.ingot", trust="signed", keys=[tmp_path / "me.pub"]).session()
    assert session.run(np.ones((2, 6), np.float32))[0].shape == (2, 11)


@pytest.mark.parametrize("verb", [["inspect"], ["inspect", "--graph"], ["inspect", "--offers"], ["inspect", "--json"]])
def test_a_plan_may_be_looked_at(saved, verb):
    assert "own::scale" in subprocess.run([_library.find("ingot"), *verb, saved], capture_output=True, text=True, check=True).stdout


def test_verify_runs_nothing_without_trust(saved):
    done = subprocess.run([_library.find("ingot"), "verify", saved], capture_output=True, text=True)
    assert done.returncode != 0 and "the kernels own::scale, and is not trusted to" in done.stderr


def test_a_graph_is_not_compiled_anew(saved, tmp_path):
    """A plan with programs of another revision, which are not looked at: its graph would bring the kernels in."""
    old = bytearray(saved.read_bytes())
    old[12:16] = struct.pack("<I", 7)
    (tmp_path / "old.ingot").write_bytes(crafted.seal(bytes(old)))
    with pytest.raises(ingot.InputError, match="the kernels own::scale, and is not trusted to"):
        ingot.load_engine(tmp_path / "old.ingot")
    assert ingot.load_engine(tmp_path / "old.ingot", trust="code").session().run(np.ones((2, 6), np.float32))[0].shape == (2, 11)


def test_verify_compares_with_the_function(block, saved):
    found = block[0], block[1].verify(torch.randn(4, 6))
    assert any(s["kernel"] == "external" and s["roundings"] == 0 for s in found[1].steps)
    done = subprocess.run([_library.find("ingot"), "verify", saved, "--trust", "code"], capture_output=True, text=True)
    assert done.returncode == 0 and "steps agree with the reference" in done.stdout, done.stderr


def test_the_reference_calls_the_function(block, tmp_path):
    ingot.save(ingot.compile(block[0], inputs=SHAPE, target="reference"), tmp_path / "r.ingot")
    engine = ingot.load_engine(tmp_path / "r.ingot", device="reference", trust="code")
    x = torch.randn(3, 6)
    for got, want in zip(engine.session().run(x.numpy()), block[0](x)):
        torch.testing.assert_close(torch.from_numpy(got), want)


def test_a_library_that_is_gone_or_another(block, library, tmp_path):
    other = built(tmp_path, "libother.so")
    kernel = ingot.register_kernel(fails, cpu=(other, "turn"))

    class Model(torch.nn.Module):
        def forward(self, x):
            return fails(x)

    ingot.save(ingot.compile(Model(), inputs=[torch.randn(3)], min_block_size=1), tmp_path / "p.ingot")
    ingot.register_kernel(fails, cpu=(library, "fails"))
    code = f"import ingot\ntry: ingot.load_engine({str(tmp_path / 'p.ingot')!r}, trust='code')\nexcept ingot.DeviceError as e: print(e)"

    def told(**more):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **more}).stdout

    assert told() == ""
    os.rename(other, tmp_path / "moved.so")
    assert f"kernel own::fails is in the library {other}, which is not there" in told()
    (tmp_path / "elsewhere").mkdir()
    os.rename(tmp_path / "moved.so", tmp_path / "elsewhere" / "libother.so")
    assert told(INGOT_LIBRARY_PATH=str(tmp_path / "elsewhere")) == ""
    other.write_bytes(b"something else")
    assert f"{other} is not the library that kernel own::fails was registered with" in told()
    assert kernel.name == "own::fails"


def test_a_kernel_that_fails_and_one_that_is_not_there(library):
    class Model(torch.nn.Module):
        def forward(self, x):
            return fails(x)

    compiled = ingot.compile(Model(), inputs=[torch.randn(3)], fallback="error")
    with pytest.raises(ingot.InputError, match="kernel own::fails failed with status 3: it is Monday"):
        compiled(torch.randn(3))
    ingot.register_kernel(fails, cpu=(library, "missing"))
    with pytest.raises(ingot.DeviceError, match="has no function missing"):
        ingot.compile(Model(), inputs=[torch.randn(3)], fallback="error")
    ingot.register_kernel(fails, cpu=(library, "fails"))


@torch.library.custom_op("own::pretends", mutates_args=())
def pretends(argument_0: torch.Tensor, external_name: str, external_cpu: list[int], external_arguments: int) -> torch.Tensor:
    return argument_0.clone()


pretends.register_fake(lambda argument_0, *rest: torch.empty_like(argument_0))


class Pretends(torch.nn.Module):
    def forward(self, x):
        return pretends(x, "own::fails", [1, 2, 3], 1) + 1


def test_a_file_names_no_kernels(tmp_path):
    """A file whose operator has the arguments that capture writes for a kernel: the maker of a file cannot inject code in this way."""
    x = torch.randn(3)
    torch.export.save(torch.export.export(Pretends(), (x,)), tmp_path / "p.pt2")
    done = subprocess.run([_library.find("ingot"), "compile", tmp_path / "p.pt2", "-o", tmp_path / "p.ingot", "--set", "fallback=error"], capture_output=True, text=True)
    assert done.returncode != 0 and "it has an argument external_" in done.stderr
    for module in (tmp_path / "p.pt2", Pretends()):
        compiled = ingot.compile(module, inputs=[x])
        assert "it has an argument external_" in str(compiled.report)
        torch.testing.assert_close(compiled(x), x + 1)


@torch.library.custom_op("own::named", mutates_args=())
def named(target: torch.Tensor, name: float, times: int, kernel: bool = False) -> torch.Tensor:
    return target * name**times


named.register_fake(lambda target, name, times, kernel=False: torch.empty_like(target))


def test_any_names_of_arguments(library):
    class Model(torch.nn.Module):
        def forward(self, x):
            return named(x, 2.0, 3)

    ingot.register_kernel(named, cpu=(library, "scale"))
    x = torch.randn(3)
    torch.testing.assert_close(ingot.compile(Model(), inputs=[x], fallback="error")(x), x * 8)


# ---- refusals at registration


@torch.library.custom_op("own::lists", mutates_args=())
def lists(xs: list[torch.Tensor]) -> torch.Tensor:
    return xs[0].clone()


REFUSED = [
    (lambda lib: ingot.register_kernel("own::nothing", cpu=(lib, "scale")), ingot.InputError, "there is no operator 'own::nothing'"),
    (lambda lib: ingot.register_kernel(print, cpu=(lib, "scale")), ingot.InputError, "is not an operator of torch"),
    (lambda lib: ingot.register_kernel(torch.ops.aten.relu, cpu=(lib, "scale")), ingot.UnsupportedError, "is an operator that ingot has"),
    (lambda lib: ingot.register_kernel(lists, cpu=(lib, "scale")), ingot.UnsupportedError, "argument 'xs' of own.lists.default is List"),
    (lambda lib: ingot.register_kernel(turn), ingot.InputError, "has no implementation"),
    (lambda lib: ingot.register_kernel(turn, cpu="libturn"), ingot.InputError, "names no function of a library"),
    (lambda lib: ingot.register_kernel(turn, cpu="/nowhere/lib.so:turn"), ingot.InputError, "cannot be read"),
    (lambda lib: ingot.register_kernel(turn, cpu=3), ingot.InputError, "names no function of a library"),
    (lambda lib: ingot.register_kernel(turn, cpu=(lib, 3)), ingot.InputError, "names no function of a library"),
    (lambda lib: ingot.register_kernel(turn, cuda=Path("/nowhere.cu"), grid=launch), ingot.InputError, "the code /nowhere.cu of own.turn.default cannot be read"),
    (lambda lib: ingot.register_kernel(turn, ptx=(3, 4), grid=launch), ingot.InputError, "is neither a text nor (text, name)"),
    (lambda lib: ingot.register_kernel(turn, cpu=(lib, "turn"), in_place=("x",)), ingot.InputError, "in_place names 'x', and the schema of own.turn.default says that it writes nothing"),
    (lambda lib: ingot.register_kernel(turn, cpu=(lib, "turn"), grid=lambda x: None), ingot.InputError, "is for the CPU, where there is no grid"),
    (lambda lib: ingot.register_kernel(turn, cuda="extern"), ingot.InputError, "needs a function `grid`"),
    (lambda lib: ingot.register_kernel(turn, cuda="int x;", grid=lambda x: None), ingot.InputError, "has 0 kernels"),
    (lambda lib: ingot.register_kernel(turn, cuda="", ptx="", grid=lambda x: None), ingot.InputError, "given as cuda and as ptx"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused(case, library):
    call, kind, text = REFUSED[case]
    with pytest.raises(kind) as told:
        call(library)
    assert text in str(told.value)
    x = torch.randn(3, 2).half()  # the kernel that was registered before is still used
    assert ingot.compile(torch.nn.Sequential(Turned()), inputs=[x], fallback="error")(x).equal(turn(x))


class Turned(torch.nn.Module):
    def forward(self, x):
        return turn(x)


# ---- GPUs


SOURCE = """
#include <cuda_fp16.h>
extern "C" __global__ void turned(const __half* x, long long n, __half* y) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[n - 1 - i];
}
"""


def launch(x):
    return ingot.Launch((x.numel() + 127) // 128, 128, sizes=(x.numel(),))


@pytest.fixture
def on_gpus(library):
    kernel = ingot.register_kernel(turn, cpu=(library, "turn"), cuda=SOURCE, grid=launch)
    yield kernel
    ingot.register_kernel(turn, cpu=(library, "turn"))


HALVES = [ingot.Input(min_shape=(1, 4), opt_shape=(8, 4), max_shape=(512, 4), dtype=torch.float16, name="x")]


def test_cuda_source_is_compiled_into_the_plan(on_gpus, tmp_path):
    compiled = ingot.compile(Turned(), inputs=HALVES, target=["cpu", "cuda:sm_90"], fallback="error")
    x = torch.randn(8, 4).half()
    torch.testing.assert_close(compiled(x), turn(x))
    ingot.save(compiled, tmp_path / "p.ingot")
    shown = subprocess.run([_library.find("ingot"), "inspect", tmp_path / "p.ingot", "--programs"], capture_output=True, text=True, check=True).stdout
    assert shown.count("external | own::turn") == 2
    gpu = shown[shown.index("forward on cuda") :]
    size = gpu.split("f16[")[1].split(",")[0]
    assert f"sizes [floordiv(4*{size} + 127, 128), 1, 1, 0, 4*{size}]" in gpu


CODE = [
    (SOURCE.replace("y[i]", "z[i]"), launch, 'the CUDA source of kernel own::turn does not compile for sm_90: .*identifier "z" is undefined'),
    ((SOURCE, "other"), launch, "the code of kernel own::turn has no kernel other"),
    (SOURCE, lambda x: ingot.Launch(1 if x.shape[0] > 100 else 2), "the grid of kernel own::turn decides by a size that varies"),
    (SOURCE, lambda x: 3, "and an ingot.Launch is needed"),
    (SOURCE, lambda x: ingot.Launch(1, 2048), "1 to 1024 threads are possible"),
    (SOURCE, lambda x: ingot.Launch(1.5), "the grid of kernel own::turn is 1.5"),
]


@pytest.mark.parametrize("case", range(len(CODE)))
def test_cuda_code_that_is_wrong(on_gpus, case):
    source, grid, text = CODE[case]
    ingot.register_kernel(turn, cuda=source, grid=grid)
    with pytest.raises(ingot.InputError, match=text):
        ingot.compile(Turned(), inputs=HALVES, target="cuda:sm_90", fallback="error")


PTX = """
.version 7.0
.target sm_{}
.address_size 64
.visible .entry turned(.param .u64 x, .param .u64 y) {{ ret; }}
"""


def test_ptx(on_gpus):
    ingot.register_kernel(turn, ptx=PTX.format(80), grid=lambda x: ingot.Launch(1))
    ingot.compile(Turned(), inputs=HALVES, target="cuda:sm_90", fallback="error")
    ingot.register_kernel(turn, ptx=PTX.format(100), grid=lambda x: ingot.Launch(1))
    with pytest.raises(ingot.InputError, match="is for sm_100 and later"):
        ingot.compile(Turned(), inputs=HALVES, target="cuda:sm_90", fallback="error")


def test_without_an_implementation_for_the_target_torch_runs_it(on_gpus):
    ingot.register_kernel(turn, cuda=SOURCE, grid=launch)
    compiled = ingot.compile(Turned(), inputs=HALVES)
    assert "its kernel is not registered for cpu" in str(compiled.report)
    x = torch.randn(8, 4).half()
    torch.testing.assert_close(compiled(x), turn(x))
    with pytest.raises(ingot.UnsupportedError, match="kernel own::turn is not registered for cpu"):
        ingot.compile(Turned(), inputs=HALVES, fallback="error")


def test_the_example_runs():
    done = subprocess.run([sys.executable, ROOT / "examples/python/own_kernel.py"], capture_output=True, text=True, env={**os.environ, "INGOT_CLI": _library.find("ingot")}, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "3 of 3 operators in 1 engine segment; nothing stays in torch"
    assert any(line.startswith("largest difference from eager: ") and float(line.split()[-1]) < 1e-5 for line in lines)
    assert any("the kernels example::clip_rows, and is not trusted to" in line for line in lines) and lines[-1].startswith("the same for sm_90")


RUNTIME = """
#include <algorithm>
#include <cstdio>
#include "ingot/ingot.hpp"
int main(int, char** argv) {
  ingot::Plan plan = ingot::Plan::load(argv[1], INGOT_TRUST_CODE);
  ingot::Weights weights(plan);
  ingot::Session session(plan, weights);
  ingot::Tensor x = ingot::Tensor::zeros(INGOT_FLOAT32, {3, 6});
  std::ranges::fill(x.values<float>(), 1.0f);
  std::vector<ingot::Tensor> inputs;
  inputs.push_back(std::move(x));
  const std::vector<ingot::Tensor> results = session.run(inputs);
  for (float v : results[0].values<const float>()) std::printf("%.9g ", v);
}
"""


def test_the_runtime_alone_runs_it(block, saved, tmp_path):
    """libingot_runtime: no compiler, no Python."""
    folder = Path(_library.find("libingot.so.0")).parent
    (tmp_path / "run.cpp").write_text(RUNTIME)
    subprocess.run(["c++", "-std=c++20", "-O0", f"-I{ROOT}/include", tmp_path / "run.cpp", "-o", tmp_path / "run", f"-L{folder}", "-lingot_runtime"], check=True)
    printed = subprocess.run([tmp_path / "run", saved], capture_output=True, text=True, check=True, env={**os.environ, "LD_LIBRARY_PATH": str(folder)}).stdout
    torch.testing.assert_close(torch.tensor([float(v) for v in printed.split()]).reshape(3, 11), block[0](torch.ones(3, 6))[0])
