"""A module that is compiled when it is called, with weights that change, as an adapter's do, and sizes that grow."""

import os
import tempfile

import torch
import torch_tensorrt as torch_trt


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)

    def forward(self, x, *, scale: float = 1.0, shift=None):
        y = self.down(torch.nn.functional.silu(self.up(x))) * scale
        return y if shift is None else y + shift


model = Block().eval()
mutable = torch_trt.MutableTorchTensorRTModule(model, min_block_size=1, immutable_weights=False, strict=False)
x = torch.randn(3, 8)
with torch.no_grad():
    torch.testing.assert_close(mutable(x), model(x))

    left, right = torch.randn(32, 2), torch.randn(2, 8)
    model.up.weight.add_(left @ right)  # an adapter is merged
    torch.testing.assert_close(mutable(x), model(x))
    mutable.load_state_dict(Block().state_dict())
    torch.testing.assert_close(mutable(x), model(x))

    torch.testing.assert_close(mutable(x, scale=2.0), model(x, scale=2.0))
    torch.testing.assert_close(mutable(x, shift=torch.ones(8)), model(x, shift=torch.ones(8)))

    rows = torch.export.Dim("rows", min=1, max=32)
    mutable.set_expected_dynamic_shape_range(({0: rows},), {})
    for n in (1, 32, 5):
        torch.testing.assert_close(mutable(torch.ones(n, 8)), model(torch.ones(n, 8)))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mutable.pkl")
        torch_trt.MutableTorchTensorRTModule.save(mutable, path)
        reloaded = torch_trt.MutableTorchTensorRTModule.load(path)
        torch.testing.assert_close(reloaded(x), model(x))
