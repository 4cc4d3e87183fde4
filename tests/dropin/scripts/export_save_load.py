"""Ahead of time: trace, compile, save, load, and export the result again."""

import os
import tempfile

import torch
import torch_tensorrt


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.LayerNorm(24), torch.nn.GELU(), torch.nn.Linear(24, 3))

    def forward(self, x, *, bias=None):
        y = self.layers(x)
        return {"logits": y if bias is None else y + bias, "best": y.argmax(-1)}


def check(ours, theirs):
    torch.testing.assert_close(ours["logits"], theirs["logits"])
    assert torch.equal(ours["best"], theirs["best"])


model = Net().eval()
x, bias = torch.randn(4, 12), torch.randn(3)
with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
    program = torch_tensorrt.dynamo.trace(model, arg_inputs=(x,), kwarg_inputs={"bias": bias})
    compiled = torch_tensorrt.dynamo.compile(program, arg_inputs=(x,), kwarg_inputs={"bias": bias}, min_block_size=1, require_full_compilation=True)
    check(compiled(x, bias=bias), model(x, bias=bias))

    path = os.path.join(folder, "net.ep")
    torch_tensorrt.save(compiled, path, arg_inputs=(x,), kwarg_inputs={"bias": bias}, retrace=False)
    check(torch_tensorrt.load(path).module()(x, bias=bias), model(x, bias=bias))

    torch.export.save(torch_tensorrt.dynamo.export(compiled, arg_inputs=(x,)), path)
    check(torch.export.load(path).module()(x, bias=bias), model(x, bias=bias))

    again = torch.export.export(compiled, (x,), {"bias": bias}, strict=False)
    check(again.module()(x, bias=bias), model(x, bias=bias))

    engine = torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine(program, arg_inputs=(x,), kwarg_inputs={"bias": bias})
    with open(os.path.join(folder, "net.engine"), "wb") as file:
        file.write(engine)
    with open(os.path.join(folder, "net.engine"), "rb") as file:
        module = torch_tensorrt.runtime.TorchTensorRTModule(file.read(), ["x", "bias"], ["logits", "best"])
    logits, best = module(x, bias)
    check({"logits": logits, "best": best}, model(x, bias=bias))
