"""`ingot refit`: other weights for a plan, with adapters, without compiling."""

import json
import random
import struct
import subprocess
from ctypes import byref, c_char_p, c_void_p
from pathlib import Path

import pytest
import torch

import ingot
from ingot.engine import _library

safetensors = pytest.importorskip("safetensors.torch")
X = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))


def model(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)).to(dtype).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("refit")
    compiled = ingot.compile(model(), inputs=[X], min_block_size=1)
    ingot.save(compiled, made / "model.ingot")
    ingot.save(compiled, made / "stripped.ingot", weights="strip")
    safetensors.save_file(model(1).state_dict(), made / "other.safetensors")
    return made


def refit(folder, plan, *arguments, out="out.ingot"):
    command = str(Path(_library.find("libingot.so.0")).parent / "ingot")
    return subprocess.run([command, "refit", plan, *map(str, arguments), "-o", out], capture_output=True, text=True, cwd=folder)


def close(folder, expected, x=X):
    torch.testing.assert_close(ingot.load(folder / "out.ingot")(x), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("plan", ["model.ingot", "stripped.ingot"])
def test_other_weights(folder, plan):
    before = (folder / plan).read_bytes()
    done = refit(folder, plan, "other.safetensors")
    assert (done.returncode, done.stdout) == (0, "out.ingot: 4 weights\n"), done.stderr
    close(folder, model(1)(X))
    assert (folder / plan).read_bytes() == before
    parts = list(model(2).state_dict().items())
    safetensors.save_file(dict(parts[:2]), folder / "a.safetensors"), safetensors.save_file(dict(parts[2:]), folder / "b.safetensors")
    assert refit(folder, plan, "a.safetensors", "b.safetensors").returncode == 0
    close(folder, model(2)(X))
    assert refit(folder, plan, "other.safetensors", out=plan + ".again").returncode == 0
    assert refit(folder, plan + ".again", "other.safetensors").returncode == 0  # a plan is refitted again and again, in its own place too
    assert refit(folder, plan + ".again", "a.safetensors", "b.safetensors", out=plan + ".again").returncode == 0
    torch.testing.assert_close(ingot.load(folder / (plan + ".again"))(X), model(2)(X), atol=1e-5, rtol=1e-4)


def test_layouts(tmp_path):
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).to(memory_format=torch.channels_last).eval().requires_grad_(False)
    x = torch.randn(2, 3, 7, 7).to(memory_format=torch.channels_last)
    ingot.save(ingot.compile(net, inputs=[x], min_block_size=1), tmp_path / "model.ingot")
    g = torch.Generator().manual_seed(3)
    for tensor in net.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=g) + 0.5)
    values = {name: t.contiguous() for name, t in net.state_dict().items() if "num_batches" not in name}
    safetensors.save_file(values, tmp_path / "other.safetensors")
    down, up = torch.randn(2, 3, 3, 3), torch.randn(8, 2, 1, 1)
    safetensors.save_file({"unet.0.lora.down.weight": down, "unet.0.lora.up.weight": up}, tmp_path / "lora.safetensors")
    done = refit(tmp_path, "model.ingot", "other.safetensors", "--lora", "lora.safetensors:0.5")
    assert done.returncode == 0, done.stderr
    net[0].weight.add_(0.5 * (up.flatten(1) @ down.flatten(1)).view(8, 3, 3, 3))
    close(tmp_path, net(x), x)


def test_adapters_as_a_module_has_them(folder):
    g = torch.Generator().manual_seed(1)
    files = []
    for name in ("a", "b"):
        (folder / name).mkdir()
        files.append({f"base_model.model.0.lora_{m}.weight": torch.randn(*s, generator=g) * 0.1 for m, s in (("A", (4, 16)), ("B", (32, 4)))})
        safetensors.save_file(files[-1], folder / name / "adapter_model.safetensors")
        (folder / name / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 12}))
    done = refit(folder, "model.ingot", "--lora", "a", "--lora", "b/adapter_model.safetensors:-0.25")
    assert done.returncode == 0, done.stderr
    module = ingot.load(folder / "model.ingot")
    module.add_lora("a", folder / "a")
    module.add_lora("b", folder / "b", scale=-0.25)
    close(folder, module(X))
    assert not torch.allclose(module(X), model()(X), atol=1e-3)


def test_what_does_not_fit(folder):
    def save(**changes):
        values = {**model(1).state_dict(), **changes}
        safetensors.save_file({n: v for n, v in values.items() if v is not None}, folder / "wrong.safetensors")

    (folder / "out.ingot").write_bytes(b"as it was")
    save(**{"0.wieght": torch.zeros(32, 16), "0.weight": None, "2.bias": torch.zeros(8).half(), "2.weight": torch.zeros(8, 31)})
    done = refit(folder, "model.ingot", "wrong.safetensors")
    for text in ("0.wieght", "2.bias is float16 [8], and float32 [8] there", "2.weight is float32 [8, 31], and float32 [8, 32]", "1 of the plan's are missing: 0.weight", 'nearest name is "0.weight"'):
        assert text in done.stderr, text
    assert done.returncode == 13 and done.stderr.count("ingot:") == 1
    save(**{"2.bias": None})
    assert "--allow-missing" in refit(folder, "model.ingot", "wrong.safetensors").stderr
    assert "every weight is needed" in refit(folder, "stripped.ingot", "wrong.safetensors", "--allow-missing").stderr
    assert "every weight is needed" in refit(folder, "stripped.ingot", "--lora", "a").stderr or not (folder / "a").exists()
    assert "twice" in refit(folder, "model.ingot", "other.safetensors", "other.safetensors").stderr
    assert refit(folder, "model.ingot").returncode == 2 and refit(folder, "model.ingot", "--lora", "x:inf").returncode == 2
    assert refit(folder, "model.ingot", "nowhere.safetensors").returncode == 21
    assert (folder / "out.ingot").read_bytes() == b"as it was"
    assert refit(folder, "model.ingot", "wrong.safetensors", "--allow-missing").returncode == 0
    mixed = model(1)
    mixed[2].bias.copy_(model()[2].bias)
    close(folder, mixed(X))


