"""Operators of which torch's Python references, which it asks for the shapes of open sizes, have other arguments: std(False) means all axes and not axis 0."""

import pytest
import torch
from ingot.backend import ingot_backend

import ingot


class Spread(torch.nn.Module):
    def forward(self, x):
        found = *torch.std_mean(x, 1, False, True), x.std(False), x.var(False), *torch.var_mean(x, False), *torch.std_mean(x, False)
        return *found, x.std(1, False, True), *torch.var_mean(x, 1, True, False)


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_spread_with_open_sizes(way):
    model, x, whole = Spread(), torch.randn(5, 6), []

    def backend(graph, examples):
        return ingot_backend(graph, examples, options={"dryrun": lambda report: whole.append(report.whole)})

    with torch.no_grad():
        if way == "compile":
            compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 2), opt_shape=(4, 5), max_shape=(9, 9))])
            assert compiled.report.whole
        else:
            torch.compile(model, backend=backend, dynamic=True)(x)
            assert whole == [True]
            compiled = torch.compile(model, backend="ingot", dynamic=True)
        for got, eager in zip(compiled(x), model(x), strict=True):
            torch.testing.assert_close(got, eager)
