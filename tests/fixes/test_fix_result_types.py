import torch
from graphs import exported, fixed, is_unwanted

from ingot.capture.fixes import result_types


def test_the_last_states_that_torch_2_11_records_with_an_axis_more():
    traced = exported(torch.nn.LSTM(4, 5, num_layers=2), torch.zeros(3, 2, 4))
    assert not result_types.wanted(traced) or torch.__version__ < (2, 12)
    node = next(n for n in traced.editable().graph.nodes if n.target is torch.ops.aten.lstm.input)
    out, *states = node.meta["val"]
    wrong = (out, *(s.new_empty(2, 1, 2, 5) for s in states))
    node.meta["val"] = wrong
    for user in node.users:
        user.meta["val"] = wrong[user.args[1]]
    fixed("result_types", traced)
    assert [tuple(t.shape) for t in node.meta["val"]] == [(3, 2, 5), (2, 2, 5), (2, 2, 5)]
    assert sorted(tuple(user.meta["val"].shape) for user in node.users) == [(2, 2, 5), (2, 2, 5), (3, 2, 5)]


def test_what_follows_is_recorded_anew():
    """Squares of bools stay bools, whatever is recorded."""
    traced = exported(lambda x: torch.pow(x > 0, True).cumsum(0), torch.randn(3))
    power = next(n for n in traced.editable().graph.nodes if n.target is torch.ops.aten.pow.Tensor_Scalar)
    power.meta["val"] = power.meta["val"].long()
    fixed("result_types", traced)
    assert power.meta["val"].dtype is torch.bool


def test_other_graphs():
    assert is_unwanted("result_types")
