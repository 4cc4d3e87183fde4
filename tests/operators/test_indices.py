"""Operators that take positions: what eager accepts has eager's values, and what eager refuses is one error that names the step, the operator, the position and the line."""

import pytest
import torch
from calls import Calls

import ingot

F = torch.nn.functional
GEN = torch.Generator().manual_seed(0)
I = torch.tensor([0, 2, 4, 1])  # noqa: E741


def r(*shape):
    return torch.randn(shape, generator=GEN)


def along(i):
    return i[:, None].repeat(1, 6)


def beside(i):
    return i[:, None].expand(-1, 6)


# function, its inputs (the positions come second), the size of what is indexed
CASES = {
    "index_select": (lambda x, i: x.index_select(1, i), (r(5, 6), I), 6),
    "index_select of a number": (lambda x, i: x.index_select(0, i), (r(), I[:1]), 1),
    "gather": (lambda x, i: x.gather(0, along(i)), (r(5, 6), I), 5),
    "gather of a number": (lambda x, i: x.gather(0, i), (r(), I[0]), 1),
    "take": (lambda x, i: torch.take(x, i), (r(5, 6), I), 30),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, along(i), 0), (r(5, 6), I), 5),
    "index": (lambda x, i: x[i], (r(5, 6), I), 5),
    "index of two axes": (lambda x, i: x[i, i], (r(5, 6), I), 5),
    "embedding": (lambda x, i: F.embedding(i, x), (r(5, 6), I), 5),
    "embedding_bag": (lambda x, i: F.embedding_bag(i, x, torch.tensor([0, 1])), (r(5, 6), I), 5),
    "one_hot": (lambda x, i: x + F.one_hot(i, 5), (r(4, 5), I), 5),
    "scatter": (lambda x, i, s: x.scatter(0, along(i), s), (r(5, 6), I, r(4, 6)), 5),
    "scatter of rows": (lambda x, i, s: x.scatter(0, beside(i), s), (r(5, 6), I, r(4, 6)), 5),
    "scatter_reduce": (lambda x, i, s: x.scatter_reduce(0, beside(i), s, "amax", include_self=False), (r(5, 6), I, r(4, 6)), 5),
    "index_add": (lambda x, i, s: x.index_add(0, i, s), (r(5, 6), I, r(4, 6)), 5),
    "index_add of columns": (lambda x, i, s: x.index_add(1, i, s, alpha=2), (r(5, 6), I, r(5, 4)), 6),
    "index_copy": (lambda x, i, s: x.index_copy(0, i, s), (r(5, 6), I, r(4, 6)), 5),
    "index_reduce": (lambda x, i, s: x.index_reduce(0, i, s, "prod"), (r(5, 6), I, r(4, 6)), 5),
    "index_reduce to means": (lambda x, i, s: x.index_reduce(0, i, s, "mean", include_self=False), (r(5, 6), I, r(4, 6)), 5),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1.5), (r(5, 6), I), 5),
    "index_put": (lambda x, i, s: x.index_put((i,), s, accumulate=True), (r(5, 6), I, r(4, 6)), 5),
    "max_unpool2d": (lambda x, i: F.max_unpool2d(x, i.view(1, 1, 2, 2), 2), (r(1, 1, 2, 2), 3 * I + 1), 16),
}


@pytest.mark.parametrize("name", CASES)
def test_positions_at_the_ends(name):
    function, given, size = CASES[name]
    compiled = ingot.compile(Calls(function), inputs=list(given), fallback="error", min_block_size=1)
    for value in (0, size - 1, -1, size, size + 1, -size, -size - 1, 2**62, -(2**63)):
        positions = given[1].clone()
        positions.view(-1)[-1] = value
        inputs = (given[0], positions, *given[2:])
        try:
            expected = function(*inputs)
        except Exception:  # IndexError or RuntimeError
            with pytest.raises(ingot.InputError) as refused:
                compiled(*inputs)
            assert refused.value.message.endswith(f"index {value} is out of range for an axis of size {size}")
            assert "step " in refused.value.message and "(aten." in refused.value.message and "calls.py:" in refused.value.origin
        else:
            torch.testing.assert_close(compiled(*inputs), expected)


@pytest.mark.parametrize("offsets", [[1, 2, 3], [0, -1, 2], [0, 2, 9]])
def test_bags_outside(offsets):
    table, positions = r(5, 6), torch.tensor([0, 1, 2, 3, 4, 1])
    compiled = ingot.compile(Calls(lambda t, i, o: F.embedding_bag(i, t, o)), inputs=[table, positions, torch.tensor([0, 2, 4])], fallback="error", min_block_size=1)
    torch.testing.assert_close(compiled(table, positions, torch.tensor([0, 0, 5])), F.embedding_bag(positions, table, torch.tensor([0, 0, 5])))
    with pytest.raises((RuntimeError, IndexError)):
        F.embedding_bag(positions, table, torch.tensor(offsets))
    with pytest.raises(ingot.InputError, match="out of range"):
        compiled(table, positions, torch.tensor(offsets))


def written(x, mask, values):
    x = x.clone()
    x[mask] = values
    return x


WHERE = {
    "elements": (written, r(5, 6), torch.rand(5, 6, generator=GEN) > 0.5, lambda n: r(n)),
    "rows": (written, r(5, 6), torch.tensor([True, False, True, False, True]), lambda n: r(n, 6)),
    "sums": (lambda x, m, v: x.index_put((m,), v, accumulate=True), r(5, 6), torch.tensor([True, False, True, False, True]), lambda n: r(n, 6)),
    "masked_scatter": (lambda x, m, v: x.masked_scatter(m, v), r(5, 6), torch.rand(5, 6, generator=GEN) > 0.5, lambda n: r(n)),
}


@pytest.mark.parametrize("name", WHERE)
def test_as_many_values_as_a_mask_has(name):
    """Too few or too many of them are an error, as in eager; masked_scatter may have more."""
    function, x, mask, values = WHERE[name]
    count = int(mask.sum())
    shapes = {"inputs": (None, None, {0: torch.export.Dim("n", min=2, max=100)})}
    compiled = ingot.compile(Calls(function), inputs=[x, mask, values(count)], dynamic_shapes=shapes, fallback="error", min_block_size=1)
    for n in (count - 1, count, count + 1):
        given = values(n)
        if n == count or n > count and name == "masked_scatter":
            torch.testing.assert_close(compiled(x, mask, given), function(x, mask, given))
        else:
            with pytest.raises(RuntimeError):
                function(x, mask, given)
            with pytest.raises(ingot.InputError, match="out of range"):
                compiled(x, mask, given)
