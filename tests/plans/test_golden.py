"""The promise of docs/plan_format.md: plan files that an earlier build wrote are read by this one, and give what they gave.

golden/1.0 has one small file for each kind of content, with inputs and results in a .npz. A file that is there is never written anew; `INGOT_UPDATE=1 pytest
tests/plans/test_golden.py` adds those that are missing, to the folder of the format that this build writes. To add a kind, write a model for it below.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import torch
from accuracy import assert_accurate

import ingot
from ingot.engine import _library

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "files"))
from crafted import seal  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
HEADER = (ROOT / "src/plan/file.h").read_text()
MAJOR, MINOR, REVISION = (int(re.search(rf"\b{name} = (\d+);", HEADER).group(1)) for name in ("format_major", "format_minor", "program_revision"))
KINDS = {}


def kind(*inputs, calls=1, **options):
    """A model's file: compiled for these inputs, run `calls` times on tensors of their usual sizes."""

    def add(model):
        KINDS[model.__name__] = (model, inputs, calls, options)
        return model

    return add


def rows(columns, name="x", dtype="float32"):
    """1 to 8 rows."""
    return ingot.Input(min_shape=(1, columns), opt_shape=(3, columns), max_shape=(8, columns), name=name, dtype=dtype)


@kind(rows(8))
class sizes(torch.nn.Module):
    """A size that varies, a check of it, steps of several kernels, a result whose size is another."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16)

    def forward(self, x):
        y = self.norm(torch.nn.functional.gelu(self.first(x)))
        return y.softmax(1), torch.cat([y, y * 2]), y.flatten().cumsum(0)


@kind(torch.zeros(2, 5), torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 5, dtype=torch.float16), torch.zeros(3, dtype=torch.bool), torch.zeros(4, dtype=torch.float64))
class types(torch.nn.Module):
    """Inputs and results of many types, a weight of half precision, weights that are tied."""

    def __init__(self):
        super().__init__()
        self.short = torch.nn.Parameter(torch.randn(5, dtype=torch.bfloat16))
        self.one = torch.nn.Parameter(torch.randn(5))
        self.same = self.one
        self.register_buffer("table", torch.arange(-6, 6, dtype=torch.int8).reshape(3, 4))

    def forward(self, x, places, half, mask, double):
        table = self.table[mask.long()].int() + places.sum().int()
        return x * self.short.float() + self.one * self.same, half * 2, table, ~mask, double.exp(), x > 0, places // 2


@kind(rows(4), calls=3)
class states(torch.nn.Module):
    """Buffers that the model writes: a counter, a running sum."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.ones(4))

    def forward(self, x):
        self.count += 1
        self.total.mul_(0.5).add_(x.sum(0))
        return x * self.total, self.count.clone()


@kind(rows(4))
class regions(torch.nn.Module):
    """A branch and a loop over data, and a size that is read from data: functions that regions call, values between them."""

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + 1, (x,))
        _, z = torch.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 0.5 + 1), (torch.zeros((), dtype=torch.int64), y))
        return z, (x > 0).nonzero()


@kind(rows(4))
class signed(torch.nn.Module):
    """With a signature."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.last(x).relu()


@kind(rows(4), target="cpu,cuda:sm_90")
class targets(torch.nn.Module):
    """Programs for two targets, with device code."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.last(x).sigmoid()


@kind(rows(4), weights="strip")
class weights_left_out(torch.nn.Module):
    """The values of the weights are in the .npz."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.last(x).tanh()


@kind(rows(64))
class groups(torch.nn.Module):
    """Weights of 4 bits in groups with zeros."""

    def __init__(self):
        super().__init__()
        self.register_buffer("numbers", torch.randint(-8, 8, (24, 64), dtype=torch.int8))
        self.register_buffer("zero", torch.randint(-8, 8, (24, 2), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(24, 2) * 0.1)

    def forward(self, x):
        numbers = self.numbers.clamp(-8, 7).unflatten(1, (2, 32)).to(x.dtype) - self.zero[:, :, None].to(x.dtype)
        return torch.nn.functional.linear(x, (numbers * self.scale[:, :, None]).flatten(1))


@kind(torch.zeros(1, 4, 6, 5).to(memory_format=torch.channels_last), target="reference")
class reference(torch.nn.Module):
    """For the reference backend; an input and a weight whose axes have another order in memory."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 2, 3).to(memory_format=torch.channels_last)

    def forward(self, x):
        return self.conv(x).amax(1)


def example(given):
    if isinstance(given, torch.Tensor):
        shape, dtype, layout = given.shape, given.dtype, torch.channels_last if given.ndim == 4 else torch.contiguous_format
    else:
        shape, dtype, layout = given.opt_shape, getattr(torch, given.dtype), torch.contiguous_format
    value = torch.randn(shape) if dtype.is_floating_point else torch.randint(0, 2, shape)
    return value.to(dtype).contiguous(memory_format=layout)


def command(*arguments):
    # Programs for a GPU of another revision are compiled again, by NVRTC from PyPI.
    environment = {**os.environ, "INGOT_LIBRARY_PATH": sysconfig.get_path("purelib")}
    return subprocess.run([_library.find("ingot"), *map(str, arguments)], capture_output=True, text=True, check=True, env=environment).stdout


