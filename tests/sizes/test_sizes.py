"""Sizes that follow from others (2*d, d + 1), sizes that the model needs equal, and ranges that include 0 and 1, which torch takes for constants; by every way in."""

import copy
import logging
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.export import Dim

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate  # noqa: E402
from calls import Calls  # noqa: E402

import ingot  # noqa: E402
from ingot.backend import ingot_backend  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


class Image(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x))


class Halves(torch.nn.Module):
    """The model itself needs an even size."""

    def forward(self, x):
        return x.view(-1, 2, 3).softmax(1)


class Least(torch.nn.Module):
    def forward(self, x, y):
        return torch.minimum(x, y)


class Twice(torch.nn.Module):
    def forward(self, x, y):
        return torch.cat([x, x]) + y


def refused(call, error=ingot.InputError):
    with pytest.raises(error) as caught:
        call()
    return caught.value.message, caught.value.remedy


def same(results, eager, exact):
    assert_accurate(results, eager, exact, depth=27)


def exported(size, low=4, high=32):
    d = Dim("d", min=low, max=high)
    return torch.export.export(Image().eval(), (torch.randn(1, 3, size(6), 9),), dynamic_shapes={"x": {2: size(d)}})


@pytest.fixture(params=["whole", "cut", "loaded", "torch program"])
def finished(request, tmp_path):
    """How a program is compiled and brought back."""

    def make(program, **option):
        cut = {"torch_executed_ops": ["relu"], "min_block_size": 1} if request.param in ("cut", "torch program") else {}
        compiled = ingot.compile(program, **option, **cut)
        assert len(compiled.report.segments) == 1 and bool(cut) != compiled.report.whole
        if request.param == "loaded":
            ingot.save(compiled, tmp_path / "m.ingot")
            return ingot.load(tmp_path / "m.ingot")
        if request.param == "torch program":
            ingot.save(compiled, tmp_path / "m.pt2", format="exported_program")
            return ingot.load(tmp_path / "m.pt2")
        return compiled

    return make


@pytest.mark.parametrize("size, sizes, wrong", [
    (lambda d: 2 * d, (8, 10, 64), {9: (8, 10), 63: (62, 64)}),
    (lambda d: 8 * d, (32, 40, 256), {33: (32, 40), 255: (248, 256)}),
    (lambda d: d + 1, (5, 6, 33), {}),
    (lambda d: 2 * d + 1, (9, 11, 65), {10: (9, 11)}),
])  # fmt: skip
def test_a_size_that_follows_from_another(finished, size, sizes, wrong):
    model, compiled = Image().eval(), finished(exported(size))
    with torch.no_grad():
        for n in sizes:
            x = torch.randn(1, 3, n, 9)
            same(compiled(x), model(x), Image().eval().double()(x.double()))
        step = sizes[1] - sizes[0]
        for n, (below, above) in wrong.items():
            message, remedy = refused(lambda n=n: compiled(torch.randn(1, 3, n, 9)))
            assert message.replace('"', "'").replace(f" (shape [1, 3, {n}, 9])", "") == f"axis 2 of input 'x' has size {n}, but the plan was built for sizes {sizes[0]}..{sizes[2]} in steps of {step} there"
            assert remedy == f"give {below} or {above}"
        for n in (sizes[0] - step, sizes[2] + step):
            message, _ = refused(lambda n=n: compiled(torch.randn(1, 3, n, 9)))
            assert message.replace('"', "'") == f"axis 2 of input 'x' has size {n}, outside the range {sizes[0]}..{sizes[2]} the plan was built for"


def test_ranges_of_such_a_size(finished):
    wide = ingot.Input(min_shape=(1, 3, 15, 9), opt_shape=(1, 3, 20, 9), max_shape=(1, 3, 33, 9), name="x")
    compiled = finished(exported(lambda d: 2 * d), inputs=[wide])
    with torch.no_grad():
        for n in (16, 32):
            x = torch.randn(1, 3, n, 9)
            same(compiled(x), Image().eval()(x), Image().eval().double()(x.double()))
        message, _ = refused(lambda: compiled(torch.randn(1, 3, 34, 9)))
        assert message.replace('"', "'") == "axis 2 of input 'x' has size 34, outside the range 16..32 the plan was built for"


