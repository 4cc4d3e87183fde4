"""Weights that change one at a time: derived weights (merged, folded, packed, cast) that depend on one are made anew, and no others."""

import copy

import pytest
import torch

import ingot


class Merged(torch.nn.Module):
    """Queries, keys and values are one product; norms stand before and behind."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.q, self.k, self.v = (torch.nn.Linear(16, 16, bias=bias) for bias in (True, False, True))

    def forward(self, x):
        x = self.layer(x)
        return torch.nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


class Folded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, groups=8), torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 4, 1))
        self.body[1].running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.body(x)


class Tied(torch.nn.Module):
    """A table that is read, and turned in a product; a weight that is cast."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(12, 8), torch.nn.Linear(8, 12)
        self.head.weight = self.embed.weight
        self.scale = torch.nn.Parameter(torch.randn(8).double())

    def forward(self, ids):
        return self.head(self.embed(ids) * self.scale.float())


@pytest.mark.parametrize("kind, x", [(Merged, torch.randn(2, 5, 16)), (Folded, torch.randn(2, 3, 9, 9)), (Tied, torch.arange(7))], ids=["merged", "folded", "tied"])
@pytest.mark.parametrize("from_file", [False, True], ids=["compiled", "loaded"])
@pytest.mark.one_in(3)
def test_each_weight_alone(kind, x, from_file, tmp_path):
    torch.manual_seed(0)
    eager = kind().eval().requires_grad_(False)
    module = ingot.compile(copy.deepcopy(eager), inputs=[x])
    if from_file:
        ingot.save(module, tmp_path / "model.ingot")
        module = ingot.load(tmp_path / "model.ingot")
    names = [n for n, t in eager.named_parameters()] + [n for n, t in eager.named_buffers() if t.is_floating_point()]
    for round in range(2):
        for name in names:
            value = eager.state_dict()[name] * (1.3 - 0.5 * round) + 0.01
            eager.load_state_dict({name: value}, strict=False)
            before = module(x)
            module.update_weights({name: value.clone()})
            assert torch.allclose(module(x), eager(x), atol=1e-4, rtol=1e-3), name
            assert not torch.equal(module(x), before), name
