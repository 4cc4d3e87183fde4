"""Programs that random ones were reduced to, by hand in the words of users: each was a fault."""

import pytest
import torch
from accuracy import assert_accurate

import ingot


def memory(t):
    return t.untyped_storage().data_ptr()


def narrow_from_the_end(x):
    return torch.narrow(x, -1, -3, 2) + 1, torch.narrow(x, 0, torch.tensor(-2), 1)


def parts_of_a_written_strided_input(x):
    x.mul_(2)
    return x.swapaxes(0, -1), x.contiguous(), x[1:], x.reshape(-1), x


def view_before_the_write(x):
    row = x[1:]
    x.add_(1)
    return row, row.clone(), x.contiguous()


PROGRAMS = [narrow_from_the_end, parts_of_a_written_strided_input, view_before_the_write]
LAYOUTS = {"dense": lambda: torch.arange(12.0).view(3, 4), "every other column": lambda: torch.arange(24.0).view(3, 8)[:, ::2], "transposed": lambda: torch.arange(12.0).view(4, 3).t()}


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_found(program, layout, way):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: program(x)})()
    mine, theirs = LAYOUTS[layout](), LAYOUTS[layout]()
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(model, backend="ingot") if way == "torch.compile" else ingot.compile(model, inputs=[LAYOUTS[layout]()])
        results, expected = compiled(mine), model(theirs)
    assert torch.equal(mine, theirs)
    for result, eager in zip(results, expected, strict=True):
        assert torch.equal(result, eager) and result.stride() == eager.stride()
        assert (memory(result) == memory(mine)) == (memory(eager) == memory(theirs))


@pytest.mark.parametrize("causal", [False, True])
def test_both_results_of_attention(causal):
    """The logsumexp of causal attention read freed memory while it was written out."""

    def attend(q, k):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, k, 0.0, causal)

    model = type("Model", (torch.nn.Module,), {"forward": lambda self, q, k: attend(q, k)})()
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 5, 4), torch.randn(2, 1, 3, 4)
    with torch.no_grad():
        for result, eager in zip(ingot.compile(model, inputs=[q, k], fallback="error")(q, k), attend(q, k), strict=True):
            assert_accurate(result, eager, eager, depth=16)
