"""The steps of an engine are ranges in torch.profiler's table and trace."""

import json
from concurrent.futures import ThreadPoolExecutor

import ingot
import pytest
import torch

torch.manual_seed(0)
MODEL = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)).eval()
X = torch.randn(5, 16)


def profiled(call):
    with torch.no_grad(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return profile


def steps(profile) -> list[str]:
    return [e.name for e in sorted(profile.events(), key=lambda e: (e.time_range.start, -e.time_range.end)) if e.name.startswith("ingot: ")]


@pytest.fixture(scope="module", params=["compile", "torch.compile"])
def compiled(request):
    made = ingot.compile(MODEL, inputs=[X]) if request.param == "compile" else torch.compile(MODEL, backend="ingot")
    with torch.no_grad():
        made(X)
    return made


def test_steps_are_ranges_within_the_call(compiled):
    profile = profiled(lambda: compiled(X))
    whole, *inner = steps(profile)
    assert whole == "ingot: forward" and len(inner) >= 2 and all("[" in name for name in inner)
    (call,) = [e for e in profile.events() if e.name == whole]
    assert {e.name for e in call.cpu_children} == set(inner)


def test_they_are_those_of_the_profile():
    made = ingot.compile(MODEL, inputs=[X])
    expected = [f"ingot: {s['label']} [{s['kernel']}]" for s in made.profile(X)]
    assert steps(profiled(lambda: made(X)))[1:] == expected


def test_they_are_in_the_trace(compiled, tmp_path):
    profiled(lambda: compiled(X)).export_chrome_trace(str(tmp_path / "trace.json"))
    assert any(e.get("name", "").startswith("ingot: ") for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"])


def test_a_call_that_fails_ends_its_ranges():
    class Taken(torch.nn.Module):
        def forward(self, x, i):
            return x[i].exp()

    i = torch.tensor([0, 1])
    made = ingot.compile(Taken(), inputs=[X, i], fallback="error")

    def call():
        with pytest.raises(ingot.InputError, match="out of range"):
            made(X, torch.tensor([0, 7]))
        made(X, i)

    assert steps(profiled(call)).count("ingot: forward") == 2


def test_threads_and_calls_outside(compiled):
    with ThreadPoolExecutor(4) as threads:
        def call():
            compiled(X)
            list(threads.map(lambda _: compiled(X), range(40)))
        assert "ingot: forward" in steps(profiled(call))
    compiled(X)
    assert steps(profiled(lambda: None)) == []