def test_ranges_that_do_not_fit():
    def with_range(low, high):
        return lambda: ingot.compile(exported(lambda d: 8 * d), inputs=[ingot.Input(min_shape=(1, 3, low, 9), max_shape=(1, 3, high, 9), name="x")])

    message, remedy = refused(with_range(33, 39))
    assert re.fullmatch(r"input x axis 2 is 8\*\w+ in the model, and 33..39 holds no such size", message) and remedy == "Give a range that holds one."
    assert refused(with_range(32, 300))[0] == "input x axis 2 was captured for sizes 32..256; 32..300 goes beyond"


def test_by_the_command_line(tmp_path):
    torch.export.save(exported(lambda d: 2 * d), tmp_path / "m.pt2")
    cli = os.environ.get("INGOT_CLI", ROOT / "build" / "release" / "ingot")

    def run(*arguments, code=0):
        done = subprocess.run([cli, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    run("compile", "m.pt2", "-o", "m.ingot", "--shape", "x:2=16..20..40")
    run("bench", "m.ingot", "--seconds", "0.01")  # at the usual size
    model = Image().eval()
    for n in (16, 40):
        x = torch.randn(1, 3, n, 9)
        np.save(tmp_path / "x.npy", x.numpy())
        run("run", "m.ingot", "-i", "x=x.npy", "-o", "results")
        with torch.no_grad():
            result = torch.from_numpy(np.load(next((tmp_path / "results").glob("relu*.npy"))))
            same(result, model(x), Image().eval().double()(x.double()))
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 17, 9), np.float32))
    assert 'has size 17, but the plan was built for sizes 16..40 in steps of 2 there\n  remedy: give 16 or 18' in run("run", "m.ingot", "-i", "x=x.npy", "-o", "results", code=13)
    with torch.no_grad():
        same(ingot.compile(str(tmp_path / "m.pt2"))(x), model(x), Image().eval().double()(x.double()))


def test_an_even_size_that_the_model_needs(caplog):
    caplog.set_level(logging.WARNING, "ingot")
    compiled = ingot.compile(Halves(), inputs=[ingot.Input(min_shape=(1, 3), opt_shape=(4, 3), max_shape=(9, 3), name="x")], min_block_size=1)
    assert "the model needs axis 0 of input 'x' to have a size of 2*n; the compiled module takes no other" in caplog.messages
    x = torch.randn(8, 3)
    assert_accurate(compiled(x), Halves()(x), Halves()(x.double()), depth=2)
    assert refused(lambda: compiled(torch.randn(7, 3)))[1] == "give 6 or 8"
    torch._dynamo.reset()
    fast = torch.compile(Halves(), backend="ingot", dynamic=True)
    for n in (8, 4, 6):
        assert_accurate(fast(x[:n]), Halves()(x[:n]), Halves()(x[:n].double()), depth=2)


class DownAndUp(torch.nn.Module):
    """Every second place and back, beside the input: only odd sizes fit."""

    def __init__(self):
        super().__init__()
        self.down, self.up = torch.nn.Conv1d(3, 4, 3, 2, 1), torch.nn.ConvTranspose1d(4, 3, 3, 2, 1)

    def forward(self, x):
        return x + self.up(self.down(x))


@pytest.mark.parametrize("low", [1, 2, 5])
def test_an_odd_size_that_the_model_needs(caplog, low):
    caplog.set_level(logging.WARNING, "ingot")
    torch.manual_seed(0)
    model = DownAndUp().eval().requires_grad_(False)
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 3, low), opt_shape=(1, 3, 9), max_shape=(1, 3, 21), name="x")], fallback="error")
    assert any("to have a size of 2*n - 1; the compiled module takes no other" in message for message in caplog.messages)
    for n in range(max(low, 3), 22, 2):
        x = torch.randn(1, 3, n)
        assert_accurate(compiled(x), model(x), copy.deepcopy(model).double()(x.double()), depth=16)
    assert refused(lambda: compiled(torch.randn(1, 3, 8)))[1] == "give 7 or 9"


def ranged(high=4, **more):
    return ingot.Input(min_shape=(1, 3), opt_shape=(2, 3), max_shape=(high, 3), **more)


