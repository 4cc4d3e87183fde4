"""Compiled modules as TorchScript: saved, loaded here and in fresh processes, traced."""

import io
import math

import fresh
import pytest
import torch
import torch.utils._pytree as pytree
from eager import Small, same

import ingot
import ingot.torch_tensorrt as torch_tensorrt
from ingot.capture.fixes.read_numbers import READS
from ingot.torch_tensorrt import ts

ONE = {"min_block_size": 1}
ROWS = torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(2, 16), max_shape=(8, 16))


class Several(torch.nn.Module):
    """Results in a structure, a part with a name that is not an identifier, a keyword, and an argument left out."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU())

    def forward(self, x, pair, scale=None, *, more):
        a = self.layers(x).sin()
        return {"a": a, "b": a * 2 + pair[0]}, [pair[1].cumsum(0) + 1, more["z"] * 2], x.shape[0]


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        before = self.count + 0
        self.count += 1
        return x * before, self.count + x


def several(rows):
    x = torch.linspace(-1, 1, rows * 16).reshape(rows, 16)
    return (x, (x[:, :8], x + 1)), {"more": {"z": x[:, :3]}}


def compiled_several(**settings):
    torch.manual_seed(0)
    model = Several().eval()
    shared = {"min_shape": (1, 8), "opt_shape": (2, 8), "max_shape": (8, 8), "shared_dims": {0: "B"}}
    x = torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(2, 16), max_shape=(8, 16), shared_dims={0: "B"})
    z = torch_tensorrt.Input(min_shape=(1, 3), opt_shape=(2, 3), max_shape=(8, 3), shared_dims={0: "B"})
    return model, torch_tensorrt.compile(model, arg_inputs=(x, (torch_tensorrt.Input(**shared), x)), kwarg_inputs={"more": {"z": z}}, **ONE, **settings)


def saved(module, path):
    torch_tensorrt.save(module, path, output_format="torchscript")
    return torch_tensorrt.load(path)


def close(results, expected):
    results, expected = pytree.tree_leaves(results), pytree.tree_leaves(expected)
    assert len(results) == len(expected)
    for a, b in zip(results, expected):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kept", [[], ["aten.sin", "aten.cumsum"]])
def test_open_sizes_and_several_results(kept, tmp_path):
    """The same bits as the module that was saved, before and after torch optimizes the script, frozen too."""
    model, made = compiled_several(torch_executed_ops=kept)
    script = saved(made, str(tmp_path / "model.ts"))
    assert isinstance(script, torch.jit.ScriptModule) and set(model.state_dict()) <= set(script.state_dict())
    for form in (script, torch.jit.freeze(script)):
        for rows in (2, 3, 1, 8, 8, 2):
            args, kwargs = several(rows)
            with torch.no_grad():
                results, expected = form(*args, **kwargs), made(*args, **kwargs)
                close(expected, model(*args, **kwargs))
            for a, b in zip(pytree.tree_leaves(results), pytree.tree_leaves(expected)):
                assert a == b if isinstance(a, int) else torch.equal(a, b)


class ManyOperators(torch.nn.Module):
    """Operators whose arguments are lists, optional tensors, types, devices, infinities, and which return several tensors or a list."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv1d(4, 4, 3, padding=1), torch.nn.BatchNorm1d(4)

    def forward(self, x, i):
        n = x.shape[0]
        a = self.norm(self.conv(x[:, None, :].expand(n, 4, 16)))
        values, places = torch.topk(a.masked_fill(a > 2, float("-inf")), 3, dim=-1)
        left, right = torch.split(x, [6, 10], dim=1)
        low = torch.where(x > 0, x, torch.full_like(x, -1.5)).to(torch.float16)
        up = torch.nn.functional.interpolate(x[None], scale_factor=2.0, mode="linear")
        return values, places, torch.nn.functional.pad(left, (1, 1), value=2.0), right.mean((0, 1), keepdim=True), x[i, :], x[:, torch.tensor([1, 3])], low, up, x.reshape(n * 2, 8), torch.arange(n) + 1


OPERATORS = [f"aten.{name}" for name in "topk masked_fill pad mean index split_with_sizes where to full_like arange conv1d batch_norm upsample_linear1d reshape expand gt add lift_fresh_copy".split()]


