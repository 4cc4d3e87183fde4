"""Partition between engines and torch: any cut gives the uncut model's results, and each option does what it says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from calls import Calls
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import ingot
from ingot.capture import writer
from ingot.capture.functional import Functional, Slot
from ingot.engine import _library

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "bench")]
ALL = os.environ.get("INGOT_TEST_ALL") == "1"


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8), torch.nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + self.down(torch.nn.functional.gelu(self.up(x))))


class Model(torch.nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return torch.special.airy_ai(x).sum(-1)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval().requires_grad_(False)


X = [ingot.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(64, 8), name="x")]


def names(report, segment):
    return [n["target"] for n in report.nodes if n["segment"] == segment]


def test_what_is_missing_stays_in_torch(model, caplog):
    compiled = ingot.compile(model, inputs=X)
    assert "2 of 17 operators run in torch (aten.special_airy_ai.default, aten.sum.dim_IntList); print(compiled.report) says why" in caplog.text
    for n in (1, 3, 64):
        x = torch.randn(n, 8)
        assert torch.allclose(compiled(x), model(x), atol=1e-5)
    missing = compiled.report.missing[0]
    assert missing["target"] == "aten.special_airy_ai.default" and "no definition of it" in missing["reason"] and "special.airy_ai" in missing["origin"]
    assert missing["in_engine_with"] == compiled.report.operators  # the effect of that operator
    assert len(compiled.segments) == 1 and compiled.engine.functions == ["segment_0"]


def test_operators_and_modules_kept_in_torch(model):
    for option, count in (({"torch_executed_ops": ["aten.gelu.default"]}, 3), ({"torch_executed_ops": ["gelu"]}, 3), ({"torch_executed_ops": ["aten.gelu"]}, 3),
                          ({"torch_executed_modules": ["blocks.1"]}, 5), ({"torch_executed_modules": ["Block"]}, 15)):  # fmt: skip
        report = ingot.explain(model, X, **option)
        kept = [n for n in report.nodes if next(iter(option)) in n["reason"]]
        assert len(kept) == count, option
    compiled = ingot.compile(model, inputs=X, torch_executed_modules=["blocks.1"])
    x = torch.randn(5, 8)
    assert torch.allclose(compiled(x), model(x), atol=1e-5) and len(compiled.segments) == 2
    with pytest.raises(ingot.OptionError) as caught:
        ingot.compile(model, inputs=X, torch_executed_ops=["aten.gelo.default"])
    assert str(caught.value) == 'torch_executed_ops names "aten.gelo.default", which is not an operator or node of this model\n  remedy: did you mean "aten.gelu.default"?'
    with pytest.raises(ingot.OptionError, match='torch_executed_modules names "blocks.7", which is not a module or module class of this model'):
        ingot.compile(model, inputs=X, torch_executed_modules=["blocks.7"])


def test_min_block_size(model):
    small = ingot.explain(model, X, torch_executed_ops=["gelu"], min_block_size=1)
    assert len(small.segments) == 5 and small.segments[0]["operators"] == 1
    assert len(ingot.explain(model, X, torch_executed_ops=["gelu"], min_block_size=4).segments) == 2
    reasons = {n["reason"] for n in ingot.explain(model, X, torch_executed_ops=["gelu"], min_block_size=100).nodes if n["segment"] is None}
    assert any("min_block_size is 100" in r for r in reasons)
    by_gain = ingot.explain(model, X, torch_executed_ops=["gelu"])
    assert all(s["gain_us"] > s["cost_us"] for s in by_gain.segments)
    assert any("gains less" in n["reason"] for n in by_gain.nodes)


def test_fallback_error(model):
    with pytest.raises(ingot.UnsupportedError, match="1 operator of the model is not supported:\n  aten.special_airy_ai.default"):
        ingot.compile(model, inputs=X, fallback="error")
    with pytest.raises(ingot.OptionError, match='option fallback is "numpy"; "torch" or "error" is needed'):
        ingot.compile(model, inputs=X, fallback="numpy")


def test_target(model, tmp_path):
    """"cpu" as a target means the processor; "auto" means the device of the module's weights."""
    for target in ("cpu", "auto"):
        ingot.save(ingot.compile(torch.nn.Sequential(model.blocks[0]), inputs=X, target=target), tmp_path / target)
        assert ingot.load(tmp_path / target).engine.inspect()["provenance"]["target"] == "cpu"
    with pytest.raises(ingot.InputError, match="weight 0.up.weight is on meta"):
        ingot.compile(torch.nn.Sequential(Block().to("meta")), inputs=X, target="auto")


