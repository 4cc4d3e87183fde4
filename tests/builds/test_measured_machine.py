"""Option machine: rates that `ingot doctor --measure --keep` left are used where they are asked for, and a file that cannot be used is named."""

from __future__ import annotations

import json
import os
import subprocess

import fresh
import pytest
import torch

import ingot
from ingot.engine import _library

BUILD = """
import json, sys, torch, ingot
torch.manual_seed(0)
compiled = ingot.compile(torch.nn.Linear(64, 64).eval(), inputs=[torch.zeros(8, 64)], machine=sys.argv[1])
ingot.save(compiled, sys.argv[2])
print(json.dumps(compiled.engine.inspect()["provenance"]))
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder of caches with this machine's rates."""
    folder = tmp_path_factory.mktemp("cache")
    done = subprocess.run([_library.find("ingot"), "doctor", "--measure", "--keep", "--threads", "1"], env={**os.environ, "INGOT_CACHE_DIR": str(folder)}, capture_output=True, text=True, check=True)
    assert f"kept for machine=measured: {folder}/machine.json" in done.stdout
    return folder


def built(folder, machine, path):
    """The provenance of a plan, its bytes, and what was said."""
    done = fresh.run(BUILD, machine, path, env={**os.environ, "INGOT_CACHE_DIR": str(folder)}, check=True)
    return json.loads(done.stdout), path.read_bytes(), done.stderr


def test_measured_rates_are_in_the_plan(measured, tmp_path):
    rates = json.loads((measured / "machine.json").read_text())["rates"]
    provenance, plan, said = built(measured, "measured", tmp_path / "a.ingot")
    of_plan = {name: float(value) for name, value in (field.split("=") for field in provenance["machine"].split())}
    assert of_plan == rates and rates["f32"] > 0 and "machine" not in said
    assert built(measured, "measured", tmp_path / "b.ingot")[1] == plan
    # The numbers are a value too: the same plan where nothing was measured.
    assert built(tmp_path, provenance["machine"], tmp_path / "c.ingot")[1] == plan
    assert "machine" not in built(measured, "table", tmp_path / "d.ingot")[0]


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda text: None, "there is no such file"),
        (lambda text: text[:-10], "it is damaged"),
        (lambda text: text.replace('"f32"', '"f33"'), '"f32" is missing, or no number'),
        (lambda text: text.replace('"memory": ', '"memory": -'), "no machine has these rates"),
        (lambda text: text.replace('"processor": "', '"processor": "Another '), 'it is of another machine, "Another'),
    ],
)
def test_a_file_that_cannot_be_used_is_named(measured, tmp_path, change, problem):
    text = change((measured / "machine.json").read_text())
    if text is not None:
        (tmp_path / "machine.json").write_text(text)
    provenance, plan, said = built(tmp_path, "measured", tmp_path / "a.ingot")
    assert f'machine="measured" is ignored: {tmp_path}/machine.json: ' in said and problem in said and "`ingot doctor --measure --keep`" in said
    assert "machine" not in provenance and plan == built(tmp_path, "table", tmp_path / "b.ingot")[1]


def test_a_file_that_others_can_write_is_not_used(measured, tmp_path):
    path = tmp_path / "machine.json"
    path.write_text((measured / "machine.json").read_text())
    path.chmod(0o666)
    provenance, _, said = built(tmp_path, "measured", tmp_path / "a.ingot")
    assert str(path) in said and "machine" not in provenance


def test_other_values_are_refused():
    with pytest.raises(ingot.errors.OptionError, match='option machine is "fast"; "table", "measured", a row of the table'):
        ingot.compile(torch.nn.Linear(4, 4).eval(), inputs=[torch.zeros(2, 4)], machine="fast")


def test_an_offer_that_does_not_exist_is_reported(tmp_path):
    env = {**os.environ, "INGOT_OFFER": "matmull"}
    done = fresh.run(BUILD, "table", tmp_path / "a.ingot", env=env, check=True)
    assert "INGOT_OFFER=matmull chooses nothing" in done.stderr and "name one that does: conv_tiles, matmul" in done.stderr


def test_convolutions_are_timed_on_the_cpu(tmp_path):
    """build_seconds: the kernel that was the fastest is the step's only one, and known timings give the same plan without timing."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 64, 3, padding=1)).eval()
    x, times = torch.randn(1, 8, 20, 20), tmp_path / "times"

    def steps(**options):
        compiled = ingot.compile(model, inputs=[x], cache="off", **options)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-3, atol=1e-4)
        plan = compiled.engine.inspect()["functions"][0]["programs"][0]["steps"]
        return [(step["kernel"], step.get("alternatives", [])) for step in plan if step["kernel"].startswith("conv_") or step["kernel"] == "matmul"]

    usual, timed = steps(), steps(build_seconds=20, timing_cache=str(times))
    assert len(usual[-1][1]) == 2 and timed[-1][1] == []  # three offers are near one another
    assert "gemm for cpu: " in times.read_text()
    assert steps(timing_cache=str(times)) == timed
