"""The result of nn.MultiheadAttention lies in memory as eager's, ahead of time as by torch.compile."""

import inspect

import pytest
import torch

import ingot

pytestmark = pytest.mark.skipif("tracing" not in inspect.getsource(torch.nn.MultiheadAttention.forward), reason="this torch does not copy what it traces")


class Attends(torch.nn.Module):
    def __init__(self, **more):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True, **more)

    def forward(self, x):
        return self.attention(x, x, x)


@pytest.mark.parametrize("more", [{}, {"bias": False}, {"add_zero_attn": True}], ids=lambda more: "-".join(more) or "plain")
def test_layout(more, no_gradients):
    """With zeros added eager has no quick form, and its result is a view."""
    model, x = Attends(**more).eval(), torch.randn(2, 5, 8)
    (ours, weights), (theirs, exact) = ingot.compile(model, inputs=[x], fallback="error")(x), model(x)
    assert ours.stride() == theirs.stride() and weights.stride() == exact.stride()
    torch.testing.assert_close(ours, theirs)


def test_the_switch_is_left_out(no_gradients, monkeypatch):
    monkeypatch.setenv("INGOT_DISABLE", "attention_layout")
    model, x = Attends().eval(), torch.randn(2, 5, 8)
    assert ingot.compile(model, inputs=[x])(x)[0].stride() != model(x)[0].stride()