def test_two_sizes_that_the_model_needs_equal(caplog):
    caplog.set_level(logging.WARNING, "ingot")
    compiled = ingot.compile(Least(), inputs=[ranged(name="x"), ranged(name="y")], min_block_size=1)
    assert caplog.messages == ["the model needs axis 0 of input 'y' to have the size of axis 0 of input 'x', which is what the compiled module takes; shared_dims={0: \"B\"} in their Inputs says so"]
    for n in range(1, 5):
        x, y = torch.randn(n, 3), torch.randn(n, 3)
        assert torch.equal(compiled(x, y), torch.minimum(x, y))
    assert "has size 3, but the sizes of the other inputs make it" in refused(lambda: compiled(torch.randn(2, 3), torch.randn(3, 3)))[0]
    caplog.clear()
    ingot.compile(Least(), inputs=[ranged(shared_dims={0: "B"}), ranged(shared_dims={0: "B"})], min_block_size=1)
    assert not caplog.messages
    assert refused(lambda: ingot.compile(Least(), inputs=[ranged(4, name="x"), ranged(5, name="y")])) == (
        "x axis 0 and y axis 0 are one size in the model, but were given the ranges 1..4 and 1..5", "Give both the same range.")  # fmt: skip


def test_one_size_that_is_twice_another(caplog):
    caplog.set_level(logging.WARNING, "ingot")
    y = ingot.Input(min_shape=(2, 3), opt_shape=(4, 3), max_shape=(8, 3), name="y")
    compiled = ingot.compile(Twice(), inputs=[ranged(name="x"), y], min_block_size=1)
    assert caplog.messages == ["the model needs axis 0 of input 'y' to have the size 2*n, where n is that of axis 0 of input 'x'; the compiled module takes no other"]
    for n in range(1, 5):
        a, b = torch.randn(n, 3), torch.randn(2 * n, 3)
        assert torch.equal(compiled(a, b), Twice()(a, b))
    assert "has size 5, but the sizes of the other inputs make it" in refused(lambda: compiled(torch.randn(2, 3), torch.randn(5, 3)))[0]


def test_a_size_that_the_model_fixes_is_refused():
    class Fixed(torch.nn.Module):
        def forward(self, x):
            return x.view(4, 3) + 1

    assert "the model's code fixes axis 0 of inputs[0] to 4" in refused(lambda: ingot.compile(Fixed(), inputs=[ingot.Input(min_shape=(1, 3), opt_shape=(4, 3), max_shape=(9, 3))]))[0]


def test_a_size_that_inputs_cannot_say():
    class Square(torch.nn.Module):
        def forward(self, x, y):
            return x.reshape(y.shape[0], y.shape[0]) + y

    inputs = [ingot.Input(min_shape=(4,), opt_shape=(16,), max_shape=(1024,)), ingot.Input(min_shape=(2,), opt_shape=(4,), max_shape=(32,))]
    message, remedy = refused(lambda: ingot.compile(Square(), inputs=inputs))
    assert message.endswith("the model needs axis 0 of inputs[0] to have the size n**2, where n is that of axis 0 of inputs[1]; Inputs cannot say that")
    assert remedy.startswith("give that axis one size")


@pytest.mark.parametrize("by_file", [False, True])
def test_a_range_that_begins_where_torch_makes_constants(caplog, tmp_path, by_file):
    """torch exports sizes from 2 on with Dim.AUTO and Dim.DYNAMIC, and replays the program with 1 too."""
    caplog.set_level(logging.WARNING, "ingot")
    model = torch.nn.Linear(3, 3).eval()
    program = torch.export.export(model, (torch.randn(4, 3),), dynamic_shapes={"input": {0: Dim.DYNAMIC}})
    torch.export.save(program, tmp_path / "m.pt2")
    compiled = ingot.compile(str(tmp_path / "m.pt2") if by_file else program, inputs=[ranged(8, name="input")])
    with torch.no_grad():
        for n in (1, 2, 8):
            assert compiled(torch.randn(n, 3)).shape == program.module()(torch.randn(n, 3)).shape == (n, 3)
    assert not caplog.messages
    assert refused(lambda: compiled(torch.randn(9, 3)))[0].endswith("has size 9, outside the range 1..8 the plan was built for")
    narrow = torch.export.export(model, (torch.randn(4, 3),), dynamic_shapes={"input": {0: Dim("B", min=3, max=8)}})
    assert refused(lambda: ingot.compile(narrow, inputs=[ranged(8, name="input")]))[0] == "input input axis 0 was captured for sizes 3..8; 1..8 goes beyond"


