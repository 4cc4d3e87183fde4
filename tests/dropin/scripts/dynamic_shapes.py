"""Sizes that vary: min, opt and max, shared by name, the older spelling, profiles; saved with and without dynamic_shapes."""

import os
import tempfile

import torch
import torch_tensorrt

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # of a model without tensors


class Two(torch.nn.Module):
    def forward(self, a, b):
        return torch.softmax(a @ b.transpose(-1, -2), -1) @ b


sizes = {"min_shape": (1, 2, 8), "opt_shape": (4, 16, 8), "max_shape": (8, 64, 8)}
model = Two()
shared = [torch_tensorrt.Input(**sizes, dtype=torch.float32, name=name, shared_dims={0: "batch", 1: "length"}) for name in "ab"]
older = [torch_tensorrt.Input(shape=(-1, -1, 8), shape_ranges=[(1, 4, 8), (2, 16, 64)], dtype=torch.float32) for _ in "ab"]
profiles = [torch_tensorrt.Input(profiles=[{**sizes, "max_shape": (4, 16, 8)}, sizes], shared_dims={0: "batch", 1: "length"}) for _ in "ab"]
with torch.no_grad():
    for inputs in (shared, older, profiles):
        compiled = torch_tensorrt.compile(model, ir="dynamo", inputs=inputs, min_block_size=1, assume_dynamic_shape_support=True)
        for batch, length in ((1, 2), (4, 16), (8, 64)):
            a, b = torch.randn(batch, length, 8, device=DEVICE), torch.randn(batch, length, 8, device=DEVICE)
            torch.testing.assert_close(compiled(a, b), model(a, b))
    try:
        compiled(torch.randn(9, 16, 8, device=DEVICE), torch.randn(9, 16, 8, device=DEVICE))
    except ValueError as problem:
        assert "outside the range" in str(problem)
    else:
        raise AssertionError("a batch of 9 is outside of the range")

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "two.pt2")
        batch, length = torch.export.Dim("batch", min=1, max=8), torch.export.Dim("length", min=2, max=64)
        torch_tensorrt.save(compiled, path, output_format="exported_program", arg_inputs=(a, b), dynamic_shapes={"a": {0: batch, 1: length}, "b": {0: batch, 1: length}})
        loaded = torch_tensorrt.load(path).module()
        torch_tensorrt.save(compiled, path, inputs=profiles)
        for n in (2, 7):
            a, b = torch.randn(n, 5, 8, device=DEVICE), torch.randn(n, 5, 8, device=DEVICE)
            torch.testing.assert_close(loaded(a, b), model(a, b))
            torch.testing.assert_close(torch_tensorrt.load(path).module()(a, b), model(a, b))
