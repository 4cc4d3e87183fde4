"""Known failures, by name, with the reason. They are counted and do not end a campaign. Each has a small model that shows it, and a test that it still fails: an entry that no
longer fails has to be removed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch

import ingot

# Messages of refusals by ingot or by torch's capture. A refusal is not a failure; a campaign counts them.
REFUSALS = [
    (ingot.UnsupportedError, r"torch\.export does not take the model|known only when it runs"),
    (ingot.InputError, r"cannot be captured with these inputs|is to vary between|outside the range \d+\.\.\d+ the plan was built for"),  # the range is narrower than asked for, and the message says so
    (torch._dynamo.exc.TorchRuntimeError, r"when making fake tensor call"),
    (RuntimeError, r"^numel: integer multiplication overflow"),  # torch.export.save of an empty weight that begins behind the start of its memory
]


def refusal(problem: Exception) -> bool:
    return any(isinstance(problem, kind) and re.search(said, str(problem)) for kind, said in REFUSALS)


@dataclass(frozen=True)
class Known:
    name: str
    reason: str
    matches: Callable  # tests a campaign's Failure
    shows: Callable    # raises, or fails an assertion, as long as the fault is there


def compiled(forward, *inputs, **attributes):
    """The results of a model with that forward by ingot.compile."""
    model = type("Model", (torch.nn.Module,), {"forward": forward})()
    for name, value in attributes.items():
        model.register_buffer(name, value)
    with torch.no_grad():
        return ingot.compile(model.eval(), inputs=list(inputs))(*inputs)


def attention_of_infinity():
    q, k = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4)
    k[0, 0, 1, 0] = torch.inf
    mask = torch.tensor([[True, False], [True, True]])
    attend = torch.nn.functional.scaled_dot_product_attention
    result = compiled(lambda self, q, k: attend(q, k, q, mask), q, k)
    assert torch.equal(result.isnan(), attend(q, k, q, mask).isnan())


def attention_of_nan():
    q, k = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4)
    q[0, 0, 1, 0] = torch.nan
    attend = torch.nn.functional.scaled_dot_product_attention
    assert torch.equal(compiled(lambda self, q, k: attend(q, k, k), q, k).isnan(), attend(q, k, k).isnan())


def constant_returned():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.c = torch.ones(2)

        def forward(self, x):
            return self.c, torch.positive(self.c), x + 1

    c, same, _ = ingot.compile(Model(), inputs=[torch.ones(2)])(torch.ones(2))
    assert c.data_ptr() == same.data_ptr() and c.data_ptr() == Model().c.data_ptr()


def reshaped():
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: x.reshape(-1)})()
    n = torch.export.Dim("n", min=1, max=8)
    x = torch.ones(2, 1, 3).transpose(1, 2)
    result = ingot.compile(model, inputs=[torch.ones(2, 4, 3).transpose(1, 2)], dynamic_shapes={"x": {2: n}})(x)
    assert result.data_ptr() == x.data_ptr()


def scattered_into_gaps():
    x = torch.arange(16.0)[::2].view(2, 4).T
    result = compiled(lambda self, x: torch.select_scatter(x, x[0], 0, 1), x)
    assert result.stride() == torch.select_scatter(x, x[0], 0, 1).stride()


def channels_last_by_size():
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: torch.ops.aten.replication_pad2d(x, [2, 0, 0, 1])})()
    n = torch.export.Dim("n", min=1, max=8)
    x = torch.ones(2, 2, 1, 1)
    result = ingot.compile(model, inputs=[torch.ones(2, 2, 2, 1).to(memory_format=torch.channels_last)], dynamic_shapes={"x": {2: n}})(x)
    assert result.stride() == model(x).stride()


def calls(kinds, *rows, also=lambda program: True):
    """Failures of these kinds in programs that call one of the operators."""
    return lambda failure: failure.kind in kinds and any(step.target.split(".")[1] in rows for step in failure.program.steps) and also(failure.program)


def has_constants(program):
    return any(source.role == "constant" for source in program.sources)


SHARED, SPECIAL = ("memory is shared", "strides", "another part"), ("NaN", "infinities")
KNOWN: list[Known] = [
    Known("attention of infinities", "NaN from an infinite score meets the mask elsewhere than in eager", calls(SPECIAL, "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"), attention_of_infinity),
    Known("attention of NaN", "torch's CPU kernel takes a query with NaN for one that is masked whole and gives 0; ingot gives NaN", calls(SPECIAL, "scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"), attention_of_nan),
    Known("constants are new", "what returns a constant of the module itself or a view of it (positive, to, alias, flatten) torch.export records as a new tensor (without gaps), or in the constant's place", lambda failure: failure.kind in SHARED and has_constants(failure.program), constant_returned),
    Known("reshape by size", "whether reshape of a strided tensor copies may hang on an open size; a program holds one of the two", calls(SHARED, "reshape", "flatten", "contiguous", "to", also=lambda p: p.dynamic), reshaped),
    Known("channels last by size", "whether a tensor is channels last may hang on an open size (1) or on what the next caller gives; a program holds one of the two", calls(SHARED, "replication_pad2d", "reflection_pad2d", "pad", "channel_shuffle", also=lambda p: p.dynamic), channels_last_by_size),
    Known("scatter into gaps", "select_scatter, slice_scatter, copy and the like keep the gaps of a strided operand; results of ingot have none", calls(SHARED, "select_scatter", "slice_scatter", "diagonal_scatter", "copy"), scattered_into_gaps),
]


def name_of(failure) -> str | None:
    return next((k.name for k in KNOWN if k.matches(failure)), None)


# The fixed programs of the in-process tests that are known to fail: {seed: reason}.
SEEDS: dict[int, str] = {
    42: "dropout of an empty tensor returns its operand in eager, and a new one here",
    1203: "a norm's exponent is a size: torch.export keeps whether it was even, so the range has steps of 2, and the message says so",
    1250: "two of the largest numbers meet in one window: whether their sum is infinite hangs on its order",
    2174: "the buffers of a loaded program share memory, and torch refuses detach_ of a view",
}
