"""The call of a module: which calls take the fast path (torch's DLPack exchange table), and which go through the dispatcher."""

from __future__ import annotations

import gc
import resource
import threading
import time

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ingot


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        return torch.relu(self.linear(x)), x.sum(-1)


@pytest.fixture(scope="module")
def pair():
    model = Model().eval()
    return model, ingot.compile(model, inputs=[ingot.Input(min_shape=(0, 8), opt_shape=(4, 8), max_shape=(64, 8), name="x")])


def same(compiled, model, x):
    with torch.no_grad():
        for mine, eager in zip(compiled(x), model(x)):
            assert mine.dtype == eager.dtype and mine.stride() == eager.stride()
            torch.testing.assert_close(mine, eager)
            assert not mine.requires_grad


def test_the_short_way_is_there(pair):
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no exchange table")
    runner = pair[1]._kind.run
    assert runner._registry.direct(torch.Tensor.__dlpack_c_exchange_api__, runner._id, 0) is not None


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(3, 8),
        torch.randn(0, 8),
        torch.randn(8, 5).t(),
        torch.randn(6, 16)[1::2, 8:],
        torch.randn(1, 8).expand(4, 8),
        torch.complex(torch.randn(3, 8), torch.randn(3, 8)).conj().imag,
        torch.randn(3, 8, requires_grad=True),
    ],
    ids=["usual", "empty", "transposed", "part", "expanded", "negative view", "requires grad"],
)
def test_tensors_of_all_kinds(pair, x):
    same(pair[1], pair[0], x)


def test_transforms_and_modes_see_the_op(pair):
    compiled = pair[1]
    with torch.no_grad(), pytest.raises(ingot.UnsupportedError, match="torch.vmap cannot map over a compiled module"):  # never the values behind a transform's wrapper
        torch.vmap(compiled)(torch.randn(5, 3, 8))
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with torch.no_grad(), Watch():
        compiled(torch.randn(3, 8))
    assert "ingot.run.default" in seen
    with torch.no_grad(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled(torch.randn(3, 8))
    assert any(event.key == "ingot::run" for event in profile.key_averages())


def test_errors_are_the_ops_own(pair):
    compiled = pair[1]
    with pytest.raises(ingot.InputError, match="the engine takes rank 2"):
        compiled(torch.randn(8))
    with pytest.raises(ingot.InputError, match="float64"):
        compiled(torch.randn(3, 8, dtype=torch.float64))
    with pytest.raises(ingot.InputError, match="64"):
        compiled(torch.randn(65, 8))
    with pytest.raises(ingot.InputError, match="is on meta|meta device"):
        compiled(torch.randn(3, 8, device="meta"))
    same(compiled, pair[0], torch.randn(3, 8))


def test_results_outlive_the_module_and_are_freed():
    model = torch.nn.Linear(256, 1024).eval()
    compiled = ingot.compile(model, inputs=[ingot.Input(shape=(1024, 256))])
    x = torch.randn(1024, 256)
    kept = compiled(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(60):  # of 4 MiB each
        compiled(x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10, "results are not freed"
    del compiled
    gc.collect()
    with torch.no_grad():
        torch.testing.assert_close(kept, model(x), rtol=1e-4, atol=1e-4)


def test_python_runs_on_while_a_model_runs():
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).eval()
    compiled = ingot.compile(model, inputs=[ingot.Input(shape=(1024, 1024))])
    x = torch.randn(1024, 1024)
    compiled(x)
    start = time.perf_counter()
    compiled(x)
    alone = time.perf_counter() - start
    gaps, stop = [], threading.Event()

    def watch():
        last = time.perf_counter()
        while not stop.is_set():
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        start = time.perf_counter()
        for _ in range(5):
            compiled(x)
        taken = time.perf_counter() - start
    finally:
        stop.set()
        thread.join()
    assert len(gaps) > 5 * 50, f"another thread came to run {len(gaps)} times in {taken:.2f} s (a call alone takes {alone:.3f} s)"


@pytest.mark.parametrize("shape, strides", [((4, 5, 6), (0, 0, 1)), ((4, 5, 6), (6, 0, 1)), ((4, 5, 0), (0, 0, 1)), ((4, 0, 6), (0, 0, 1))], ids=["one row", "repeated rows", "nothing to sum", "no row"])
def test_products_of_rows_that_repeat(shape, strides):
    class Product(torch.nn.Module):
        def forward(self, x, w):
            return torch.relu(x.as_strided(shape, strides) @ w)

    x, w = torch.randn(4, 6), torch.randn(shape[-1], 3)
    compiled = ingot.compile(Product(), inputs=[ingot.Input.from_tensor(x), ingot.Input.from_tensor(w)])
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, w), Product()(x, w))