def test_one_range_for_a_size_of_two_inputs():
    """A dimension that a program names in two inputs is narrowed by both Inputs alike."""
    d = Dim("B", min=1, max=64)
    program = torch.export.export(Least(), (torch.randn(4, 3), torch.randn(4, 3)), dynamic_shapes={"x": {0: d}, "y": {0: d}})
    compiled = ingot.compile(program, inputs=[ranged(name="x"), ranged(name="y")], min_block_size=1)
    assert refused(lambda: compiled(torch.randn(5, 3), torch.randn(5, 3)))[0].endswith("outside the range 1..4 the plan was built for")


class Around(torch.nn.Module):
    def __init__(self, compiled):
        super().__init__()
        self.compiled = compiled

    def forward(self, *inputs):
        return self.compiled(*inputs)


@pytest.mark.parametrize("kept", [[], ["aten.minimum.default"]])
def test_a_module_of_two_inputs_of_one_size_is_exported_again(kept):
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return torch.relu(torch.minimum(x, y).exp()) * 0.5

    shared = [ranged(shared_dims={0: "B"}), ranged(shared_dims={0: "B"})]
    compiled, d = ingot.compile(Model(), inputs=shared, min_block_size=1, torch_executed_ops=kept), Dim("d", min=1, max=4)
    program = torch.export.export(Around(compiled), (torch.randn(2, 3), torch.randn(2, 3)), dynamic_shapes={"inputs": ({0: d}, {0: d})})
    for n in (1, 2, 4):
        x, y = torch.randn(n, 3), torch.randn(n, 3)
        for call in (program.module(), compiled):
            assert_accurate(call(x, y), Model()(x, y), Model()(x.double(), y.double()))


@pytest.mark.parametrize("kept", [[], ["aten.relu.default"]])
def test_a_module_is_exported_again(kept):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)

        def forward(self, x):
            return torch.relu(self.conv(x)) * 0.5

    model, x = Model().eval(), torch.randn(2, 3, 16, 16)
    open_batch = ingot.Input(min_shape=(1, 3, 16, 16), opt_shape=(2, 3, 16, 16), max_shape=(4, 3, 16, 16))
    compiled = ingot.compile(model, inputs=[open_batch], min_block_size=1, torch_executed_ops=kept)
    program = torch.export.export(Around(compiled), (x,), dynamic_shapes={"inputs": ({0: Dim("d", min=1, max=4)},)})
    with torch.no_grad():
        for n in (1, 2, 4):
            x = torch.randn(n, 3, 16, 16)
            eager, exact = model(x), Model().double()
            exact.load_state_dict(model.state_dict())
            for call in (program.module(), compiled):
                assert_accurate(call(x), eager, exact(x.double()), depth=27)
    with pytest.raises(ingot.InputError):
        compiled(torch.randn(5, 3, 16, 16))


@pytest.mark.parametrize("shift", [-2, -1, 0, 1, 2])
def test_roll_of_an_open_axis(shift):
    class Rolled(torch.nn.Module):
        def forward(self, x):
            return x.roll(shift, dims=-2) * 1

    module = ingot.compile(Rolled(), inputs=[ingot.Input(min_shape=(2, 2, 3), opt_shape=(2, 4, 3), max_shape=(2, 8, 3))], fallback="error")
    for n in range(2, 9):
        x = torch.randn(2, n, 3)
        assert torch.equal(module(x), x.roll(shift, dims=-2))


@pytest.mark.parametrize("kept", [[], ["aten.atan2.default"]], ids=["engine", "torch"])
def test_sizes_of_one_and_two(kept, caplog):
    """torch traces sizes from 2 on, so 1..2 must not become the constant 2; the module takes both all the same, and no more."""

    class Into(torch.nn.Module):
        def forward(self, x, y, out):
            return torch.ops.aten.atan2.out(x, y, out=out)

    small = ingot.Input(min_shape=(1, 2), opt_shape=(2, 3), max_shape=(2, 4))
    compiled = ingot.compile(Into(), inputs=[small, small, small], min_block_size=1, torch_executed_ops=kept)
    assert sum(" the model needs axis 0 " in f" {message}" for message in caplog.messages) == 2
    for n in (1, 2):
        x, y, out = torch.randn(n, 3), torch.randn(n, 3), torch.empty(n, 3)
        given = compiled(x, y, out)
        assert_accurate(given, Into()(x, y, torch.empty(n, 3)), torch.atan2(x.double(), y.double()))
        assert given is out
    with pytest.raises(ingot.InputError, match=r"outside the range 1\.\.2"):
        compiled(torch.randn(3, 3), torch.randn(3, 3), torch.empty(3, 3))


