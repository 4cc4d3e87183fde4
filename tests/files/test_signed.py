"""Signed plans: `ingot keygen`, `ingot sign`, trust="signed". src/plan/signature_test.cpp changes every byte of one."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from crafted import model, saved

import ingot
from ingot.engine import _library

CLI = _library.find("ingot")
X = np.ones((3, 4), np.float32)


def command(*arguments, **more):
    return subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A plan, two makers' keys, the plan signed by the first."""
    folder = tmp_path_factory.mktemp("signed")
    ingot.save(ingot.compile(model(), inputs=[torch.ones(3, 4)]), folder / "plain.ingot")
    for name in ("me", "other"):
        done = command("keygen", folder / name)
        assert done.returncode == 0, done.stderr
        assert done.stdout == (folder / f"{name}.pub").read_text() and done.stdout.startswith("ed25519:")
    done = command("sign", folder / "plain.ingot", "--key", folder / "me.key", "-o", folder / "s.ingot")
    assert done.returncode == 0, done.stderr
    return folder


def key(folder, name="me"):
    return (folder / f"{name}.pub").read_text().strip()


def message(kind, call):
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.remedy
    return caught.value.message


def test_it_runs_by_every_way(folder):
    want = ingot.load_engine(folder / "plain.ingot").session().run(X)[0]
    path, keys = folder / "s.ingot", [key(folder, "other"), folder / "me.pub"]
    for given in (path, path.read_bytes()):
        assert np.array_equal(ingot.load_engine(given, trust="signed", keys=keys).session().run(X)[0], want)
    assert np.array_equal(ingot.load(path, trust="signed", keys=keys)(torch.from_numpy(X)).numpy(), want)
    assert np.array_equal(ingot.load(path)(torch.from_numpy(X)).numpy(), want)  # as any other file
    for verb in ("run", "bench", "verify"):
        more = ("--seconds", "0.01") if verb == "bench" else ()
        assert command(verb, path, "--trust", "signed", "--keys", folder / "me.pub", *more, cwd=folder).returncode == 0
    assert f"signed by {key(folder)}, which was not checked" in command("inspect", path).stdout


def test_what_is_not_signed_by_a_key_is_refused(folder):
    path, plain = folder / "s.ingot", folder / "plain.ingot"
    mine, other = [key(folder)], [key(folder, "other")]
    assert message(ingot.FormatError, lambda: ingot.load(plain, trust="signed", keys=mine)) == f"{plain}: the plan is not signed"
    assert message(ingot.FormatError, lambda: ingot.load(path, trust="signed", keys=other)) == f"{path}: the plan is signed by {mine[0]}, which is none of the keys that are trusted"
    bad = bytearray(path.read_bytes())
    bad[200] ^= 1
    changed = f"the plan is not what {mine[0]} signed: it was changed later, or its signature is forged"
    assert message(ingot.FormatError, lambda: ingot.load_engine(bytes(bad), trust="signed", keys=mine)) == changed
    assert "the plan is cut off" in message(ingot.FormatError, lambda: ingot.load_engine(bytes(path.read_bytes()[:-1]), trust="signed", keys=mine))
    done = command("run", plain, "--trust", "signed", "--keys", folder / "me.pub")
    assert done.returncode == 15 and done.stderr.startswith(f"ingot: {plain}: the plan is not signed\n")


def test_what_is_written_again_is_not_signed(folder, tmp_path):
    keys = [key(folder)]
    module = ingot.load(folder / "s.ingot", trust="signed", keys=keys)
    ingot.save(module, tmp_path / "again.ingot")
    module.update_weights({name: torch.zeros_like(value) for name, value in model().state_dict().items()})
    ingot.save(module, tmp_path / "changed.ingot")
    assert command("refit", folder / "s.ingot", "--lora", tmp_path, "-o", tmp_path / "x.ingot").returncode != 0
    from safetensors.torch import save_file

    save_file({name: value + 1 for name, value in model().state_dict().items()}, tmp_path / "w.safetensors")
    assert command("refit", folder / "s.ingot", tmp_path / "w.safetensors", "-o", tmp_path / "refit.ingot").returncode == 0
    (tmp_path / "bytes.ingot").write_bytes(saved(module.engine))
    for name in ("again", "changed", "refit", "bytes"):
        path = tmp_path / f"{name}.ingot"
        assert message(ingot.FormatError, lambda: ingot.load(path, trust="signed", keys=keys)) == f"{path}: the plan is not signed"
    assert (tmp_path / "again.ingot").read_bytes() == (folder / "plain.ingot").read_bytes()


