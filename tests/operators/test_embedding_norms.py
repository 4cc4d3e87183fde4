"""Embeddings with a largest norm: a lookup scales the rows of the weight that it reads, in place."""

import copy

import pytest
import torch
import torch.nn.functional as F

import ingot


class Lookup(torch.nn.Module):
    def __init__(self, norm=2.0, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(12, 8, max_norm=1.5, norm_type=norm, dtype=dtype)

    def forward(self, index):
        return self.table(index) * 2


def by(way, model):
    if way == "just in time":
        torch._dynamo.reset()
        return torch.compile(model, backend="ingot", options={"fallback": "error"})
    return ingot.compile(model, inputs=[torch.tensor([[1, 2], [2, 1]])], fallback="error")


@pytest.mark.parametrize("way", ["ahead of time", "just in time"])
@pytest.mark.parametrize("norm, dtype", [(2.0, torch.float32), (1.0, torch.float64), (float("inf"), torch.float32), (3.0, torch.float32)])
@pytest.mark.one_in(2)
def test_the_weight_is_written(way, norm, dtype):
    ours = Lookup(norm, dtype).eval()
    theirs, before = copy.deepcopy(ours), ours.table.weight.clone()
    with torch.no_grad():
        compiled = by(way, ours)
        for index in ([[1, 2], [2, 1]], [[5, 5], [0, 11]], [[1, 3], [5, 4]]):
            index = torch.tensor(index)
            torch.testing.assert_close(compiled(index), theirs(index))
            torch.testing.assert_close(ours.table.weight, theirs.table.weight)
    assert torch.equal(ours.table.weight[6:11], before[6:11]) and not torch.equal(ours.table.weight, before)


def test_a_weight_that_is_an_input():
    model = ingot.compile(Given(), inputs=[torch.tensor([1, 3]), torch.randn(5, 4) * 3], fallback="error")
    weight = torch.randn(5, 4) * 3
    other, index = weight.clone(), torch.tensor([4, 1])
    torch.testing.assert_close(model(index, weight), F.embedding(index, other, max_norm=1.0))
    torch.testing.assert_close(weight, other)


class Given(torch.nn.Module):
    def forward(self, index, weight):
        return F.embedding(index, weight, max_norm=1.0)
