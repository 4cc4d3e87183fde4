"""Who hears what ingot has to say: logging if a program set it up, else standard error, each line with the name in front."""

import os
import sys

import fresh
import pytest
import torch

import ingot

PROGRAM = """
import logging, sys
import torch
{setup}
import ingot

class Airy(torch.nn.Module):
    def forward(self, x):
        return torch.special.airy_ai(x) + 1

ingot.compile(Airy(), inputs=[torch.ones(3)], min_block_size=1)
"""
WARNING = "1 of 2 operators run in torch (aten.special_airy_ai.default); print(compiled.report) says why"


def said(setup, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("INGOT_LOG")}
    done = fresh.run(PROGRAM.format(setup=setup), env={**clean, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_without_logging_each_line_has_the_name():
    assert said("") == ([], [f"ingot: {WARNING}"])


def test_with_logging_the_logger_has_it():
    assert said("logging.basicConfig(stream=sys.stdout)") == ([f"WARNING:ingot:{WARNING}"], [])


@pytest.mark.parametrize("setup, stream, front", [("", 1, "ingot: "), ("logging.basicConfig(stream=sys.stdout)", 1, "ingot: "), ("logging.basicConfig(stream=sys.stdout, level=logging.DEBUG)", 0, "INFO:ingot:")])
def test_what_ingot_log_asks_for_is_heard(setup, stream, front):
    """The library's lines and Python's, where logging takes them; where it would drop them, on standard error."""
    out = said(setup, INGOT_LOG="info", INGOT_CACHE="off")
    lines = [line.removeprefix(front) for line in out[stream] if line.startswith(front)]
    assert any(line.startswith("compile  ") and line.endswith(" ms") for line in lines) and any(line.startswith("simplify  ") for line in lines), out
    assert not any(line.startswith("ingot: compile") for line in out[1 - stream])


def test_many_lines_are_one_record(caplog, monkeypatch):
    monkeypatch.setenv("INGOT_LOG", "debug")
    with caplog.at_level("DEBUG", "ingot"):
        ingot.compile(torch.nn.Linear(4, 4).eval(), inputs=[torch.ones(2, 4)], cache="off")
    (decisions,) = [r for r in caplog.records if r.getMessage().startswith("decisions\n")]
    assert decisions.levelname == "DEBUG" and "forward for cpu: storage" in decisions.getMessage() and "ingot: " not in caplog.text


def test_a_warning_of_the_library(caplog, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "file"))
    ingot.compile(torch.nn.Linear(4, 3).eval(), inputs=[torch.ones(2, 4)], cache="readwrite")
    assert [r.levelname for r in caplog.records if "plans are not cached" in r.getMessage()] == ["WARNING"]