class Windows(torch.nn.Module):
    """As many windows as a length needs, the last one filled up with zeros."""

    def forward(self, x):
        count = math.ceil(x.shape[1] / 4)
        padded = torch.nn.functional.pad(x.exp(), (0, 4 * count - x.shape[1]))
        return padded.view(x.shape[0], count, 4).sum(2).atan2(torch.ones(()))


@pytest.mark.parametrize("kept", [[], ["aten.atan2.default"], ["aten.exp.default"]], ids=["engine", "first in torch", "last in torch"])
def test_a_quotient_rounded_up(tmp_path, kept):
    model, spec = Windows(), ingot.Input(min_shape=(1, 1), opt_shape=(2, 8), max_shape=(4, 33))
    compiled = ingot.compile(model, inputs=[spec], min_block_size=1, torch_executed_ops=kept)
    assert compiled.report.in_torch == len(kept)
    ingot.save(compiled, tmp_path / "model")
    just_in_time = torch.compile(model, backend="ingot", dynamic=True)
    for call in (compiled, ingot.load(tmp_path / "model"), just_in_time):
        for length in (2, 3, 4, 5, 8, 31, 33, 1):
            x = torch.randn(2, length)
            torch.testing.assert_close(call(x), model(x))


class Patches(torch.nn.Module):
    """Takes the side of a square image from the number of its patches, as DiT does."""

    def forward(self, x):
        patches = torch.nn.functional.avg_pool2d(x, 2).flatten(2).transpose(1, 2)
        side = int(patches.shape[1] ** 0.5)
        return patches.exp().reshape(x.shape[0], side, side, x.shape[1]).atan2(torch.ones(()))


@pytest.mark.parametrize("kept", [[], ["aten.atan2.default"]], ids=["engine", "last in torch"])
def test_the_side_of_a_square(kept):
    left = []
    options = {"dryrun": lambda report: left.append(report.in_torch), "torch_executed_ops": kept, "min_block_size": 1}
    torch.compile(Patches(), backend="ingot", dynamic=True, options=options)(torch.randn(2, 3, 8, 8))
    assert left == [len(kept)]
    torch._dynamo.reset()
    compiled = torch.compile(Patches(), backend="ingot", dynamic=True, options={"torch_executed_ops": kept, "min_block_size": 1})
    for size in (8, 12, 30):
        x = torch.randn(2, 3, size, size)
        torch.testing.assert_close(compiled(x), Patches()(x))


def test_a_size_of_one_that_torch_knows_broadcasts():
    """The mask's third axis is 4 * batch of the mask / (4 * batch of x), which torch recorded as 1 and a product would take for the 32 beside it."""

    class Masked(torch.nn.Module):
        def forward(self, x, mask):
            mask = (1 - mask.unsqueeze(1)).repeat_interleave(4, dim=0).view(x.shape[0], 4, -1, mask.shape[1])
            return torch.nn.functional.scaled_dot_product_attention(x, x[:, :, :7], x[:, :, :7], attn_mask=mask)

    def inputs(batch):
        return torch.randn(batch, 4, 32, 8), torch.rand(batch, 7)

    model = Masked()
    compiled = ingot.compile(torch.export.export(model, inputs(2), dynamic_shapes=[{0: torch.export.Dim.DYNAMIC}] * 2, strict=False))
    assert compiled.report.whole
    for batch in (2, 3, 5):
        x = inputs(batch)
        torch.testing.assert_close(compiled(*x), model(*x))


