"""Options autocast, autocast_exclude and accuracy: which operators compute in low precision, why others do not, and how large the error may be."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot.engine._library import find

TYPES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])


class Layer(torch.nn.Module):
    """Attention written out, a residual stream and a feed-forward net."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.first(x)
        q, k, v = (f(y).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


class Image(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(8, 8, 3, groups=2))
        self.head = torch.nn.Linear(8, 5)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return self.head(self.body(x).mean((2, 3))).log_softmax(-1), self.calls + 0


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def reasons(report, precision="float32"):
    return {n["name"]: n["precision_reason"] for n in report.nodes if n["precision"] == precision}


def judged(got, model, x, dtype, depth=64):
    """Against eager under torch.autocast: results have the model's own type, with the accuracy of the low one."""
    exact = copy.deepcopy(model).double()(x.double())
    with torch.autocast("cpu", dtype=dtype):
        eager = model(x)
    first = lambda r: r[0] if isinstance(r, tuple) else r  # noqa: E731
    assert first(got).dtype == first(model(x)).dtype == torch.float32
    assert_accurate(first(got).to(dtype), first(eager).to(dtype), first(exact), depth)


@TYPES
def test_products_compute_in_low_precision_and_the_rest_does_not(dtype):
    model, x = torch.nn.Sequential(Layer(), Layer()).eval(), torch.randn(2, 7, 32)
    compiled = ingot.compile(model, inputs=[x], autocast=dtype)
    judged(compiled(x), model, x, dtype)
    assert (compiled(x) - ingot.compile(model, inputs=[x])(x)).abs().max() > 1e-6  # it does round
    low, kept = reasons(compiled.report, str(dtype).removeprefix("torch.")), reasons(compiled.report)
    assert sum(name.startswith("linear") for name in low) == 12 and sum(name.startswith("matmul") for name in low) == 4 and "gelu" in low
    assert {name.split("_")[0] for name in kept} == {"layer", "softmax", "add"}
    assert kept["softmax"] == "it computes in float32" and kept["add"].startswith("it reads ")
    # Casts: x once after each norm, scores to float32 and back, and the addends of the residual stream.
    assert compiled.report.document["autocast"] == {"type": str(dtype).removeprefix("torch."), "casts": 12, "unused": []}
    kernels = [s["kernel"] for s in compiled.engine.inspect()["functions"][0]["programs"][0]["steps"]]
    assert kernels.count("attention") == 2 and kernels.count("matmul") == 8  # q, k and v are one product still


@TYPES
def test_convolutions_and_a_buffer_that_is_written(dtype):
    model, x = Image().eval(), torch.randn(2, 3, 9, 9)
    compiled = ingot.compile(model, inputs=[x], autocast=dtype)
    judged(compiled(x), copy.deepcopy(model), x, dtype)
    assert compiled(x)[1].item() == 2 == model.calls.item()
    low = reasons(compiled.report, str(dtype).removeprefix("torch."))
    assert {"batch_norm", "relu", "conv2d", "conv2d_1", "linear"} <= low.keys() or {"_native_batch_norm_legit_no_training"} <= low.keys()


@pytest.mark.parametrize("pattern", ["linear", "aten\\.linear", "aten.linear.default", "Linear", ".*[qkv]|out|up|down", "linear(_\\d)?"])
def test_patterns_keep_nodes(pattern):
    model, x = Layer().eval(), torch.randn(2, 7, 32)
    report = ingot.explain(model, [x], autocast="f16", autocast_exclude=pattern)
    assert not any(name.startswith("linear") for name in reasons(report, "float16"))
    assert reasons(report)["linear"] == f'autocast_exclude has "{pattern}"' and "matmul" in reasons(report, "float16")


def test_patterns_for_one_node_and_one_module(caplog):
    model, x = torch.nn.Sequential(Layer(), Layer()).eval(), torch.randn(2, 7, 32)
    report = ingot.explain(model, [x], autocast="bf16", autocast_exclude=["node:linear", "module:1.up", "nothing"])
    assert {name for name in reasons(report) if name.startswith("linear")} == {"linear", "linear_10"}
    assert report.document["autocast"]["unused"] == ["nothing"]
    with caplog.at_level("WARNING", "ingot"):
        ingot.compile(model, inputs=[x], autocast="bf16", autocast_exclude=["nothing"])
    assert "autocast_exclude has 'nothing', which matches nothing in this model" in caplog.text


def test_depth_of_sums_and_calibration():
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Linear(64, 8), torch.nn.Linear(8, 8)).eval(), torch.randn(4, 8)
    model[2].weight.mul_(1000)
    low = lambda **rules: set(reasons(ingot.explain(model, [x], autocast=ingot.Autocast(**rules)), "float16"))  # noqa: E731
    assert low() == {"linear", "linear_1", "linear_2"}
    assert low(max_reduction=63) == {"linear", "linear_2"}
    assert low(calibration=[x, (x,), {"input": x}]) == {"linear", "linear_1"}
    assert low(calibration=[x[:2], x.repeat(3, 1)]) == {"linear", "linear_1"}  # batches of other sizes than the build's
    assert low(calibration=(x for _ in range(2)), max_output=1e6) == {"linear", "linear_1", "linear_2"}
    once = ingot.Autocast(calibration=(x for _ in range(2)))
    assert ingot.compile(model, inputs=[x], autocast=once, accuracy=1e6).report.document["accuracy"]["samples"] == 2
    assert low(calibration=[x / 1e4], max_output=1e4) == {"linear", "linear_1", "linear_2"}


