"""A user's operator runs in torch until a decomposition, a converter or a pass says how to compute it."""

import torch
import torch_tensorrt
from torch_tensorrt.dynamo.conversion import ConverterPriority, dynamo_tensorrt_converter
from torch_tensorrt.dynamo.conversion._ConverterRegistry import DYNAMO_CONVERTERS
from torch_tensorrt.dynamo.lowering import register_torch_trt_decomposition, torch_trt_decompositions
from torch_tensorrt.dynamo.lowering.passes import _aten_lowering_pass, _remove_lowering_pass


@torch.library.custom_op("dropin_script::swish", mutates_args=())
def swish(x: torch.Tensor, beta: float) -> torch.Tensor:
    return x * torch.sigmoid(x * beta)


@swish.register_fake
def _(x, beta):
    return torch.empty_like(x)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.ops.dropin_script.swish(self.layer(x), 1.5) + 1


model, x = Net().eval(), torch.randn(3, 8)


def compiled():
    with torch.no_grad():
        made = torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)
        torch.testing.assert_close(made(x), model(x))
    return made


assert compiled().report.in_torch == 1

# as a decomposition
register_torch_trt_decomposition(torch.ops.dropin_script.swish.default)(lambda x, beta: x * torch.sigmoid(x * beta))
assert compiled().report.whole
torch_trt_decompositions.clear()


# as a converter that composes torch's operators
@dynamo_tensorrt_converter(
    torch.ops.dropin_script.swish.default, capability_validator=lambda node, settings: node.args[1] > 0, priority=ConverterPriority.HIGH, supports_dynamic_shapes=True
)
def convert(ctx, target, args, kwargs, name):
    x, beta = args
    return torch.ops.aten.mul.Tensor(x, torch.ops.aten.sigmoid.default(torch.ops.aten.mul.Tensor(x, beta)))


assert compiled().report.whole
DYNAMO_CONVERTERS.registry.clear()


# as one that builds TensorRT layers: refused, with what to do instead
@dynamo_tensorrt_converter(torch.ops.dropin_script.swish.default)
def network(ctx, target, args, kwargs, name):
    return ctx.net.add_activation(args[0], None).get_output(0)


try:
    compiled()
except Exception as problem:
    assert "compose torch's operators" in str(problem)
else:
    raise AssertionError("it builds TensorRT layers")
DYNAMO_CONVERTERS.registry.clear()


# as a pass over the graph
@_aten_lowering_pass
def replace_swish(gm, settings):
    for node in list(gm.graph.nodes):
        if node.target is torch.ops.dropin_script.swish.default:
            with gm.graph.inserting_before(node):
                inner = gm.graph.call_function(torch.ops.aten.mul.Tensor, node.args)
                gate = gm.graph.call_function(torch.ops.aten.sigmoid.default, (inner,))
                node.replace_all_uses_with(gm.graph.call_function(torch.ops.aten.mul.Tensor, (node.args[0], gate)))
            gm.graph.erase_node(node)
    gm.graph.lint()
    return gm


assert compiled().report.whole
_remove_lowering_pass(index=0)

# the paths by which other scripts import the same
from torch_tensorrt.dynamo.lowering.passes._aten_lowering_pass import _aten_lowering_pass as by_module
from torch_tensorrt.dynamo.partitioning._global_partitioner import TorchTensorRTOperatorSupport

assert by_module is _aten_lowering_pass and TorchTensorRTOperatorSupport().is_node_supported({}, next(iter(torch.fx.symbolic_trace(torch.nn.ReLU()).graph.nodes))) is False
