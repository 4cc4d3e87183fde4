"""The torch.compile backend with settings, dynamic axes, and a dry run."""

import torch
import torch_tensorrt


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1))
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x, scale=1.0):
        return self.head(self.inner(x).flatten(1)) * scale


device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
model = Net().eval().to(device)
options = {
    "min_block_size": 2,
    "torch_executed_ops": {"torch.ops.aten.flatten.using_ints"},
    "optimization_level": 0,
    "use_python_runtime": False,
    "device": torch_tensorrt.Device("cuda:0"),
    "truncate_double": True,
    "cache_built_engines": False,
    "reuse_cached_engines": False,
    "immutable_weights": True,
}
with torch.no_grad():
    compiled = torch.compile(model, backend="tensorrt", dynamic=False, options=options)
    x = torch.randn(2, 3, 16, 16, device=device)
    torch.testing.assert_close(compiled(x), model(x))
    torch.testing.assert_close(compiled(x, scale=0.5), model(x, 0.5))

    torch._dynamo.reset()
    marked = torch.randn(4, 3, 16, 16, device=device)
    torch._dynamo.mark_dynamic(marked, 0)
    compiled = torch.compile(model, backend="torch_tensorrt", options={"min_block_size": 1})
    for batch in (marked, torch.randn(9, 3, 16, 16, device=device)):
        torch.testing.assert_close(compiled(batch), model(batch))

    torch._dynamo.reset()
    dry = torch.compile(model, backend="tensorrt", options={"min_block_size": float("inf")})
    torch.testing.assert_close(dry(x), model(x))

    torch._dynamo.reset()
    wrapped = torch_tensorrt.compile(model, ir="torch_compile", min_block_size=1, pass_through_build_failures=True, enabled_precisions={torch.float})
    torch.testing.assert_close(wrapped(x), model(x))
torch._dynamo.reset()