def test_adapters_that_do_not_fit(folder):
    a, b = torch.zeros(2, 16), torch.zeros(32, 2)
    for tensors, text in [
        ({"0.lora_down.weight": a, "0.lora_up.weight": b, "0.alpha": torch.tensor(float("nan"))}, "no finite number"),
        ({"0.lora_down.weight": a, "0.lora_up.weight": b, "0.alpha": torch.zeros(2)}, "not one floating-point number"),
        ({"0.lora_down.weight": a[:, :3].contiguous(), "0.lora_up.weight": b}, 'do not have the shape of weight "0.weight" float32 [32, 16]'),
        ({"0.lora_down.weight": a.int(), "0.lora_up.weight": b}, "floating-point"),
        ({"0.lora_down.weight": a}, "without its other matrix"),
        ({"7.lora_down.weight": a, "7.lora_up.weight": b}, 'module "7" that the model has not'),
        ({"0.lora_down.weight": torch.zeros(0, 16), "0.lora_up.weight": torch.zeros(32, 0)}, "do not make a matrix"),
        ({"0.hada_w1_a": a}, "not part of a LoRA"),
    ]:
        safetensors.save_file(tensors, folder / "odd.safetensors")
        done = refit(folder, "model.ingot", "--lora", "odd.safetensors", out="never.ingot")
        assert done.returncode in (12, 13) and text in done.stderr, (text, done.stderr)
    assert not (folder / "never.ingot").exists()


def test_half_types(tmp_path):
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        net, other = model(0, dtype), model(1, dtype)
        ingot.save(ingot.compile(net, inputs=[X.to(dtype)], min_block_size=1), tmp_path / "model.ingot")
        safetensors.save_file(other.state_dict(), tmp_path / "other.safetensors")
        down, up = torch.randn(2, 16).bfloat16(), torch.randn(32, 2)
        safetensors.save_file({"0.lora_down.weight": down, "0.lora_up.weight": up, "0.alpha": torch.tensor(1.0)}, tmp_path / "lora.safetensors")
        assert refit(tmp_path, "model.ingot", "other.safetensors", "--lora", "lora.safetensors").returncode == 0
        wide = torch.promote_types(dtype, torch.float32)
        want = (other[0].weight.to(wide) + 0.5 * (up.to(wide) @ down.to(wide))).to(dtype)
        found = torch.frombuffer(ingot.load(tmp_path / "out.ingot").engine.value("0.weight"), dtype=dtype).view(32, 16)
        torch.testing.assert_close(found, want, atol=0, rtol=torch.finfo(dtype).eps)


def header(**entries):
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
HOSTILE = {
    "empty": b"",
    "short": b"1234567",
    "long header": struct.pack("<Q", 2**63) + b"{}",
    "no json": struct.pack("<Q", 2) + b"{]",
    "a list": struct.pack("<Q", 2) + b"[]",
    "deep": struct.pack("<Q", 200_000) + b"[" * 100_000 + b"]" * 100_000,
    "twice": struct.pack("<Q", 2 * len(json.dumps({"a": ONE})) - 1) + (json.dumps({"a": ONE})[:-1] + "," + json.dumps({"a": ONE})[1:]).encode() + bytes(8),
    "behind the file": header(a=ONE),
    "negative": header(a={**ONE, "shape": [-2]}) + bytes(8),
    "overflow": header(a={**ONE, "shape": [2**62, 2**62]}) + bytes(8),
    "wraps to eight": header(a={**ONE, "shape": [2**62 + 2]}) + bytes(8),
    "backwards": header(a={**ONE, "data_offsets": [8, 0]}) + bytes(8),
    "three": header(a={**ONE, "data_offsets": [0, 8, 8]}) + bytes(8),
    "huge number": header(a={**ONE, "shape": [2**70]}) + bytes(8),
    "a text": header(a={**ONE, "shape": "2"}) + bytes(8),
    "no dtype": header(a={"shape": [2], "data_offsets": [0, 8]}) + bytes(8),
    "unknown dtype": header(a={**ONE, "dtype": "F9"}) + bytes(8),
}


def library(plan, path):
    out = c_void_p()
    return _library.lib().ingot_plan_refit(plan._plan.pointer, (c_char_p * 1)(str(path).encode()), 1, None, 0, 0, byref(out))


def test_hostile_files(folder, tmp_path):
    plan, path = ingot.load_engine(folder / "model.ingot"), tmp_path / "hostile.safetensors"
    for name, data in HOSTILE.items():
        path.write_bytes(data)
        assert library(plan, path) in (3, 5), name
    whole, r = (folder / "other.safetensors").read_bytes(), random.Random(0)
    end = 8 + struct.unpack("<Q", whole[:8])[0]
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(r.randint(1, 3)):
            data[r.randrange(end)] = r.choice(b'0123456789{}[]",:\x00\xffaF')
        path.write_bytes(data[: r.randrange(len(data))] if r.random() < 0.2 else data)
        assert library(plan, path) in (0, 3, 5)
    assert library(plan, tmp_path) == 11
