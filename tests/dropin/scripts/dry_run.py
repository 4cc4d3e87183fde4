"""What would run where, without a build: to the screen, and to a file."""

import contextlib
import io
import json
import os
import tempfile

import torch
import torch_tensorrt


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.special.airy_ai(self.layer(x).relu()).log1p()


x = torch.randn(2, 16)
printed = io.StringIO()
with torch.no_grad(), contextlib.redirect_stdout(printed), tempfile.TemporaryDirectory() as folder:
    torch_tensorrt.compile(Net().eval(), ir="dynamo", inputs=[x], min_block_size=1, dryrun=True)
    path = os.path.join(folder, "report.json")
    torch_tensorrt.dynamo.compile(torch.export.export(Net().eval(), (x,)), inputs=[x], min_block_size=1, dryrun=path)
    with open(path) as file:
        report = json.load(file)
assert "The graph consists of 4 Total Operators" in printed.getvalue() and "TRT Engine #1 - Submodule name: _run_on_acc_0" in printed.getvalue(), printed.getvalue()
assert "airy_ai" in printed.getvalue() and any("airy_ai" in node["target"] and node["segment"] is None for node in report["nodes"])
