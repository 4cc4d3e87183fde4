import pytest
import torch
from graphs import Of, fixed, is_unwanted, targets
from torch._higher_order_ops.effects import with_effects

from ingot.capture import composites
from ingot.capture.fixes import effects
from ingot.capture.traced import NotFunctional, Traced


def test_a_check_needs_no_token():
    program = composites.decomposed(torch.export.export(Of(torch.linalg.inv), (torch.randn(4, 4),)))
    traced, x = Traced.of_program(program), torch.randn(4, 4)
    if not traced.tokens[0]:
        pytest.skip("this torch orders no checks by tokens")
    assert "with_effects" in targets(traced)
    fixed("effects", traced)
    assert "with_effects" not in targets(traced) and "aten._linalg_check_errors.default" in targets(traced)
    made = traced.program()
    assert [s.kind.name for s in (*made.graph_signature.input_specs, *made.graph_signature.output_specs)] == ["USER_INPUT", "USER_OUTPUT"]
    torch.testing.assert_close(made.module()(x), torch.linalg.inv(x))


def test_other_effects_are_kept():
    graph = torch.fx.Graph()
    token = graph.placeholder("token")
    made = graph.call_function(with_effects, (token, torch.ops.aten._print.default, "seen"))
    graph.output((made,))
    with pytest.raises(NotFunctional, match="effects whose order torch keeps"):
        effects.apply(Traced(torch.fx.GraphModule(torch.nn.Module(), graph), tokens=({"token"}, set())))


def test_other_graphs():
    assert is_unwanted("effects")
