"""Buffers and inputs that a model writes in place: a cache of keys that grows by a position a call."""

import os
import tempfile

import torch
import torch_tensorrt


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(1, 16, 8))

    def forward(self, x, position):
        self.keys.index_copy_(1, position, self.project(x))
        return torch.softmax(x @ self.keys.transpose(-1, -2), -1) @ self.keys


class Given(torch.nn.Module):
    def forward(self, x, keys, position):
        keys.index_copy_(1, position, x)
        return (keys * 2).sum(1)


model, eager = Cache().eval(), Cache().eval()
eager.load_state_dict(model.state_dict())
with torch.no_grad():
    x, position = torch.randn(1, 1, 8), torch.tensor([0])
    compiled = torch_tensorrt.compile(model, ir="dynamo", inputs=[x, position], min_block_size=1)
    for step in range(4):
        x = torch.randn(1, 1, 8)
        torch.testing.assert_close(compiled(x, torch.tensor([step])), eager(x, torch.tensor([step])))
        torch.testing.assert_close(model.keys, eager.keys)
    compiled.keys.zero_()
    eager.keys.zero_()
    torch.testing.assert_close(compiled(x, position), eager(x, position))

    ours, theirs = torch.zeros(1, 4, 8), torch.zeros(1, 4, 8)
    given = torch_tensorrt.compile(Given(), ir="dynamo", inputs=[x, ours, position], min_block_size=1)
    for step in range(3):
        at = torch.tensor([step])
        torch.testing.assert_close(given(x, ours, at), Given()(x, theirs, at))
        torch.testing.assert_close(ours, theirs)
    with tempfile.TemporaryDirectory() as folder:
        torch_tensorrt.save(given, os.path.join(folder, "cache.ep"), inputs=[x, ours, position])
        loaded = torch_tensorrt.load(os.path.join(folder, "cache.ep")).module()
        torch.testing.assert_close(loaded(x, ours, torch.tensor([3])), Given()(x, theirs, torch.tensor([3])))
        torch.testing.assert_close(ours, theirs)
