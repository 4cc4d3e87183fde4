"""CUDA tensors, if there is a GPU: ingot.compile and torch.compile, streams, threads, recording by the caller, parts in torch, writes in place, files, errors."""

import copy
import functools
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot.backend import ingot_backend

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
HERE = "cuda:0"
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
BATCH = dict(min_shape=(1, 64), opt_shape=(8, 64), max_shape=(64, 64), name="x")


@pytest.fixture(autouse=True)
def quiet():
    with torch.no_grad():
        torch._dynamo.reset()
        yield


def layers(dtype=torch.float32):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 32), torch.nn.LayerNorm(32))
    return model.eval().to(HERE, dtype)


def noise(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator(HERE).manual_seed(seed), device=HERE).to(dtype)


def check(model, result, *inputs):
    eager = model(*inputs)
    assert (result.device, result.stride()) == (eager.device, eager.stride())
    assert_accurate(result, eager, copy.deepcopy(model).double()(*(t.double() if t.is_floating_point() else t for t in inputs)), depth=1024)


def told(kind, call):
    with pytest.raises(kind) as caught:
        call()
    return caught.value.message, caught.value.remedy


# ---- both ways in


class ConvolutionOfImages(torch.nn.Module):
    """A residual block of a UNet: a convolution, an addend for each image, group norm, SiLU."""

    def __init__(self, channels):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(channels, channels, 3, padding=1), torch.nn.GroupNorm(8, channels)

    def forward(self, x, of_image):
        return torch.nn.functional.silu(self.norm(self.conv(x) + of_image[:, :, None, None]))


@pytest.mark.parametrize("channels", [64, 320])
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_added_to_each_image(channels, dynamic):
    torch.manual_seed(0)
    model = ConvolutionOfImages(channels).eval().to(HERE, torch.float16)
    inputs = noise(3, channels, 48, 48, dtype=torch.float16), noise(3, channels, dtype=torch.float16, seed=1)
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(model, inputs, dynamic_shapes=({0: batch}, {0: batch}) if dynamic else None)
    compiled = ingot.compile(program)
    check(model, compiled(*inputs), *inputs)
    if dynamic:
        check(model, compiled(*(t[:1] for t in inputs)), *(t[:1] for t in inputs))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ahead_of_time(dtype):
    model = layers(dtype)
    compiled = ingot.compile(model, inputs=[ingot.Input(**BATCH, dtype=dtype)])
    assert compiled.engine.device == HERE and compiled.report.whole
    for batch in (7, 1, 64, 7, 7, 7):
        x = noise(batch, 64, dtype=dtype, seed=batch)
        check(model, compiled(x), x)
    x = noise(64, 8, dtype=dtype).t()  # not row-major
    check(model, compiled(x), x)
    x = noise(10, 64, dtype=dtype)[3:5]  # not at the start of its memory
    check(model, compiled(x), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_just_in_time(dtype):
    model = layers(dtype)
    compiled = torch.compile(model, backend=ingot_backend)
    for batch in (7, 8, 9, 20):
        x = noise(batch, 64, dtype=dtype)
        check(model, compiled(x), x)
    model[0].weight.add_(0.5)
    check(model, compiled(x), x)


def nets():
    """Networks whose operators torch chooses by device, flags and type, and an input of each."""
    nn = torch.nn

    class Attention(nn.MultiheadAttention):
        def forward(self, x):
            return super().forward(x, x, x, need_weights=False)[0]

    class First(nn.LSTM):
        def forward(self, x):
            return super().forward(x)[0]

    class FirstOfGru(nn.GRU):
        def forward(self, x):
            return super().forward(x)[0]

    class Warped(nn.Module):
        def __init__(self, mode="bilinear"):
            super().__init__()
            self.mode = mode

        def forward(self, x):
            grid = nn.functional.affine_grid(x.mean((1, 2, 3)).view(-1, 1, 1) * 0.1 + torch.eye(2, 3, device=x.device, dtype=x.dtype), x.shape, align_corners=False)
            return nn.functional.grid_sample(x, grid, self.mode, align_corners=False)

    return {
        "batch norm 1-D": (nn.Sequential(nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8), nn.GELU()), (2, 3, 64)),
        "batch norm 2-D": (nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3)), (2, 3, 64, 64)),
        "batch norm 3-D": (nn.Sequential(nn.Conv3d(3, 8, 3), nn.BatchNorm3d(8), nn.ReLU()), (1, 3, 8, 8, 8)),
        "batch norm of rows": (nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU()), (5, 8)),
        "instance norm": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8), nn.ReLU()), (2, 3, 32, 32)),
        "rms norm": (nn.Sequential(nn.Linear(64, 64), nn.RMSNorm(64)), (4, 64)),
        "attention": (Attention(64, 4, batch_first=True), (2, 9, 64)),
        "encoder layer": (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), (2, 9, 64)),
        "lstm": (First(16, 32), (7, 2, 16)),
        "gru": (FirstOfGru(16, 32), (7, 2, 16)),
        "lstm cell": (nn.Sequential(nn.LSTMCell(16, 32)), (3, 16)),
        "weight norm": (torch.nn.utils.parametrizations.weight_norm(nn.Linear(64, 32)), (4, 64)),
        "grid sample": (Warped(), (2, 3, 16, 16)),
        "grid sample of vectors": (nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), Warped(), nn.Conv2d(32, 8, 1)), (2, 3, 16, 16)),
        "cubic grid sample": (Warped("bicubic"), (2, 3, 16, 16)),
        "cubic grid sample of vectors": (nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), Warped("bicubic"), nn.Conv2d(32, 8, 1)), (2, 3, 16, 16)),
        "transposed convolution": (nn.ConvTranspose2d(8, 4, 4, 2, 1), (2, 8, 16, 16)),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("name", list(nets()))
