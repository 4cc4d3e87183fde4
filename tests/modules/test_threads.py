"""The number of threads given at compile time applies to calls through torch, and threads compile side by side."""

import concurrent.futures
import sys
import threading
import time
from pathlib import Path

import fresh
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot import ahead_of_time
from ingot.module import module_kinds


def test_one_thread_uses_one_processor():
    linear, x = torch.nn.Linear(1024, 1024), torch.randn(256, 1024)
    with torch.no_grad():
        module = ingot.compile(linear, inputs=[ingot.Input((256, 1024))], threads=1)
        module(x)
        wall, used = time.perf_counter(), time.process_time()
        for _ in range(20):
            module(x)
        wall, used = time.perf_counter() - wall, time.process_time() - used
    assert used < 1.2 * wall


class Counts(torch.nn.Module):
    """A model that writes a buffer, with a width of its own."""

    def __init__(self, width):
        super().__init__()
        torch.manual_seed(width)
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.GELU(), torch.nn.LayerNorm(width), torch.nn.Linear(width, 4))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return self.layers(x) + self.calls


def test_eight_threads_compile():
    """torch traces in one thread at a time: ingot sees to it. Its tracer sees no call of a compiled module in another thread. (It does see those of other modules, and torch.compile
    in eight threads crashes beside torch.export.)"""
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    inputs = [ingot.Input(min_shape=(1, 8), opt_shape=(3, 8), max_shape=(9, 8))]
    ways = [{}, {"strict": True}, {"passes": [lambda graph: None]}]  # with passes it is exported twice
    start, nets = threading.Barrier(8), [Counts(8 + i).eval() for i in range(12)]

    def compiled(i):
        if i < 8:
            start.wait()
        with torch.no_grad():
            return ingot.compile(nets[i], inputs=inputs, min_block_size=1, **ways[i % len(ways)])(x)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(compiled, range(12)))
    with torch.no_grad():
        for i, result in enumerate(results):
            assert_accurate(result, Counts(8 + i).eval()(x), Counts(8 + i).eval().double()(x.double()), 64)


def test_a_child_may_compile_while_its_parent_does():
    """fork() while another thread traces: the lock is free in the child."""
    program = """
import os, threading, time, torch, ingot
traced, go_on = threading.Event(), threading.Event()
class Slow(torch.nn.Module):
    def forward(self, x):
        traced.set()
        go_on.wait()
        return x + 1
thread = threading.Thread(target=lambda: ingot.compile(Slow(), inputs=[torch.ones(2)], min_block_size=1))
thread.start()
traced.wait()
child = os.fork()
if child == 0:
    module = ingot.compile(torch.nn.ReLU(), inputs=[torch.ones(3)], min_block_size=1)
    os._exit(int(module(-torch.ones(3)).sum()) + 7)
end = time.time() + 60
while time.time() < end and not (done := os.waitpid(child, os.WNOHANG))[0]:
    time.sleep(0.05)
go_on.set()
thread.join()
assert done[0] and os.waitstatus_to_exitcode(done[1]) == 7, done
"""
    done = fresh.run(program, warnings=False)
    assert done.returncode == 0, done.stderr


def test_a_model_that_another_thread_traces(monkeypatch):
    """While torch traces a model its weights are fake: the end of another build of the same model does not take them."""
    started, done = threading.Event(), threading.Event()

    class Waits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x):
            if threading.current_thread() is other and type(self.layer.weight) is not torch.nn.Parameter:
                started.set()
                done.wait(1)
            return self.layer(x)

    model, x = Waits().eval(), torch.randn(2, 8)
    other = threading.Thread(target=lambda: ingot.compile(model, inputs=[x]))
    build = ahead_of_time._compile_program

    def built(*arguments):
        made = build(*arguments)
        if threading.current_thread() is not other:
            other.start()
            assert started.wait(20)
        return made

    owned, seen = module_kinds.FromModel.owned_by, []

    def owned_by(self, of):
        seen.append(type(of.layer.weight))
        owned(self, of)

    monkeypatch.setattr(ahead_of_time, "_compile_program", built)
    monkeypatch.setattr(module_kinds.FromModel, "owned_by", owned_by)
    compiled = ingot.compile(model, inputs=[x])
    done.set()
    other.join()
    assert seen == [torch.nn.Parameter] * 2
    torch.testing.assert_close(compiled(x), model(x))


REPLACED = """
import sys, threading, time
import torch, ingot

way, size = sys.argv[1], 1 << 18

class Shift(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(size))
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x, small):
        if way == "beside torch":
            small = torch.special.airy_ai(self.layer(small).softmax(1))
        return x + self.w, small

torch.set_grad_enabled(False)
model, x = Shift().eval(), (torch.zeros(size), torch.zeros(256, 64))
compiled = ingot.compile(model, inputs=x, min_block_size=1)
assert (compiled.report.in_torch > 0) == (way == "beside torch"), compiled.report
call = torch.export.export(compiled, x).module() if way == "exported" else compiled
end, wrong, runs = time.time() + 3, [], []

def run():
    while time.time() < end:
        y, _ = call(*x)
        runs.append(0)
        if y.min() != y.max():
            wrong.append((y.min().item(), y.max().item()))

threads = [threading.Thread(target=run) for _ in range(3)]
[t.start() for t in threads]
changes = 0
while time.time() < end:
    changes += 1
    value = torch.full((size,), float(changes))
    if way == "the model's own":
        model.w = torch.nn.Parameter(value)
    else:
        compiled.update_weights({"w": value})
    del value
[t.join() for t in threads]
print(wrong[:3] or "right", min(len(runs), 10), min(changes, 10))
"""


@pytest.mark.parametrize("way", ["given", "the model's own", "exported", "beside torch"])
def test_values_are_replaced_while_other_threads_run(way):
    """A call reads the values of one change, and none that was freed. (Before calls from torch were waited for, 1 of 130 calls read other memory.)"""
    done = fresh.run(REPLACED, way)
    assert (done.returncode, done.stdout) == (0, "right 10 10\n"), done.stdout + done.stderr