@pytest.mark.parametrize("kept", [[], ["aten.topk", "aten.index"], OPERATORS])
def test_operators_that_torch_runs(kept, tmp_path):
    torch.manual_seed(0)
    rows = torch_tensorrt.Input(min_shape=(2, 16), opt_shape=(3, 16), max_shape=(8, 16))
    made = torch_tensorrt.compile(ManyOperators().eval(), inputs=[rows, torch.tensor([1, 0])], **ONE, torch_executed_ops=kept)
    script = saved(made, str(tmp_path / "model.ts"))
    for n in (2, 5, 8, 5):
        x = torch.linspace(-3, 3, n * 16).reshape(n, 16)
        with torch.no_grad():
            for a, b in zip(script(x, torch.tensor([1, 0])), made(x, torch.tensor([1, 0])), strict=True):
                assert a.dtype is b.dtype and torch.equal(a, b)


def test_a_model_that_torch_runs(tmp_path):
    """There is no engine in it."""
    model, x = Small(), torch.ones(3, 16)
    kept = {node["target"] for node in torch_tensorrt.compile(model, inputs=[ROWS], **ONE).report.nodes}
    made = torch_tensorrt.compile(model, inputs=[ROWS], torch_executed_ops=kept)
    assert made.report.in_engine == 0
    same(saved(made, str(tmp_path / "model.ts"))(x), model, x)


def test_a_fresh_process(tmp_path):
    model, made = compiled_several(torch_executed_ops=["aten.sin"])
    path = tmp_path / "model.ts"
    torch_tensorrt.save(made, path, output_format="torchscript", extra_files={"note": "hello"})
    args, kwargs = several(5)
    torch.save((args, kwargs), tmp_path / "call.pt")
    load = {"torch.jit.load": "import torch, ingot; script = torch.jit.load(path)", "torch_tensorrt.load": "import torch, ingot.torch_tensorrt as t; script = t.load(path)"}
    for name, text in load.items():
        text = f"path = {str(path)!r}; {text}; args, kwargs = torch.load({str(tmp_path / 'call.pt')!r}); torch.save(script(*args, **kwargs), {str(tmp_path / name)!r})"
        done = fresh.run(text, warnings=False)
        assert done.returncode == 0, done.stderr
        for a, b in zip(pytree.tree_leaves(torch.load(tmp_path / name)), pytree.tree_leaves(made(*args, **kwargs))):
            assert a == b if isinstance(a, int) else torch.equal(a, b)
    extra = {"note": ""}
    torch_tensorrt.load(path, extra_files=extra)
    assert extra["note"] == b"hello"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu(tmp_path):
    model, x = Small().cuda(), torch.linspace(-1, 1, 48, device="cuda").reshape(3, 16)
    for kept in ([], ["aten.sin"]):
        made = torch_tensorrt.compile(model, inputs=[x], **ONE, torch_executed_ops=kept)
        script = saved(made, str(tmp_path / "model.ts"))
        for _ in range(5):
            assert torch.equal(script(x), made(x))


def test_without_the_library(tmp_path):
    torch_tensorrt.save(torch_tensorrt.compile(Small(), inputs=[ROWS], **ONE), tmp_path / "model.ts", output_format="torchscript")
    done = fresh.run(f"import torch; torch.jit.load({str(tmp_path / 'model.ts')!r})", warnings=False)
    assert done.returncode != 0 and "Unknown builtin op: ingot::call" in done.stderr


@pytest.mark.parametrize("kept", [[], ["aten.add.Tensor"]])
def test_what_it_writes(kept, tmp_path):
    """Buffers are written, each call reads what the one before wrote, and scripts do not share them."""
    made = torch_tensorrt.compile(Counter(), inputs=[torch.ones(3)], **ONE, torch_executed_ops=kept)
    script, other, model = saved(made, str(tmp_path / "model.ts")), torch_tensorrt.load(str(tmp_path / "model.ts")), Counter()
    for _ in range(5):
        close(script(torch.ones(3)), model(torch.ones(3)))
        assert torch.equal(script.count, model.count)
    assert torch.equal(other.count, torch.zeros(1))


def test_other_weights_in_a_script(tmp_path):
    model = Small()
    script = saved(torch_tensorrt.compile(model, inputs=[ROWS], **ONE), str(tmp_path / "model.ts"))
    x = torch.ones(2, 16)
    same(script(x), model, x)
    with torch.no_grad():
        for mine, theirs in zip(script.parameters(), model.parameters()):
            theirs.mul_(2)
            mine.copy_(theirs)
    same(script(x), model, x)


def test_sizes_and_constants_are_checked(tmp_path):
    _, made = compiled_several()
    script = saved(made, str(tmp_path / "model.ts"))
    (x, pair), kwargs = several(9)
    with pytest.raises(torch.jit.Error, match="axis 0 of x has to be 8 or less"):
        script(x, pair, **kwargs)
    (x, pair), kwargs = several(2)
    with pytest.raises(torch.jit.Error, match="axis 1 of x has to be 16, as when the module was compiled"):
        script(x[:, :9], pair, **kwargs)
    with pytest.raises(RuntimeError, match=r"\[ingot:\d+\] input .x. is float64"):
        script(x.double(), pair, **kwargs)


