import torch
from graphs import exported, fixed, is_unwanted
from torch.export.graph_signature import InputKind


class Cache:
    def __init__(self):
        self.rows = torch.zeros(3)


class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = Cache()

    def forward(self, x):
        return self.cache.rows.add_(x) * 2


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("one", torch.zeros(3))
        self.register_buffer("other", self.one)

    def forward(self, x):
        return self.one.add_(x) * self.other


def test_a_constant_becomes_a_buffer():
    traced = exported(Cached(), torch.randn(3))
    assert traced.inputs[0].kind is InputKind.CONSTANT_TENSOR
    fixed("written_constants", traced)
    first, second = traced.program().graph_signature.input_specs
    assert (first.kind, first.persistent, second.kind) == (InputKind.BUFFER, False, InputKind.USER_INPUT)


def test_a_tensor_gets_one_name():
    traced = exported(Tied(), torch.randn(3))
    assert [s.target for s in traced.inputs] == ["one", "other", None]
    fixed("written_constants", traced)
    assert [s.target for s in traced.inputs] == ["one", None]
    assert [n.name for n in traced.graph.nodes if n.op == "placeholder"] == ["b_one", "x"]


def test_other_graphs():
    assert is_unwanted("written_constants")
