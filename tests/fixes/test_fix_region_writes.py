import pytest
import torch
from graphs import exported, fixed, is_unwanted, targets

from ingot.capture.fixes import region_writes


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sums", torch.zeros(3))

    def forward(self, x):
        def add(x):
            self.sums.add_(x)
            return x + 1

        return torch.cond(x.sum() > 0, add, lambda x: x - 1, (x,)) * self.sums


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch.export refuses branches that write")
def test_a_branch_returns_what_it_writes():
    with torch.no_grad():
        traced = exported(Counting(), torch.ones(3))
    assert targets(traced)[-3:] == ["cond", "getitem", "aten.mul.Tensor"]
    module = fixed("region_writes", traced)
    assert targets(traced)[-5:] == ["cond", "getitem", "aten.copy_.default", "getitem", "aten.mul.Tensor"]
    for region in (m for m in module.modules() if isinstance(m, torch.fx.GraphModule) and m is not module):
        assert len(region.graph.output_node().args[0]) == 2  # its result, and the buffer's new value


def test_a_branch_that_writes_nothing():
    with torch.no_grad():
        assert not region_writes.wanted(exported(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), torch.ones(3)))


def test_other_graphs():
    assert is_unwanted("region_writes")