def test_torch_jit_save(tmp_path):
    model, x = Small(), torch.ones(3, 16)
    made, buffer = torch_tensorrt.compile(model, inputs=[ROWS], **ONE), io.BytesIO()
    torch.jit.save(made, str(tmp_path / "model.ts"))
    torch.jit.save(made, buffer)
    buffer.seek(0)
    for script in (torch.jit.load(str(tmp_path / "model.ts")), torch.jit.load(buffer)):
        assert torch.equal(script(x), made(x))


@pytest.mark.parametrize("kept", [[], ["aten.sin"]])
def test_torch_jit_trace(kept, tmp_path):
    """A trace, alone and inside of another module, keeps open sizes, and is saved."""

    class Around(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x * 2) + 1

    model = Small()
    made = torch_tensorrt.compile(model, inputs=[ROWS], **ONE, torch_executed_ops=kept)
    for module in (made, Around(made)):
        traced = torch.jit.trace(module, (torch.ones(2, 16),))
        traced.save(str(tmp_path / "traced.ts"))
        for form in (traced, torch.jit.load(str(tmp_path / "traced.ts"))):
            for rows in (2, 5, 1, 8):
                x = torch.linspace(-1, 1, rows * 16).reshape(rows, 16)
                assert torch.equal(form(x), module(x))


def test_other_ways_to_torchscript(tmp_path):
    """What has no meaning says what to do."""
    made, path = torch_tensorrt.compile(Small(), inputs=[ROWS], **ONE), str(tmp_path / "model.ts")
    with pytest.raises(ingot.UnsupportedError, match="torch.jit.script cannot see into a compiled module") as told:
        torch.jit.script(made)
    assert told.value.remedy.startswith('torch_tensorrt.save(module, path, output_format="torchscript")')
    made.save(path)
    with pytest.raises(ingot.FormatError, match="this is TorchScript") as told:
        ingot.load(path)
    assert told.value.remedy == "torch.jit.load(path), after `import ingot` if it has engines"


def test_what_torchscript_cannot_hold(tmp_path):
    class Mixed(torch.nn.Module):
        def forward(self, x):
            return {"a": x.sin(), "b": (x.cos(), x + 1)}

    made = torch_tensorrt.compile(Mixed(), inputs=[torch.ones(3)], **ONE)
    with pytest.raises(ingot.UnsupportedError, match="a list or dictionary in a result has parts of different types"):
        torch_tensorrt.save(made, str(tmp_path / "model.ts"), output_format="torchscript")
    assert not (tmp_path / "model.ts").exists()
    for kept, match in (([], "the engine writes the model's buffer count"), (["aten.add.Tensor"], "torch.jit.trace loses what it writes")):
        made = torch_tensorrt.compile(Counter(), inputs=[torch.ones(3)], **ONE, torch_executed_ops=kept)
        with pytest.raises(ingot.UnsupportedError, match=match):
            torch.jit.trace(made, (torch.ones(3),))


class SlicesByItsLength(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(1, 64, 8))

    def forward(self, x):
        length = x.shape[1] + 2
        return x + self.table[:, 2:length] * (64 - x.shape[1])


class Mixes(torch.nn.Module):
    """Sizes by every operator of numbers, a default, and arguments in an order of the caller's."""

    def __init__(self):
        super().__init__()
        self.convolution, self.linear = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(8, 4)

    def forward(self, x, scale):
        y = torch.relu(self.convolution(x))
        n, c, h, w = y.shape
        halves = h // 2
        rows = self.linear(y.view(n, c, h * w).transpose(1, 2)).softmax(-1) * scale
        return rows, y[:, :, halves : h - 1, : 2 * w - w], x.new_zeros(n % 2 + 1, h + w - 3)


class RoundsSizes(torch.nn.Module):
    """A size by a quotient that is rounded up, as vision models of transformers have it in a trace."""

    def forward(self, x):
        rows = (torch.ceil(x.shape[1] / torch.tensor(4)) * 4).to(torch.int64) if torch.jit.is_tracing() else math.ceil(x.shape[1] / 4) * 4
        return x.new_ones(x.shape[0], rows) * x[:, :1, 0]


