"""The option cache: a plan is found by everything that it was made from, except the values of weights, and equals the plan that a build would give."""

import concurrent.futures
import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import fresh
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate
from places import ON_GPU
from xxh3 import hash128

import ingot

COMMAND = str(Path(ingot.engine._library.find("libingot.so.0")).parent / "ingot")
ARCHIVE = Path(__file__).resolve().parents[2] / "src/capture/testdata/varied.pt2"
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
        return [line for line in capfd.readouterr().err.splitlines() if line.startswith(("ingot: cache", "  "))]

    return lines


def build(net, folder, inputs=(X,), **options):
    return ingot.compile(net, inputs=list(inputs), **{"cache": "readwrite", "cache_dir": folder, **options})


def entries(folder):
    return [p for p in folder.iterdir() if len(p.name) == 64]


def cache_command(verb, folder, *arguments):
    return subprocess.run([COMMAND, "cache", verb, *arguments, "--dir", str(folder)], capture_output=True, text=True)


def change_entry(entry, key, value):
    """Puts another whole entry in the place of one: its key and its value after these functions."""
    data = entry.read_bytes()
    length = struct.unpack_from("<Q", data, 8)[0]
    assert hash128(data[56 : 56 + length]) == data[24:40]
    key, value = key(data[56 : 56 + length]), value(data[56 + length :])
    entry.unlink()
    (entry.parent / hashlib.sha256(key).hexdigest()).write_bytes(data[:8] + struct.pack("<QQ", len(key), len(value)) + hash128(key) + hash128(value) + key + value)


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


def test_an_entry_does_not_hold_weights(tmp_path):
    for seed in (1, 2):
        build(model(seed), tmp_path / str(seed))
    (first,), (second,) = entries(tmp_path / "1"), entries(tmp_path / "2")
    assert first.name == second.name and first.read_bytes() == second.read_bytes()


@ON_GPU
def test_weights_on_a_gpu(folder, told):
    nets = [model(seed).cuda().half() for seed in (1, 2)]
    x = X.cuda().half()
    for net, said in zip(nets, ("no such plan", "the plan was built before")):
        compiled = build(net, folder, inputs=(x,))
        assert said in told()[0]
        assert_accurate(compiled(x), net(x), net.double()(x.double()))


@pytest.mark.parametrize(
    "other, reasons",
    [
        (lambda f: build(model(width=32), f), ["weight 0.weight: f32[16, 8] there, f32[32, 8] here", "operator aten.layer_norm.default: normalized_shape=[16] there, normalized_shape=[32] here"]),
        (lambda f: build(model(), f, [torch.zeros(5, 8)]), ["input input: f32[3, 8] there, f32[5, 8] here"]),
        (lambda f: build(model(), f, [ingot.Input(min_shape=(1, 8), opt_shape=(2, 8), max_shape=(4, 8))]), ["only here, least, usual and largest 1 2 4"]),
        (lambda f: build(model(), f, weights="strip"), ["option weights: embed there, strip here"]),
        (lambda f: build(model(), f, deterministic="batch"), ["option deterministic: run there, batch here"]),
        (lambda f: build(model(), f, min_block_size=1), ["option min_block_size: 0 there, 1 here"]),
        (lambda f: build(model().double(), f, [X.double()]), ["input input: f32[3, 8] there, f64[3, 8] here"]),
        (lambda f: build(torch.nn.Sequential(*model()[:3], torch.nn.Linear(16, 4), torch.nn.ReLU()).eval(), f), ["operator aten.relu.default: 1 more here"]),
        (lambda f: build(torch.nn.Sequential(*model()[:2], torch.nn.LayerNorm(16, eps=1e-6), model()[3]).eval(), f), ["operator aten.layer_norm.default: eps=1e-05 there, eps=1e-06 here"]),
    ],
)
def test_another_graph_size_or_option_is_another_plan(folder, told, other, reasons):
    build(model(), folder)
    first = entries(folder)[0].name
    told()
    other(folder)
    lines = told()
    assert f"{first[:12]}, differs in" in lines[0] and len(entries(folder)) == 2
    why = cache_command("why", folder).stdout
    assert why.splitlines()[0].endswith(f"is nearest to {first[:12]} (there), and differs in:")
    for reason in reasons:
        assert any(reason in line for line in lines) and reason in why, (reason, lines, why)