def test_nothing_stays_in_torch_just_in_time(name, mode, dtype, monkeypatch):
    model, shape = nets()[name]
    model, reports = model.eval().to(HERE, dtype), []

    @functools.wraps(ingot_backend)
    def backend(module, inputs):
        call = ingot_backend(module, inputs)
        reports.append(call.report)
        return call

    x = noise(*shape, dtype=dtype)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    with mode():
        made = torch.compile(model, backend=backend)(x)
    made, eager = (t[0] if isinstance(t, tuple) else t for t in (made, model(x)))
    assert reports and all(r.whole for r in reports), "\n".join(map(str, reports))
    exact = copy.deepcopy(model).double()(x.double())
    assert_accurate(made.detach(), eager, exact[0] if isinstance(exact, tuple) else exact, depth=4096)


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_layers_of_open_length(layer, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    model = layer(16, 32, bidirectional=True).eval().to(HERE)
    compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 1, 16), opt_shape=(7, 3, 16), max_shape=(64, 9, 16), device=HERE)], fallback="error")
    for steps, batch in ((7, 3), (1, 1), (64, 9), (2, 3)):
        x = noise(steps, batch, 16)
        with torch.no_grad():
            for made, eager, exact in zip(*(torch.utils._pytree.tree_leaves(y) for y in (compiled(x), model(x), copy.deepcopy(model).double()(x.double()))), strict=True):
                assert_accurate(made, eager, exact, depth=4096)


def test_weights_stay_where_they_are():
    """A weight that no step wants in another form is read in the module's own memory."""
    model = torch.nn.LayerNorm(1 << 22).eval().to(HERE)
    x = noise(2, 1 << 22)
    compiled = ingot.compile(model, inputs=[x])
    model.bias.fill_(1.0)  # in place, behind the engine's back
    check(model, compiled(x), x)


class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(4096, n) for n in (2048, 1024, 1024))

    def forward(self, x):
        return torch.relu(self.q(x)), torch.nn.functional.silu(self.k(x)) * self.v(x)


