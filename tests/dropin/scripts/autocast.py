"""Mixed precision by rules, as in upstream's guide to autocast."""

import torch
import torch_tensorrt


class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(16, 32, 3)
        self.fc1 = torch.nn.Linear(32 * 6 * 6, 10)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        return self.fc1(torch.flatten(x, 1))


model = MyModule().eval()
inputs = (torch.randn(4, 3, 8, 8),)
calibration = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 3, 8, 8)), batch_size=4)
ep = torch.export.export(model, inputs)
with torch.no_grad():
    trt_gm = torch_tensorrt.dynamo.compile(
        ep, arg_inputs=inputs, min_block_size=1, enable_autocast=True, autocast_low_precision_type=torch.bfloat16,
        autocast_excluded_nodes={"^conv1$"}, autocast_excluded_ops={"torch.ops.aten.flatten.using_ints"},
        autocast_max_output_threshold=512, autocast_max_depth_of_reduction=None, autocast_calibration_dataloader=calibration,
    )
    result = trt_gm(*inputs)
    error = (result.float() - model(*inputs)).abs().max()
assert result.dtype is torch.bfloat16
assert 1e-6 < error < 0.05, error