LIMITS = {
    "slices": (lambda x: x[..., -8:-2:2], (2, 1), (2, 10), (2, 10)),
    "fractions": (lambda x: torch.nn.functional.interpolate(x[None, None], scale_factor=(1.0, 0.5)), (2, 2), (2, 5), (2, 9)),
    "products": (lambda x: torch.cat([x.new_ones(x.shape[1] * (x.shape[1] - 1) // 2, 4), x[:, :1].expand(2, 4)]), (2, 2), (2, 3), (2, 5)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_size_that_may_become_one(name):
    """torch takes a computed size that is not 1 in the example for one that never is, and then refuses the range."""
    function, *shapes = LIMITS[name]
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: function(x)})()
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=shapes[0], opt_shape=shapes[1], max_shape=shapes[2])], min_block_size=1)
    for size in range(shapes[0][1], shapes[2][1] + 1):
        x = torch.randn(2, size)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)


ONE_IN_THE_EXAMPLE = {
    "laid out anew": lambda x: x[3:].t().contiguous() * 2,
    "a convolution": lambda x: torch.nn.functional.conv1d(x[None, 3:].transpose(1, 2), torch.ones(2, 5, 1)),
    "the largest": lambda x: x[3:].amax(0),
}


@pytest.mark.parametrize("name", ONE_IN_THE_EXAMPLE)
def test_a_size_that_is_one_in_the_example_alone(name):
    """torch takes a size that follows from the example's as 1 for 1 always. It is traced with another example."""
    function = ONE_IN_THE_EXAMPLE[name]
    compiled = ingot.compile(Calls(function), inputs=[ingot.Input(min_shape=(4, 5), opt_shape=(4, 5), max_shape=(9, 5))], fallback="error")
    for size in range(4, 10):
        x = torch.randn(size, 5)
        torch.testing.assert_close(compiled(x), function(x))
    refusal = refused(lambda: ingot.compile(Calls(function), inputs=[ingot.Input(min_shape=(1, 5), opt_shape=(4, 5), max_shape=(9, 5))])) if name != "laid out anew" else None
    assert refusal is None or "takes 4 to 9, not all of 1 to 9" in refusal[0]


def test_a_range_with_sizes_that_the_model_refuses_is_refused():
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: torch.nn.functional.pad(x, [2, 2], mode="reflect")})()
    refused(lambda: ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 1), opt_shape=(1, 4), max_shape=(1, 6))]))


def test_a_branch_on_a_computed_size_is_checked(caplog):
    class Branch(torch.nn.Module):
        def forward(self, x):
            y = torch.nn.functional.interpolate(x[None, None], scale_factor=(0.5, 1.0))[0, 0]
            return y + 1 if y.shape[0] > 2 else y - 1

    compiled = ingot.compile(Branch(), inputs=[ingot.Input(min_shape=(2, 3), opt_shape=(8, 3), max_shape=(12, 3))])
    assert sum("the model's code branches on a size at" in message for message in caplog.messages) == 1
    for n in range(6, 13):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), Branch()(x))
    for n in range(2, 6):
        assert "it was captured for" in refused(lambda n=n: compiled(torch.randn(n, 3)))[0]