def test_dryrun(model, tmp_path, capsys):
    compiled = ingot.compile(model, inputs=X, dryrun=True)
    assert "in torch:\n  aten.special_airy_ai.default" in capsys.readouterr().out and compiled.engine is None
    x = torch.randn(2, 8)
    assert torch.equal(compiled(x), model(x))
    ingot.compile(model, inputs=X, dryrun=tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["operators"] == compiled.report.operators
    torch.export.save(torch.export.export(model, (torch.randn(4, 8),)), tmp_path / "m.pt2")
    cli = _library.find("ingot")
    done = subprocess.run([cli, "compile", tmp_path / "m.pt2", "--dry-run", "--set", "torch_executed_ops=gelu"], capture_output=True, text=True)
    assert done.returncode == 0 and "3 x aten.gelu.default: torch_executed_ops names gelu" in done.stdout and sorted(p.name for p in tmp_path.iterdir()) == ["m.pt2", "report.json"]
    told = json.loads(subprocess.run([cli, "compile", tmp_path / "m.pt2", "--dry-run", "--json"], capture_output=True, text=True).stdout)
    assert told["in_engine"] == told["operators"] - 2  # the sum after it gains too little by itself
    # The option says the same as the flag, and takes a file.
    shown = subprocess.run([cli, "compile", tmp_path / "m.pt2", "--set", "dryrun=true"], capture_output=True, text=True)
    assert shown.stdout.startswith("15 of 17 operators in 1 engine segment; 2 operators in torch\n") and shown.returncode == 0
    for name in ("cli.json", "cli.txt"):
        done = subprocess.run([cli, "compile", tmp_path / "m.pt2", "--set", f"dryrun={tmp_path / name}"], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout == ""
    assert json.loads((tmp_path / "cli.json").read_text()) == told and (tmp_path / "cli.txt").read_text() == shown.stdout
    made = subprocess.run([cli, "compile", tmp_path / "m.pt2", "--set", "dryrun=false", "--set", "fallback=error", "-o", tmp_path / "m.ingot"], capture_output=True, text=True)
    assert made.returncode == 12 and "aten.special_airy_ai.default" in made.stderr  # it builds, or tries to
    torch._dynamo.reset()
    with torch.no_grad():
        assert torch.equal(torch.compile(model, backend="ingot", options={"dryrun": tmp_path / "jit.json"})(x), model(x))
    assert json.loads((tmp_path / "jit.json").read_text())["segments"]
    assert compiled.report.segments == [] and {n["reason"] for n in compiled.report.nodes if "gelu" in n["target"]} == {"dryrun"}


def test_an_archive_with_missing_operators(model, tmp_path):
    torch.export.save(torch.export.export(model, (torch.randn(4, 8),)), tmp_path / "m.pt2")
    compiled = ingot.compile(tmp_path / "m.pt2")
    x = torch.randn(4, 8)
    assert compiled.report.in_torch == 2 and torch.allclose(compiled(x), model(x), atol=1e-5)


def test_replaced_weights_reach_both_sides(model):
    for compiled, change in ((ingot.compile(model, inputs=X, torch_executed_modules=["blocks.1"]), True), (torch.compile(model, backend="ingot", options={"torch_executed_modules": ["blocks.1"]}), False)):
        x = torch.randn(3, 8)
        assert torch.allclose(compiled(x), model(x), atol=1e-5)
        if change:
            state = {k: v * 1.5 for k, v in model.state_dict().items()}
            compiled.update_weights(state)
            other = Model().eval().requires_grad_(False)
            other.load_state_dict(state)
            assert torch.allclose(compiled(x), other(x), atol=1e-5)
        else:
            for p in model.parameters():
                p.mul_(1.25)
            assert torch.allclose(compiled(x), model(x), atol=1e-5)


@pytest.mark.parametrize("start", range(10 if ALL else 2))
@pytest.mark.one_in(2)
def test_random_cuts(start):
    """20 cuts of MiniLM at one node each, and at three nodes each: as accurate as the uncut model, at most one segment more a node."""
    from accuracy import assert_accurate
    from models import minilm

    torch.set_grad_enabled(False)
    try:
        model = minilm()
        ids = torch.randint(0, 30522, (2, 9), generator=torch.Generator().manual_seed(start))
        mask = torch.ones_like(ids)
        mask[1, 5:] = 0
        program = torch.export.export(model, (ids, mask))
        uncut = ingot.compile(program)
        eager, exact = model(ids, mask), minilm().double()(ids, mask)
        assert_accurate(uncut(ids, mask), eager, exact, depth=1536)
        nodes = [n["name"] for n in uncut.report.nodes if "_" in n["name"] and n["name"][-1].isdigit()]  # no operator has such a name
        generator = torch.Generator().manual_seed(start)
        for cut in range(20 if ALL else 4):
            chosen = [nodes[i] for i in torch.randperm(len(nodes), generator=generator)[: 1 + 2 * (cut % 2)]]
            compiled = ingot.compile(program, torch_executed_ops=chosen)
            assert len(compiled.segments) <= len(chosen) + 1
            assert_accurate(compiled(ids, mask), eager, exact, depth=1536)
    finally:
        torch.set_grad_enabled(True)


class Loss(torch.nn.Module):
    def forward(self, x, target):
        return torch.nn.functional.cross_entropy(x.relu() * 2, target), torch.nn.functional.mse_loss(x, x * 2)


def test_an_argument_that_is_called_target():
    x, target = torch.randn(5, 7), torch.randint(0, 7, (5,))
    with torch.no_grad():
        compiled = ingot.compile(Loss(), inputs=[x, target], torch_executed_ops=["cross_entropy_loss", "mse_loss"])
        for got, eager in zip(compiled(x, target), Loss()(x, target)):
            assert torch.allclose(got, eager, rtol=1e-5)
    assert {"aten.cross_entropy_loss.default", "aten.mse_loss.default"} <= {n["target"] for n in compiled.report.nodes if n["segment"] is None}


@pytest.mark.parametrize("scale", [1.5, 1.1, 0.7, 2.3])  # float64 cuts some whole products of the last two: 0.7 * 90 is 62.99999999999999
def test_sizes_that_torch_computes_in_floats(scale):
    class Twice(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.interpolate(torch.nn.functional.interpolate(x, scale_factor=scale), scale_factor=3.0).tanh()

    compiled = ingot.compile(Twice(), inputs=[ingot.Input(min_shape=(2, 3, 4), opt_shape=(2, 3, 9), max_shape=(2, 3, 120))], fallback="error")
    for length in (4, 5, 9, 63, 64, *range(10, 121, 10)):
        x = torch.randn(2, 3, length)
        torch.testing.assert_close(compiled(x), Twice()(x))


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
def test_scales_that_are_computed_anew(mode):
    model = Calls(lambda x: torch.nn.functional.interpolate(x, scale_factor=1.7, recompute_scale_factor=True, mode=mode))
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 3, 1, 1), opt_shape=(2, 3, 8, 8), max_shape=(4, 3, 64, 64))], fallback="error")
    for size in ((1, 3, 1, 1), (2, 3, 8, 10), (1, 3, 30, 64)):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


