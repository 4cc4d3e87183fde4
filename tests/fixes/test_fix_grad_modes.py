import torch
from graphs import fixed, is_unwanted, of_dynamo, targets

from ingot.capture.fixes import grad_modes


def test_switches_go():
    def model(x):
        with torch.no_grad():
            y = x * 2
        return y + 1

    x, traced = torch.randn(3), of_dynamo(model, torch.randn(3))
    assert targets(traced) == ["_set_grad_enabled", "mul", "_set_grad_enabled", "add"]
    module = fixed("grad_modes", traced)
    assert targets(traced) == ["mul", "add"] and module(x)[0].equal(model(x))


def test_a_graph_that_derives_switches_to_its_mode():
    x, traced = torch.randn(3), of_dynamo(torch.func.grad(lambda x: x.sin().sum()), torch.randn(3))
    before = targets(traced)
    assert grad_modes.wanted(traced)
    grad_modes.apply(traced)
    assert targets(traced) == ["_set_grad_enabled", *before, "_set_grad_enabled"]
    traced.module.recompile()
    with torch.no_grad():
        torch.testing.assert_close(traced.module(x)[0], x.cos())
        assert not torch.is_grad_enabled() and not grad_modes.wanted(of_dynamo(torch.func.grad(lambda x: x.sin().sum()), x))


def test_other_graphs():
    assert is_unwanted("grad_modes")
