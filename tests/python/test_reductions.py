"""Reductions of what reductions give: each row in one body as far as it goes, then in the next."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot

CHAINS = {
    "variance of a softmax": lambda x: x.softmax(-1).var(-1),
    "largest of a scaled softmax": lambda x: (x.softmax(-1).var(-1, keepdim=True) * x).softmax(-1).amax(-1),
    "variance of a log_softmax of a softmax": lambda x: x.softmax(-1).log_softmax(-1).var(-1),
}


class Reduced(torch.nn.Module):
    def __init__(self, reduce):
        super().__init__()
        self.reduce = reduce

    def forward(self, x):
        return self.reduce(x)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_chains(name, dynamic):
    torch.manual_seed(0)
    model, x = Reduced(CHAINS[name]), torch.randn(5, 11)
    given = ingot.Input(min_shape=(2, 11), opt_shape=(5, 11), max_shape=(64, 11)) if dynamic else x
    with torch.no_grad():
        assert_accurate(ingot.compile(model, inputs=[given], fallback="error")(x), model(x), model(x.double()), depth=11)