def test_an_entry_of_another_version(folder, told, tmp_path):
    """Another build of the library has different keys, and `why` names both builds. A plan of a format that is not read is built anew."""
    build(model(), folder)
    (entry,) = entries(folder)
    change_entry(entry, lambda key: key.replace(b", build ", b", build 00"), lambda value: value)
    told()
    build(model(), folder)
    lines = told()
    assert "differs in" in lines[0] and lines[1].startswith("  the library: ingot ") and ", build 00" in lines[1] and len(lines) == 2
    same_key = max(entries(folder), key=lambda p: p.stat().st_mtime_ns)
    change_entry(same_key, lambda key: key, lambda value: value[:8] + bytes([255, 0, 0, 0]) + value[12:])
    same(build(model(), folder), model())
    assert any("an entry is not used" in line for line in told())
    same(build(model(), folder), model())
    assert told() == ["ingot: cache: the plan was built before"]


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
    done = fresh.run(program)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("plans are not cached") == 1 and entries(folder) == []


def _build_in_a_process(folder):
    net = model(1)
    return torch.equal(build(net, folder)(X), ingot.compile(net, inputs=[X])(X))


def test_processes_at_once(folder):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.export", "torch._dynamo"])
    with concurrent.futures.ProcessPoolExecutor(4, context) as pool:
        assert all(pool.map(_build_in_a_process, [folder] * 4))
    assert len(entries(folder)) == 1


def compile_command(folder, out, **more):
    """A process that compiles the archive and reads or writes an entry of it; cheaper than Python with torch."""
    return [COMMAND, "compile", str(ARCHIVE), "-o", str(out), "--set", "cache=readwrite", "--set", f"cache_dir={folder}", *(f"--set={name}={value}" for name, value in more.items())]


