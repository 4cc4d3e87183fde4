"""The models that are saved, with what each takes, returns and writes."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import ingot


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 64), torch.nn.Linear(64, 4)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


class Counter(Mlp):
    """Writes a buffer, takes a keyword, returns a dict with the buffer, a view of the input and an output that is not row-major."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, *, scale):
        y = super().forward(x)
        self.seen.add_(y.sum(0))
        self.calls.add_(1)
        return {"y": y * scale, "seen": self.seen, "turned": x.transpose(0, 1), "columns": [(y + 1).t().contiguous().t(), None]}


@dataclass
class Case:
    model: torch.nn.Module
    inputs: list
    calls: list                    # positional arguments and keywords of each
    keywords: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)

    def compiled(self):
        return ingot.compile(self.model, inputs=self.inputs, kwarg_inputs=self.keywords, **self.options)


def case(name) -> Case:
    torch.manual_seed(0)
    rows = ingot.Input(min_shape=(1, 16), opt_shape=(8, 16), max_shape=(64, 16), name="x")
    if name in ("mlp", "mlp-gelu"):
        return Case(Mlp().eval(), [rows], [((torch.randn(n, 16),), {}) for n in (7, 1, 64)], options=IN_TORCH if name == "mlp-gelu" else {})
    if name == "counter":
        calls = [((torch.randn(n, 16),), {"scale": torch.randn(4)}) for n in (3, 9, 3)]
        return Case(Counter().eval(), [rows], calls, {"scale": torch.ones(4)}, IN_TORCH)
    import models as architectures

    family = architectures.SMALL[name]
    ranges = dict(min_shape=(1, 1), opt_shape=(2, 16), max_shape=(8, 64), dtype=torch.int64, shared_dims={0: "B", 1: "S"})
    calls = []
    for batch, sequence in ((2, 9), (3, 17), (1, 1)):
        ids, mask = torch.randint(0, family.vocabulary, (batch, sequence)), torch.ones(batch, sequence, dtype=torch.int64)
        mask[1:, max(1, sequence - 2) :] = 0
        calls.append(((ids, mask), {}))
    kept = {"bert": "gelu", "gpt2": "tanh"}[name]
    return Case(family(), [ingot.Input(name=n, **ranges) for n in ("input_ids", "attention_mask")], calls, options={"torch_executed_ops": [kept], "min_block_size": 1})


IN_TORCH = {"torch_executed_ops": ["gelu"], "min_block_size": 1}