@pytest.mark.parametrize("rows", [1, 7, None], ids=["one row", "seven rows", "any rows"])
def test_weights_of_several_layers_stay_where_they_are(rows):
    """Layers that read one value are one product, and yet each weight is read in the module's own memory."""
    model = Heads().eval().to(HERE, torch.float16)
    rising = ingot.Input(min_shape=(1, 4096), opt_shape=(8, 4096), max_shape=(64, 4096), dtype=torch.float16)
    compiled = ingot.compile(model, inputs=[noise(rows, 4096, dtype=torch.float16) if rows else rising])
    for layer in (model.q, model.k, model.v):
        layer.weight.data.mul_(-0.5)  # torch does not count it: nothing is prepared anew
    for n in (rows,) if rows else (8, 1, 64):
        x = noise(n, 4096, dtype=torch.float16, seed=n)
        for ours, eager, exact in zip(compiled(x), model(x), copy.deepcopy(model).double()(x.double())):
            assert_accurate(ours, eager, exact, depth=4096)


def test_autocast():
    model, x = layers(), noise(5, 64)
    with torch.autocast("cuda", dtype=torch.float16):
        compiled = ingot.compile(model, inputs=[x])
        torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=5e-3)
    assert told(ingot.InputError, lambda: compiled(x))[1] == 'compile it under torch.autocast("cuda", enabled=False), or call it under torch.autocast("cuda", dtype=torch.float16)'


def test_tf32_follows_torch():
    torch.manual_seed(0)
    model, x = torch.nn.Linear(512, 512).eval().to(HERE), noise(64, 512)
    exact = copy.deepcopy(model).double()(x.double())

    def error(**option):
        return (ingot.compile(model, inputs=[x], **option)(x) - exact).abs().max().item()

    full, short = error(matmul_precision="ieee"), error(matmul_precision="tf32")
    assert short > 20 * full
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        for allowed in (True, False):
            torch.backends.cuda.matmul.allow_tf32 = allowed
            assert (error() > 20 * full) == allowed and error(matmul_precision="ieee") < 2 * full
            check(model, ingot.compile(model, inputs=[x])(x), x)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


# ---- streams, threads, recording


def test_the_callers_stream_and_no_wait():
    model, x = layers(), noise(8, 64)
    compiled = ingot.compile(model, inputs=[x])
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        late = torch.zeros_like(x)
        for _ in range(4):
            compiled(late)
        stream.synchronize()
        torch.cuda._sleep(1 << 28)
        late.copy_(x)
        result = compiled(late)
        assert not stream.query(), "the call waited for the stream"
        stream.synchronize()
    check(model, result, x)


def test_sixteen_threads_on_sixteen_streams():
    model = layers()
    compiled = ingot.compile(model, inputs=[ingot.Input(**BATCH)])
    wrong, right = [], []

    def work(number):
        stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            for i in range(50):
                x = noise(1 + (7 * number + i) % 64, 64, seed=100 * number + i)
                (right if torch.allclose(compiled(x), model(x), rtol=1e-4, atol=1e-4) else wrong).append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(right) == 16 * 50  # an exception in a thread ends only that thread


