"""Validators and passes that scripts call by name, and builds do not use."""

import pytest
import torch
import torch.nn.functional as F

import ingot.torch_tensorrt as torch_tensorrt
from ingot.torch_tensorrt.dynamo.conversion import aten_ops_converters as validators
from ingot.torch_tensorrt.dynamo.lowering.passes.fuse_pad_into_convolution import fuse_pad_into_convolution, tensorrt_conv_asym_pad_op

aten = torch.ops.aten


def node_of(function, *inputs, **options):
    """The only operator of an exported function."""
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *given: function(*given)})()
    graph = torch.export.export(model, inputs, **options).module().graph
    return next(n for n in graph.nodes if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload) and "guard" not in str(n.target))


def test_a_cross_product_needs_axes_that_are_known_to_be_3():
    accepts = lambda function, *shapes, **options: validators.cross_validator(node_of(function, *map(torch.randn, shapes), **options))  # noqa: E731
    assert accepts(torch.linalg.cross, (4, 3), (4, 3)) and accepts(lambda a, b: torch.linalg.cross(a, b, dim=0), (3, 5), (3, 5))
    assert accepts(lambda a: torch.linalg.cross(a, a), (4, 3), dynamic_shapes={"given": ({0: torch.export.Dim.AUTO},)})
    sums = node_of(lambda a: a + a, torch.randn(4, 3), dynamic_shapes={"given": ({1: torch.export.Dim.AUTO},)})
    assert not validators.cross_validator(sums)  # its last axis is open
    node = node_of(torch.linalg.cross, torch.randn(4, 3), torch.randn(4, 3))
    node.args[1].meta["val"] = torch.randn(4, 4)
    assert not validators.cross_validator(node)
    del node.args[1].meta["val"]
    node.args[1].meta.pop("tensor_meta", None)
    assert not validators.cross_validator(node)  # nothing is known


def test_a_sort_needs_an_axis():
    assert validators.sort_validator(node_of(lambda x: torch.sort(x)[0], torch.randn(4, 8))) and validators.sort_validator(node_of(lambda x: torch.sort(x, 0)[0], torch.randn(4, 8)))
    assert not validators.sort_validator(node_of(lambda x: torch.sort(x)[0], torch.tensor(5.0)))


def test_masks_among_indices():
    x, mask, places = torch.randn(3, 4), torch.tensor([True, False, True]), torch.tensor([0, 2])
    masked, placed = node_of(lambda x, i: aten.index.Tensor(x, [i]), x, mask), node_of(lambda x, i: aten.index.Tensor(x, [None, i]), x, places)
    assert validators.index_has_bool_indices(masked) and not validators.index_has_bool_indices(placed)
    assert validators.index_nonbool_validator(masked) and validators.index_nonbool_validator(placed)


def padded(pad, conv, value=0.0):
    """The program of a convolution behind a pad, in torch's core operators."""

    class Padded(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv

        def forward(self, x):
            return self.conv(F.pad(x, pad, value=value))

    x = torch.randn(2, 4, *[9] * (conv.weight.dim() - 2))
    return torch.export.export(Padded().eval(), (x,)).run_decompositions(), x


CASES = {
    "causal": ([1, 1, 1, 1, 2, 0], lambda: torch.nn.Conv3d(4, 6, 3)),
    "beside its own padding": ([0, 1, 2, 0], lambda: torch.nn.Conv2d(4, 6, 3, padding=(1, 2), stride=2, bias=False)),
    "one axis": ([3, 0], lambda: torch.nn.Conv2d(4, 4, 3, groups=2, dilation=2, padding=1)),
}


@pytest.mark.parametrize("name", CASES)
def test_zeros_around_a_convolution_become_its_padding(name):
    torch.manual_seed(0)
    pad, conv = CASES[name]
    program, x = padded(pad, conv())
    graph = fuse_pad_into_convolution(program.module())
    targets = [n.target for n in graph.graph.nodes if n.op == "call_function"]
    assert tensorrt_conv_asym_pad_op in targets and not {aten.constant_pad_nd.default, aten.convolution.default} & set(targets)
    expected = program.module()(x)
    torch.testing.assert_close(graph(x), expected)
    assert [n.target for n in fuse_pad_into_convolution(graph).graph.nodes if n.op == "call_function"] == targets
    made = torch_tensorrt.compile(graph, inputs=[x], min_block_size=1, require_full_compilation=True)
    torch.testing.assert_close(made(x), expected, rtol=1e-4, atol=1e-5)


def test_what_is_no_padding_of_the_convolution_stays():
    for pad, value in (([1, 1, 1, 1], 1.0), ([1, 1, 1, 1, 2, 2], 0.0), ([-1, 0, 0, 0], 0.0)):
        conv = torch.nn.Conv2d(8 if len(pad) == 6 else 4, 4, 3)
        graph = fuse_pad_into_convolution(padded(pad, conv, value)[0].module()).graph
        assert graph.find_nodes(op="call_function", target=aten.constant_pad_nd.default)
    graph = torch.fx.Graph()
    x, weight = graph.placeholder("x"), graph.placeholder("weight")
    pad = graph.call_function(aten.constant_pad_nd.default, (x, [1, 1]))
    graph.output((pad, graph.call_function(aten.convolution.default, (pad, weight, None, [1], [0], [1], False, [0], 1))))
    assert fuse_pad_into_convolution(torch.fx.GraphModule({}, graph)).graph.find_nodes(op="call_function", target=aten.convolution.default)  # its padded input is a result too
