"""torch.einsum of three and more operands gets a path where the package opt_einsum is installed."""

import pytest
import torch

import ingot

EQUATION = "bhund,bhude,bhun,e->bhune"
SIZES = (2, 3, 4, 5, 6), (2, 3, 4, 6, 7), (2, 3, 4, 5), (7,)
PATHS = [None, [1, 3, 0, 1, 0, 1], [2, 0, 1, 2, 1, 0], [3, 1, 2, 0, 0, 1]]


class Product(torch.nn.Module):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def forward(self, *operands):
        return torch.ops.aten.einsum.default(EQUATION, list(operands), path=self.path)


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_paths(path, way):
    generator = torch.Generator().manual_seed(0)
    operands = [torch.randn(size, generator=generator) for size in SIZES]
    model = Product(path)
    torch._dynamo.reset()
    if way == "compile":
        call = ingot.compile(model, inputs=operands)
        assert call.report.whole, call.report
    else:
        call = torch.compile(model, backend="ingot", fullgraph=True)
    torch.testing.assert_close(call(*operands), torch.einsum(EQUATION, *(t.double() for t in operands)).float())
