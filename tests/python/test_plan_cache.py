"""The option cache: a plan is found by what it was made from, weights' values excepted, and is the plan that a build would give."""

import concurrent.futures
import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


def model(seed=0, width=16):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.GELU(), torch.nn.LayerNorm(width), torch.nn.Linear(width, 4)).eval()


def data(module, tmp_path):
    ingot.save(module, tmp_path / "a.ingot")
    return (tmp_path / "a.ingot").read_bytes()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def told(capfd, monkeypatch):
    monkeypatch.setenv("INGOT_LOG", "info")

    def lines():
        return [line for line in capfd.readouterr().err.splitlines() if line.startswith(("ingot: cache", "  +", "  -"))]

    return lines


def build(net, folder, inputs=(X,), **options):
    return ingot.compile(net, inputs=list(inputs), **{"cache": "readwrite", "cache_dir": folder, **options})


def entries(folder):
    return [p for p in folder.iterdir() if len(p.name) == 64]


def same(compiled, net, x=X):
    assert_accurate(compiled(x), net(x), net.double()(x.double()), 64)
    net.float()


def test_a_hit_is_the_plan_that_a_build_gives(folder, told, tmp_path):
    first = build(model(), folder)
    assert "no such plan" in told()[0] and len(entries(folder)) == 1
    again = build(model(), folder)
    assert told() == ["ingot: cache: the plan was built before"]
    plain = ingot.compile(model(), inputs=[X])
    assert data(first, tmp_path) == data(again, tmp_path) == data(plain, tmp_path)
    same(again, model())


def test_weights_are_those_at_hand(folder, told):
    build(model(0), folder)
    net = model(1)
    compiled = build(net, folder)
    assert told()[-1] == "ingot: cache: the plan was built before"
    same(compiled, net)
    with torch.no_grad():
        net[0].weight.mul_(2)
    same(compiled, net)
    compiled.update_weights(model(2).state_dict())
    same(compiled, model(2))


@pytest.mark.parametrize(
    "other, difference",
    [
        (lambda f: build(model(width=32), f), "16"),
        (lambda f: build(model(), f, [torch.zeros(5, 8)]), "5"),
        (lambda f: build(model(), f, [ingot.Input(min_shape=(1, 8), opt_shape=(2, 8), max_shape=(4, 8))]), "min"),
        (lambda f: build(model(), f, weights="strip"), "option weights: strip"),
        (lambda f: build(model(), f, deterministic="batch"), "option deterministic: batch"),
        (lambda f: build(model().double(), f, [X.double()]), "f64"),
        (lambda f: build(torch.nn.Sequential(*model()[:3], torch.nn.Linear(16, 4), torch.nn.ReLU()).eval(), f), "relu"),
    ],
)
def test_another_graph_size_or_option_is_another_plan(folder, told, other, difference):
    build(model(), folder)
    told()
    other(folder)
    lines = told()
    assert "differs in" in lines[0] and len(entries(folder)) == 2
    assert any(difference in line for line in lines) or len(lines) > 6


def test_read_and_write(folder, told):
    build(model(), folder, cache="read")
    assert entries(folder) == []
    build(model(), folder, cache="write")
    build(model(), folder, cache="write")
    assert len(entries(folder)) == 1 and not any("before" in line for line in told())
    build(model(), folder, cache="read")
    assert "before" in told()[-1]
    with pytest.raises(ingot.OptionError, match="readwrite"):
        build(model(), folder, cache="always")


def test_it_is_on_where_nothing_is_said(folder, told, monkeypatch):
    monkeypatch.delenv("INGOT_CACHE")
    monkeypatch.setenv("INGOT_CACHE_DIR", str(folder))
    folder.mkdir(mode=0o700)
    for seed in (0, 1):
        compiled = ingot.compile(model(seed), inputs=[X])
        same(compiled, model(seed))
    assert "before" in told()[-1] and len(entries(folder / "built")) == 1
    assert compiled.report.whole and compiled.verify(X).first is None and compiled.engine.inspect()["provenance"] == ingot.compile(model(), inputs=[X], cache="off").engine.inspect()["provenance"]
    monkeypatch.setenv("INGOT_CACHE", "off")
    told()
    ingot.compile(model(), inputs=[X])
    assert not any("before" in line for line in told())
    monkeypatch.setenv("INGOT_CACHE", "of")
    with pytest.raises(ingot.OptionError, match='option cache is "of"(?s:.*)INGOT_CACHE'):
        ingot.compile(model(), inputs=[X])


