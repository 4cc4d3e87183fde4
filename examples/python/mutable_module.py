"""A module that is compiled at its first call, and again when its model or its sizes change: MutableTorchTensorRTModule of Torch-TensorRT's API, on ingot."""

import tempfile
from pathlib import Path

import torch

import ingot.torch_tensorrt as torch_tensorrt


class Adapted(torch.nn.Module):
    """A linear layer with a low-rank adapter that can be switched on."""

    def __init__(self, width=16, rank=2):
        super().__init__()
        self.base = torch.nn.Linear(width, width)
        self.left, self.right = torch.nn.Parameter(torch.randn(width, rank) * 0.1), torch.nn.Parameter(torch.randn(rank, width) * 0.1)

    def forward(self, x, *, adapted: bool = False):
        y = self.base(x)
        return y + x @ self.left @ self.right if adapted else y


@torch.no_grad()
def main():
    torch.manual_seed(0)
    model = Adapted().eval()
    mutable = torch_tensorrt.MutableTorchTensorRTModule(model, min_block_size=1, immutable_weights=False)
    x = torch.randn(4, 16)

    torch.testing.assert_close(mutable(x), model(x))  # compiled now
    torch.testing.assert_close(mutable(x, adapted=True), model(x, adapted=True))  # another graph: compiled again
    print("compiled for both values of `adapted`")

    # Weights: by assignment, in place, by load_state_dict. All are seen at the next call.
    model.base.weight.add_(model.right.T @ model.left.T)
    torch.testing.assert_close(mutable(x), model(x))
    mutable.load_state_dict(Adapted().state_dict())
    torch.testing.assert_close(mutable(x), model(x))
    print("weights are followed")

    # Sizes: a range for the batch, so that other batches build nothing.
    mutable.set_expected_dynamic_shape_range(({0: torch.export.Dim("batch", min=1, max=32)},), {})
    for rows in (1, 5, 32):
        torch.testing.assert_close(mutable(torch.ones(rows, 16)), model(torch.ones(rows, 16)))
    print("batches of 1 to 32")

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "adapted.pkl")
        torch_tensorrt.MutableTorchTensorRTModule.save(mutable, path)
        again = torch_tensorrt.MutableTorchTensorRTModule.load(path)
        torch.testing.assert_close(again(x), model(x))
    print("saved and loaded")


if __name__ == "__main__":
    main()
