"""enable_cudagraphs of modules with parts in torch: one recording, if there is a GPU."""

import threading

import pytest
import torch
from eager import same

import ingot.torch_tensorrt as torch_tensorrt
from ingot.torch_tensorrt import runtime
from ingot.torch_tensorrt.runtime import _whole_graph

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
HERE = "cuda:0"
SIZES = dict(min_shape=(1, 64), opt_shape=(8, 64), max_shape=(64, 64))


class Parts(torch.nn.Module):
    """Engines with sines between them, which torch computes."""

    def __init__(self, depth=2):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(depth))
        self.eval().to(HERE)

    def forward(self, x):
        for layer in self.layers:
            x = torch.sin(torch.nn.functional.gelu(layer(x)))
        return x


def made(model, *inputs, ops=("aten.sin",)):
    return torch_tensorrt.compile(model, inputs=list(inputs), torch_executed_ops=list(ops), min_block_size=1, disable_tf32=True)


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator(HERE).manual_seed(seed), device=HERE)


@pytest.fixture
def replays(monkeypatch):
    """Counts replays."""
    found, call = [], _whole_graph.Recording.__call__
    monkeypatch.setattr(_whole_graph.Recording, "__call__", lambda self, flat: found.append(self) or call(self, flat))
    return found


def test_one_recording(replays):
    model = Parts()
    module = made(model, noise(8, 64))
    with runtime.enable_cudagraphs(module) as recorded:
        assert recorded is module and runtime.get_whole_cudagraphs_mode()
        given = [noise(8, 64, seed=n) for n in range(5)]
        results = [recorded(x) for x in given]
        assert len(replays) == 4 and len(set(map(id, replays))) == 1
        for x, result in zip(given, results):
            same(result, model, x)
        with torch.inference_mode():
            results = [recorded(x) for x in given]
        assert len(set(map(id, replays))) == 2 and all(r.is_inference() for r in results)
        for x, result in zip(given, results):
            same(result, model, x)
    assert not runtime.get_whole_cudagraphs_mode() and not isinstance(module.ingot_module._kind.way.forward, _whole_graph.Recorder)
    count = len(replays)
    same(module(given[0]), model, given[0])
    assert len(replays) == count


def test_other_sizes_strides_and_streams_are_other_recordings(replays):
    model = Parts()
    module = made(model, torch_tensorrt.Input(**SIZES))
    with runtime.enable_cudagraphs(module):
        for round in range(3):
            for n in (1, 3, 64):
                same(module(x := noise(n, 64, seed=n + round)), model, x)
            same(module(x := noise(64, 64, seed=round).t()), model, x)
        assert len(set(map(id, replays))) == 4 and len(replays) == 8
        found, streams = {}, [torch.cuda.Stream() for _ in range(2)]
        torch.cuda.synchronize()

        def work(number):
            with torch.cuda.stream(streams[number]):
                for seed in range(20):
                    found[number, seed] = module(noise(3, 64, seed=100 * number + seed))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.cuda.synchronize()
        assert len(found) == 40
        for (number, seed), result in found.items():
            same(result, model, noise(3, 64, seed=100 * number + seed))


def test_changes_of_weights_are_followed(replays):
    model = Parts()
    module = made(model, x := noise(8, 64))
    with runtime.enable_cudagraphs(module):
        for step in range(4):
            for _ in range(3):
                same(module(x), model, x)
            with torch.no_grad():
                if step % 2:
                    model.layers[0].weight.mul_(0.5)
                else:
                    model.layers[1].weight = torch.nn.Parameter(torch.randn(64, 64, device=HERE) / 8)
    assert len(set(map(id, replays))) == 4


class Writes(torch.nn.Module):
    """Writes an input and a buffer, and returns both of them besides a result."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(4, device=HERE))

    def forward(self, cache, x):
        cache.add_(torch.relu(x * 2))
        self.count.add_(1)
        return torch.sin(cache) + self.count, cache


def test_writes(replays):
    model, module = Writes(), None
    module = made(Writes(), torch.zeros(3, 4, device=HERE), noise(3, 4))
    with runtime.enable_cudagraphs(module):
        for cache in (torch.zeros(3, 4, device=HERE), torch.ones(3, 4, device=HERE)):
            theirs = cache.clone()
            for step in range(4):
                version = cache._version
                result, place = module(cache, noise(3, 4, seed=step))
                expected, _ = model(theirs, noise(3, 4, seed=step))
                torch.testing.assert_close(result, expected)
                torch.testing.assert_close(cache, theirs)
                assert place.data_ptr() == cache.data_ptr() and cache._version > version
                torch.testing.assert_close(module.count, model.count)
    assert len(replays) == 6


@torch.library.custom_op("ingot_tests::by_its_sum", mutates_args=())
def by_its_sum(x: torch.Tensor) -> torch.Tensor:
    return x / (1 + x.sum().item())


@by_its_sum.register_fake
def _(x):
    return torch.empty_like(x)


class Synchronises(torch.nn.Module):
    def forward(self, x):
        return torch.relu(by_its_sum(torch.relu(x)) + 1)


class OnTheCpu(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.relu(x).cpu().sin().to(x.device))


@pytest.mark.parametrize("model, why", [(Synchronises(), "cannot be recorded"), (OnTheCpu(), "on the CPU")])
def test_what_cannot_be_recorded_runs_and_says_so(model, why, caplog, replays):
    module = made(model, x := noise(8, 8))
    with runtime.enable_cudagraphs(module):
        for _ in range(4):
            torch.testing.assert_close(module(x), model(x), rtol=1e-3, atol=1e-3)
    assert not replays and len([r for r in caplog.records if why in r.getMessage()]) == 1, caplog.text
    assert torch.randn(3, device=HERE).isfinite().all() and torch.cuda.current_stream() == torch.cuda.default_stream()  # torch's generator and stream are as before
    other = made(Parts(), x := noise(8, 64))
    with runtime.enable_cudagraphs(other):
        for _ in range(3):
            same(other(x), Parts(), x)
    assert len(replays) == 2


def test_random_numbers_differ_from_call_to_call(replays):
    class Drops(torch.nn.Module):
        def forward(self, x):
            return torch.relu(torch.dropout(torch.relu(x), 0.5, True))

    module = made(Drops(), x := torch.ones(64, 64, device=HERE))
    with runtime.enable_cudagraphs(module):
        results = [module(x) for _ in range(4)]
    assert len(replays) == 3 and all(not torch.equal(a, b) for a, b in zip(results, results[1:]))


def test_results_allocated_ahead_on_a_gpu():
    model = Parts()
    module = made(model, noise(8, 64))
    with runtime.enable_pre_allocated_outputs(module):
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                found = [(x, module(x)) for x in (noise(8, 64, seed=n) for n in range(5))]
            torch.cuda.synchronize()
            assert len({r.data_ptr() for _, r in found}) == 5
            for x, result in found:
                same(result, model, x)
        with runtime.enable_cudagraphs(module):
            found = [(x, module(x)) for x in (noise(8, 64, seed=n) for n in range(5))]
        for x, result in found:
            same(result, model, x)
