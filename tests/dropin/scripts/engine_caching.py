"""Engines that are kept between builds: in a folder, and by a user's object."""

import os
import tempfile

import torch
import torch_tensorrt as torch_trt
from torch_tensorrt.dynamo._engine_cache import BaseEngineCache


class InMemory(BaseEngineCache):
    def __init__(self):
        self.kept, self.hits = {}, 0

    def save(self, hash, blob, *args, **kwargs):
        self.kept[hash] = blob

    def load(self, hash, *args, **kwargs):
        self.hits += hash in self.kept
        return self.kept.get(hash)


def make(seed, width=32):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.GELU(), torch.nn.Linear(width, 4)).eval()


x = torch.randn(3, 8)
settings = {"min_block_size": 1, "cache_built_engines": True, "reuse_cached_engines": True, "immutable_weights": False}
with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
    where = os.path.join(folder, "engines")
    for seed in (0, 1):
        compiled = torch_trt.dynamo.compile(torch.export.export(make(seed), (x,)), inputs=[x], engine_cache_dir=where, engine_cache_size=1 << 30, **settings)
        torch.testing.assert_close(compiled(x), make(seed)(x))
        assert len([name for name in os.listdir(where) if len(name) == 64]) == 1

    cache = InMemory()
    for seed, width, hits in ((0, 32, 0), (1, 32, 1), (0, 16, 1)):
        compiled = torch_trt.compile(make(seed, width), ir="dynamo", inputs=[x], custom_engine_cache=cache, **settings)
        torch.testing.assert_close(compiled(x), make(seed, width)(x))
        assert cache.hits == hits
    assert len(cache.kept) == 2

    for seed in (0, 1):
        torch._dynamo.reset()
        compiled = torch.compile(make(seed), backend="tensorrt", options={"custom_engine_cache": cache, **settings})
        torch.testing.assert_close(compiled(x), make(seed)(x))
    assert len(cache.kept) == 3 and cache.hits == 2
