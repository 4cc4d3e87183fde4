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


class LastFirst:
    """In the place of opt_einsum: multiplies the last two operands."""

    @staticmethod
    def contract_path(equation, *operands, optimize, shapes=False):
        sizes = operands if shapes else [operand.shape for operand in operands]
        assert all(type(int(size)) is int for operand in sizes for size in operand)  # as opt_einsum, which compares them: torch's tracer fixes a size that is asked for
        return [(at - 2, at - 1) for at in range(len(operands), 1, -1)], ""


@pytest.mark.parametrize("given", ["operands", "a list"])
def test_open_sizes_with_opt_einsum(given, monkeypatch):
    """Its path follows from the example's sizes, which stay open."""
    module = torch.backends.opt_einsum.m
    monkeypatch.setattr(module, "_opt_einsum", LastFirst)
    monkeypatch.setattr(module, "is_available", lambda: True)
    monkeypatch.setattr(module, "enabled", True)
    monkeypatch.setattr(module, "strategy", "auto")

    class Open(torch.nn.Module):
        def forward(self, *operands):
            return torch.einsum(EQUATION, *operands) if given == "operands" else torch.einsum(EQUATION, operands)

    inputs = [ingot.Input(min_shape=(1, *size[1:]), opt_shape=size, max_shape=(9, *size[1:]), shared_dims={0: "B"}) if len(size) > 1 else torch.ones(size) for size in SIZES]
    compiled = ingot.compile(Open(), inputs=inputs)
    assert compiled.report.whole
    for batch in (1, 2, 9):
        operands = [torch.randn(batch, *size[1:]) if len(size) > 1 else torch.randn(size) for size in SIZES]
        torch.testing.assert_close(compiled(*operands), torch.einsum(EQUATION, *(t.double() for t in operands)).float())


class Angles(torch.nn.Module):
    """As rotary embeddings: whole numbers times frequencies."""

    def forward(self, places, frequencies, weight):
        return torch.einsum("i,j->ij", places, frequencies), torch.einsum("i,ij->ij", places, weight), torch.einsum("ij,j,i->ji", weight, frequencies.double(), places)


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_operands_of_different_types(way):
    """Where no axis is summed, torch multiplies the elements, in the type that both have in common."""
    operands, model = (torch.arange(3), torch.randn(4), torch.randn(3, 4)), Angles()
    with torch.no_grad():
        call = torch.compile(model, backend="ingot") if way == "torch.compile" else ingot.compile(model, inputs=list(operands))
        assert way == "torch.compile" or call.report.whole
        for got, eager in zip(call(*operands), model(*operands), strict=True):
            torch.testing.assert_close(got, eager)


def test_a_sum_of_different_types_is_eagers_error():
    model = type("Sum", (torch.nn.Module,), {"forward": lambda self, x, y: torch.einsum("ij,j->i", x, y)})()
    with pytest.raises((RuntimeError, ingot.Error)):
        ingot.compile(model, inputs=[torch.randn(3, 4), torch.arange(4)])