def test_builds_that_are_killed(folder, tmp_path):
    """A killed build leaves no entry that is used, and no file for good."""
    random.seed(3)
    subprocess.run(compile_command(folder, tmp_path / "whole.ingot"), check=True, capture_output=True)
    good = (tmp_path / "whole.ingot").read_bytes()
    for _ in range(2000 if os.environ.get("INGOT_TEST_ALL") else 40):
        if random.random() < 0.5:
            shutil.rmtree(folder, ignore_errors=True)
        child = subprocess.Popen(compile_command(folder, tmp_path / "a.ingot"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.random() * 0.06)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if folder.exists():
            checked = cache_command("verify", folder)
            assert checked.returncode == 0, checked.stdout
    subprocess.run(compile_command(folder, tmp_path / "a.ingot"), check=True, capture_output=True)
    assert (tmp_path / "a.ingot").read_bytes() == good
    cache_command("prune", folder)
    assert len(entries(folder)) == 1 and {p.name for p in folder.iterdir()} - {entries(folder)[0].name} == {"entries.lock"}


def test_sixteen_builds_at_once(folder, tmp_path):
    """On one key and on four, with room for about two: every one is right, and the budget is kept."""
    modes = [{}, {"deterministic": "batch"}, {"weights": "strip"}, {"min_block_size": 1}]
    plain = []
    for i, more in enumerate(modes):
        subprocess.run([*compile_command(folder, tmp_path / f"{i}.ingot", **more), "--set", "cache=off"], check=True, capture_output=True)
        plain.append((tmp_path / f"{i}.ingot").read_bytes())
    for kinds in (1, 4):
        subprocess.run(compile_command(folder, tmp_path / "x.ingot"), check=True, capture_output=True)
        budget = int(2.5 * entries(folder)[0].stat().st_size)
        children = [subprocess.Popen(compile_command(folder, tmp_path / f"at_once_{i}.ingot", cache_bytes=budget, **modes[i % kinds]), stderr=subprocess.PIPE) for i in range(16)]
        for i, child in enumerate(children):
            said = child.communicate()[1]
            assert child.returncode == 0 and said == b"" and (tmp_path / f"at_once_{i}.ingot").read_bytes() == plain[i % kinds], said
        assert 0 < sum(p.stat().st_size for p in entries(folder)) <= budget
        assert cache_command("verify", folder).returncode == 0


@pytest.mark.parametrize("fault", ["full", "read-only", "another user's", "a link"])
def test_a_folder_that_takes_nothing(folder, tmp_path, fault):
    """The build succeeds, says once why nothing is kept, and leaves nothing."""
    out, elsewhere = tmp_path / "a.ingot", tmp_path / "elsewhere"
    folder.mkdir(mode=0o700)
    root = os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
    limit = "ulimit -f 1; trap '' XFSZ; "  # if mounting is not allowed: files of at most 512 or 1024 bytes, so the plan goes to a pipe
    prepare, said = "", "plans are not cached"
    if fault == "full" and root:
        prepare = f"mount -t tmpfs -o size=1m,mode=700 none {folder}; head -c 1044480 /dev/zero > {folder}/ballast; "
    elif fault == "full":
        prepare, out = limit, "/dev/null"
    elif fault == "read-only" and root:
        prepare = f"mount -t tmpfs -o ro,mode=700 none {folder}; "
    elif fault == "read-only":
        folder.chmod(0o500)
    elif fault == "another user's" and root:
        os.chown(folder, 12345, 12345)
    elif fault == "another user's":
        folder.chmod(0o777)
    else:
        key = entry_name(folder, tmp_path)
        elsewhere.write_bytes(b"precious")
        (folder / key).symlink_to(elsewhere)
    line = f"{prepare}{' '.join(compile_command(folder, out))} && ls -A {folder} >&3"
    names = tmp_path / "names"
    done = subprocess.run([*(["unshare", "-m"] if root else []), "sh", "-c", f"exec 3>{names}; {line}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert out == "/dev/null" or out.stat().st_size > 1000
    if fault == "a link":  # the link is replaced; its target stays
        assert done.stderr == "" and elsewhere.read_bytes() == b"precious" and not (folder / key).is_symlink() and (folder / key).stat().st_size > 1000
    else:
        assert done.stderr.count(said) == 1 and len(done.stderr.splitlines()) == 1, done.stderr
        assert set(names.read_text().split()) <= {"ballast", "entries.lock"}


def entry_name(folder, tmp_path):
    subprocess.run(compile_command(tmp_path / "first", tmp_path / "first.ingot"), check=True, capture_output=True)
    return entries(tmp_path / "first")[0].name


def test_an_entry_that_another_one_stands_in_for(folder, tmp_path):
    """Another entry copied under this entry's name is not used. `verify` says what it is, and `prune` removes only it."""
    for name, more in (("a", {}), ("b", {"deterministic": "batch"})):
        subprocess.run(compile_command(folder, tmp_path / f"{name}.ingot", **more), check=True, capture_output=True)
    good, (one, other) = (tmp_path / "a.ingot").read_bytes(), entries(folder)
    shutil.copy(one, other)
    checked = cache_command("verify", folder)
    assert checked.returncode == 15 and f"{other.name} is damaged: it is the entry of another name" in checked.stdout and "`ingot cache prune` removes what is damaged" in checked.stderr
    assert cache_command("prune", folder).stdout == "0 plans removed, 1 damaged ones and 0 files that killed processes left\n"
    assert [p.name for p in entries(folder)] == [one.name]
    for name, more in (("a", {}), ("b", {"deterministic": "batch"})):
        subprocess.run(compile_command(folder, tmp_path / f"{name}.again", **more), check=True, capture_output=True)
        assert (tmp_path / f"{name}.again").read_bytes() == (tmp_path / f"{name}.ingot").read_bytes()
    assert (tmp_path / "a.again").read_bytes() == good


def test_the_command_line(folder, tmp_path):
    build(model(), folder)
    build(model(), folder, deterministic="batch")
    listed = cache_command("list", folder).stdout.splitlines()
    assert len(listed) == 3 and listed[-1].startswith("2 plans") and "deterministic=batch" in listed[0]  # the one used last
    newest = max(entries(folder), key=lambda p: p.stat().st_mtime_ns).name
    assert cache_command("why", folder).stdout.splitlines()[1:] == ["option deterministic: run there, batch here"]
    assert cache_command("why", folder).stdout.startswith(f"{newest[:12]} (here)")
    assert cache_command("why", folder, "--lines").stdout.splitlines()[1:] == ["- option deterministic: run", "+ option deterministic: batch"]
    assert cache_command("verify", folder).stdout == "2 plans are whole\n"
    (folder / newest).write_bytes(b"x" * 200)
    (folder / (".ingot-" + "0" * 32 + ".tmp")).write_bytes(b"half")
    bad = cache_command("verify", folder)
    assert bad.returncode != 0 and bad.stdout == f"{newest} is damaged: it does not begin as an entry of this version of ingot does\n"
    assert cache_command("prune", folder).stdout == "0 plans removed, 1 damaged ones and 1 files that killed processes left\n"
    assert cache_command("prune", folder, "--bytes", "0").stdout.startswith("1 plan removed, 0 damaged ones")
    assert cache_command("list", folder).stdout == "no plans\n" and cache_command("why", folder).returncode != 0
