import io

import torch
from graphs import exported, fixed, is_unwanted, targets

from ingot.capture.fixes import recorded_memory
from ingot.capture.memory import of_memory, value_of
from ingot.capture.traced import Traced


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sums", torch.zeros(3))

    def forward(self, x):
        return self.sums.add_(x) * 2


def test_a_program_from_a_file():
    fresh = exported(Counting(), torch.randn(3))
    assert not recorded_memory.wanted(fresh)
    file = io.BytesIO()
    torch.export.save(fresh.program(), file)
    file.seek(0)
    traced = Traced.of_program(torch.export.load(file))
    memory = lambda: {n.name: of_memory(value_of(n)) for n in traced.graph.nodes}
    assert memory()["add_"] != memory()["b_sums"]
    fixed("recorded_memory", traced)
    assert memory()["add_"] == memory()["b_sums"] != memory()["mul"] and targets(traced) == ["aten.add_.Tensor", "aten.mul.Tensor"]


def test_other_graphs():
    assert is_unwanted("recorded_memory")
