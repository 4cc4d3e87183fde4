"""What is known to fail, by name, with the reason: failures of these do not end a campaign, and are counted. Each has a small model that shows it,
and a test that it still does: an entry that no longer fails has to go."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch

import ingot

# Refusals in ingot's words, which are no failures: what ingot (or torch's capture) does not take, it says. A campaign counts them.
REFUSALS = [
    (ingot.UnsupportedError, r"torch\.export does not take the model|known only when it runs"),
    (ingot.InputError, r"cannot be captured with these inputs|is to vary between"),
    (torch._dynamo.exc.TorchRuntimeError, r"when making fake tensor call"),
]


def refusal(problem: Exception) -> bool:
    return any(isinstance(problem, kind) and re.search(said, str(problem)) for kind, said in REFUSALS)


@dataclass(frozen=True)
class Known:
    name: str
    reason: str
    matches: Callable  # of a campaign's Failure
    shows: Callable    # raises, or fails an assertion, as long as the fault is there


def compiled(forward, *inputs, **attributes):
    """The results of a model with that forward by ingot.compile."""
    model = type("Model", (torch.nn.Module,), {"forward": forward})()
    for name, value in attributes.items():
        model.register_buffer(name, value)
    with torch.no_grad():
        return ingot.compile(model.eval(), inputs=list(inputs))(*inputs)


def dropout_of_nothing():
    def forward(self, x):
        y = x * 2
        return y, torch.dropout(y, 0.0, True)

    y, z = compiled(forward, torch.ones(2))
    assert y.data_ptr() == z.data_ptr()


def attention_of_infinity():
    q, k = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4)
    k[0, 0, 1, 0] = torch.inf
    mask = torch.tensor([[True, False], [True, True]])
    attend = torch.nn.functional.scaled_dot_product_attention
    result = compiled(lambda self, q, k: attend(q, k, q, mask), q, k)
    assert torch.equal(result.isnan(), attend(q, k, q, mask).isnan())


def calls(kinds, *rows):
    """Failures of these kinds in programs that call one of the operators."""
    return lambda failure: failure.kind in kinds and any(step.target.split(".")[1].startswith(rows) for step in failure.program.steps)


KNOWN: list[Known] = [
    Known("dropout shares memory", "torch.dropout with p = 0, or in evaluation, returns its operand itself; torch.export records a new tensor", calls(("memory is shared",), "dropout", "feature_dropout"), dropout_of_nothing),
    Known("attention of infinities", "NaN from an infinite score meets the mask elsewhere than in eager", calls(("NaN", "infinities"), "scaled_dot_product", "_scaled_dot_product"), attention_of_infinity),
]


def name_of(failure) -> str | None:
    return next((k.name for k in KNOWN if k.matches(failure)), None)


# Of the fixed programs of a plain run, those that are known to fail in process, by seed: what a dropout of nothing gives is new memory (56), strides
# under torch.compile (172), std of halves near their largest (180), and two that nobody has looked at (254, 370).
SEEDS = frozenset({56, 172, 180, 254, 370})
