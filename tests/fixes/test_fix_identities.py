import pytest
import torch
from graphs import exported, fixed, is_unwanted, of_dynamo, result, targets

from ingot.capture.fixes import identities


def model(x):
    return torch.nn.functional.dropout(x * 2, 0.5, False).type_as(x)


@pytest.mark.parametrize("capture, product", [(exported, "aten.mul.Tensor"), (of_dynamo, "mul")])
def test_the_operand_replaces_the_result(capture, product):
    traced = capture(model, torch.randn(3))
    assert len(targets(traced)) == 3
    fixed("identities", traced)
    assert targets(traced) == [product] and result(traced).op == "call_function"


def test_the_program_names_the_operand_as_its_result():
    traced = exported(model, torch.randn(3))
    before = traced.program()
    fixed("identities", traced)
    program, x = traced.program(), torch.randn(3)
    assert [s.arg.name for s in program.graph_signature.output_specs] == ["mul"] and program.module()(x).equal(x * 2)
    assert len(before.graph.nodes) == 5  # the caller's program stays as it was


def test_what_changes_its_operand_stays():
    traced = exported(lambda x: torch.nn.functional.dropout(x, 0.5, True) + x.half().type_as(x), torch.randn(3))
    before = targets(traced)
    assert "aten.dropout.default" in before and "aten.type_as.default" in before
    assert not identities.wanted(traced)


def test_other_graphs():
    assert is_unwanted("identities")
