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


def counted(x, i):
    y = x.clone()
    y[i] += 1
    y[1:, i, ..., None] *= x[1:, i, ..., None]
    return y


def read_before_it_is_written_back(x, i):
    y = x.clone()
    part = y[i]
    part += 1
    total = y.sum()
    y[i] = part
    return y + total


def overwritten(x, i):
    y = x.clone()
    y[i] = 0
    y[:, i] = x[:, :1, 0].to(torch.float64)
    y[..., i, 1:3] = x[None, None, :, 0, 2:4]
    return y


@pytest.mark.parametrize("model", [counted, overwritten])
@pytest.mark.parametrize("at", [2, -1])
def test_elements_are_written_by_an_operator(model, at, no_gradients):
    assert picked_elements.wanted(of_dynamo(model, X, torch.tensor(at)))
    reports = []

    def backend(graph, examples):
        made = ingot.ingot_backend(graph, examples)
        reports.append(made.report)
        return made

    torch.testing.assert_close(torch.compile(model, backend=backend)(X, torch.tensor(at)), model(X, torch.tensor(at)), rtol=0, atol=0)
    assert [r.whole for r in reports] == [True]


@pytest.mark.parametrize("model", [read_before_it_is_written_back, lambda x, i: x[i].add_(1), lambda x, i: x[i], lambda x, i: x[i].view(-1)[1:], lambda x, i: x[[0, 1]] + i])
def test_what_stays(model):
    traced = of_dynamo(model, X.clone(), torch.tensor(2))
    before = targets(traced)
    if picked_elements.wanted(traced):
        picked_elements.apply(traced)
    assert "aten.index.Tensor" not in targets(traced) or targets(traced) == before


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("counts", torch.zeros(10, dtype=torch.int64))

    def forward(self, i):
        self.counts[i[0]] += 1  # Dynamo breaks its graph in the middle of this statement
        return self.counts * 2


def test_a_view_of_the_tensor_is_written_to_it(no_gradients):
    compiled, model = torch.compile(Counts(), backend="ingot"), Counts()
    for i in (3, 3, 7):
        assert compiled(torch.tensor([i, 1])).equal(model(torch.tensor([i, 1])))


def test_inside_of_vmap(no_gradients):
    one, x, i = lambda x, i: x[i] + x, torch.randn(3, 5), torch.tensor([1, 4, 0])
    torch.testing.assert_close(torch.compile(torch.vmap(one), backend="ingot")(x, i), torch.vmap(one)(x, i))


def test_other_graphs():
    assert is_unwanted("picked_elements")
