"""An open axis that may be empty: where eager refuses a call because nothing is there, so does the engine, by a check of that size; where it has a value for nothing, so has the engine."""

import pytest
import torch
from calls import Calls

import ingot

F = torch.nn.functional
NOTHING_TO_CHOOSE = {
    "amax": lambda x: x.amax(0),
    "amin of all": lambda x: x.amin(),
    "max": lambda x: x.max(0),
    "min of all": lambda x: x.min(),
    "argmax": lambda x: x.argmax(0),
    "argmin of all": lambda x: x.argmin(),
    "aminmax": lambda x: x.aminmax(dim=0),
    "median": lambda x: x.median(0),
    "mode": lambda x: x.mode(0),
    "kthvalue": lambda x: x.kthvalue(1, 0),
    "quantile": lambda x: x.quantile(0.5, 1),
    "largest norm": lambda x: torch.linalg.vector_norm(x, float("inf"), 0),
    "smallest norm": lambda x: torch.linalg.vector_norm(x, float("-inf")),
    "differences": lambda x: x.diff(dim=0).amax(0),
    "channels": lambda x: F.max_pool1d(x[None], 2),
    "channels of an image": lambda x: F.avg_pool2d(x[None, :, :, None], (2, 1)),
}
VALUE_OF_NOTHING = {
    "median of all": lambda x: (x.median(), x.nanmedian()),
    "median of integers": lambda x: (x * 9).long().median(),
    "median of bytes": lambda x: x.to(torch.uint8).median(),
    "sums": lambda x: (x.sum(0), x.prod(), x.mean(0), x.std()),
    "largest sum": lambda x: torch.linalg.matrix_norm(x, 1),
    "bincount": lambda x: torch.bincount(x.abs().long().flatten()),
    "bincount with a least length": lambda x: torch.bincount(x.abs().long().flatten(), minlength=3),
    "histc": lambda x: x.histc(4),
    "softmax": lambda x: (x.softmax(0), x.logsumexp(0)),
    "sort": lambda x: (x.sort(0), x.cummax(0)),
}


def compiled(function):
    return ingot.compile(Calls(function), inputs=[ingot.Input(min_shape=(0, 5), opt_shape=(4, 5), max_shape=(9, 5))], fallback="error")


@pytest.mark.parametrize("name", NOTHING_TO_CHOOSE)
def test_nothing_to_choose_from(name):
    function = NOTHING_TO_CHOOSE[name]
    call = compiled(function)
    for size in (2, 7):
        x = torch.randn(size, 5)
        torch.testing.assert_close(call(x), function(x))
    with pytest.raises((RuntimeError, IndexError)):
        function(torch.empty(0, 5))
    with pytest.raises(ingot.InputError, match="do not fit the model"):
        call(torch.empty(0, 5))


@pytest.mark.parametrize("name", VALUE_OF_NOTHING)
def test_the_value_of_nothing(name):
    function = VALUE_OF_NOTHING[name]
    call = compiled(function)
    for x in (torch.randn(4, 5), torch.randn(7, 5), torch.empty(0, 5), torch.randn(1, 5)):
        torch.testing.assert_close(call(x), function(x), equal_nan=True)


def test_not_a_number_is_the_median_of_all():
    call = compiled(VALUE_OF_NOTHING["median of all"])
    x = torch.tensor([[3.0, float("nan"), 1.0, 2.0, 9.0]])
    torch.testing.assert_close(call(x), VALUE_OF_NOTHING["median of all"](x), equal_nan=True)


def test_what_data_leaves_over():
    """The number of elements is read from data; there may be none."""
    function = lambda x: x[x > 0].amax()  # noqa: E731
    call = ingot.compile(Calls(function), inputs=[torch.randn(4, 5)], fallback="error")
    x = torch.randn(4, 5)
    assert torch.equal(call(x), function(x))
    with pytest.raises(ingot.InputError):
        call(-x.abs())
