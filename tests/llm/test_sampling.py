"""Drawn tokens are distributed as transformers' processors say, and a seed gives the same ones in any batch."""

import pytest
import torch
import transformers
from llm_architectures import VOCABULARY

from ingot.llm import sampling
from ingot.llm.sampling import Choice, Draws

HOW = [
    {"temperature": 1.0},
    {"temperature": 0.6},
    {"temperature": 1.3, "top_k": 20},
    {"temperature": 0.9, "top_p": 0.7},
    {"temperature": 1.2, "min_p": 0.1},
    {"temperature": 0.8, "top_k": 50, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.4},
]


def logits_and_tokens():
    generator = torch.Generator().manual_seed(3)
    return 2 * torch.randn(1, VOCABULARY, generator=generator), torch.randint(0, VOCABULARY, (1, 40), generator=generator)


def of_transformers(how, logits, tokens):
    made = transformers.LogitsProcessorList()
    for name, kind in (("repetition_penalty", transformers.RepetitionPenaltyLogitsProcessor), ("temperature", transformers.TemperatureLogitsWarper), ("top_k", transformers.TopKLogitsWarper),
                       ("top_p", transformers.TopPLogitsWarper), ("min_p", transformers.MinPLogitsWarper)):  # fmt: skip
        if name in how:
            made.append(kind(how[name]))
    return made(tokens, logits.clone())


@pytest.mark.parametrize("how", HOW, ids=str)
def test_scores_are_those_of_transformers(how):
    logits, tokens = logits_and_tokens()
    scores = Choice(**how).scores(logits, [tokens[0]])
    torch.testing.assert_close(scores, of_transformers(how, logits, tokens))


@pytest.mark.parametrize("how", HOW, ids=str)
def test_draws_have_that_distribution(how):
    """Chi-squared over the tokens that are expected 5 times and more, the others as one. The limit is five standard deviations."""
    logits, tokens = logits_and_tokens()
    expected = of_transformers(how, logits, tokens)[0].double().softmax(-1)
    count = 20000
    rows = 2000
    scores = Choice(**how).scores(logits, [tokens[0]]).expand(rows, -1)
    draws = Draws(list(range(rows)))
    seen = torch.zeros(VOCABULARY, dtype=torch.float64)
    for _ in range(count // rows):
        seen += torch.bincount(draws.tokens(scores), minlength=VOCABULARY)
    assert not seen[expected == 0].any()
    often = count * expected >= 5
    pairs = [(seen[often], count * expected[often]), (seen[~often].sum()[None], count * expected[~often].sum()[None])]
    chi = sum(float(((s - e) ** 2 / e).sum()) for s, e in pairs if e.numel() and e.min() > 0)
    freedom = int(often.sum())
    assert chi < freedom + 5 * (2 * freedom) ** 0.5, (chi, freedom)


def test_a_test_of_the_wrong_distribution_fails():
    with pytest.raises(AssertionError):
        logits, tokens = logits_and_tokens()
        torch.testing.assert_close(Choice(temperature=0.7).scores(logits, []), of_transformers({"temperature": 0.8}, logits, tokens))


def test_a_seed_gives_the_same_tokens_in_any_batch():
    logits, _ = logits_and_tokens()
    alone = Draws([7])
    expected = [int(alone.tokens(logits)) for _ in range(20)]
    batch = Draws([1, 7, 3])
    assert [int(batch.tokens(logits.expand(3, -1))[1]) for _ in range(20)] == expected and len(set(expected)) > 5


@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_near_distributions_draw_the_same_tokens(noise):
    """With the same numbers, at least (1 - d) / (1 + d) of the draws are equal, d the total variation: what a draft's guesses live by."""
    logits, _ = logits_and_tokens()
    other = logits + noise * torch.randn(logits.shape, generator=torch.Generator().manual_seed(4))
    distance = 1 - float(torch.minimum(logits.softmax(-1), other.softmax(-1)).sum())
    rows = 4000
    numbers = torch.rand(rows, generator=torch.Generator().manual_seed(5), dtype=torch.float64).tolist()
    equal = float((Draws.at(numbers, logits.expand(rows, -1)) == Draws.at(numbers, other.expand(rows, -1))).double().mean())
    assert (1 - distance) / (1 + distance) - 4 * (0.25 / rows) ** 0.5 < equal < 1


def test_processors_of_transformers():
    logits, tokens = logits_and_tokens()
    best = int(logits.argmax())
    choice = Choice(processors=(transformers.SuppressTokensLogitsProcessor([best]),))
    assert choice.reads_tokens and int(choice.scores(logits, [tokens[0]]).argmax()) == int(logits.topk(2).indices[0, 1])


@pytest.mark.parametrize("size", [1, 7, 96, 1009])
def test_likeliest_of_parts(size):
    """The largest by parts of a row is argmax's, and of equal ones the first."""
    scores = torch.randint(0, 5, (6, size), generator=torch.Generator().manual_seed(size)).float()
    scores[0] = 0
    scores[1, size // 2] = float("nan")
    assert torch.equal(sampling._largest_of_parts(scores, sampling._parts_of(size)), scores.argmax(-1))