def padded(x):  # as Swin: to a multiple of 4, then as windows
    x = torch.nn.functional.pad(x, (0, (4 - x.shape[3] % 4) % 4))
    return x.view(*x.shape[:3], x.shape[3] // 4, 4).permute(0, 3, 1, 2, 4).reshape(-1, x.shape[1] * 4)


WIDE = {
    "windows": padded,
    "half": lambda x: x[..., : x.shape[3] // 2] * 2,
    "ceil": lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "cells": lambda x: torch.nn.functional.adaptive_avg_pool2d(x, (3, -(-x.shape[3] // 4))),
    "head": lambda x: x[..., : x.shape[3] // 2 + 1].squeeze(1) * 2,
}


@pytest.mark.parametrize("example", [8, 9])
@pytest.mark.parametrize("name", WIDE)
@pytest.mark.one_in(3)
def test_a_range_is_not_narrowed_to_the_remainder_of_the_example(name, example, caplog, monkeypatch):
    """torch cannot prove its guards for every size of the range, and then proposes only sizes with the example's remainder. Each guard holds for all of them."""
    model, export, calls = type("Model", (torch.nn.Module,), {"forward": lambda self, x: WIDE[name](x)})(), torch.export.export, []
    monkeypatch.setattr(torch.export, "export", lambda *given, **more: calls.append(1) or export(*given, **more))
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 2, 3, 3), opt_shape=(1, 2, 3, example), max_shape=(1, 2, 3, 40))], min_block_size=1)
    assert len(calls) == 1 and not [m for m in caplog.messages if "takes" in m]
    for size in (3, 4, 5, 6, 7, 8, 9, 39, 40):
        x = torch.randn(1, 2, 3, size)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)


SQUEEZED = {
    "outer": lambda x: torch.outer(x, x[:3]).squeeze(1),
    "all": lambda x: (x[:, None] * x[None, :3]).squeeze(),
    "several": lambda x: (x[:, None] * x[None, :3]).squeeze((0, 1)).sum(-1),
    "in place": lambda x: (x[:, None] * x[None, :3]).squeeze_(1).exp(),
    "half": lambda x: (x[: x.shape[0] // 2 + 1] * 2).squeeze(0),
    "padded": lambda x: torch.nn.functional.pad(x, (0, 1)).squeeze() * 2,
    "windows": lambda x: x.unfold(0, 2, 1) * 2,
}


@pytest.mark.parametrize("low", [0, 1, 2])
@pytest.mark.parametrize("name", SQUEEZED)
def test_a_size_that_is_one_at_the_end_of_the_range(name, low):
    """torch assumes while it captures that an open size is not 1. Where it is, the result has another shape than eager's, or the call is refused."""
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: SQUEEZED[name](x)})()
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(low,), opt_shape=(4,), max_shape=(16,))])
    for size in range(low, 17):
        x = torch.randn(size)
        try:
            got = compiled(x)
        except ingot.InputError as problem:
            assert size < 2 and "these input sizes do not fit the model" in str(problem)
        else:
            torch.testing.assert_close(got, model(x))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
def test_pads_by_amounts_that_sizes_decide(mode):
    """As Hybrid Demucs: to a multiple of 8; and by amounts that crop for some sizes, but for "circular", where torch's own code branches on the sign. By torch.compile and ahead of time."""
    def to_a_multiple(x):
        n = x.shape[-1]
        return torch.nn.functional.pad(x, (3, 3 + (n + 7) // 8 * 8 - n), mode=mode)

    def or_crop(x):
        n = x.shape[-1]
        return torch.nn.functional.pad(x, (-(n // 4), 2) if mode == "circular" else (12 - n, n - 14), mode=mode)

    for function, sizes in ((to_a_multiple, (11, 16, 17, 23)), (or_crop, (8, 11, 12, 13, 14, 15, 18))):
        reports = []

        def backend(graph, examples):
            made = ingot_backend(graph, examples, options={"min_block_size": 1})
            reports.append(made.report)
            return made

        torch._dynamo.reset()
        compiled = torch.compile(function, backend=backend, dynamic=True, fullgraph=True)
        model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: function(x)})()
        ahead = ingot.compile(model, inputs=[ingot.Input(min_shape=(2, 3, sizes[0]), opt_shape=(2, 3, 17), max_shape=(2, 3, sizes[-1]))], min_block_size=1)
        for n in sizes:
            x = torch.randn(2, 3, n)
            assert torch.equal(compiled(x), function(x)) and torch.equal(ahead(x), function(x)), n
        assert ahead.report.whole and all(r.whole for r in reports)


@pytest.mark.parametrize("fixing", [lambda x: torch.histc(x, bins=x.shape[0]), lambda x: torch.nn.functional.avg_pool1d(x.T, x.shape[0], padding=1)], ids=["histc", "avg_pool"])
def test_an_operator_that_takes_no_open_number_is_named(fixing):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: fixing(x)})()
    with pytest.raises(ingot.InputError, match=r"the model's code fixes axis 0 of inputs\[0\] to 5\n.*test_sizes\.py:\d+"):
        ingot.compile(model, inputs=[ingot.Input(min_shape=(2, 4), opt_shape=(5, 4), max_shape=(9, 4))])


def test_the_line_that_fixes_a_number_computed_from_a_size():
    class Counting(torch.nn.Module):
        def forward(self, x):
            bins = x.shape[0] // 2 + 1
            return torch.histc(x, bins=bins)

    with pytest.raises(ingot.InputError, match=r"fixes axis 0 of inputs\[0\] to 8\n.*test_sizes\.py:\d+: `return torch.histc"):
        ingot.compile(Counting(), inputs=[ingot.Input(min_shape=(4, 2), opt_shape=(8, 2), max_shape=(20, 2))])
