import torch
from graphs import exported, fixed, is_unwanted, targets
from torch.fx.experimental.proxy_tensor import make_fx

from ingot.capture.fixes import random_numbers
from ingot.capture.traced import Traced


def noise(x):
    return torch.rand_like(x)


def test_a_buffer_counts_the_calls():
    traced = Traced(exported(noise, torch.zeros(64)).program().module(check_guards=False))
    module = fixed("random_numbers", traced)
    assert "aten.rand_like.default" not in targets(traced) and traced.random_state is None
    state = getattr(module, random_numbers.STATE)
    first, second = (module(torch.zeros(64)) for _ in range(2))
    assert state[1] == 2 and not first.equal(second) and first.min() >= 0 and first.max() < 1
    state[1] = 0
    assert module(torch.zeros(64)).equal(first)


def test_where_weights_are_inputs_the_state_is_the_last():
    traced = Traced(make_fx(noise)(torch.zeros(8)), weights_are_inputs=True)
    for node in traced.graph.nodes:
        node.meta["val"] = torch.zeros(8)
    fixed("random_numbers", traced)
    *_, last = (n for n in traced.graph.nodes if n.op == "placeholder")
    assert last.name == random_numbers.STATE and traced.random_state.shape == (2,)


def test_other_graphs():
    assert is_unwanted("random_numbers") and not random_numbers.wanted(exported(lambda x: torch.nn.functional.dropout(x, 0.5, False), torch.zeros(3)))
