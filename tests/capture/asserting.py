"""A model with assertions. In a file of tests, pytest would write them otherwise."""

import torch


class Asserts(torch.nn.Module):
    """As XLM: what is read of the lengths is only asserted."""

    def forward(self, x, lengths):
        assert lengths.max().item() <= x.shape[1]
        assert 0.1 < x.amax().item() * 2, "x is small"  # 0.1 is not the same number in float32
        return x * (torch.arange(x.shape[1]) < lengths.unsqueeze(1)).unsqueeze(2)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Asserts()

    def forward(self, x, lengths):
        return self.part(x, lengths) + 1
