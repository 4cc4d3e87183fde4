import pytest
import torch
from graphs import fixed, is_unwanted, of_dynamo, targets

import ingot
from ingot.capture.fixes import picked_elements

PICKS = {
    "one": lambda x, i: x[i] + 1, "last": lambda x, i: x[..., i] + 1, "behind a slice": lambda x, i: x[1:, i] + 1, "two": lambda x, i: x[i, i] + 1, "two apart": lambda x, i: x[i, :, i] + 1,
    "new axes": lambda x, i: x[None, i, ..., None] + 1, "beside a number": lambda x, i: x[1, i] + 1, "seen as": lambda x, i: x[i].view(-1).exp(),
}  # fmt: skip
X = torch.randn(4, 4, 5)


@pytest.mark.parametrize("name", PICKS)
@pytest.mark.parametrize("at", [2, -1])
def test_elements_are_taken_by_an_operator(name, at):
    given = X[:, :, :4] if name == "two apart" else X
    traced = of_dynamo(PICKS[name], given, torch.tensor(at))
    module = fixed("picked_elements", traced)
    assert "aten.index.Tensor" in targets(traced)
    inputs = {n.name: given if n.meta["example_value"].dim() else torch.tensor(at) for n in traced.graph.nodes if n.op == "placeholder"}
    (made,) = module(*inputs.values())
    expected = PICKS[name](given, torch.tensor(at))
    assert made.equal(expected) and made.stride() == expected.stride()


def test_an_engine_runs_it(no_gradients):
    reports, scales = [], torch.linspace(0.1, 0.9, 9)

    def backend(graph, examples):
        made = ingot.ingot_backend(graph, examples)
        reports.append(made.report)
        return made

    step = lambda x, t: x * scales[t].sqrt() + scales[t, None]
    compiled = torch.compile(step, backend=backend)
    for t in (3, 8, 0):
        torch.testing.assert_close(compiled(X, torch.tensor(t)), step(X, torch.tensor(t)))
    assert reports and all(r.whole for r in reports)  # one for each value: Dynamo itself guards the value of such an index


@pytest.mark.parametrize("model", [lambda x, i: x[i].add_(1), lambda x, i: x[i], lambda x, i: x[i].view(-1)[1:], lambda x, i: x[[0, 1]] + i])
def test_what_stays(model):
    traced = of_dynamo(model, X.clone(), torch.tensor(2))
    assert not picked_elements.wanted(traced) or picked_elements.apply(traced) is False


def test_other_graphs():
    assert is_unwanted("picked_elements")
