"""Every writer makes a new file with a random name and renames it. Links are replaced and not followed, and the old file stays whole until then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import ingot
from ingot.base import atomic
from ingot.engine import _library

CLI = _library.find("ingot")


@pytest.fixture(scope="module")
def plan(source, tmp_path_factory):
    return source.write(tmp_path_factory.mktemp("plan") / "x.ingot")


def program(folder):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softmax(-1)).eval()
    torch.export.save(torch.export.export(model, (torch.ones(2, 4),)), folder / "model.pt2")
    return folder / "model.pt2"


def command(*arguments, **environment):
    done = subprocess.run([CLI, *arguments], capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr


# The writers of `path`. `folder` is for their other files.
WRITERS = {
    "ingot.save": lambda source, plan, path, folder: ingot.save(source.module, path),
    "ingot.save without weights": lambda source, plan, path, folder: ingot.save(source.module, path, weights="strip"),
    "ingot.save of a program": lambda source, plan, path, folder: ingot.save(source.module, path, format="exported_program"),
    "Engine.save": lambda source, plan, path, folder: source.module.engine.save(path),
    "atomic.write_bytes": lambda source, plan, path, folder: atomic.write_bytes(path, b"new"),
    "dryrun": lambda source, plan, path, folder: ingot.compile(torch.nn.Linear(4, 4).eval(), inputs=[torch.ones(2, 4)], dryrun=str(path)),
    "ingot run -o": lambda source, plan, path, folder: command("run", plan, "-o", path.parent),
    "ingot compile -o": lambda source, plan, path, folder: command("compile", program(folder), "-o", path),
    "ingot compile --set dryrun": lambda source, plan, path, folder: command("compile", program(folder), "--set", f"dryrun={path}"),
    "INGOT_DUMP": lambda source, plan, path, folder: command("compile", program(folder), "-o", folder / "made.ingot", INGOT_DUMP=str(path.parent)),
}
NAMES = {"ingot run -o": None, "INGOT_DUMP": "00_captured.txt"}


@pytest.mark.parametrize("writer", WRITERS)
def test_links_are_not_followed(source, plan, tmp_path, writer):
    folder, needed = tmp_path / "out", tmp_path / "needed"
    folder.mkdir()
    needed.mkdir()
    name = NAMES.get(writer, "file")
    if name is None:
        name = source.module.engine.output_names[0] + ".npy"
    path, precious = folder / name, tmp_path / "precious"
    precious.write_text("precious")
    # Obstacles in the target's place, and where a temporary file was or might be.
    links = [folder / n for n in (name, name + ".tmp", f".{name}.{os.getpid()}", f".{name}.{os.getpid()}.pt2", f"{name}.{os.getpid()}.0.tmp")]
    for link in links:
        link.symlink_to(precious)
    WRITERS[writer](source, plan, path, needed)
    assert precious.read_text() == "precious" and path.is_file() and not path.is_symlink()
    assert {p for p in folder.iterdir() if p.is_symlink()} == set(links[1:])
    assert not [p for p in folder.iterdir() if p.name.startswith(".ingot-")]


@pytest.mark.parametrize("writer", [w for w in WRITERS if w not in ("ingot run -o", "INGOT_DUMP")])
def test_a_folder_in_the_way_is_an_error_and_nothing_is_left(source, plan, tmp_path, writer):
    (tmp_path / "out" / "file").mkdir(parents=True)
    (tmp_path / "needed").mkdir()
    with pytest.raises((ingot.IoError, AssertionError)) as caught:
        WRITERS[writer](source, plan, tmp_path / "out" / "file", tmp_path / "needed")
    assert "Is a directory" in str(caught.value)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["file"]


@pytest.mark.parametrize("writer", [w for w in WRITERS if w not in ("ingot run -o", "INGOT_DUMP")])
def test_what_is_no_file_is_not_replaced(source, plan, tmp_path, writer):
    """A pipe's readers would wait for ever; a device is everybody's."""
    folder, needed = tmp_path / "out", tmp_path / "needed"
    folder.mkdir()
    needed.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("pipe")
    (folder / "device").symlink_to("/dev/null")
    for name in ("pipe", "link", "device"):
        with pytest.raises((ingot.IoError, AssertionError)) as caught:
            WRITERS[writer](source, plan, folder / name, needed)
        assert f"cannot write {folder / name}: it is not a regular file" in str(caught.value)
    assert (folder / "pipe").is_fifo() and sorted(p.name for p in folder.iterdir()) == ["device", "link", "pipe"]


def test_names_that_c_would_cut_off(source, plan, tmp_path):
    name = str(tmp_path / "a\0b")
    for call in (lambda: ingot.save(source.module, name), lambda: ingot.save(source.module, name, format="exported_program"), lambda: ingot.load(name), lambda: ingot.load_engine(name), lambda: ingot.compile(name)):
        with pytest.raises(ingot.InputError, match="it has a null character"):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", [["inspect"], ["run"], ["--help"]], ids=" ".join)
def test_what_is_printed_and_cannot_be_written(plan, verb):
    with open("/dev/full", "w") as full:
        done = subprocess.run([CLI, *verb, *([plan] if verb != ["--help"] else [])], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 21 and done.stderr == "ingot: cannot write what is printed: No space left on device\n"


def test_a_reader_that_stops_early_is_no_fault():
    """As in `ingot ops | head -1`, from a program that ignores SIGPIPE, as Python does."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([CLI, "ops"], stdout=write, stderr=subprocess.PIPE, text=True, restore_signals=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_inputs_that_are_no_files(plan, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        done = subprocess.run([CLI, "run", plan, "-i", f"x={path}"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 21 and done.stderr.startswith(f"ingot: cannot open {path}: it is not a regular file")


def test_results_of_ingot_run(source, plan, tmp_path):
    x = np.ones((3, 4), np.float32)
    np.save(tmp_path / "x.npy", x)
    command("run", plan, "-i", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "out")
    (name,) = (tmp_path / "out").iterdir()
    assert np.array_equal(np.load(name), source.module.engine.session().run(x)[0])


SAVES = """
import sys, ingot, torch
module = ingot.load(sys.argv[1])
print("ready", flush=True)
while True:
    ingot.save(module, sys.argv[2])
"""


def test_killed_while_writing(plan, tmp_path):
    """The old file or the new one."""
    target, good = tmp_path / "out" / "x.ingot", plan.read_bytes()
    target.parent.mkdir()
    target.write_bytes(good)
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", SAVES, plan, target], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"ready\n"
        for _ in range(200):
            assert target.read_bytes() == good
        child.kill()
        child.wait()
        assert target.read_bytes() == good
