"""Attention over a cache that is filled up to a position reads the keys up to there, whatever the cache has room for."""

import sys
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[1]))
from accuracy import assert_accurate

import ingot


class Decoder(torch.nn.Module):
    """Two layers of attention over one cache, masked as transformers does: key <= position, and padding if `kept` is given."""

    def __init__(self, room, heads=4, groups=2, width=16, batch=2):
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, width
        self.register_buffer("keys", torch.randn(batch, groups, room, width))
        self.register_buffer("values", torch.randn(batch, groups, room, width))

    def forward(self, x, position, kept=None):
        queries, room = x.shape[2], self.keys.shape[2]
        places = torch.arange(queries) + position
        self.keys.index_copy_(2, places, x[:, : self.groups])
        self.values.index_copy_(2, places, x[:, : self.groups] * 0.5)
        mask = torch.arange(room)[None, None, None, :] <= places[None, None, :, None]
        if kept is not None:
            mask = mask & kept[:, None, None, :]
        y = F.scaled_dot_product_attention(x, self.keys, self.values, mask, enable_gqa=True)
        return F.scaled_dot_product_attention(y, self.keys, self.values, mask, enable_gqa=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("padded", [False, True])
def test_the_same_as_eager_at_every_position(dtype, queries, padded):
    torch.manual_seed(0)
    room = 150
    model, exact = Decoder(room).to(dtype).eval(), Decoder(room).double()
    kept = (torch.rand(2, room) > 0.3,) if padded else ()
    example = (torch.randn(2, 4, queries, 16, dtype=dtype), torch.tensor(0), *kept)
    compiled = ingot.compile(model, inputs=list(example), fallback="error")
    assert str(compiled.profile(*example, runs=1)).count("filled keys") == 2
    keys, values = model.keys.clone(), model.values.clone()
    dynamo = torch.compile(model, backend="ingot", options={"fallback": "error"})
    for position in (0, 1, 63, 64, 100, room - queries):
        x = torch.randn(2, 4, queries, 16, dtype=dtype)
        at = (torch.tensor(position), *kept)

        def reset():
            for m in (model, exact):
                m.keys.copy_(keys)
                m.values.copy_(values)

        reset()
        eager, right = model(x, *at), exact(x.double(), *at)
        reset()
        assert_accurate(compiled(x, *at), eager, right, depth=room)
        reset()
        assert_accurate(dynamo(x, *at), eager, right, depth=room)
    torch._dynamo.reset()


def test_queries_after_the_cache_is_full_see_all_of_it():
    """Positions beyond the cache, negative ones, and the largest number."""

    class Read(torch.nn.Module):
        def forward(self, q, k, v, position):
            return F.scaled_dot_product_attention(q, k, v, torch.arange(k.shape[2])[None, :] <= position[:, None])

    q, k, v = torch.randn(1, 2, 4, 8), torch.randn(1, 2, 30, 8), torch.randn(1, 2, 30, 8)
    for positions in ([0, 5, 9, 29], [-1, -3, -1, -(2**62)], [2**63 - 1, 3, 0, -1], [30, 31, 40, 29]):
        position = torch.tensor(positions)
        compiled = ingot.compile(Read(), inputs=[q, k, v, position], fallback="error")
        assert "filled keys" in str(compiled.profile(q, k, v, position, runs=1))
        torch.testing.assert_close(compiled(q, k, v, position), Read()(q, k, v, position))


def test_keys_that_are_not_filled_cost_nothing():
    """129 of 16,384 keys take about as long as 129 of 256: 60 times less than all."""
    times = []
    for room in (256, 16384):
        model = Decoder(room, heads=8, groups=8, width=64, batch=1).eval()
        x, position = torch.randn(1, 8, 1, 64), torch.tensor(128)
        compiled = ingot.compile(model, inputs=[x, position], fallback="error", threads=1)
        best = float("inf")
        for _ in range(60):
            start = time.perf_counter()
            compiled(x, position)
            best = min(best, time.perf_counter() - start)
        times.append(best)
    assert times[1] < 4 * times[0], times