class WithADefault(torch.nn.Module):
    def forward(self, x, scale: float = 3.0):
        return x.reshape(x.size(1), max(x.size(0), 2) - x.size(0) + x.size(0)) * scale if x.dim() == 3 else x.reshape(-1, x.size(0)) * scale


def mixed(n, h, w):
    return torch.linspace(-1, 1, n * 3 * h * w).reshape(n, 3, h, w), torch.linspace(1, 2, n).reshape(n, 1, 1)


@pytest.mark.parametrize("form", ["trace", "script"])
def test_ranges_of_a_script(form):
    """A ScriptModule takes every size of its Inputs, and none beyond. A least size of 2 is read as 1, as torch replays programs."""
    torch.manual_seed(0)
    model = Mixes().eval()
    script = torch.jit.trace(model, mixed(3, 6, 8)) if form == "trace" else torch.jit.script(model)
    x = torch_tensorrt.Input(min_shape=(1, 3, 2, 2), opt_shape=(3, 3, 6, 8), max_shape=(6, 3, 20, 12), shared_dims={0: "n"})
    scale = torch_tensorrt.Input(min_shape=(1, 1, 1), opt_shape=(3, 1, 1), max_shape=(6, 1, 1), shared_dims={0: "n"})
    made = torch_tensorrt.compile(script, inputs=[x, scale], **ONE, require_full_compilation=True)
    by_name = torch_tensorrt.ts.compile(script, inputs=[x], kwarg_inputs={"scale": scale}, **ONE)
    engine = ts.embed_engine_in_new_module(ts.convert_method_to_trt_engine(script, inputs=[x, scale]))
    for sizes in ((1, 2, 2), (3, 6, 8), (6, 20, 12), (2, 5, 2)):
        given = mixed(*sizes)
        with torch.no_grad():
            close(made(*given), model(*given))
            close(by_name(given[0], scale=given[1]), model(*given))
            close(engine(*given), model(*given))
    with pytest.raises(ingot.InputError, match="axis 2 of input 'x' has size 21, outside the range 1..20"):
        made(*mixed(2, 21, 4))


def test_sizes_that_a_trace_rounds():
    model = RoundsSizes()
    x = torch_tensorrt.Input(min_shape=(2, 1, 3), opt_shape=(2, 9, 3), max_shape=(2, 32, 3))
    made = torch_tensorrt.compile(torch.jit.trace(model, torch.ones(2, 9, 3)), inputs=[x], **ONE, require_full_compilation=True)
    for n in (1, 9, 21, 32):
        given = torch.linspace(-1, 1, 6 * n).reshape(2, n, 3)
        close(made(given), model(given))


def test_defaults_of_a_script():
    script, rows = torch.jit.script(WithADefault()), torch_tensorrt.Input(min_shape=(1, 6), opt_shape=(4, 6), max_shape=(9, 6))
    for more, scale in (([], 3.0), ([2.0], 2.0)):
        made = torch_tensorrt.compile(script, inputs=[rows, *more], **ONE, require_full_compilation=True)
        for n in (1, 4, 9):
            x = torch.linspace(-1, 1, n * 6).reshape(n, 6)
            assert torch.equal(made(x, *more), script(x, scale))


def test_a_size_that_a_script_fixes():
    """An axis that is to vary and that a trace has as a number is one clear error."""

    class Fixed(torch.nn.Module):
        def forward(self, x):
            return x.reshape(8, 4) + 1

    script = torch.jit.trace(Fixed(), torch.ones(2, 16))
    with pytest.raises(ingot.InputError, match="axis 0 of input|axis 0 of x|axis 0 of inputs"):
        torch_tensorrt.compile(script, inputs=[ROWS], **ONE)


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2


class CallsAFunction(torch.nn.Module):
    def forward(self, x):
        return Doubles.apply(x) + 1


def test_a_trace_with_a_function_of_autograd(caplog):
    """torch would crash where it runs the converted call."""
    script = torch.jit.trace(CallsAFunction(), torch.ones(2, 16))
    assert torch_tensorrt.compile(script, inputs=[ROWS], **ONE) is script
    assert "the trace calls a torch.autograd.Function, whose code it does not hold" in caplog.text


def test_sizes_are_read_without_tensors():
    """The converter writes sizes to tensors of one element and reads them back; torch 2.11 then keeps them open."""
    model, x = SlicesByItsLength(), torch.randn(2, 9, 8)
    script = torch.jit.trace(model, (x,))
    program = ts._program(script, (x,), {}, {}, True)
    assert not [n for n in program.graph.nodes if n.target in READS]
    torch.testing.assert_close(ts.compile(script, inputs=[x], min_block_size=1)(x), model(x))