class Regions(torch.nn.Module):
    """Returns all that it computes, part of it in regions of torch.autocast."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 4, 3), torch.nn.Linear(16, 5)

    def forward(self, x):
        a = self.first(x)
        b = torch.softmax(torch.relu(a), 1)
        c = torch.flatten(self.second(b), 1)
        with torch.autocast("cpu", torch.float16):
            d = self.third(c)
            with torch.autocast("cpu", enabled=False):
                e = self.third(c)
        return x, a, b, c, d, e, d + e


@pytest.mark.parametrize("exclude, low", [([], "abcf"), (["first"], "bcf"), (["flatten", "Conv2d"], "bf"), (["node:softmax", "aten.add.Tensor"], "ac")])
def test_results_of_the_low_type(exclude, low):
    model, x = Regions().eval(), torch.randn(4, 3, 6, 6)
    rules = ingot.Autocast(torch.bfloat16, exclude, calibration=[x[:3], torch.cat([x, x[:1]])], results="low")
    compiled = ingot.compile(model, inputs=[x], autocast=rules)
    wanted = dict(zip("xabcdef", model(x)))
    for name, got in zip("xabcdef", compiled(x)):
        eager = wanted[name]
        assert got.dtype is (torch.bfloat16 if name in low else eager.dtype), name
        assert_accurate(got.to(torch.bfloat16), eager.to(torch.bfloat16), eager.double(), depth=64)
    low_nodes = reasons(compiled.report, "bfloat16")
    assert "linear_1" not in low_nodes and reasons(compiled.report)["linear_1"] == 'autocast_exclude has "node:linear_1"'
    assert not compiled.report.document["autocast"]["unused"]


def test_results_of_the_low_type_that_are_too_large():
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8)).eval(), torch.randn(4, 8)
    model[0].weight.mul_(1e6)
    for limit, dtype in ((512, torch.float32), (1e9, torch.float16)):
        assert ingot.compile(model, inputs=[x], autocast=ingot.Autocast(calibration=[x], max_output=limit, results="low"))(x).dtype is dtype
    compiled = torch.compile(model, backend="ingot", options={"autocast": ingot.Autocast(results="low")})
    assert compiled(x).dtype is torch.float32


@pytest.mark.parametrize(
    "calibration, text",
    [
        ([], "Autocast's calibration has no inputs"),
        ([3], "input 'input' is of type int, but the engine takes a tensor there"),
        ([torch.zeros(2, 5)], "axis 1 of input 'input' (shape [2, 5]) has size 5, but the plan was built for 4 there"),
        ([{"nope": 1}], "unexpected keyword argument 'nope'"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"accuracy": 100.0}], ids=["rules", "accuracy"])
def test_what_calibration_cannot_be(calibration, text, options):
    with pytest.raises(ingot.InputError) as caught:
        ingot.compile(torch.nn.Linear(4, 4), inputs=[torch.randn(2, 4)], autocast=ingot.Autocast(calibration=calibration), **options)
    assert str(caught.value).startswith(text)


def test_just_in_time_in_segments_and_in_files(tmp_path):
    model, x = torch.nn.Sequential(Layer(), Layer()).eval(), torch.randn(2, 7, 32)
    torch._dynamo.reset()
    judged(torch.compile(model, backend="ingot", options={"autocast": ingot.Autocast(torch.bfloat16, exclude="0")})(x), model, x, torch.bfloat16)
    parts = ingot.compile(model, inputs=[x], autocast="bf16", torch_executed_ops=["gelu"])
    assert len(parts.segments) == 3
    judged(parts(x), model, x, torch.bfloat16)
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 2, 32), opt_shape=(2, 7, 32), max_shape=(4, 16, 32))], autocast="bf16")
    for shape in [(1, 2, 32), (4, 16, 32)]:
        judged(compiled(y := torch.randn(shape)), model, y, torch.bfloat16)
    ingot.save(compiled, tmp_path / "m.ingot")
    assert torch.equal(ingot.load(tmp_path / "m.ingot")(x), compiled(x))
    model[0].up.weight.mul_(2)
    judged(compiled(x), model, x, torch.bfloat16)  # weights are cast when they are prepared


def test_the_command_line_on_a_program_that_writes_in_place(tmp_path):
    class InPlace(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

        def forward(self, x):
            y = torch.nn.functional.relu(self.a(x), inplace=True)
            y[:, :4].add_(1)
            return self.b(y).sigmoid_()

    model, x = InPlace().eval(), torch.randn(3, 16)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    run = lambda *a: subprocess.run([find("ingot"), *map(str, a)], capture_output=True, text=True)  # noqa: E731
    done = run("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.ingot", "--set", "autocast=bf16")
    assert done.returncode == 0, done.stderr
    np.save(tmp_path / "x.npy", x.numpy())
    done = run("run", tmp_path / "m.ingot", "-i", f"x={tmp_path}/x.npy", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    got = torch.from_numpy(np.load(next((tmp_path / "out").glob("*.npy"))))
    judged(got, model, x, torch.bfloat16)
    assert (got - model(x)).abs().max() > 1e-5
    refused = run("compile", tmp_path / "m.pt2", "-o", tmp_path / "n.ingot", "--set", "accuracy=2")
    assert refused.returncode != 0 and "option accuracy is measured against the model itself" in refused.stderr and not (tmp_path / "n.ingot").exists()


@pytest.mark.parametrize(
    "option, text",
    [
        (lambda: dict(autocast=ingot.Autocast(torch.float32)), "autocast to torch.float32 is not possible\n  remedy: torch.float16 or torch.bfloat16"),
        (lambda: dict(autocast=torch.float64), "autocast to torch.float64 is not possible\n  remedy: torch.float16 or torch.bfloat16"),
        (lambda: dict(autocast=7), 'option autocast is 7\n  remedy: torch.float16, torch.bfloat16, ingot.Autocast(...) or "none"'),
        (lambda: dict(autocast="f8"), 'option autocast is "f8"; "none", "float16" or "bfloat16" is needed'),
        (lambda: dict(autocast="f16", autocast_exclude=["a{1,2}"]), "autocast excludes 'a{1,2}', and a comma ends a pattern\n  remedy: give several patterns"),
        (lambda: dict(autocast="f16", autocast_exclude=["("]), "autocast excludes '(', which is not a regular expression: missing ), unterminated subpattern at position 0"),
        (lambda: dict(autocast=ingot.Autocast(max_output=-1)), "Autocast's max_output is -1\n  remedy: a number above 0; math.inf for any"),
        (lambda: dict(autocast=ingot.Autocast(max_reduction=0)), "Autocast's max_reduction is 0\n  remedy: a number of terms from 1 on, or None for any"),
        (lambda: dict(autocast=ingot.Autocast(results="f16")), "Autocast's results are 'f16'\n  remedy: \"model\" or \"low\""),
        (lambda: dict(autocast=ingot.Autocast(calibration=5)), "Autocast's calibration is of type int\n  remedy: an iterable of inputs: a list, a DataLoader"),
        (lambda: dict(accuracy=-2), "option accuracy is -2\n  remedy: how many times eager's error the error may be, such as 2.0; None for no bound"),
    ],
)
def test_what_is_refused(option, text):
    with pytest.raises(ingot.OptionError) as caught:
        ingot.compile(torch.nn.Linear(4, 4), inputs=[torch.randn(2, 4)], **option())
    assert str(caught.value) == text


def test_a_bound_on_the_error():
    model, x = torch.nn.Sequential(Layer(), Layer(), torch.nn.Linear(32, 3)).eval(), torch.randn(2, 7, 32)
    free = ingot.compile(model, inputs=[x], autocast="f16", accuracy=1e6)
    (only,) = free.report.document["accuracy"]["tried"]
    assert only["back"] == [] and only["error"] > 100  # float16 beside float32
    bound = only["error"] / 2
    held = ingot.compile(model, inputs=[x], autocast="f16", accuracy=bound)
    tried = held.report.document["accuracy"]["tried"]
    assert tried[0]["error"] == only["error"] and tried[-1]["error"] <= bound and 0 < len(tried[-1]["back"]) < len(held.report.document["accuracy"]["groups"])
    exact = copy.deepcopy(model).double()(x.double())
    assert (held(x) - exact).abs().max() <= 1.001 * bound * (model(x) - exact).abs().max()
    assert set(reasons(held.report, "float16")) < set(reasons(free.report, "float16")) and "times eager's error" in str(held.report)
    again = ingot.compile(model, inputs=[x], autocast="f16", accuracy=bound)
    assert again.report.document["accuracy"] == held.report.document["accuracy"]


def test_a_bound_on_weights_of_fewer_bits_and_one_that_cannot_be_held():
    model, x = Image().eval(), torch.randn(2, 3, 9, 9)
    held = ingot.compile(model, inputs=[x], weight_dtype="int8", accuracy=5.0)
    assert [t["back"] for t in held.report.document["accuracy"]["tried"]] == [[], ["weights of weight_dtype"]]
    assert model.calls.item() == 0  # measuring writes nothing
    with pytest.raises(ingot.AccuracyError) as caught:
        ingot.compile(model, inputs=[x], autocast="bf16", accuracy=1e-6)
    assert str(caught.value).startswith("the error of result 0 is ") and "times eager's with all of it in its own types, and accuracy allows 1e-06" in str(caught.value)
    assert model.calls.item() == 0


def _all_that_follows():
    """A call of each operator of the lists in src/lower/autocast.cpp, as functions of [2, 4, 8, 8]."""
    F, square = torch.nn.functional, lambda x: x.flatten(2)[0, :, :16].reshape(4, 4, 4)  # noqa: E731
    pointwise = "neg abs relu relu6 leaky_relu gelu silu mish sigmoid hardsigmoid tanh hardtanh hardswish elu".split()
    calls = {name: getattr(F, name, None) or getattr(torch, name) for name in pointwise}
    calls |= {name: (lambda x, name=name: getattr(x, name)()) for name in ("contiguous", "clone", "detach", "amax", "amin")}
    calls |= {
        "unflatten": lambda x: x.unflatten(1, (2, 2)), "narrow": lambda x: x.narrow(1, 1, 2), "slice": lambda x: x[:, 1:3], "select": lambda x: x[:, 1], "movedim": lambda x: x.movedim(1, 2),
        "swapaxes": lambda x: x.swapaxes(1, 2), "expand": lambda x: x[:, :1].expand(2, 4, 8, 8), "squeeze": lambda x: x[:, :1].squeeze(1), "unsqueeze": lambda x: x.unsqueeze(0), "t": lambda x: x[0, 0].t(),
        "split": lambda x: x.split(2, 1)[1], "split_with_sizes": lambda x: x.split([1, 3], 1)[1], "chunk": lambda x: x.chunk(2, 1)[0], "unbind": lambda x: x.unbind(1)[2],
        "view_as": lambda x: x.view_as(x), "reshape_as": lambda x: x.reshape_as(x), "cat": lambda x: torch.cat([x, x], 1), "stack": lambda x: torch.stack([x, x], 1), "repeat": lambda x: x.repeat(1, 2, 1, 1),
        "tile": lambda x: x.tile(2), "flip": lambda x: x.flip(1), "roll": lambda x: x.roll(1, 2), "pad": lambda x: F.pad(x, (1, 2)), "reflection_pad2d": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "replication_pad2d": lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), "index_select": lambda x: x.index_select(1, torch.tensor([2, 0])), "gather": lambda x: x.gather(1, torch.zeros(2, 2, 8, 8, dtype=torch.long)),
        "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2), "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2), "unfold": lambda x: x.unfold(2, 3, 2),
        "add": lambda x: x + x, "sub": lambda x: x - x.flip(1), "rsub": lambda x: torch.rsub(x, x.flip(2)), "mul": lambda x: x * x, "div": lambda x: x / 3, "maximum": lambda x: torch.maximum(x, x.flip(1)),
        "minimum": lambda x: torch.minimum(x, x.flip(1)), "clamp": lambda x: x.clamp(-1, 1), "clamp_min": lambda x: x.clamp_min(0.1), "clamp_max": lambda x: x.clamp_max(0.1),
        "where": lambda x: torch.where(torch.ones(8, 8, dtype=torch.bool), x, x * 2), "masked_fill": lambda x: x.masked_fill(torch.eye(8, dtype=torch.bool), 0.5), "glu": lambda x: F.glu(x, 1),
        "max_pool1d": lambda x: F.max_pool1d(x[0], 2), "max_pool2d": lambda x: F.max_pool2d(x, 2), "max_pool3d": lambda x: F.max_pool3d(x[None], 2), "avg_pool1d": lambda x: F.avg_pool1d(x[0], 2),
        "avg_pool2d": lambda x: F.avg_pool2d(x, 2), "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[0], 3), "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 3),
        "upsample_nearest1d": lambda x: F.interpolate(x[0], scale_factor=2), "upsample_nearest2d": lambda x: F.interpolate(x, scale_factor=2), "upsample_bilinear2d": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        "upsample_bicubic2d": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
        "bmm": lambda x: torch.bmm(square(x), square(x)), "mm": lambda x: torch.mm(x[0, 0], x[0, 1]), "mv": lambda x: torch.mv(x[0, 0], x[0, 1, 0]), "dot": lambda x: torch.dot(x[0, 0, 0], x[0, 0, 1]),
        "addmm": lambda x: torch.addmm(x[0, 0], x[0, 1], x[0, 2]), "addmv": lambda x: torch.addmv(x[0, 0, 0], x[0, 1], x[0, 2, 0]), "baddbmm": lambda x: torch.baddbmm(square(x), square(x), square(x)),
        "addbmm": lambda x: torch.addbmm(square(x)[0], square(x), square(x)), "einsum": lambda x: torch.einsum("abcd,abed->abce", x, x), "tensordot": lambda x: torch.tensordot(x, x[0, 0], 1), "inner": lambda x: torch.inner(x[0], x[0, 0]),
        "bilinear": lambda x: F.bilinear(x[0, 0], x[0, 1], x.new_ones(2, 8, 8)), "conv1d": lambda x: F.conv1d(x[0], x.new_ones(2, 8, 3)), "conv2d": lambda x: F.conv2d(x, x.new_ones(2, 4, 3, 3), padding="same"),
        "conv3d": lambda x: F.conv3d(x[None], x.new_ones(1, 2, 3, 3, 3)), "conv_transpose1d": lambda x: F.conv_transpose1d(x[0], x.new_ones(8, 2, 3)), "conv_transpose2d": lambda x: F.conv_transpose2d(x, x.new_ones(4, 2, 3, 3)),
        "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=x.new_zeros(8, 8)), "prelu": lambda x: F.prelu(x, x[0, 0, 0, :4]),
    }  # fmt: skip
    return calls


def test_every_operator_that_follows_takes_the_low_type():
    calls = _all_that_follows()

    class All(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8, 8) / 3)

        def forward(self, x):
            return tuple(call(x @ self.weight) for call in calls.values())

    model, x = All().eval(), torch.randn(2, 4, 8, 8)
    program = torch.export.export(model, (x,))
    compiled = ingot.compile(program, autocast="bf16")
    kept = {n["target"]: n["precision_reason"] for n in compiled.report.nodes if n.get("precision") == "float32"}
    assert kept.keys() <= {"aten.new_ones.default", "aten.new_zeros.default"}, compiled.report
    assert compiled.report.in_torch == 0
    results, exact, eager = compiled(x), copy.deepcopy(model).double()(x.double()), copy.deepcopy(model).bfloat16()(x.bfloat16())
    for name, got, want, truth in zip(calls, results, eager, exact):
        assert got.dtype is torch.float32, name
        assert_accurate(got.bfloat16(), want, truth, depth=64)