def test_a_level_without_keys_and_keys_without_the_level(folder):
    path = folder / "s.ingot"
    for load in (ingot.load, ingot.load_engine):
        assert message(ingot.OptionError, lambda: load(path, trust="signed")) == 'trust "signed" needs keys'
        assert message(ingot.OptionError, lambda: load(path, keys=[key(folder)])) == "keys are for trust \"signed\", not 'auto'"
        assert "not a list" in message(ingot.OptionError, lambda: load(path, trust="signed", keys=key(folder)))
        assert "no public key is given" in message(ingot.InputError, lambda: load(path, trust="signed", keys=[]))
        assert "is not a public key" in message(ingot.InputError, lambda: load(path, trust="signed", keys=["ed25519:12"]))
        assert "a line that is a secret key" in message(ingot.InputError, lambda: load(path, trust="signed", keys=[folder / "me.key"]))
        assert "none.pub" in message(ingot.IoError, lambda: load(path, trust="signed", keys=[folder / "none.pub"]))
        assert message(ingot.OptionError, lambda: load(path, trust="all")) == "trust 'all' is not known"
    for arguments in (("--trust", "signed"), ("--keys", folder / "me.pub")):
        done = command("run", path, *arguments)
        assert done.returncode == 2 and done.stderr == "ingot: --trust signed and --keys go together\n"


def test_only_plans_are_signed(folder, tmp_path):
    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(model(), (torch.ones(3, 4),)), path)
    assert message(ingot.FormatError, lambda: ingot.load(path, trust="signed", keys=[key(folder)])) == f"{path} is a program of torch's, and only .ingot files can be signed"
    done = command("sign", path, "--key", folder / "me.key")
    assert done.returncode == 15 and "this is not a plan" in done.stderr
    done = command("sign", folder / "plain.ingot", "--key", folder / "me.pub", "-o", tmp_path / "x.ingot")
    assert done.returncode != 0 and "is not a secret key" in done.stderr and not (tmp_path / "x.ingot").exists()


ALONE = """
import ctypes, sys
class Problem(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char_p), ("origin", ctypes.c_char_p), ("remedy", ctypes.c_char_p)]
library = ctypes.CDLL(sys.argv[1])
library.ingot_last_error.restype = ctypes.POINTER(Problem)
plan, keys = ctypes.c_void_p(), (ctypes.c_char_p * 1)(sys.argv[3].encode())
status = library.ingot_plan_load_signed(sys.argv[2].encode(), keys, ctypes.c_size_t(1), ctypes.byref(plan))
problem = library.ingot_last_error().contents
print(status, problem.message.decode() if status else "", problem.remedy.decode() if status else "", sep="\\n")
"""


def alone(path, key, **more):
    runtime = _library.find("libingot_runtime.so")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(ALONE), runtime, str(path), key], capture_output=True, text=True, env=os.environ | more)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_the_runtime_alone_checks_signatures(folder):
    assert alone(folder / "s.ingot", key(folder))[0] == "0"
    status, said, *_ = alone(folder / "s.ingot", key(folder, "other"))
    assert status != "0" and "none of the keys that are trusted" in said


def test_without_libsodium(folder, tmp_path):
    """Nothing is taken on trust, and the message says what to install."""
    for name in ("libsodium.so.23", "libsodium.so.26", "libsodium.so"):
        (tmp_path / name).write_bytes(b"no library")
    status, said, remedy, *_ = alone(folder / "s.ingot", key(folder), LD_LIBRARY_PATH=str(tmp_path))
    assert status != "0" and "libsodium, which signs plans and checks signatures, was not found on this machine" in said
    assert "apt install libsodium23" in remedy and "dnf install libsodium" in remedy
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    for arguments in (("keygen", tmp_path / "k"), ("sign", folder / "plain.ingot", "--key", folder / "me.key", "-o", tmp_path / "x.ingot")):
        done = command(*arguments, env=environment)
        assert done.returncode != 0 and "libsodium" in done.stderr
    assert not (tmp_path / "x.ingot").exists() and not (tmp_path / "k.key").exists()


def test_a_plan_without_weights_is_signed_too(folder, tmp_path):
    """What is signed are the steps; the program that loads it answers for the weights."""
    ingot.save(ingot.compile(model(), inputs=[torch.ones(3, 4)]), tmp_path / "m.ingot", weights="strip")
    assert command("sign", tmp_path / "m.ingot", "--key", folder / "me.key").returncode == 0
    engine = ingot.load_engine(tmp_path / "m.ingot", trust="signed", keys=[key(folder)], weights=dict(model().state_dict()))
    assert np.array_equal(engine.session().run(X)[0], ingot.load_engine(folder / "plain.ingot").session().run(X)[0])
