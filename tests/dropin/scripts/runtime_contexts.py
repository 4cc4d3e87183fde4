"""CUDA graphs, outputs allocated ahead, weight streaming, allocation of the workspace: contexts around calls."""

import torch
import torch_tensorrt
from torch_tensorrt.dynamo.runtime import ResourceAllocationStrategy

model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 16), torch.nn.Softmax(-1)).eval()
x = torch.randn(4, 16)
with torch.no_grad():
    expected = model(x)
    settings = {"min_block_size": 1, "enable_weight_streaming": True, "dynamically_allocate_resources": True, "lazy_engine_init": True}
    whole = torch_tensorrt.compile(model, ir="dynamo", inputs=[x], **settings)
    mixed = torch_tensorrt.compile(model, ir="dynamo", inputs=[x], torch_executed_ops={"torch.ops.aten.gelu.default"}, **settings)
    for compiled in (whole, mixed):
        with torch_tensorrt.runtime.enable_cudagraphs(compiled) as recorded:
            for _ in range(3):
                torch.testing.assert_close(recorded(x), expected)
        torch_tensorrt.runtime.set_cudagraphs_mode(True)
        torch.testing.assert_close(compiled(x), expected)
        torch_tensorrt.runtime.set_cudagraphs_mode(False)
        with torch_tensorrt.runtime.enable_pre_allocated_outputs(compiled):
            first, second = compiled(x), compiled(x + 1)
            torch.testing.assert_close(first, expected)
        with torch_tensorrt.runtime.enable_output_allocator(compiled):
            torch.testing.assert_close(compiled(x), expected)
        with torch_tensorrt.runtime.weight_streaming(compiled) as weights:
            for budget in (weights.total_device_budget, weights.total_device_budget // 2, weights.get_automatic_weight_streaming_budget()):
                weights.device_budget = budget
                torch.testing.assert_close(compiled(x), expected)
        with ResourceAllocationStrategy(compiled, dynamically_allocate_resources=False):
            torch.testing.assert_close(compiled(x), expected)
        with torch_tensorrt.runtime.set_multi_device_safe_mode(True), torch_tensorrt.logging.errors():
            torch.testing.assert_close(compiled(x), expected)
