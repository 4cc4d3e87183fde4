"""The rule for greedy tokens, in one place: each is eager's, given those before it. Where two logits are so near that float32 cannot tell which is larger, float64 says so."""

import copy

import torch


def assert_greedy(model, ids, tokens):
    """tokens [batch, new]: the likeliest after ids and the tokens before, by eager in float32, or within eager's own error of the likeliest by float64."""
    every = torch.cat([ids, tokens], 1)
    with torch.no_grad():
        eager = model(every).logits[:, ids.shape[1] - 1 : -1]
    if torch.equal(eager.argmax(-1), tokens):
        return
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(every).logits[:, ids.shape[1] - 1 : -1]
    error = 2 * (eager - exact).abs().amax()
    short = exact.amax(-1) - exact.gather(-1, tokens[..., None])[..., 0]
    assert (short <= error).all(), f"a token is {short.max():.2e} below the likeliest, and eager's error is {error / 2:.2e}"
