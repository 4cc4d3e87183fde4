"""Saved programs loaded in a fresh process give the same bits, write the same buffers and refuse what does not fit."""

from __future__ import annotations

import copy
import itertools
import os
import shutil
import stat
import struct
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import fresh
import numpy as np
import pytest
import torch
import torch.utils._pytree as pytree

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parents[1] / "bench"))
sys.path.insert(0, str(HERE.parent))
from accuracy import assert_accurate
from cases import IN_TORCH, Counter, Mlp, case

import ingot
from ingot.engine import _library
from ingot.saving import torch_archive

NAMES = ["mlp", "mlp-gelu", "counter", "bert", "gpt2"]
# A C++ compiler runs for each.
PACKAGED = NAMES if os.environ.get("INGOT_TEST_ALL") == "1" else ["counter"]


@pytest.fixture(scope="module", autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def run_here(module, calls):
    results = []
    for arguments, keywords in calls:
        out = module(*arguments, **keywords)
        results.append(pytree.tree_map(lambda t: t.clone(memory_format=torch.preserve_format) if isinstance(t, torch.Tensor) else t, out))
    return results


class Beside:
    """A process that runs while the tests go on."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def done(self):
        out, errors = self.process.communicate()
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, errors)


COMPILER = os.environ.get("CXX", "c++")


@pytest.fixture(scope="module")
def package_runner(tmp_path_factory):
    """examples/cpp/run_package.cpp, built against the installed torch: begun first, for it takes longest. None without a compiler."""
    if shutil.which(COMPILER) is None:
        return None
    torch_folder, program = Path(torch.__file__).parent, tmp_path_factory.mktemp("built") / "run_package"
    includes = [f"-isystem{torch_folder / folder}" for folder in ("include", "include/torch/csrc/api/include")]
    libraries = [f"-L{torch_folder / 'lib'}", f"-Wl,-rpath,{torch_folder / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10"]
    return program, Beside(COMPILER, "-std=c++20", "-Wall", "-Wextra", "-Werror", *includes, HERE.parents[1] / "examples/cpp/run_package.cpp", "-o", program, *libraries)


@pytest.fixture(scope="module")
def imports():
    """The registered operators after each order of imports, each in its own process."""
    return [Beside(sys.executable, "-c", f"{text}; print(torch._C._dispatch_has_kernel('ingot::execute'))") for text in ("import ingot, torch", "import torch, ingot")]


@pytest.fixture(scope="module")
def saved(package_runner, imports, tmp_path_factory):
    """{name: (calls, results and buffers here, {way: results of a fresh process})}"""
    folder = tmp_path_factory.mktemp("saved")
    jobs, keys, here = [], [], {}
    for name in NAMES:
        made = case(name)
        module = made.compiled()
        ways = {"torch": folder / f"{name}.pt2", "ingot.load": folder / f"{name}.pt2"}
        ingot.save(module, ways["torch"], format="exported_program")
        if name in PACKAGED:
            ways["aot_inductor"] = folder / f"{name}.aoti.pt2"
            ingot.save(module, ways["aot_inductor"], format="aot_inductor")
        for way, path in ways.items():
            jobs.append((way, str(path), made.calls))
            keys.append((name, way))
        results = run_here(module, made.calls)
        here[name] = {"results": results, "buffers": {n: t.clone() for n, t in made.model.named_buffers()}, "module": module, "file": ways["torch"], "package": ways.get("aot_inductor"), "calls": made.calls}
    torch.save(jobs, folder / "jobs")
    done = subprocess.run([sys.executable, HERE / "loader.py", folder / "jobs", folder / "seen"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return here, dict(zip(keys, torch.load(folder / "seen", weights_only=False)))


def equal(a, b):
    assert pytree.tree_structure(a) == pytree.tree_structure(b)
    for x, y in zip(pytree.tree_leaves(a), pytree.tree_leaves(b)):
        if isinstance(x, torch.Tensor):
            assert x.dtype == y.dtype and x.stride() == y.stride() and torch.equal(x, y)
        else:
            assert type(x) is type(y) and x == y


WAYS = [(name, way) for name in NAMES for way in ("torch", "ingot.load", "aot_inductor") if way != "aot_inductor" or name in PACKAGED]


def near(seen, name):
    """As accurate as eager. inductor compiles the parts in torch, and rounds in its own way."""
    eager, exact = case(name), case(name)
    exact.model.double()
    for outputs, (arguments, keywords) in zip(seen, eager.calls, strict=True):
        wide = pytree.tree_map(lambda t: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t, (arguments, keywords))
        expected, truth = pytree.tree_leaves(eager.model(*arguments, **keywords)), pytree.tree_leaves(exact.model(*wide[0], **wide[1]))
        for x, y, z in zip(pytree.tree_leaves(outputs), expected, truth, strict=True):
            assert type(x) is type(y)
            if isinstance(x, torch.Tensor):
                assert x.stride() == y.stride()
                assert_accurate(x, y, z, depth=256)


@pytest.mark.parametrize("name, way", WAYS, ids=lambda x: x)
def test_same_results_in_a_fresh_process(saved, name, way):
    here, seen = saved
    if way == "aot_inductor" and here[name]["module"].report.in_torch:
        near(seen[name, way]["results"], name)
    else:
        equal(seen[name, way]["results"], here[name]["results"])


def test_package_in_a_c_program(saved, package_runner, tmp_path):
    """The package runs without Python."""
    if package_runner is None:
        pytest.skip(f"there is no C++ compiler {COMPILER!r}")
    here, (program, build) = saved[0]["counter"], package_runner
    built = build.done()
    assert built.returncode == 0, built.stderr
    torch.save([pytree.tree_leaves(call) for call in here["calls"]], tmp_path / "inputs.pt")
    done = subprocess.run([program, _library.find("libingot_torch.so"), here["package"], tmp_path / "inputs.pt", tmp_path / "outputs.pt"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outputs = torch.load(tmp_path / "outputs.pt", weights_only=False)  # the file that the program has just written
    near(outputs, "counter")
    packaged = saved[1]["counter", "aot_inductor"]["results"]
    equal([list(o) for o in outputs], [pytree.tree_leaves(r) for r in packaged])  # the same package in Python


@pytest.mark.parametrize("way", ["torch", "ingot.load"])
def test_buffers_are_written(saved, way):
    here, seen = saved
    buffers = seen["counter", way]["buffers"]
    assert buffers["calls"].item() == 3
    for name, value in here["counter"]["buffers"].items():
        assert torch.equal(buffers[name], value)
    assert seen["counter", way]["shared"] == ["seen"]  # the buffer itself is returned, as in eager


def test_segments_around_torch(saved):
    here, _ = saved
    for name in ("mlp-gelu", "counter", "bert", "gpt2"):
        module = here[name]["module"]
        assert module.report.in_torch > 0 and module.report.segments
        graph = torch.export.load(here[name]["file"]).graph
        assert sum(n.target is torch.ops.ingot.execute.default for n in graph.nodes) == len(module.report.segments)


def test_signature(saved):
    here, _ = saved
    program = torch.export.load(here["counter"]["file"])
    assert list(program.state_dict) == ["seen", "calls", "up.weight", "up.bias", "down.weight", "down.bias"] or set(program.state_dict) == set(Counter().state_dict())
    assert set(program.graph_signature.buffers_to_mutate.values()) == {"seen", "calls"}
    assert set(program.run_decompositions({}).graph_signature.buffers_to_mutate.values()) == {"seen", "calls"}
    assert [str(v) for v in program.range_constraints.values()] == ["VR[1, 64]"]


def test_file_holds_the_weights_once(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).eval()
    ingot.save(ingot.compile(model, inputs=[torch.randn(4, 512)]), tmp_path / "model.pt2", format="exported_program")
    assert (tmp_path / "model.pt2").stat().st_size < 2 * 512 * 512 * 4 * 1.1


# ---- weights


@pytest.fixture
def program(tmp_path):
    model = case("mlp-gelu")
    ingot.save(model.compiled(), tmp_path / "mlp.pt2", format="exported_program")
    return torch.export.load(tmp_path / "mlp.pt2")


def fresh_mlp(seed=1):
    torch.manual_seed(seed)
    return Mlp().eval()


def result_of(model, x):
    return ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 16), opt_shape=(8, 16), max_shape=(64, 16), name="x")], **IN_TORCH)(x)


def test_other_weights_are_noticed(program):
    module, x = program.module(), torch.randn(5, 16)
    module(x)
    other = fresh_mlp()
    module.load_state_dict(other.state_dict())  # in place
    assert torch.equal(module(x), result_of(other, x))
    third = fresh_mlp(2)
    module.load_state_dict(third.state_dict(), assign=True)  # other tensors
    assert torch.equal(module(x), result_of(third, x))
    with torch.no_grad():
        third.up.weight[3, 5] += 1  # one number
    assert torch.equal(module(x), result_of(third, x))
    third.down.weight = torch.nn.Parameter(torch.randn(64, 4).t())  # not row-major
    module.load_state_dict(third.state_dict(), assign=True)
    assert torch.equal(module(x), result_of(third, x))


def test_updated_weights_are_saved(tmp_path):
    for name in ("mlp", "mlp-gelu"):
        module, other = case(name).compiled(), fresh_mlp()
        module.update_weights(other.state_dict())
        ingot.save(module, tmp_path / "other.pt2", format="exported_program")
        x = torch.randn(3, 16)
        assert torch.equal(ingot.load(tmp_path / "other.pt2")(x), module(x))


@pytest.mark.parametrize("name", ["mlp", "mlp-gelu", "counter"])
def test_a_loaded_program_runs_as_the_module_it_was(saved, name):
    """Its plans are engines of this process; the dispatcher op with its list of weights is for torch alone."""
    here = saved[0][name]
    loaded = ingot.load(here["file"])
    assert len(loaded.segments) == len(here["module"].segments)
    seen = []
    with _Operators(seen):
        loaded(*here["calls"][0][0], **here["calls"][0][1])
    assert not [op for op in seen if op.startswith("ingot.execute")] and ("aten.gelu.default" in seen) == (name != "mlp")


class _Operators(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.seen.append(str(op))
        return op(*args, **(kwargs or {}))


def test_other_weights_for_a_loaded_program(saved, tmp_path):
    for name in ("mlp", "mlp-gelu"):
        loaded, x = ingot.load(saved[0][name]["file"]), torch.randn(5, 16)
        ways = [loaded.update_weights, loaded.load_state_dict, lambda state: loaded.load_state_dict(state, assign=True), loaded.update_weights]
        for seed, give in enumerate(ways, 1):
            other = fresh_mlp(seed)
            give({n: t.clone() for n, t in other.state_dict().items()})
            assert torch.equal(loaded(x), result_of(other, x) if name != "mlp" else ingot.compile(other, inputs=case("mlp").inputs)(x))
            assert all(torch.equal(t, other.state_dict()[n]) for n, t in loaded.state_dict().items())
            ingot.save(loaded, tmp_path / "again.pt2", format="exported_program")
            assert torch.equal(ingot.load(tmp_path / "again.pt2")(x), loaded(x))
        assert told(ingot.InputError, lambda: loaded.update_weights({"nothing": torch.zeros(1)})) == ("the engine has no weight 'nothing'", "", "")
        assert told(ingot.InputError, lambda: loaded.update_weights({"up.bias": torch.zeros(1)})) == ("weight 'up.bias' is float32 [1], but the engine was built for float32 [64]", "", "")
        assert torch.equal(loaded(x), ingot.load(tmp_path / "again.pt2")(x))  # nothing half-changed
        assert told(ingot.UnsupportedError, lambda: ingot.save(loaded, tmp_path / "x.ingot")) == (
            "this module was made from a torch program, whose engines are parts of it", "", "compile the original model and save that")  # fmt: skip


def test_two_programs_do_not_share_weights(program):
    first, second, x = program.module(), copy.deepcopy(program).module(), torch.randn(5, 16)
    second.load_state_dict(fresh_mlp().state_dict(), assign=True)
    for _ in range(2):
        assert torch.equal(second(x), result_of(fresh_mlp(), x))
        assert torch.equal(first(x), result_of(case("mlp-gelu").model, x))


def test_threads(program):
    module = program.module()
    inputs = [torch.randn(n, 16) for n in (1, 7, 33, 64)]
    expected, wrong = [module(x) for x in inputs], []

    def work():
        with torch.no_grad():
            for _ in range(30):
                wrong.extend(i for i, x in enumerate(inputs) if not torch.equal(module(x), expected[i]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# ---- errors


def told(kind, call):
    with pytest.raises(ingot.Error) as caught:
        call()
    assert type(caught.value) is kind
    return caught.value.message, caught.value.origin, caught.value.remedy


def test_unknown_format(saved, tmp_path):
    module = saved[0]["mlp"]["module"]
    assert told(ingot.OptionError, lambda: ingot.save(module, tmp_path / "x", format="onnx")) == (
        "format 'onnx' is not known", "", '"ingot", "exported_program", "aot_inductor"')  # fmt: skip


@pytest.mark.parametrize("format", ["ingot", "exported_program"])
def test_a_path_that_cannot_be_written(saved, tmp_path, format):
    module = saved[0]["mlp"]["module"]
    path = tmp_path / "missing" / "x.pt2"
    assert told(ingot.IoError, lambda: ingot.save(module, path, format=format)) == (f"cannot write {path}: No such file or directory", "", "check the path")


def test_nothing_half_written(saved, tmp_path, monkeypatch):
    module, path = saved[0]["mlp"]["module"], tmp_path / "x.pt2"
    path.write_bytes(b"old")

    def full(program, where):
        Path(where).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch.export, "save", full)
    assert told(ingot.IoError, lambda: ingot.save(module, path, format="exported_program")) == (f"cannot write {path}: No space left on device", "", "free some space and try again")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_permissions_are_the_usual_ones(saved, tmp_path):
    ingot.save(saved[0]["mlp"]["module"], tmp_path / "x.pt2", format="exported_program")
    (tmp_path / "y").write_bytes(b"")
    assert stat.S_IMODE((tmp_path / "x.pt2").stat().st_mode) == stat.S_IMODE((tmp_path / "y").stat().st_mode)


def execute(plan, weights, x):
    out = torch.empty(x.shape[0], 64)
    try:
        torch.ops.ingot.execute([x], [], [out], weights, [], plan, 0)
    except RuntimeError as problem:
        raise ingot.engine._op.translate(problem) from None
    return out


WIDTHS = itertools.count(8)


def call_another_program(x):
    """Calls a program that was never called before. If the memory of a plan is reused, a program with the same bytes would be taken for the old one."""
    ingot.compile(torch.nn.Sequential(torch.nn.Linear(16, next(WIDTHS))).eval(), inputs=[ingot.Input(tuple(x.shape))])._kind.program(empty_lists=True).module()(x)


REPAIR = "give a plan that `ingot compile` or ingot.save wrote; copy or compile a damaged one again"


def test_damaged_plan_tensors(program):
    plan, weights, x = program.constants["ingot_plan_0"], [program.state_dict[f"up.{n}"] for n in ("weight", "bias")], torch.randn(2, 16)
    good = execute(plan, weights, x)
    for at, message in ((200, "its metadata does not match its checksum"), (40, "its header does not match its checksum")):
        damaged = plan.clone()
        damaged[at] ^= 1
        assert told(ingot.FormatError, lambda: execute(damaged, weights, x)) == (f"the plan is damaged: {message}", "", REPAIR)
    assert told(ingot.FormatError, lambda: execute(plan[: plan.numel() // 2].clone(), weights, x))[0].startswith("the plan is cut off: its metadata would end at byte ")
    assert told(ingot.FormatError, lambda: execute(torch.zeros_like(plan), weights, x)) == (
        "ingot::execute: `plan` is not a plan tensor: it does not start as one", "", "save the program again with ingot.save")  # fmt: skip
    assert torch.equal(execute(plan, weights, x), good)


def test_a_plan_damaged_where_it_was_run(program):
    """Its head is that of the plan, and so is its address."""
    plan, weights, x = program.constants["ingot_plan_0"], [program.state_dict[f"up.{n}"] for n in ("weight", "bias")], torch.randn(2, 16)
    damage = ("the plan is damaged: its metadata does not match its checksum", "", REPAIR)
    memory = bytearray(plan.numpy().tobytes())
    good = execute(torch.frombuffer(memory, dtype=torch.uint8), weights, x)
    memory[200] ^= 1
    again = torch.frombuffer(memory, dtype=torch.uint8)
    assert told(ingot.FormatError, lambda: execute(again, weights, x)) == damage
    memory[200] ^= 1
    assert torch.equal(execute(again, weights, x), good)
    again[200] ^= 1
    assert told(ingot.FormatError, lambda: execute(again, weights, x)) == damage
    with torch.inference_mode():  # whose tensors do not count writes
        again = plan.clone()
        assert torch.equal(execute(again, weights, x), good)


def test_a_plan_is_let_go_when_another_comes(program):
    plan, weights, x = program.constants["ingot_plan_0"], [program.state_dict[f"up.{n}"] for n in ("weight", "bias")], torch.randn(2, 16)
    array = plan.numpy().copy()
    execute(torch.from_numpy(array), weights, x)
    array = weakref.ref(array)
    call_another_program(x)
    assert array() is None


def test_other_weights_where_the_first_were(program):
    """The new weights have the address, version and most of the bytes of the old ones."""
    plan, x = program.constants["ingot_plan_0"], torch.randn(2, 16)
    weight, bias = (program.state_dict[f"up.{n}"].detach().clone() for n in ("weight", "bias"))
    good = execute(plan, [weight, bias], x)
    memory = bytearray(weight.numpy().tobytes())
    assert torch.equal(execute(plan, [torch.frombuffer(memory, dtype=torch.float32).view(64, 16), bias], x), good)
    memory[400:404] = struct.pack("f", 5.0)
    again = torch.frombuffer(memory, dtype=torch.float32).view(64, 16)
    changed = execute(plan, [again, bias], x)
    assert not torch.equal(changed, good) and torch.equal(changed, execute(plan, [again.clone(), bias], x))


def test_memory_of_weights_is_kept_while_it_is_known(program):
    """Otherwise the allocator may reuse it for the next weights: for another tensor, or by `.data` of this one."""
    plan, weights, x = program.constants["ingot_plan_0"], [program.state_dict[f"up.{n}"].detach().clone() for n in ("weight", "bias")], torch.randn(2, 16)
    array = np.ones((64, 16), np.float32)
    execute(plan, [torch.from_numpy(array), weights[1]], x)
    array = weakref.ref(array)
    assert array() is not None
    execute(plan, weights, x)
    assert array() is None
    array = np.ones((64, 16), np.float32)
    weight = torch.from_numpy(array)
    execute(plan, [weight, weights[1]], x)
    array = weakref.ref(array)
    weight.data = weights[0]
    assert array() is not None
    execute(plan, [weight, weights[1]], x)
    assert array() is None


def test_weights_are_let_go_when_another_program_comes(program):
    plan, weights, x = program.constants["ingot_plan_0"], [program.state_dict[f"up.{n}"] for n in ("weight", "bias")], torch.randn(2, 16)
    array = weights[0].detach().numpy().copy()
    execute(plan, [torch.from_numpy(array), weights[1]], x)
    array = weakref.ref(array)
    call_another_program(x)
    assert array() is None


def test_weights_that_do_not_fit(program):
    plan, weights, x = program.constants["ingot_plan_0"].clone(), [program.state_dict[f"up.{n}"] for n in ("weight", "bias")], torch.randn(2, 16)
    message = "ingot::execute: the plan needs 2 weights (up.weight, up.bias), but 1 is given"
    assert told(ingot.InputError, lambda: execute(plan, weights[:1], x)) == (message, "", "")
    execute(plan, weights, x)
    assert told(ingot.InputError, lambda: execute(plan, weights[:1], x)) == (message, "", "")
    message = 'ingot::execute: weight "up.weight" is float64 [64, 16], but the plan was built for float32 [64, 16]'
    assert told(ingot.InputError, lambda: execute(plan, [weights[0].double(), weights[1]], x)) == (message, "", "")


def test_sizes_outside_the_range(saved):
    for name in ("mlp", "mlp-gelu"):
        x = "'x'" if name == "mlp-gelu" else '"x"'
        assert told(ingot.InputError, lambda: ingot.load(saved[0][name]["file"])(torch.randn(65, 16))) == (
            f"axis 0 of input {x} has size 65, outside the range 1..64 the plan was built for", "", "compile with a wider range for this axis")  # fmt: skip


def test_modules_without_a_program(saved, tmp_path):
    ingot.save(saved[0]["mlp"]["module"], tmp_path / "x.ingot")
    assert told(ingot.UnsupportedError, lambda: ingot.save(ingot.load(tmp_path / "x.ingot"), tmp_path / "x.pt2", format="exported_program")) == (
        "this module was made from a file alone, without the torch program around its engine", "",
        "compile the original model, or torch.export.load(path) of the .pt2 file, and save that")  # fmt: skip


def test_without_ingot_torch_names_the_operator(saved):
    text = f"import torch; torch.export.load({str(saved[0]['mlp']['file'])!r})"
    done = fresh.run(text)
    assert done.returncode != 0 and "We failed to resolve torch.ops.ingot.execute.default to an operator" in done.stderr


def test_import_order(imports):
    for done in [process.done() for process in imports]:
        assert done.stdout.strip() == "True", done.stderr


def test_kinds(saved, tmp_path):
    ingot.save(saved[0]["mlp"]["module"], tmp_path / "x.ingot")
    assert torch_archive.kind_of(tmp_path / "x.ingot") == "ingot" and torch_archive.kind_of(saved[0]["mlp"]["file"]) == "exported_program"


def test_a_file_has_every_option_of_its_plan():
    """A file has every option of the table, except those that decide what runs in torch."""
    from ingot.running.assemble import of_a_plan

    table = ingot.options()
    kept = of_a_plan({o["name"]: o["default"] for o in table})
    assert {o["name"] for o in table} - kept.keys() == {"fallback", "min_block_size", "torch_executed_ops", "torch_executed_modules"}
