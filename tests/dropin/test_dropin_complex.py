"""Complex numbers as pairs of real ones: complex arithmetic runs in engines."""

import operator

import pytest
import torch
from eager import Calls

import ingot
import ingot.torch_tensorrt as torch_tensorrt
from ingot.torch_tensorrt.dynamo.lowering.passes.complex_graph_rewrite import complex_graph_detection

ONE = {"min_block_size": 1}
aten = torch.ops.aten


class Rotary(torch.nn.Module):
    """A projection whose result is rotated, as language models with complex frequencies have it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.project = torch.nn.Linear(8, 8)
        self.register_buffer("frequencies", torch.polar(torch.ones(64, 4), torch.randn(64, 4)))
        self.eval()

    def forward(self, x):
        pairs = torch.view_as_complex(self.project(x).reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.frequencies[: x.shape[1]]).flatten(2)


def complexes(*shape, seed=0):
    return torch.randn(shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))


def targets(graph):
    return {n.target for n in graph.nodes if n.op == "call_function"}


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_rotary_embeddings_of_open_length_run_in_one_engine():
    model = Rotary()
    made = torch_tensorrt.compile(model, inputs=[torch_tensorrt.Input(min_shape=(2, 4, 8), opt_shape=(2, 16, 8), max_shape=(2, 64, 8))], **ONE)
    assert not targets(made.graph)  # the engine has the buffer's parts as a weight
    assert sum("_run_on_acc" in name for name, _ in made.named_children()) == 1
    for length in (4, 16, 33):
        x = torch.randn(2, length, 8)
        close(made(x), model(x))
    with torch.no_grad():
        model.project.weight.mul_(2), model.frequencies.mul_(1.5)
    close(made(x), model(x))


def test_complex_inputs_and_results():
    model, z, w = Calls(lambda z, w: (z * w + 2j, torch.abs(z @ w), z.conj() / w)), complexes(4, 4), complexes(4, 4, seed=1)
    made = torch_tensorrt.compile(model, inputs=[z, w], **ONE)
    assert targets(made.graph) == {aten.resolve_conj.default, aten.view_as_real.default, aten.view_as_complex.default, operator.getitem}
    for ours, theirs in zip(made(z, w), model(z, w)):
        close(ours, theirs)


def test_a_graph_whose_constants_come_before_its_inputs():
    class Gated(torch.nn.Linear):
        def forward(self, x, z):
            return torch.sigmoid(super().forward(x)) * z

    model, x, z = Gated(8, 8).eval(), torch.randn(4, 8), complexes(4, 8)
    graph = torch.export.export(model, (x, z)).module()
    assert [node.op for node in graph.graph.nodes][:2] == ["get_attr", "get_attr"]
    close(torch.view_as_complex(complex_graph_detection(graph)(x, torch.view_as_real(z))), model(x, z))
    close(torch_tensorrt.compile(model, inputs=[x, z], **ONE)(x, z), model(x, z))


def test_an_operator_without_a_rule_runs_in_torch_between_engines():
    model, z = Calls(lambda z: torch.linalg.inv_ex(z * z)[0].abs() + 1), complexes(4, 4)
    made = torch_tensorrt.compile(model, inputs=[z], **ONE)
    assert {aten.linalg_inv_ex.default} <= targets(made.graph) and not {aten.mul.Tensor, aten.abs.default} & targets(made.graph)
    close(made(z), model(z))


def test_writes_to_complex_tensors():
    def function(z):
        made = z * 2
        made.mul_(1j)
        return made.real + 1

    model, z = Calls(function), complexes(4, 8)
    made = torch_tensorrt.compile(model, inputs=[z], **ONE)
    assert targets(made.graph) == {aten.resolve_conj.default, aten.view_as_real.default}
    close(made(z), model(z))


OPERATORS = {
    "split": lambda z: z.split(2, dim=-1)[1] * z.split(2, dim=-1)[0],
    "log10": torch.log10,
    "log2": torch.log2,
    "sum": lambda z: z.sum(-1),
    "flip": lambda z: z.flip(-1).roll(1, 0),
    "real": lambda z: z.real * z.imag,
    "angle": lambda z: torch.polar(z.abs(), z.angle()),
    "ones": lambda z: torch.ones_like(z) + torch.full_like(z, 3.0),
    "of real": lambda z: torch.complex(z.real, z.real).transpose(0, 1),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_pass_by_name_makes_inputs_and_results_real(name):
    model, z = Calls(OPERATORS[name]), complexes(3, 4)
    gm = torch.export.export(model, (z,)).module()
    assert complex_graph_detection(gm) is gm
    ours, theirs = gm(torch.view_as_real(z)), model(z)
    close(torch.view_as_complex(ours) if theirs.is_complex() else ours, theirs)
    made = ingot.compile(gm, inputs=[torch.view_as_real(z)], fallback="error")
    close(torch.view_as_complex(made(torch.view_as_real(z))) if theirs.is_complex() else made(torch.view_as_real(z)), theirs)


POWERS_AND_QUOTIENTS = {
    "square": lambda z, w: z**2,
    "cube": lambda z, w: z**3,
    "root": lambda z, w: z**0.5,
    "power of complex numbers": lambda z, w: torch.pow(z, w),
    "power of a number": lambda z, w: 0.0**w,
    "quotient": lambda z, w: z / w,
    "quotient by a number": lambda z, w: z / (1 + 2j) + z / 4,
    "quotient of a real tensor": lambda z, w: z.real / w,
    "reciprocal": lambda z, w: w.reciprocal() + 1 / w,
}


@pytest.mark.parametrize("name", POWERS_AND_QUOTIENTS)
@pytest.mark.one_in(3)
def test_zero_large_and_small_numbers(name):
    """A base of 0 has no logarithm, and the square of a divisor's length may overflow or vanish."""
    z = torch.tensor([0, 1, 1j, -1, 3 - 4j, 1e12 + 1e12j, 1e-12j], dtype=torch.complex64)
    w = torch.tensor([2, 1 + 1j, 1e30 + 1e30j, 1e-30 - 2e-30j, 1e20j, 2 - 1j, 1e-25], dtype=torch.complex64)
    if name.startswith("power"):
        w = torch.tensor([2, 1 + 1j, 3, 0.5, 1 - 1j, 0.5 + 0.5j, 1], dtype=torch.complex64)
    function = POWERS_AND_QUOTIENTS[name]
    made = ingot.compile(Calls(function), inputs=[z, w], fallback="error")
    theirs = function(z, w)
    assert torch.isfinite(torch.view_as_real(theirs)).all()
    assert ((made(z, w) - theirs).abs() <= 1e-6 * theirs.abs() + 1e-42).all()
