"""A build takes memory for the packed copy of the weights and little more: no stage makes a second copy."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
PROGRAM = """
import sys, torch, ingot
sys.path.insert(0, {bench!r})
from host_memory import Peak
torch.manual_seed(0)
{model}
inputs = [torch.randn({shape})]
ingot.compile(torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).eval(), inputs=[torch.ones(1, 8, 8, 8)], min_block_size=1)
weights = sum(p.nbytes for p in net.parameters())
net = net.eval().requires_grad_(False)
with Peak() as peak:
    made = ingot.compile(net, inputs=inputs, min_block_size=1)
print(peak.bytes / weights)
"""
MODELS = {
    "products": ("net = torch.nn.Sequential(*(torch.nn.Linear(1536, 1536) for _ in range(24)))", "4, 1536"),
    "convolutions": ("net = torch.nn.Sequential(*(m for _ in range(24) for m in (torch.nn.Conv2d(512, 512, 3, bias=False), torch.nn.BatchNorm2d(512), torch.nn.ReLU())))", "1, 512, 64, 64"),
    "bfloat16": ("net = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(24))).bfloat16()", "4, 2048, dtype=torch.bfloat16"),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.one_in(3)
def test_the_peak_of_a_build(kind):
    """The model has some 220 MB of weights, so that torch.export's own memory is small beside them."""
    model, shape = MODELS[kind]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM.format(bench=str(BENCH), model=model, shape=shape)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0.7 < float(done.stdout.splitlines()[-1]) <= 1.3
