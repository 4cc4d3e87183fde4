"""The number of threads given at compile time holds for calls through torch."""

import time

import torch

import ingot


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
