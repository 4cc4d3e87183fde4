"""ingot.llm: states are rows of one pool of pages. Joins, leaves, forks and rewinds change no token and lose no page; a pool that is full refuses, and changes nothing."""

import gc
import random

import pytest
import torch
from llm_architectures import LENGTH, VOCABULARY, small

import ingot
import ingot.llm
import ingot.llm.model


@pytest.fixture(scope="module")
def lm():
    return ingot.llm.compile(small("Llama"), max_length=LENGTH, max_batch=6, deterministic="batch")  # rows, parts and batches then give equal bits


@pytest.fixture(scope="module")
def flat():
    """The same model as on a device whose attention reads no pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingot.llm.model, "_takes_pages", lambda *_: False)
        return ingot.llm.compile(small("Llama"), max_length=LENGTH, max_batch=6, deterministic="batch")


def ids_of(rows=1, tokens=11, seed=1):
    return torch.randint(0, VOCABULARY, (rows, tokens), generator=torch.Generator().manual_seed(seed))


def pages_of_states(lm):
    """Pages that states own: all but those that take ids that do not count."""
    gc.collect()
    return lm._caches.pool.used - len(lm._caches._runners)


class Sequences:
    """States with what each was given, and operations drawn at random."""

    def __init__(self, lm, seed):
        self.lm, self.random, self.live = lm, random.Random(seed), []

    def logits_alone(self, tokens):
        return self.lm.step(self.lm.new_state(), torch.tensor([tokens]))[0]

    def draw(self, most):
        return [self.random.randrange(VOCABULARY) for _ in range(self.random.randint(1, most))]

    def join(self):
        self.live.append((self.lm.new_state(), []))

    def leave(self):
        self.live.pop(self.random.randrange(len(self.live)))

    def fork(self):
        state, tokens = self.random.choice(self.live)
        self.live.append((state.fork(), list(tokens)))

    def rewind(self):
        state, tokens = self.random.choice(self.live)
        count = self.random.randint(0, len(tokens))
        state.rewind(count)
        del tokens[len(tokens) - count :]

    def step(self):
        """Some go on together, each by tokens of its own."""
        chosen = self.random.sample(self.live, self.random.randint(1, len(self.live)))
        new = [self.draw(40 if self.random.random() < 0.3 else 2) for _ in chosen]
        new = [part[: LENGTH - len(tokens)] for part, (_, tokens) in zip(new, chosen)]
        ids = torch.zeros(len(chosen), max(1, *map(len, new)), dtype=torch.int64)
        for row, part in enumerate(new):
            ids[row, : len(part)] = torch.tensor(part, dtype=torch.int64)
        logits = self.lm.step([state for state, _ in chosen], ids, [len(part) for part in new])
        for (state, tokens), part, row in zip(chosen, new, logits):
            tokens += part
            assert state.lengths == [len(tokens)]
            if part and self.random.random() < 0.25:
                assert torch.equal(row, self.logits_alone(tokens))

    def one(self):
        if not self.live:
            return self.join()
        names = ["step"] * 4 + ["rewind", "leave"] + (["join", "fork"] if len(self.live) < self.lm.max_batch else [])
        getattr(self, self.random.choice(names))()


def test_a_thousand_joins_leaves_forks_and_rewinds(lm):
    before = pages_of_states(lm)
    sequences = Sequences(lm, 0)
    for _ in range(1000):
        sequences.one()
    owned = {page for state, _ in sequences.live for row in state._memory.rows for page in row}
    assert len(owned) == pages_of_states(lm) - before > 0
    for state, tokens in sequences.live:
        more = ids_of(tokens=3) if len(tokens) <= LENGTH - 3 else None
        if more is not None:
            assert torch.equal(lm.step(state, more)[0], sequences.logits_alone(tokens + more[0].tolist()))
    del state
    sequences.live.clear()
    assert pages_of_states(lm) == before


def test_a_fork_shares_pages_and_copies_at_most_the_last(lm):
    page = lm._caches.pool.page
    state = lm.new_state()
    lm.step(state, ids_of(tokens=3 * page + 2))
    before = pages_of_states(lm)
    fork = state.fork()
    assert pages_of_states(lm) == before and fork.bytes == state.bytes
    one, other = lm.step(state, ids_of(tokens=1, seed=2)), lm.step(fork, ids_of(tokens=1, seed=3))
    assert pages_of_states(lm) == before + 1 and state._memory.rows[0][:3] == fork._memory.rows[0][:3]
    whole = ids_of(tokens=3 * page + 2)
    assert torch.equal(one, lm.step(lm.new_state(), torch.cat([whole, ids_of(tokens=1, seed=2)], 1)))
    assert torch.equal(other, lm.step(lm.new_state(), torch.cat([whole, ids_of(tokens=1, seed=3)], 1)))
    state.rewind(state.lengths[0])
    assert state.bytes == 0
    del fork
    assert pages_of_states(lm) == before - 4


def test_a_full_pool_refuses_and_changes_nothing():
    model = small("Llama")
    page_bytes = 2 * 2 * 2 * 64 * 16 * 4  # layers, keys and values, heads, tokens, width, bytes
    lm = ingot.llm.compile(model, max_length=LENGTH, max_batch=2, kv_bytes=5 * page_bytes)  # one is for ids that do not count
    pool = lm._caches.pool
    assert (pool.page_bytes, pool.capacity) == (page_bytes, 5)
    state, other = lm.new_state(), lm.new_state()
    lm.step(state, ids_of(tokens=120))
    lm.step(other, ids_of(tokens=60))
    expected, fork = lm.step(other.fork(), ids_of(tokens=2)), other.fork()
    with pytest.raises(ingot.InputError, match="5 pages of 64 tokens are needed, and 1 of 5 are free.*kv_bytes"):
        lm.step([state, other], ids_of(2, 80))
    assert state.lengths == [120] and other.lengths == [60] and pool.used == 4
    lm.step(state, ids_of(tokens=60))
    with pytest.raises(ingot.InputError, match="kv_bytes"):
        lm.step(other, ids_of(tokens=2))  # the page that it shares has to be copied
    assert other.lengths == [60]
    state.reset()
    assert torch.equal(lm.step(other, ids_of(tokens=2)), expected) and fork.lengths == [60]
    for wrong in (page_bytes, 0, 1.5):
        with pytest.raises(ingot.OptionError, match="kv_bytes is"):
            ingot.llm.LanguageModel(lm.module, wrong)


def test_states_go_from_pages_to_caches_in_one_piece_and_back(lm, flat, tmp_path):
    rows, lengths, more = ids_of(3, 40), [40, 3, 33], ids_of(3, 2, seed=2)
    expected = None
    for here, there in ((lm, flat), (flat, lm)):
        state = here.new_state(3)
        here.step(state, rows, lengths)
        state.save(tmp_path / "state")
        moved = there.new_state().load(tmp_path / "state")
        assert moved.lengths == lengths
        logits = there.step(moved, more)
        torch.testing.assert_close(logits, here.step(state, more))
        if expected is not None:
            torch.testing.assert_close(logits, expected)
        expected = logits


def test_caches_in_one_piece(flat):
    state = flat.new_state(2)
    flat.step(state, ids_of(2, 20), [20, 7])
    fork = state.fork()
    logits = flat.step(state, ids_of(2, 1, seed=2))
    assert torch.equal(flat.step(fork, ids_of(2, 1, seed=2)), logits)
    for row, length in enumerate((20, 7)):
        alone = torch.cat([ids_of(2, 20)[row : row + 1, :length], ids_of(2, 1, seed=2)[row : row + 1]], 1)
        assert torch.equal(flat.step(flat.new_state(), alone)[0], logits[row])
    assert state.rewind([1, 3]).lengths == [20, 5] and state.reset().lengths == [0, 0]
    with pytest.raises(ingot.UnsupportedError, match="several states are given"):
        flat.step([state, fork], ids_of(4, 1))
    with pytest.raises(ingot.OptionError, match="kv_bytes is given"):
        ingot.llm.LanguageModel(flat.module, 1 << 30)


def test_wrong_lists_of_states(lm):
    states = [lm.new_state(2) for _ in range(4)]
    for call, said in [
        (lambda: lm.step(states, ids_of(8)), "the states have 8 sequences, and the model was compiled for 1 to 6"),
        (lambda: lm.step([], ids_of(1)), "belongs to another model"),
        (lambda: lm.step([states[0], None], ids_of(2)), "belongs to another model"),
        (lambda: lm.step([states[0], states[0]], ids_of(4)), "the state is in use"),
        (lambda: lm.step(states[:2], ids_of(3)), r"have to be int64 \[4, tokens\]"),
    ]:
        with pytest.raises(ingot.InputError, match=said):
            call()
    lm.step(states[:2], ids_of(4))
    assert [state.lengths for state in states] == [[11, 11], [11, 11], [0, 0], [0, 0]]
