"""A model is compiled only if a step over ingot.llm's caches gives what the model gives by itself: transformers has models that make their attention, masks or positions in ways of their own."""

from __future__ import annotations

import contextlib

import torch

from ..errors import Error, UnsupportedError

# By how much, as a part of their norm, logits may differ. A missing mask or wrong positions change them by 0.03 and more in random models of two layers (tests/llm/test_check.py), rounding by under 1e-5
# in float32. In a half type two ways of computing the same differ by its own rounding, and experts may be chosen otherwise.
MAX_DIFFERENCE = {torch.float32: 1e-3}
MAX_DIFFERENCE_OF_HALVES = 0.1
# Tokens that the caches of the comparison have room for, most of them not taken: more than the windows (256) of models that take the end of a cache for the place of the newest token.
PLACES = 512
REMEDY = "compile the model by ingot.compile, or torch.compile its generate()"


@contextlib.contextmanager
def refusing(model):
    """What transformers' code raises over ingot.llm's caches, in the user's terms."""
    try:
        yield
    except Error:
        raise
    except Exception as problem:
        said = next(iter(str(problem).splitlines()), "")
        raise UnsupportedError(f"{type(model).__name__} does not take ingot.llm's caches ({type(problem).__name__}: {said})", remedy=REMEDY) from problem


def check_step(model, step, empty, max_length: int):
    """step: the module that is compiled, with caches in one piece. empty(batch, places): its state's tensors, empty. Runs both on a few tokens, in eager."""
    if max_length < 8:
        return
    device, vocabulary = next(model.parameters()).device, model.get_input_embeddings().weight.shape[0]
    ids = torch.randint(vocabulary, (2, 7), generator=torch.Generator().manual_seed(0)).to(device)
    parts = [(0, 4, [4, 3]), (4, 7, [3, 0])]  # the second row ends after three tokens
    if step.is_recurrent:
        parts = [(at, at + 1, [1, int(at < 3)]) for at in range(7)]
    with torch.no_grad(), refusing(model):
        position, tensors = torch.zeros(2, dtype=torch.int64, device=device), empty(2, min(PLACES, max_length) + 1)
        found: list = [None, None]
        for begin, end, counts in parts:
            lengths = torch.tensor(counts, device=device)
            logits = step(ids[:, begin:end], lengths, (lengths - 1).clamp(min=0)[:, None], position, *tensors)
            found = [logits[row, 0] if count else found[row] for row, count in enumerate(counts)]
        wanted = [model(input_ids=ids[row : row + 1, :count]).logits[0, -1] for row, count in enumerate((7, 3))]
    limit = MAX_DIFFERENCE.get(model.dtype, MAX_DIFFERENCE_OF_HALVES)
    for got, want in zip(found, wanted):
        difference = ((got.double() - want.double()).norm() / want.double().norm()).item()
        if not difference <= limit:
            raise UnsupportedError(f"{type(model).__name__} gives other logits over ingot.llm's caches than by itself: they differ by {difference:.1e} of their norm", remedy=REMEDY)
