"""Random operations on a batcher and on states of the same model, side by side: requests join, leave and are cancelled, states fork, rewind and grow, and pages are so short that requests have to
give theirs to others. Each request's tokens are those that it gets alone, and no page is lost. `INGOT_TEST_ALL=1` makes 10,000 operations."""

import gc
import os
import random

import pytest
import torch
from llm_architectures import LENGTH, VOCABULARY, small

import ingot
import ingot.llm

OPERATIONS = 10_000 if os.environ.get("INGOT_TEST_ALL") else 250
PAGES = 16  # of the pool: requests of all kinds need up to 4 x 4 of them, and states have some too


@pytest.fixture(scope="module")
def lms(tmp_path_factory):
    """A model with few pages, and the same with enough for a request alone."""
    path = tmp_path_factory.mktemp("model") / "m.ingot"
    ingot.llm.compile(small("Llama"), max_length=LENGTH, max_batch=4, deterministic="batch").save(path)
    whole = ingot.llm.load(path)
    return ingot.llm.load(path, kv_bytes=PAGES * whole._caches.pool.page_bytes), whole


class Kinds:
    """Requests of a few kinds, some of which begin alike, with the tokens that each gets alone."""

    def __init__(self, lm, chance):
        beginnings = [[chance.randrange(VOCABULARY) for _ in range(150)] for _ in range(3)]
        self._lm, self._tokens = lm, {}
        self.all = []
        for n in range(40):
            prompt = chance.choice(beginnings)[: chance.choice([1, 20, 64, 65, 128, 140])] + [chance.randrange(VOCABULARY) for _ in range(chance.choice([1, 2, 30]))]
            how = [{}, {"temperature": 0.9, "seed": n}, {"repetition_penalty": 1.4}, {"temperature": 1.1, "top_p": 0.8, "seed": n}][n % 4]
            self.all.append((prompt, {"max_new_tokens": chance.choice([1, 4, 25, 60]), "stop": [], **how}))

    def alone(self, n):
        if n not in self._tokens:
            prompt, how = self.all[n]
            self._tokens[n] = [int(token) for token in self._lm.generate(self._lm.new_state(), torch.tensor([prompt]), **how)]
        return self._tokens[n]


class Operations:
    def __init__(self, lm, whole, batcher, seed):
        self.lm, self.whole, self.batcher, self.chance = lm, whole, batcher, random.Random(seed)
        self.kinds, self.asked, self.states = Kinds(whole, self.chance), [], []
        self.done = dict.fromkeys(("ended", "cancelled", "refused", "out of pages"), 0)

    def join(self):
        n = self.chance.randrange(len(self.kinds.all))
        prompt, how = self.kinds.all[n]
        try:
            self.asked.append((n, self.batcher.submit(prompt, priority=self.chance.randrange(3), **how)))
        except ingot.InputError as problem:
            assert "wait already" in str(problem)
            self.done["refused"] += 1

    def leave(self):
        """Waits for one, and compares all of its tokens."""
        if self.asked:
            n, request = self.asked.pop(self.chance.randrange(len(self.asked)))
            self._compare(n, request)

    def cancel(self):
        if self.asked:
            n, request = self.asked.pop(self.chance.randrange(len(self.asked)))
            for _ in range(self.chance.choice([0, 0, 1, 5])):
                next(request, None)
            request.cancel()
            self._compare(n, request)

    def _compare(self, n, request):
        try:
            tokens = request.result(timeout=300)
        except ingot.InputError as problem:  # states hold so many pages that not even one request fits
            assert "kv_bytes" in str(problem), problem
            self.done["out of pages"] += 1
            return
        expected = self.kinds.alone(n)
        is_cancelled = request.finish_reason == "cancelled"
        assert tokens == (expected[: len(tokens)] if is_cancelled else expected), (n, request.finish_reason)
        self.done["cancelled" if is_cancelled else "ended"] += 1

    def fork(self):
        if not self.states or len(self.states) < 3 and self.chance.random() < 0.5:
            self.states.append((self.lm.new_state(), []))
        else:
            state, tokens = self.chance.choice(self.states)
            self.states.append((state.fork(), list(tokens)))
        if len(self.states) > 3:
            self.states.pop(self.chance.randrange(len(self.states)))

    def rewind(self):
        if self.states:
            state, tokens = self.chance.choice(self.states)
            count = self.chance.randint(0, len(tokens))
            state.rewind(count)
            del tokens[len(tokens) - count :]

    def grow(self):
        """A step of a state; without pages it stays as it was."""
        if not self.states:
            return
        state, tokens = self.chance.choice(self.states)
        new = [self.chance.randrange(VOCABULARY) for _ in range(self.chance.choice([1, 1, 3, 70]))][: 130 - len(tokens)]
        if not new:
            return
        try:
            logits = self.lm.step(state, torch.tensor([new]))
        except ingot.InputError as problem:
            assert "kv_bytes" in str(problem) and state.lengths == [len(tokens)]
            self.done["out of pages"] += 1
            return
        tokens += new
        if self.chance.random() < 0.1:
            assert torch.equal(logits, self.whole.step(self.whole.new_state(), torch.tensor([tokens])))

    def one(self):
        getattr(self, self.chance.choice(["join"] * 4 + ["leave"] * 3 + ["cancel", "fork", "rewind", "grow", "grow"]))()


def test_random_operations(lms):
    lm, whole = lms
    with lm.batcher(max_tokens=48, max_waiting=12) as batcher:
        operations = Operations(lm, whole, batcher, int(os.environ.get("INGOT_TEST_SEED", 0)))
        for _ in range(OPERATIONS):
            operations.one()
        while operations.asked:
            operations.leave()
        assert (batcher.running, batcher.waiting) == (0, 0)
        print(operations.done)
    assert operations.done["ended"] > OPERATIONS // 10 and operations.done["cancelled"]
    owned = {page for state, _ in operations.states for row in state._memory.rows for page in row}
    gc.collect()
    assert lm._caches.pool.used - len(lm._caches._runners) == len(owned)
    operations.states.clear()
    gc.collect()
    assert lm._caches.pool.used == len(lm._caches._runners)