def write(name, folder):
    model, inputs, calls, options = KINDS[name]
    torch.manual_seed(len(name))
    net = model().eval()
    place = str(Path(__file__).relative_to(ROOT))  # origins say nothing of this machine
    model.forward.__code__ = model.forward.__code__.replace(co_filename=place)
    weights = {f"weight.{key}": value.clone() for key, value in net.state_dict().items()} if options.get("weights") == "strip" else {}
    ingot.save(ingot.compile(net, inputs=list(inputs), fallback="error", **options), folder / f"{name}.ingot")
    if name == "signed":
        command("keygen", folder / name)
        command("sign", folder / f"{name}.ingot", "--key", folder / f"{name}.key")
        (folder / f"{name}.key").unlink()
    arrays = dict(weights)
    exact = model().eval()
    exact.load_state_dict(net.state_dict())
    exact = exact.double()
    for call in range(calls):
        given = [example(x) for x in inputs]
        double = [x.double() if x.is_floating_point() else x for x in given]
        for part, values in (("input", given), ("eager", results(net(*given))), ("exact", results(exact(*double)))):
            arrays |= {f"{part}.{call}.{i}": value.detach().contiguous() for i, value in enumerate(values)}
    np.savez_compressed(folder / f"{name}.npz", **{key: value.numpy() for key, value in arrays.items()})


def results(found):
    return [found] if isinstance(found, torch.Tensor) else list(found)


def part(arrays, name):
    """The values "name.0", "name.1", .. in order."""
    found = sorted((key for key in arrays if key.startswith(name + ".")), key=lambda key: int(key.rsplit(".", 1)[1]))
    return [arrays[key] for key in found]


def check(plan, arrays, **how):
    weights = {key.split(".", 1)[1]: value for key, value in arrays.items() if key.startswith("weight.")}
    session = ingot.load_engine(plan, weights=weights or None, **how).session()
    for call in range(len({key.split(".")[1] for key in arrays if key.startswith("input.")})):
        found = session.run(part(arrays, f"input.{call}"))
        for value, eager, exact in zip(found, part(arrays, f"eager.{call}"), part(arrays, f"exact.{call}"), strict=True):
            eager, exact = torch.from_numpy(eager), torch.from_numpy(exact)
            assert_accurate(torch.from_numpy(np.array(value)), eager, exact if eager.is_floating_point() else eager, 64)


def with_programs_of(data, revision):
    """The same file with steps of another revision, unsigned."""
    data = data[: len(data) - struct.unpack_from("<Q", data, 32)[0]]
    return seal(data[:12] + struct.pack("<I", revision) + data[16:32] + bytes(8) + data[40:])


def test_each_kind_has_a_file():
    folder = GOLDEN / f"{MAJOR}.{MINOR}"
    if os.environ.get("INGOT_UPDATE") == "1":
        folder.mkdir(parents=True, exist_ok=True)
        for name in KINDS:
            if not any(GOLDEN.glob(f"*/{name}.ingot")):
                write(name, folder)
    assert {path.stem for path in GOLDEN.glob("*/*.ingot")} == set(KINDS), "INGOT_UPDATE=1 pytest tests/plans/test_golden.py writes the files that are missing"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/*.ingot")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_file(path):
    data = path.read_bytes()
    major, minor, revision = struct.unpack_from("<2HI", data, 8)
    assert f"{major}.{minor}" == path.parent.name, "a golden file is of the format that its folder names"
    with np.load(path.with_suffix(".npz")) as stored:
        arrays = dict(stored)
    check(data, arrays, trust="data")
    check(path, arrays, mmap=False)
    check(with_programs_of(data, 0), arrays)  # what its graphs say
    if path.with_suffix(".pub").exists():
        check(path, arrays, trust="signed", keys=[path.with_suffix(".pub")])
    described = json.loads(command("inspect", "--json", path))
    assert described["functions"][0]["name"] == "forward" and command("inspect", "--programs", path)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/*.ingot")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_file_holds_no_path_of_a_machine(path):
    found = set(re.findall(rb"[\w./-]*/test_golden\.py", path.read_bytes()))
    assert found == {b"tests/plans/test_golden.py"}


def test_the_kinds_hold_what_the_format_can():
    """What a file can hold is in some golden file."""
    found = [json.loads(command("inspect", "--json", path)) for path in sorted(GOLDEN.glob("*/*.ingot"))]
    functions = [f for plan in found for f in plan["functions"]]
    regions = {region["kind"] for f in functions for region in f.get("regions", [])}
    assert regions == {"straight", "branch", "loop"} and any(region["reads"] for f in functions for region in f.get("regions", []))
    assert any(f["states"] for f in functions) and any(f["symbols"] for f in functions)
    assert any(plan["signer"] for plan in found)
    assert {w["source"] for plan in found for w in plan["weights"]} == {"embedded", "host"}
    assert any("order" in w for plan in found for w in plan["weights"])
    names = {t["name"] for plan in found for t in plan["targets"]}
    assert names == {"cpu", "cuda:sm_90", "reference"} and any(t["code"] for plan in found for t in plan["targets"])