def test_a_model_that_is_refused_is_refused_again(folder):
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvalsh(x)

    said = []
    for _ in range(2):
        with pytest.raises(ingot.UnsupportedError) as problem:
            build(Odd(), folder, [torch.eye(3)], fallback="error")
        said.append(str(problem.value))
    assert said[0] == said[1] and not (folder.is_dir() and entries(folder))


def test_segments_around_torch(folder, told):
    options = {"torch_executed_ops": ["aten.gelu"], "min_block_size": 1}
    build(model(), folder, **options)
    compiled = build(model(1), folder, **options)
    assert "before" in told()[-1] and len(compiled.segments) == 2
    same(compiled, model(1))


def test_just_in_time(folder, told):
    for seed in (0, 1):
        torch._dynamo.reset()
        with torch.no_grad():
            same(torch.compile(model(seed), backend="ingot", options={"cache": "readwrite", "cache_dir": str(folder)}), model(seed))
    assert "before" in told()[-1]


def test_a_damaged_entry_is_built_anew(folder, told):
    build(model(), folder)
    (entry,) = entries(folder)
    entry.write_bytes(entry.read_bytes()[:-1])
    same(build(model(), folder), model())
    build(model(), folder)
    assert "before" in told()[-1]


def test_the_limit(folder):
    for width in (8, 16, 24, 32):
        build(model(width=width), folder, cache_bytes=60_000)
    assert 0 < sum(p.stat().st_size for p in entries(folder)) <= 60_000
    before = len(entries(folder))
    build(model(width=40), folder, cache_bytes=10)
    assert len(entries(folder)) == before


def test_a_disk_that_is_full(folder, tmp_path):
    program = f"""
import resource, signal, torch, ingot
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
net = torch.nn.Linear(8, 4).eval()
for _ in range(2):
    module = ingot.compile(net, inputs=[torch.ones(1, 8)], min_block_size=1, cache="readwrite", cache_dir={str(folder)!r})
    torch.testing.assert_close(module(torch.ones(1, 8)), net(torch.ones(1, 8)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("plans are not cached") == 1 and entries(folder) == []


def _build_in_a_process(folder):
    net = model(1)
    return torch.equal(build(net, folder)(X), ingot.compile(net, inputs=[X])(X))


def test_processes_at_once(folder):
    with concurrent.futures.ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        assert all(pool.map(_build_in_a_process, [folder] * 4))
    assert len(entries(folder)) == 1


def test_the_command_line(folder, tmp_path):
    command = str(Path(ingot._library.find("libingot.so")).parent / "ingot")

    def run(*arguments):
        return subprocess.run([command, "cache", *arguments, "--dir", str(folder)], capture_output=True, text=True)

    build(model(), folder)
    build(model(), folder, deterministic="batch")
    listed = run("list").stdout.splitlines()
    assert len(listed) == 3 and listed[-1].startswith("2 plans") and "deterministic=batch" in listed[0] + listed[1]
    newest = max(entries(folder), key=lambda p: p.stat().st_mtime_ns).name
    why = run("why").stdout
    assert newest[:12] in why and "option deterministic" in why
    assert run("verify").stdout == "2 plans are whole\n"
    entries(folder)[0].write_bytes(b"x" * 200)
    bad = run("verify")
    assert bad.returncode != 0 and "damaged" in bad.stdout
    assert run("prune", "--bytes", "0").stdout.startswith("2 plans removed")
    assert run("list").stdout == "no plans\n" and run("why").returncode != 0
