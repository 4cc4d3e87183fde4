"""`ingot verify` and Module.verify: every step agrees with the reference, and a fault in one kernel is found by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "bench")]
import models as architectures
from places import ON_GPU

import ingot
from ingot.engine import _library

BUILD = Path(_library.find("libingot.so.0")).parent
FAULTY = BUILD / "faulty" / "libingot.so.0"


def cli(*arguments, fault=None):
    environment = {k: v for k, v in os.environ.items() if k != "INGOT_FAULT"}
    if fault is not None:
        environment |= {"INGOT_FAULT": fault, "LD_LIBRARY_PATH": str(FAULTY.parent)}
    done = subprocess.run([_library.find("ingot"), "verify", *map(str, arguments)], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


def build(name, dtype=torch.float32):
    if name in architectures.SMALL_IMAGES:
        return architectures.SMALL_IMAGES[name]().to(dtype), [ingot.Input((1, 3, 32, 32), dtype=dtype)]
    return architectures.SMALL[name]().to(dtype), [ingot.Input((2, 9), dtype=torch.int64, name=n) for n in ("input_ids", "attention_mask")]


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    made = {}

    def plan(name):
        if name not in made:
            module, inputs = build(name)
            made[name] = tmp_path_factory.mktemp("plans") / f"{name}.ingot"
            with torch.no_grad():
                ingot.save(ingot.compile(module, inputs=inputs), made[name])
        return made[name]

    return plan


@pytest.mark.parametrize("name", ["bert", "resnet", "llama", "convnext"])
def test_all_steps_agree(plans, name):
    code, out, err = cli(plans(name))
    assert code == 0, out + err
    assert "steps agree with the reference" in out and "OVER" not in out


@pytest.mark.skipif(not FAULTY.exists(), reason="the library with faults is built with the tests (target ingot_faulty)")
@pytest.mark.parametrize("name", ["bert", "resnet", "llama"])
def test_bisect_names_the_fault(plans, name):
    path = plans(name)
    steps = [s for s in json.loads(cli(path, "--json")[1])["steps"] if s["function"] == "forward"]
    assert cli(path, "--bisect", fault="forward:100000")[0] == 0
    for step in steps:
        code, out, err = cli(path, "--bisect", fault=f"forward:{step['step']}")
        assert code == 1, (step, out, err)
        assert err == f"ingot: step forward:{step['step']} is the first one that is over its bound\n"
        assert f"forward:{step['step']} " in out and step["kernel"] in out and "models.py:" in out


@ON_GPU
@pytest.mark.parametrize("name", ["bert", "resnet", "llama"])
def test_a_gpu_agrees_and_bisect_names_its_fault(tmp_path, name):
    module, inputs = build(name, torch.float16)
    path = tmp_path / f"{name}.ingot"
    with torch.no_grad():
        ingot.save(ingot.compile(module, inputs=inputs, target="cuda"), path)
    code, out, err = cli(path, "--against", "cuda", "--json")
    assert code == 0, out + err
    steps = [s for s in json.loads(out)["steps"] if s["function"] == "forward"]
    assert not any(s["over"] for s in steps)
    if not FAULTY.exists():
        pytest.skip("the library with faults is built with the tests (target ingot_faulty)")
    for step in steps[:: max(1, len(steps) // 6)]:
        code, out, err = cli(path, "--against", "cuda", "--bisect", fault=f"forward:{step['step']}")
        assert (code, err) == (1, f"ingot: step forward:{step['step']} is the first one that is over its bound\n"), (step, out)


@pytest.mark.skipif(not FAULTY.exists(), reason="the library with faults is built with the tests (target ingot_faulty)")
def test_a_fault_in_prepare_is_found_there(plans):
    steps = [s for s in json.loads(cli(plans("llama"), "--json")[1])["steps"] if s["function"] == "prepare"]
    assert all(s["dtype"] is not None for s in steps)
    packs = [s["step"] for s in steps if s["kernel"] == "matmul_pack"]
    others = [s["step"] for s in steps if s["step"] not in packs]
    assert packs and others
    for step in (others[0], packs[0], packs[-1]):
        assert cli(plans("llama"), "--bisect", fault=f"prepare:{step}")[2] == f"ingot: step prepare:{step} is the first one that is over its bound\n"


def test_the_library_that_ships_has_no_faults(plans):
    assert b"INGOT_FAULT" not in (BUILD / "libingot.so").read_bytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_module_verifies_itself(dtype):
    module, inputs = build("llama", dtype)
    with torch.no_grad():
        compiled = ingot.compile(module, inputs=inputs)
    given = [torch.randint(0, 2, (2, 9)), torch.ones(2, 9, dtype=torch.int64)]
    found = compiled.verify(*given)
    assert found.target == "cpu" and found.first is None and len(found.steps) > 10
    assert "attention" in str(found) and "models.py:" in str(found)
    assert compiled.verify(*given, bisect=True) is None
    tight = compiled.verify(*given, bound=1e-9, bisect=True)  # no rounding is allowed at all
    assert tight is not None and tight["over"]


def test_states_and_open_sizes(tmp_path):
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)
            self.register_buffer("seen", torch.zeros(8))

        def forward(self, x):
            y = torch.cat([self.linear(x), x.cumsum(1)], 1)
            self.seen.add_(y.sum(0)[:8])
            return y.sort(1).values, self.seen.clone()

    compiled = ingot.compile(Counts(), inputs=[ingot.Input(min_shape=(1, 8), opt_shape=(3, 8), max_shape=(9, 8))])
    ingot.save(compiled, tmp_path / "counts.ingot")
    assert ingot.verify(ingot.load_engine(tmp_path / "counts.ingot"), torch.randn(5, 8).numpy()).first is None
    code, out, err = cli(tmp_path / "counts.ingot", "--shape", "x=4,8")
    assert code == 0, out + err


def test_a_plan_of_the_reference(tmp_path):
    module, inputs = build("bert")
    with torch.no_grad():
        ingot.save(ingot.compile(module, inputs=inputs), tmp_path / "cpu.ingot")
        engine = ingot.load_engine(tmp_path / "cpu.ingot")
        ids = np.arange(18).reshape(2, 9) % 7
        wanted = engine.session().run(ids, np.ones((2, 9), np.int64))[0]
        torch.export.save(torch.export.export(module, tuple(i.example() for i in inputs), strict=False), tmp_path / "m.pt2")
    subprocess.run([_library.find("ingot"), "compile", tmp_path / "m.pt2", "-o", tmp_path / "r.ingot", "--set", "target=reference"], check=True, capture_output=True)
    plain = ingot.load_engine(tmp_path / "r.ingot", device="reference")
    found = plain.session().run(ids, np.ones((2, 9), np.int64))[0]
    assert np.abs(found - wanted).max() < 1000 * 2**-24 * np.abs(wanted).max()
    code, out, err = cli(tmp_path / "r.ingot", "--bisect")
    assert code == 0, out + err


def test_a_module_runs_by_the_reference():
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(512, 5), torch.nn.Softmax(-1))
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        compiled = ingot.compile(module, inputs=[x], target="reference")
        torch.testing.assert_close(compiled(x), module(x))
    assert compiled.verify(x).target == "reference"


def test_bytes_alone_run_nothing(plans):
    assert cli(plans("bert"), "--bytes") == (0, "metadata and weights match their checksums\n", "")
