"""`ingot.compile(passes=...)`: users' passes over the exported graph."""

import pytest
import torch

import ingot

INPUTS = [ingot.Input(min_shape=(1, 4), opt_shape=(3, 4), max_shape=(16, 4), name="x")]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x)) + 1


def relu_to_sigmoid(gm):
    for node in gm.graph.nodes:
        if node.target is torch.ops.aten.relu.default:
            node.target = torch.ops.aten.sigmoid.default
    return gm


def twice(gm):
    """In place, and nothing returned."""
    output = gm.graph.output_node()
    (value,) = output.args[0]
    with gm.graph.inserting_before(output):
        output.args = ((gm.graph.call_function(torch.ops.aten.mul.Tensor, (value, 2)),),)


@pytest.mark.parametrize("exported", [False, True])
def test_they_run_in_order_with_open_sizes(exported, tmp_path):
    model = Model().eval()
    module = torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("B", max=16)},)) if exported else model
    compiled = ingot.compile(module, inputs=INPUTS, passes=[relu_to_sigmoid, twice])
    assert compiled.report.whole
    for rows in (1, 5, 16):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), 2 * (torch.sigmoid(model.linear(x)) + 1))
    with torch.no_grad():
        model.linear.weight.zero_()  # weights are the model's own
    torch.testing.assert_close(compiled(x), 2 * (torch.sigmoid(model.linear(x)) + 1))
    assert ingot.explain(module, inputs=INPUTS, passes=[relu_to_sigmoid]).whole


def test_a_saved_program(tmp_path):
    model = Model().eval()
    torch.export.save(torch.export.export(model, (torch.randn(3, 4),)), tmp_path / "m.pt2")
    x = torch.randn(3, 4)
    torch.testing.assert_close(ingot.compile(tmp_path / "m.pt2", passes=[twice])(x), 2 * model(x))


def fails(gm):
    raise KeyError("no such node")


def unordered(gm):
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    nodes[0].append(nodes[-1])


def misshapen(gm):
    output = gm.graph.output_node()
    (value,) = output.args[0]
    with gm.graph.inserting_before(output):
        output.args = ((gm.graph.call_function(torch.ops.aten.mm.default, (value, value)),),)


@pytest.mark.parametrize(
    "passes, text",
    [
        ([twice, fails], "pass 'fails' failed: KeyError: 'no such node'"),
        ([lambda gm: gm.graph, twice], "pass '<lambda>' returned a Graph"),
        ([twice, unordered], "pass 'unordered' left an invalid graph"),
        ([twice, misshapen, relu_to_sigmoid], "the graph that pass 'misshapen' left cannot be exported"),
        ([3], "a pass is 3, which cannot be called"),
    ],
)
def test_one_that_breaks_the_graph_is_named(passes, text):
    with pytest.raises(ingot.InputError) as told:
        ingot.compile(Model().eval(), inputs=INPUTS, passes=passes)
    assert text in str(told.value)
