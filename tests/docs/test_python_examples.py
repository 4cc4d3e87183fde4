"""The programs of examples/python run and end with success. examples/README.md lists all of them."""

import re
import runpy
import sys

import pytest
import torch
from blocks import ROOT

FOLDER = ROOT / "examples/python"
MORE = {"quickstart", "diffusion"}  # they need packages beyond torch; quickstart is `make quickstart`
ELSEWHERE = {"own_kernel"}  # run by the tests of the feature that it shows
SHOWS = {
    "torch_compile": "nothing stays in torch",
    "export_and_save": "tagger_plan.ingot: ",
    "dynamic_sizes": "outside the range 1..32",
    "engine_cache": "with 1 plan kept",
    "refit": "1.000 higher",
    "lora": "with twice its scale",
    "mutable_module": "saved and loaded",
    "mixed_precision": "torch.autocast",
}


@pytest.mark.parametrize("name", sorted(p.stem for p in FOLDER.glob("*.py") if p.stem not in MORE | ELSEWHERE))
def test_an_example(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    try:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    finally:
        torch._dynamo.reset()
    shown = capsys.readouterr().out
    assert shown.strip() and SHOWS.get(name, "") in shown
    assert not list(tmp_path.iterdir()), "an example leaves no files behind"


def test_the_readme_lists_them_all():
    text = (ROOT / "examples/README.md").read_text()
    files = {p.name for p in (ROOT / "examples").rglob("*") if p.suffix in (".py", ".c", ".cpp")}
    assert set(re.findall(r"`([\w]+\.(?:py|c|cpp))`", text)) == files
