import pytest
import torch
from graphs import Of, exported, fixed, is_unwanted, of_dynamo

import ingot

MODELS = {
    "an input": lambda x, y: torch.cond(x.sum() > 0, lambda a, b: (a + b, a), lambda a, b: (a - b, b), (x, y)),
    "a view": lambda x, y: torch.cond(x.sum() > 0, lambda a, b: a[0], lambda a, b: b.mT[:, 1] * 1, (x, y)),
    "a result twice": lambda x, y: torch.cond(x.sum() > 0, lambda a, b: ((s := a + b), s), lambda a, b: (a * 2, b * 2), (x, y)),
}
ALLOWED = pytest.mark.skipif(torch.__version__ < "2.12", reason="Dynamo of torch 2.11 refuses branches that give an input")
X, Y = torch.rand(3, 4), torch.rand(3, 4)


@ALLOWED
@pytest.mark.parametrize("capture", [exported, of_dynamo])
def test_they_are_copied(capture, no_gradients):
    traced = capture(MODELS["an input"], X, Y)
    fixed("region_results", traced)
    regions = [getattr(traced.module, n.target) for n in traced.graph.nodes if n.op == "get_attr"]
    assert [sum("clone" in str(n.target) for n in region.graph.nodes) for region in regions] == [1, 1]


@ALLOWED
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("door", ["compile", "torch.compile", "exported"])
def test_results(name, door, no_gradients):
    torch._dynamo.reset()
    model = Of(MODELS[name])
    if door == "torch.compile":
        call = torch.compile(model, backend="ingot", options={"fallback": "error"})
    else:
        call = ingot.compile(model, inputs=[X, Y], fallback="error") if door == "compile" else ingot.compile(torch.export.export(model, (X, Y)), fallback="error")
    for x in (X, -X):
        for ours, theirs in zip(torch.utils._pytree.tree_leaves(call(x, Y)), torch.utils._pytree.tree_leaves(model(x, Y)), strict=True):
            assert torch.equal(ours, theirs)


def test_graphs_without_branches():
    assert is_unwanted("region_results")