def in_torch(x):
    return torch.view_as_real(torch.polar(x, x))[..., 0]


def first_rows(x, n, m):
    """The second engine's input has n + m rows, and m is not known."""
    rows = in_torch(x.expand(n + m, 4))
    return (in_torch(rows[:n] * 1) + rows[:n]) * 2, rows + 1


def rows_of_its_result(x, n, m):
    """The first axis that tells m is of a result of the segment that needs it: lumina2's padded images."""
    rows = in_torch(x.expand(n + m, 4))
    first = in_torch(rows[:n] * 1), rows[:n]
    return first[1].exp() * 2, in_torch(first[1][:m]) * 2 + first[0][:m], rows + first[1].sum()


@pytest.mark.parametrize("rows", [first_rows, rows_of_its_result])
def test_numbers_whose_sum_is_a_size(rows):
    """Dynamo passes the caller's numbers as sizes of their own, so that an axis of n + m rows tells neither."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, n, m: rows(x, n, m), backend="ingot", dynamic=True, options={"min_block_size": 1})
    with torch.no_grad():
        for n, m in ((5, 3), (6, 4), (7, 2)):
            x = torch.randn(1, 4)
            for got, eager in zip(compiled(x, n, m), rows(x, n, m), strict=True):
                torch.testing.assert_close(got, eager)


def captured_for_a_gpu(function, *inputs):
    """What stays in torch of a graph with tensors on a GPU and on the CPU, for a GPU that is not here: the reasons by operator."""
    with FakeTensorMode():
        module = make_fx(function)(*(torch.empty(shape, device=device) for shape, device in inputs))
    *placeholders, output = (n for n in module.graph.nodes if n.op in ("placeholder", "output"))
    slots = [Slot(node, "input", node.name) for node in placeholders]
    graph = json.loads(writer.write(Functional(module, slots, list(output.args), []), ("cuda:sm_90",)).json)["graph_module"]["graph"]
    return {node["target"].removeprefix("torch.ops."): node["metadata"]["torch_only"] for node in graph["nodes"] if "torch_only" in node["metadata"]}


def test_views_of_tensors_on_the_cpu_beside_a_gpu():
    """VideoMAE's table of positions is not a buffer and stays on the CPU: `table.detach().type_as(x)`. What torch computes there, and what it reads of that, stays there."""
    x, table = ((2, 8), "cuda:0"), ((2, 8), "cpu")
    assert captured_for_a_gpu(lambda x, t: x + t.detach()[1].type_as(x), x, table) == {}
    there = "its result is on cpu, and the engine runs on cuda:0"
    assert captured_for_a_gpu(lambda x, t: x + (t.detach() * 2)[1].to(x.device), x, table) == dict.fromkeys(("aten.detach.default", "aten.mul.Tensor", "aten.select.int"), there)
    assert captured_for_a_gpu(lambda x, t: x + (t + torch.arange(8)).to(x.device), x, table) == dict.fromkeys(("aten.arange.default", "aten.add.Tensor"), there)
