"""Models that call torch.vmap, ahead of time."""

import pytest
import torch

import ingot

FUNCTIONS = {
    "mapped index": lambda x, i: torch.vmap(lambda a, i: a[i])(x, i),
    "mapped index of another tensor": lambda x, i: torch.vmap(lambda i: x[:, i].sum())(i),
    "another axis": lambda x, i: torch.vmap(lambda a: (a.sin(), a.cos(), i), out_dims=(1, -1, 0))(x),
    "an axis of each": lambda x, i: torch.vmap(torch.vmap(lambda a, i: a * i, in_dims=(0, None), out_dims=0), in_dims=(1, 0), out_dims=1)(x.T, i),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap(name):
    class Model(torch.nn.Module):
        def forward(self, x, i):
            return FUNCTIONS[name](x, i)

    rows = {"shared_dims": {0: "rows"}}
    inputs = [ingot.Input(min_shape=(2, 4), opt_shape=(3, 4), max_shape=(9, 4), **rows), ingot.Input(min_shape=(2,), opt_shape=(3,), max_shape=(9,), dtype=torch.int64, **rows)]
    compiled = ingot.compile(Model(), inputs=inputs, fallback="error")
    for n in (3, 7):
        x, i = torch.randn(n, 4), torch.randint(0, 4, (n,))
        ours, theirs = compiled(x, i), Model()(x, i)
        for a, b in zip(torch.utils._pytree.tree_leaves(ours), torch.utils._pytree.tree_leaves(theirs), strict=True):
            assert a.stride() == b.stride()
            torch.testing.assert_close(a, b)
