"""Drafts: the tokens are those that come without one, greedy and drawn, in ragged batches too; states end as without one."""

import pytest
import torch
from llm_architectures import LENGTH, VOCABULARY, small
from test_sampling import of_transformers

import ingot
import ingot.llm


@pytest.fixture(scope="module")
def models():
    """A model, and a draft that often guesses right: the same layers with disturbed weights."""
    large, little = small("Llama"), small("Llama")
    with torch.no_grad():
        for weight in little.parameters():
            weight += 0.05 * weight.std() * torch.randn_like(weight)
    return large, *(ingot.llm.compile(of, max_length=LENGTH, max_batch=16) for of in (large, little))


def prompt(rows=1, tokens=11, seed=1):
    return torch.randint(0, VOCABULARY, (rows, tokens), generator=torch.Generator().manual_seed(seed))


def answer(lm, ids, count=40, state=None, stop=(), **how):
    state = lm.new_state(ids.shape[0]) if state is None else state
    run = lm.generate(state, ids, max_new_tokens=count, stop=list(stop), **how)
    return torch.stack(list(run), 1), state, run


DRAWN = {"temperature": 0.8, "top_k": 40, "repetition_penalty": 1.2, "seed": [5, 6, 7]}


@pytest.mark.parametrize("how", [{}, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("which", ["model", "prompt", "state"])
@pytest.mark.one_in(3)
def test_the_same_tokens_in_fewer_runs(models, which, how):
    _, lm, little = models
    ids, lengths = prompt(3), [11, 4, 7]
    ids[0, :10] = ids[0, 0]  # text that repeats itself
    plain, state, _ = answer(lm, ids, lengths=lengths, **how)
    draft = {"model": little, "prompt": "prompt", "state": little.new_state(3)}[which]
    tokens, after, run = answer(lm, ids, lengths=lengths, draft=draft, **how)
    assert torch.equal(tokens, plain) and after.lengths == state.lengths
    assert run.runs <= 40 and (how or run.runs < (40 if which == "prompt" else 25))
    if which == "state":
        assert draft.lengths == state.lengths
    more = plain[:, -1:]  # the conversation goes on
    again = [answer(lm, more, 9, of, draft=to, temperature=0)[0] for of, to in ((state, None), (after, "prompt" if which == "prompt" else draft))]
    assert torch.equal(*again)


@pytest.mark.parametrize("draft_tokens", [1, 3, 20])
def test_ends_and_other_rows(models, draft_tokens):
    """Rows that end early yield the pad id, and their state stays, whatever was guessed after their end."""
    _, lm, little = models
    ids = prompt(3)
    free = answer(lm, ids)[0]
    stop = [int(free[0, 5]), free[1, 8:10].tolist()]
    for draft in (little, "prompt"):
        plain, state, before = answer(lm, ids, stop=stop)
        tokens, after, run = answer(lm, ids, stop=stop, draft=draft, draft_tokens=draft_tokens)
        assert torch.equal(tokens, plain) and after.lengths == state.lengths and run.ended == before.ended


def test_a_loop_that_is_left(models):
    """The state then has what was yielded, but for the last token."""
    _, lm, little = models
    ids, plain = prompt(2), answer(lm, prompt(2))[0]
    state, begun = lm.new_state(2), little.new_state(2)
    for number, token in enumerate(lm.generate(state, ids, max_new_tokens=40, draft=begun)):
        if number == 6:
            break
    assert state.lengths == begun.lengths == [11 + 6] * 2
    assert torch.equal(answer(lm, token[:, None], 33, state)[0], plain[:, 7:])
    run = lm.generate(state, ids, max_new_tokens=4, draft="prompt")
    run.close()
    assert state.lengths == [11 + 6 + 33] * 2 and list(run) == []


def test_the_end_of_the_room(models):
    _, lm, little = models
    tokens, state, _ = answer(lm, prompt(), LENGTH - 10, draft=little, draft_tokens=7)
    assert state.lengths == [LENGTH] and torch.equal(tokens, answer(lm, prompt(), LENGTH - 10)[0])


def test_drawn_tokens_have_the_models_distribution(models):
    """Chi-squared of the first token, and of the second and third after the likeliest before them, against transformers' processors. The second and third are checked proposals."""
    large, lm, little = models
    how = {"temperature": 1.1, "top_k": 12, "repetition_penalty": 1.3}
    ids, rows = prompt(), 16
    seen: dict[tuple[int, int], torch.Tensor] = {}
    for n in range(0, 1600, rows):
        tokens, _, _ = answer(lm, ids.repeat(rows, 1), 3, draft=little, draft_tokens=2, seed=list(range(n, n + rows)), **how)
        for first, second, third in tokens.tolist():
            seen.setdefault((first, second), torch.zeros(VOCABULARY, dtype=torch.float64))[third] += 1
    firsts = torch.zeros(VOCABULARY, dtype=torch.float64)
    seconds = torch.zeros_like(firsts)
    best = max(seen, key=lambda key: seen[key].sum())
    for (first, second), thirds in seen.items():
        firsts[first] += thirds.sum()
        seconds[second] += thirds.sum() if first == best[0] else 0
    for before, counted in (((), firsts), (best[:1], seconds), (best, seen[best])):
        every = torch.cat([ids, torch.tensor([before], dtype=torch.int64)], 1)
        with torch.no_grad():
            expected = of_transformers(how, large(every).logits[:, -1], every)[0].double().softmax(-1) * counted.sum()
        often = expected >= 5
        assert not counted[expected == 0].any() and often.sum() >= 3
        chi, freedom = float(((counted - expected)[often] ** 2 / expected[often]).sum()), int(often.sum())
        assert chi < freedom + 5 * (2 * freedom) ** 0.5, (before, chi, freedom)


def test_processors_see_the_tokens_before_them(models):
    """A logits processor is asked for each checked token with what comes before it."""
    _, lm, little = models
    found = []

    def even(ids, scores):
        found.append(ids.shape[1])
        return scores.masked_fill(torch.arange(VOCABULARY) % 2 == ids.shape[1] % 2, float("-inf"))

    plain = answer(lm, prompt(), 20, logits_processors=[even])[0]
    assert found == list(range(11, 31))
    for draft in (little, "prompt"):
        assert torch.equal(answer(lm, prompt(), 20, logits_processors=[even], draft=draft)[0], plain)


def test_another_size_of_the_vocabulary(models, tmp_path):
    """Models of one family fill their vocabulary up to other sizes; their tokenizers say that it is one."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    _, lm, _ = models
    words = Tokenizer(WordLevel({f"w{n}": n for n in range(400)}, unk_token="w0")).to_str()
    other = small("Llama")
    other.resize_token_embeddings(VOCABULARY + 64)
    wider = ingot.llm.compile(other, max_length=64)
    plain = answer(lm, prompt())[0]
    with pytest.raises(ingot.InputError, match=f"a vocabulary of {VOCABULARY + 64}, and the model one of {VOCABULARY}"):
        lm.generate(lm.new_state(), prompt(), max_new_tokens=2, draft=wider)
    lm.files["tokenizer.json"] = wider.files["tokenizer.json"] = words
    try:
        assert torch.equal(answer(lm, prompt(), draft=wider)[0], plain)
        assert torch.equal(answer(wider, prompt(), draft=lm)[0], answer(wider, prompt())[0])
    finally:
        del lm.files["tokenizer.json"]


def test_wrong_drafts(models):
    _, lm, little = models
    state, short = lm.new_state(), ingot.llm.LanguageModel(little.module)
    short.max_length, short.max_batch = 16, 1
    lm.step(state, prompt())
    mamba = ingot.llm.compile(small("Mamba"), max_length=LENGTH)
    for how, said in [
        ({"draft": "text"}, "draft is 'text'"),
        ({"draft": 3}, "draft is 3"),
        ({"draft_tokens": 3}, "draft_tokens is 3, and has to be 1 or more, with a draft"),
        ({"draft": "prompt", "draft_tokens": 0}, "draft_tokens is 0"),
        ({"draft": little.new_state()}, r"the draft's state has \[0\] tokens, and the state \[11\]"),
        ({"draft": mamba}, "the draft has recurrent layers"),
        ({"draft": short}, "the draft's max_length is 16"),
    ]:
        with pytest.raises(ingot.InputError, match=said):
            lm.generate(state, prompt(), max_new_tokens=8, **how)
    with pytest.raises(ingot.InputError, match="the model has recurrent layers"):
        mamba.generate(mamba.new_state(), prompt(), max_new_tokens=8, draft="prompt")
    with pytest.raises(ingot.InputError, match="compiled for 1 to 1"):
        lm.generate(lm.new_state(2), prompt(2), max_new_tokens=2, draft=short)
    assert state.lengths == [11]