@pytest.mark.parametrize("warm", [True, False])
def test_recorded_by_the_caller(warm):
    model, x = layers(), noise(8, 64)
    compiled = ingot.compile(model, inputs=[x])
    for _ in range(4 if warm else 0):
        compiled(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = compiled(x)
        twice = result * 2
    for seed in range(3):
        x.copy_(noise(8, 64, seed=seed))
        graph.replay()
        check(model, result, x)
        assert torch.equal(twice, result * 2)


@pytest.mark.parametrize("way", ["ingot.compile", "torch.compile", "operator", "weights replaced"])
def test_a_recording_outlives_its_module(way):
    """The code and the prepared weights that it runs stay, while other modules take and free memory."""
    model, x = layers(), noise(8, 64)
    compiled = torch.compile(model, backend=ingot_backend) if way == "torch.compile" else ingot.compile(model, inputs=[x])
    call = torch.export.export(compiled, (x,)).module() if way == "operator" else compiled
    call(x)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        result = call(x)
    if way == "weights replaced":
        compiled.update_weights({name: value * 2 for name, value in model.state_dict().items()})
    del compiled, call
    torch._dynamo.reset()
    gc.collect()
    for seed in range(3):
        other = ingot.compile(layers(), inputs=[x])  # takes memory that would have been freed
        other(noise(8, 64, seed=10 + seed))
        x.copy_(noise(8, 64, seed=seed))
        graph.replay()
        check(model, result, x)


# ---- parts in torch, writes in place


class Takes(torch.nn.Module):
    """One operator that no engine has, a tensor made on the CPU, a tensor brought there and back."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)

    def forward(self, x):
        x = torch.special.airy_ai(torch.nn.functional.gelu(self.up(x)) * torch.tensor(0.5))
        x = x + torch.arange(64, dtype=torch.float32).to(x.device)
        return self.down(torch.nn.functional.silu(x.cpu().relu().to(x.device)))


@pytest.mark.parametrize("way", ["ahead of time", "just in time"])
def test_fallback(way):
    torch.manual_seed(0)
    model, x = Takes().eval().to(HERE), noise(8, 64)
    compiled = ingot.compile(model, inputs=[x]) if way == "ahead of time" else torch.compile(model, backend=ingot_backend)
    for seed in range(3):
        x = noise(8, 64, seed=seed)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    if way == "ahead of time":
        there = {n["target"]: n["reason"] for n in compiled.report.nodes if n["segment"] is None}
        assert "aten.special_airy_ai.default" in there and "its result is on cpu, and the engine runs on cuda:0" in there.values()
        assert len(ingot.explain(model, inputs=[x]).segments) == len(compiled.report.segments)
        changed = copy.deepcopy(model)
        changed.down.weight.zero_()
        compiled.update_weights({"down.weight": torch.zeros(8, 64)})  # from the CPU
        torch.testing.assert_close(compiled(x), changed(x), rtol=1e-4, atol=1e-4)


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 16, 8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x, position, scale):
        at = torch.arange(16, device=x.device)[:, None] == position  # one row of it
        self.keys[:] = torch.where(at, self.linear(x)[:, :1], self.keys)
        self.keys[:, 12:] = x
        self.seen += 1
        scale.mul_(2)
        return torch.softmax(x @ self.keys.transpose(1, 2), -1) @ self.keys * scale


@pytest.mark.parametrize("way", ["ahead of time", "just in time"])
def test_writes_in_place(way):
    torch.manual_seed(0)
    ours = Cache().eval().to(HERE)
    eager = copy.deepcopy(ours)
    inputs = noise(2, 4, 8), torch.zeros(1, dtype=torch.int64, device=HERE)
    compiled = ingot.compile(ours, inputs=[*inputs, torch.ones(8, device=HERE)]) if way == "ahead of time" else torch.compile(ours, backend=ingot_backend)
    place = ours.keys.data_ptr()
    for seed in range(4):
        x, a, b = noise(2, 4, 8, seed=seed), torch.ones(8, device=HERE), torch.ones(8, device=HERE)
        torch.testing.assert_close(compiled(x, inputs[1] + seed, a), eager(x, inputs[1] + seed, b), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ours.keys, eager.keys, rtol=1e-5, atol=1e-5)
        assert torch.equal(a, b) and ours.seen == eager.seen == seed + 1 and ours.keys.data_ptr() == place
    if way == "ahead of time":
        a, b = torch.ones(16, device=HERE), torch.ones(16, device=HERE)  # written through strides
        compiled(x, inputs[1], a[::2]), eager(x, inputs[1], b[::2])
        assert torch.equal(a, b)


def shifted(model):
    for p in model.parameters():
        p.add_(0.25)


def stepped(model):
    with torch.enable_grad():
        model(noise(8, 64)).square().mean().backward()
    torch.optim.Adam(model.parameters(), lr=0.05).step()


def elsewhere(model):
    for p in model.parameters():
        p.data = p.data * 1.5


def replaced(model):
    model.up.weight = torch.nn.Parameter(noise(64, 64))
    model.down = torch.nn.Linear(64, 8).to(HERE)


@pytest.mark.parametrize("options", [{}, {"torch_executed_ops": ["gelu"], "min_block_size": 1}], ids=["most in engines", "gelu in torch"])
def test_weights_that_change_in_place(options, tmp_path):
    """Weights read in place or prepared, in engines and in torch, with a recorded CUDA graph or not, and in another stream. The next file has the changes too."""
    torch.manual_seed(0)
    model, x = Takes().eval().to(HERE), noise(8, 64)
    compiled = ingot.compile(model, inputs=[x], **options)
    for change in (shifted, stepped, elsewhere, replaced, shifted):
        before = [compiled(x) for _ in range(3)][-1]  # the third call replays the second one's recording
        change(model)
        for _ in range(3):
            found = compiled(x)
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-4)
            assert not torch.equal(found, before)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # the change is still to be made when the call looks
        shifted(model)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    torch.cuda.current_stream().wait_stream(stream)
    shifted(model)
    ingot.save(compiled, tmp_path / "m.pt2", format="exported_program")
    torch.testing.assert_close(ingot.load(tmp_path / "m.pt2")(x), model(x), rtol=1e-4, atol=1e-4)
    model.cpu()  # the weights move, the engine stays on its device
    torch.testing.assert_close(compiled(x).cpu(), model.to(HERE)(x).cpu(), rtol=1e-4, atol=1e-4)


def test_a_model_can_leave_the_gpu_after_it_was_compiled(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Conv2d(512, 512, 3, padding=1) for _ in range(8))).half().eval().to(HERE)  # 38 MB that a GEMM reads in another order
    x = noise(1, 512, 8, 8, dtype=torch.float16)
    compiled = ingot.compile(model, inputs=[x])
    want = compiled(x)
    held = torch.cuda.memory_allocated()
    model.cpu()
    assert torch.equal(compiled(x), want)
    assert torch.cuda.memory_allocated() < held - 30 * 2**20, "the model's tensors are still on the GPU"
    ingot.save(compiled, tmp_path / "m.ingot")
    assert torch.equal(ingot.load(tmp_path / "m.ingot", device="cuda")(x), want)
    with torch.no_grad():
        model[0].weight.mul_(2.0)  # in host memory, and still the engine's
    assert_accurate(compiled(x), copy.deepcopy(model).to(HERE)(x), copy.deepcopy(model).double().to(HERE)(x.double()), depth=4608)
    compiled.update_weights({"7.bias": torch.zeros(512).half()})  # from host memory too
    model.to(HERE)
    model[7].bias.zero_()
    check(model, compiled(x), x)


def test_an_adapter_stays_on_a_model_that_leaves_the_gpu():
    model, x = layers(), noise(5, 64)
    compiled = ingot.compile(model, inputs=[x])
    compiled.add_lora("a", {"0.weight": (noise(2, 64), noise(128, 2), 0.5)})
    compiled.use_lora("a")
    want = compiled(x)
    model.cpu()
    torch.testing.assert_close(compiled(x), want)
    compiled.add_lora("b", {"2.weight": (noise(2, 128), noise(32, 2), 0.5)})
    compiled.use_lora("b")
    assert not torch.equal(compiled(x), want)


def test_values_given_under_both_names_of_a_tied_weight():
    model, x = Tied().eval().to(HERE), noise(5, 64)
    compiled = ingot.compile(model, inputs=[x])
    other = {name: t * 2 for name, t in model.state_dict().items()}
    compiled.engine.update_weights(other)
    model.load_state_dict(other)
    check(model, compiled(x), x)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def test_prepare_reads_what_it_made_before_in_large_weights():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.v = (torch.nn.Parameter(noise(8192, 8192, seed=k) * 0.01) for k in (1, 2))  # each of 268 MB, more than prepare makes at a time

        def forward(self, x):
            p = torch.softmax(self.w, -1)
            return torch.relu(x @ (p @ self.v)) + p[:4]

    model, x = Model().eval(), noise(4, 8192)
    torch.testing.assert_close(ingot.compile(model, inputs=[x])(x), model(x), rtol=1e-3, atol=1e-3)


def test_a_file_has_weights_that_changed_in_place(tmp_path):
    model, x = layers(), noise(5, 64)
    compiled = ingot.compile(model, inputs=[x])
    for name in ("0.weight", "3.bias"):
        model.get_parameter(name).mul_(1.5).add_(0.5)
        ingot.save(compiled, tmp_path / "m.ingot")
        check(model, ingot.load(tmp_path / "m.ingot")(x), x)
        check(model, compiled(x), x)


# ---- files


def test_files(tmp_path):
    model, x = layers(), noise(5, 64)
    compiled = ingot.compile(model, inputs=[ingot.Input(**BATCH)])
    ingot.save(compiled, tmp_path / "gpu.ingot")
    for device in (None, "cuda", HERE):
        check(model, ingot.load(tmp_path / "gpu.ingot", device=device)(x), x)
    engine = ingot.load_engine(tmp_path / "gpu.ingot", device="cuda")
    expected = model(x).cpu().numpy()
    np.testing.assert_allclose(engine.session().run(x.cpu().numpy())[0], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(compiled.engine.reference(x.cpu().numpy())[0], expected, rtol=1e-4, atol=1e-4)
    changed = copy.deepcopy(model)
    changed[0].weight.zero_()
    compiled.update_weights({"0.weight": changed[0].weight})
    check(changed, compiled(x), x)
    ingot.save(compiled, tmp_path / "gpu.ingot")
    check(changed, ingot.load(tmp_path / "gpu.ingot")(x), x)
    ingot.save(compiled, tmp_path / "stripped.ingot", weights="strip")
    check(model, ingot.load(tmp_path / "stripped.ingot", weights=model.state_dict(), device="cuda")(x), x)


def test_one_file_for_both(tmp_path):
    model, x = layers(), noise(5, 64)
    ingot.save(ingot.compile(model, inputs=[x], target=["cpu", "cuda:sm_{}{}".format(*torch.cuda.get_device_capability())]), tmp_path / "both.ingot")
    check(model, ingot.load(tmp_path / "both.ingot", device="cuda")(x), x)
    torch.testing.assert_close(ingot.load(tmp_path / "both.ingot")(x.cpu()), model(x).cpu(), rtol=1e-4, atol=1e-4)


def test_states_of_a_file(tmp_path):
    model = Cache().eval().to(HERE)
    inputs = noise(2, 4, 8), torch.zeros(1, dtype=torch.int64, device=HERE), torch.ones(8, device=HERE)
    ingot.save(ingot.compile(model, inputs=list(inputs)), tmp_path / "cache.ingot")
    loaded = ingot.load(tmp_path / "cache.ingot")
    loaded(*inputs)
    assert loaded.seen.is_cuda and loaded.seen == 1


def test_torch_programs(tmp_path):
    model, x = layers(), noise(5, 64)
    compiled = ingot.compile(model, inputs=[x], torch_executed_ops=["gelu"])
    ingot.save(compiled, tmp_path / "m.pt2", format="exported_program")
    check(model, ingot.load(tmp_path / "m.pt2")(x), x)
    program = torch.export.load(tmp_path / "m.pt2").module()
    for seed in range(3):
        y = noise(5, 64, seed=seed)
        check(model, program(y), y)


# ---- timing


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_timed_products(tmp_path, dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512, bias=False), torch.nn.Linear(512, 32)).eval().to(HERE, dtype)
    given = dict(inputs=[ingot.Input(**BATCH, dtype=dtype)], timing_cache=str(tmp_path / "times"))
    compiled = ingot.compile(model, build_seconds=20, **given)
    ingot.save(compiled, tmp_path / "m.ingot")
    loaded = ingot.load(tmp_path / "m.ingot", device="cuda")
    for rows in (8, 1, 64):  # 8 is the usual size
        x = noise(rows, 64, dtype=dtype)
        check(model, compiled(x), x)
        assert torch.equal(loaded(x), compiled(x))
    timings = compiled.engine.inspect()["targets"][0]["timings"]
    assert timings == loaded.engine.inspect()["targets"][0]["timings"] == ingot.compile(model, **given).engine.inspect()["targets"][0]["timings"]
    name = torch.cuda.get_device_name()
    for t in timings:  # a tile of ingot's own kernel, an algorithm of the library, or which of the two
        assert t["machine"] == name if t["choice"].startswith("gemm_tiles ") else t["machine"].startswith(name + ", cuBLASLt ")
    assert timings or dtype is not torch.float32  # others may all be done by ingot's own kernels


# ---- errors


def test_errors():
    model, x = layers(), noise(5, 64)
    compiled = ingot.compile(model, inputs=[ingot.Input(**BATCH)])
    assert told(ingot.InputError, lambda: compiled(x.cpu())) == ("input 'x' is on cpu, but the engine runs on cuda:0", "give x.to('cuda:0')")
    assert told(ingot.InputError, lambda: compiled(x.half())) == ("input 'x' is float16, but the engine takes float32", "convert it to float32")
    assert told(ingot.InputError, lambda: compiled.cpu())[0] == "a compiled module stays on cuda:0 with the dtypes it was compiled for; it cannot become torch.float32 on cpu"
    message, remedy = told(ingot.InputError, lambda: ingot.compile(model, inputs=[x.cpu()]))
    assert message.startswith("tensors on two devices meet in the model: ") and remedy == "move the model and all of its inputs to one device"
    assert told(ingot.OptionError, lambda: ingot.compile(model, inputs=[x], target="cpu")) == (
        "option target is 'cpu', but the model is on cuda:0", "model.cpu(), or leave the target out")  # fmt: skip
    assert told(ingot.OptionError, lambda: ingot.compile(model, inputs=[x], device="cpu")) == (
        "option device is 'cpu', but the model is on cuda:0", "move the model there, then compile it")  # fmt: skip
    partly = ingot.compile(model, inputs=[ingot.Input(**BATCH)], torch_executed_ops=["gelu"])
    assert told(ingot.InputError, lambda: partly(x.cpu())) == ("input 'x' is on cpu, but the model was compiled for cuda:0", "give x.to('cuda:0')")


def test_an_index_out_of_range_is_told_at_the_next_call():
    model = torch.nn.Sequential(torch.nn.Embedding(10, 8), torch.nn.Linear(8, 8)).eval().to(HERE)
    good, bad = torch.tensor([1, 2, 3], device=HERE), torch.tensor([1, 20, 3], device=HERE)
    compiled = ingot.compile(model, inputs=[good])
    compiled(good), compiled(bad)
    torch.cuda.synchronize()
    assert told(ingot.InputError, lambda: compiled(good)) == ("an earlier call: index 20 is out of range for an axis of size 10", "")
    torch.testing.assert_close(compiled(good), model(good), rtol=1e-5, atol=1e-5)


class Positive(torch.nn.Module):
    def forward(self, x):
        return x[x > 0], torch.nonzero(x > 1)


def test_arrays_of_an_engine(tmp_path):
    """An engine's session takes and gives arrays of the host, also where their sizes are read from data, and tensors of its GPU where they are."""
    ingot.save(ingot.compile(Positive(), inputs=[noise(33, 7)]), tmp_path / "m.ingot")
    session = ingot.load_engine(tmp_path / "m.ingot", device="cuda").session()
    for seed in range(4):
        x = noise(33, 7, seed=seed)
        for given in (x.cpu().numpy(), x):
            for result, eager in zip(session.run(given), Positive()(x)):
                np.testing.assert_array_equal(result, eager.cpu().numpy())
    model, x = layers(), noise(8, 64)
    ingot.save(ingot.compile(model, inputs=[x]), tmp_path / "l.ingot")
    session, out = ingot.load_engine(tmp_path / "l.ingot", device="cuda").session(), torch.empty(8, 32, device=HERE)
    assert session.run(x, out=[out])[0] is out
    check(model, out, x)
    _, remedy = told(ingot.InputError, lambda: ingot.compile(layers().cpu(), inputs=[noise(8, 64).cpu()]).engine.session().run(x))
    assert remedy == "copy it there, or load the engine where the tensor is (device=)"


def test_the_gpu_at_hand_as_target():
    model, x = layers(), noise(8, 64)
    for target in ("cuda", "cuda:0", ["cuda"]):
        check(model, ingot.compile(model, inputs=[x], target=target)(x), x)


def test_a_process_ends_with_modules_alive(tmp_path):
    """Static objects end after CUDA did."""
    done = subprocess.run(
        [sys.executable, "-c", "import torch, ingot, builtins\nx = torch.ones(4, 4, device='cuda')\nbuiltins.kept = ingot.compile(torch.nn.ReLU(), inputs=[x])\nbuiltins.kept(x)\n"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_adapters_are_summed_as_in_float32(dtype):
    """Three adapters of several ranks, one of them on the GPU: merged weights are off by little more than their rounding."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(96, 130, bias=False), torch.nn.Linear(130, 64, bias=False)).to(HERE, dtype).eval().requires_grad_(False)
    module, totals = ingot.compile(net, inputs=[torch.eye(96, device=HERE, dtype=dtype)], min_block_size=1), [layer.weight.double() for layer in net]
    for name, (rank, scale) in enumerate(((4, 0.5), (16, -1.0), (3, 2.0))):
        matrices = [(torch.randn(rank, layer.in_features) * 0.2, torch.randn(layer.out_features, rank, device=HERE) * 0.2) for layer in net]
        module.add_lora(str(name), {f"{i}.weight": (down, up, scale) for i, (down, up) in enumerate(matrices)})
        totals = [total + scale * (up.double() @ down.to(HERE).double()) for total, (down, up) in zip(totals, matrices)]
        merged = module._kind.adapters._sets[module._kind.adapters.active][0].given
        for i, total in enumerate(totals):
            off = (merged[f"{i}.weight"].double() - total).abs()
            assert (off <= torch.finfo(dtype).eps / 2 * total.abs() + 2**-18).double().mean() > 0.9 and (off <= torch.finfo(dtype).eps * total.abs() + 2**-15).all()


class Messages(torch.nn.Module):
    """Sums of the neighbours' features: as they are, times a weight of each edge, times one of each head, and along lines."""

    def forward(self, x, source, target, weight, of_heads, places, numbers):
        zeros = torch.zeros_like(x)
        plain = zeros.index_add(0, target, x[source])
        weighted = x.index_add(0, target, x[source] * weight)
        heads = torch.zeros_like(x.view(x.shape[0], 8, -1)).index_add(0, target, x.view(x.shape[0], 8, -1)[source] * of_heads)
        return plain, weighted, heads, x.scatter_reduce(0, target.unsqueeze(1).expand(-1, x.shape[1]), x[source], "amax"), x[:200].scatter_add(1, places, numbers)


def messages(dtype, edges, nodes=3000, features=64):
    torch.manual_seed(0)
    source, target = (torch.randint(0, nodes, (edges,), device=HERE) for _ in range(2))
    target[: edges // 4] = 7  # many edges of one node
    floats = [torch.randn(*sizes, device=HERE, dtype=dtype) for sizes in ((nodes, features), (edges, 1), (edges, 8, 1), (200, 300))]
    return floats[0], source, target, floats[1], floats[2], torch.randint(0, features, (200, 300), device=HERE), floats[3]


@pytest.mark.parametrize("deterministic", ["run", "off"])
@pytest.mark.parametrize("edges", [5000, 60000])
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_messages(dtype, edges, deterministic):
    inputs = messages(dtype, edges)
    made = ingot.compile(Messages(), inputs=list(inputs), deterministic=deterministic)
    results = made(*inputs)
    exact = Messages()(*(t.double() if t.is_floating_point() else t for t in inputs))
    for ours, eager, wide in zip(results, Messages()(*inputs), exact, strict=True):
        assert_accurate(ours, eager, wide, depth=edges)
    if deterministic == "run":
        for _ in range(5):
            assert all(torch.equal(a, b) for a, b in zip(results, made(*inputs), strict=True))


def test_an_index_of_messages_that_is_outside():
    good, bad = messages(torch.float32, 5000), messages(torch.float32, 5000)
    bad[2][17] = 3000
    made = ingot.compile(Messages(), inputs=list(good))
    made(*bad)
    torch.cuda.synchronize()
    assert told(ingot.InputError, lambda: made(*good)) == ("an earlier call: index 3000 is out of range for an axis of size 3000", "")
    assert_accurate(made(*good)[0], Messages()(*good)[0], Messages()(*(t.double() if t.is_floating_point() else t for t in good))[0], depth=5000)
