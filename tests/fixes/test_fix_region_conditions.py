import pytest
import torch
from graphs import Of, exported, fixed, is_unwanted

import ingot

CONDITIONS = {
    "comparison": lambda x: x.shape[0] > 4,
    "logic": lambda x: (x.shape[0] > 2) & (x.shape[0] != 5),
    "arithmetic": lambda x: x.shape[0] * 3 - 1 == x.shape[1] * 2,
}


def chosen(condition):
    return lambda x: torch.cond(condition(x), lambda y: y + 1, lambda y: y * 2, (x,))


def test_a_condition_becomes_a_tensor():
    traced = exported(chosen(CONDITIONS["logic"]), torch.rand(3, 4), dynamic_shapes={"inputs": ({0: torch.export.Dim("n", min=1, max=9)},)})
    fixed("region_conditions", traced)
    (cond,) = (n for n in traced.graph.nodes if n.target is torch.ops.higher_order.cond)
    assert cond.args[0].target is torch.ops.aten.logical_and.default and cond.args[0].meta["val"].dtype is torch.bool


@pytest.mark.parametrize("name", list(CONDITIONS))
@pytest.mark.parametrize("door", ["compile", "torch.compile"])
def test_engines_choose_by_sizes(name, door, no_gradients):
    torch._dynamo.reset()
    function = chosen(CONDITIONS[name])
    if door == "compile":
        call = ingot.compile(Of(function), inputs=[ingot.Input(min_shape=(1, 2), opt_shape=(3, 4), max_shape=(9, 9))], fallback="error")
    else:
        call = torch.compile(function, backend="ingot", dynamic=True)
    for sizes in ((1, 2), (3, 4), (5, 7), (7, 4), (2, 3)):
        x = torch.rand(sizes)
        assert torch.equal(call(x), function(x))


def test_conditions_that_are_tensors():
    assert is_unwanted("region_conditions")
