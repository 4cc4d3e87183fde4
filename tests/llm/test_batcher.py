"""Many callers of one model: each request's tokens are those that it gets alone, whatever joins, leaves and is cancelled meanwhile, and no page is lost."""

import concurrent.futures
import gc
import random
import re
import threading

import pytest
import torch
from llm_architectures import LENGTH, VOCABULARY, small

import ingot
import ingot.llm


@pytest.fixture(scope="module")
def lm():
    return ingot.llm.compile(small("Llama"), max_length=LENGTH, max_batch=4, deterministic="batch")


def prompt(tokens, seed):
    return torch.randint(0, VOCABULARY, (tokens,), generator=torch.Generator().manual_seed(seed))


def alone(lm, ids, **how):
    return [int(token) for token in lm.generate(lm.new_state(), ids[None], **how)]


def pages_in_use(lm):
    gc.collect()
    return lm._caches.pool.used - len(lm._caches._runners)  # each runner has one for ids that do not count


HOW = [dict(max_new_tokens=12), dict(max_new_tokens=20, temperature=0.8, seed=3), dict(max_new_tokens=9, repetition_penalty=1.3), dict(max_new_tokens=30, temperature=1.2, top_p=0.9, seed=5), dict(max_new_tokens=1)]


def test_tokens_are_those_alone(lm):
    asked = [(prompt(n, seed=n), HOW[n % len(HOW)]) for n in (1, 2, 7, 33, 40, 64, 65, 90, 100, 31)]
    with lm.batcher(max_tokens=32) as batcher:
        requests = [batcher.submit(ids, stop=[], **how) for ids, how in asked]
        got = [request.result(timeout=120) for request in requests]
    assert [r.finish_reason for r in requests] == ["length"] * len(requests)
    for (ids, how), tokens in zip(asked, got):
        assert tokens == alone(lm, ids, stop=[], **how)
    assert pages_in_use(lm) == 0


def test_ends_and_reading_as_they_come(lm):
    ids = prompt(20, seed=1)
    whole = alone(lm, ids, max_new_tokens=30, stop=[])
    with lm.batcher() as batcher:
        request = batcher.submit(ids, max_new_tokens=30, stop=[whole[6]])
        assert list(request) == whole[: whole.index(whole[6]) + 1] and request.finish_reason == "stop"
        assert list(request) == [] and request.result() == request.tokens


def test_many_threads_that_come_and_go(lm):
    """Some requests are cancelled; the tokens that they had are right too."""
    expected = {n: alone(lm, prompt(5 + 7 * (n % 9), seed=n), max_new_tokens=5 + n % 20, stop=[], temperature=0.7 * (n % 2), seed=n) for n in range(24)}
    with lm.batcher(max_tokens=24) as batcher:

        def caller(thread):
            chance = random.Random(thread)
            for _ in range(8):
                n = chance.randrange(24)
                request = batcher.submit(prompt(5 + 7 * (n % 9), seed=n), max_new_tokens=5 + n % 20, stop=[], temperature=0.7 * (n % 2), seed=n, priority=chance.randrange(3))
                if chance.random() < 0.3:
                    for _ in range(chance.randrange(4)):
                        next(request)
                    request.cancel()
                    tokens = request.result(timeout=120)
                    assert tokens == expected[n][: len(tokens)] and (request.finish_reason == "cancelled" or tokens == expected[n])
                else:
                    assert list(request) == expected[n]

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            list(pool.map(caller, range(6)))
    assert pages_in_use(lm) == 0


def test_pages_that_are_short(tmp_path):
    """Requests that came last give their pages to others, and go on later with the same tokens."""
    model = small("Llama")
    ingot.llm.compile(model, max_length=LENGTH, max_batch=4, deterministic="batch").save(tmp_path / "m.ingot")
    large = ingot.llm.load(tmp_path / "m.ingot")
    lm = ingot.llm.load(tmp_path / "m.ingot", kv_bytes=5 * large._caches.pool.page_bytes)
    asked = [prompt(40 + n, seed=n) for n in range(4)]
    with lm.batcher(max_tokens=64) as batcher:
        requests = [batcher.submit(ids, max_new_tokens=100, stop=[]) for ids in asked]
        for ids, request in zip(asked, requests):
            assert request.result(timeout=240) == alone(large, ids, max_new_tokens=100, stop=[])
        too_large = batcher.submit(prompt(300, seed=9), max_new_tokens=20, stop=[])
        with pytest.raises(ingot.InputError, match="kv_bytes"):
            list(too_large)
        assert too_large.finish_reason == "error" and batcher.submit(asked[0], max_new_tokens=2, stop=[]).result(timeout=60) == requests[0].tokens[:2]
    assert pages_in_use(lm) == 0


def test_a_long_prompt_takes_the_pages_of_one_that_answers(tmp_path):
    """The long one came first; the short one, which would have its next token in the same round, waits and goes on later."""
    ingot.llm.compile(small("Llama"), max_length=LENGTH, max_batch=4, deterministic="batch").save(tmp_path / "m.ingot")
    large = ingot.llm.load(tmp_path / "m.ingot")
    lm = ingot.llm.load(tmp_path / "m.ingot", kv_bytes=5 * large._caches.pool.page_bytes)
    long, short = prompt(230, seed=1), prompt(1, seed=2)
    with lm.batcher(max_tokens=16) as batcher:
        requests = [batcher.submit(long, max_new_tokens=3, stop=[]), batcher.submit(short, max_new_tokens=60, stop=[])]
        assert requests[0].result(timeout=120) == alone(large, long, max_new_tokens=3, stop=[])
        assert requests[1].result(timeout=120) == alone(large, short, max_new_tokens=60, stop=[])
    assert pages_in_use(lm) == 0


def test_equal_beginnings_share_pages(lm):
    beginning = prompt(200, seed=2)
    with lm.batcher() as batcher:
        first = batcher.submit(beginning, max_new_tokens=2, stop=[])
        first.result(timeout=60)
        before = lm._caches.pool.used
        ids = torch.cat([beginning, prompt(3, seed=3)])
        second = batcher.submit(ids, max_new_tokens=2, stop=[])
        assert second.result(timeout=60) == alone(lm, ids, max_new_tokens=2, stop=[])
        assert lm._caches.pool.used <= before + 1  # it shares what is full
    assert pages_in_use(lm) == 0


def test_beginnings_of_requests_that_ended_are_found_again(lm):
    """However many others ended meanwhile; the longest one wins, and one that another goes on from is not kept twice."""
    beginning = prompt(200, seed=2)
    with lm.batcher() as batcher:
        batcher.submit(beginning, max_new_tokens=2, stop=[]).result(timeout=60)
        for n in range(12):
            batcher.submit(prompt(70, seed=10 + n), max_new_tokens=1, stop=[]).result(timeout=60)
        assert len(batcher._kept) == 13
        state, same = batcher._kept.find([*beginning[:150].tolist(), 1, 2], None)
        assert same == 150 and state.lengths[0] == 201
        del state
        assert batcher._kept.find(beginning[1:].tolist(), None) is None and batcher._kept.find(beginning[:63].tolist(), None) is None
        ids = torch.cat([beginning, prompt(70, seed=3)])
        assert batcher.submit(ids, max_new_tokens=2, stop=[]).result(timeout=60) == alone(lm, ids, max_new_tokens=2, stop=[])
        assert len(batcher._kept) == 14 and batcher._kept.find(ids.tolist(), None)[1] == 270
        again = batcher.submit(torch.cat([ids, prompt(3, seed=4)]), max_new_tokens=2, stop=[])
        again.result(timeout=60)
        assert len(batcher._kept) == 15
    assert pages_in_use(lm) == 0


def test_requests_with_one_prompt_take_it_once(lm):
    ids, how = prompt(200, seed=5), dict(max_new_tokens=12, stop=[], temperature=1.0)
    given, take = [], lm._take
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lm, "_take", lambda together, ids, counts, *more: (given.append(sum(counts)), take(together, ids, counts, *more))[1])
        with lm.batcher(max_tokens=64) as batcher:
            requests = [batcher.submit(ids, seed=n, **how) for n in range(4)]
            got = [request.result(timeout=120) for request in requests]
    assert sum(given) <= 200 + 3 * (200 % 64) + 4 * 12  # the others take what is left after whole pages at most
    assert got == [alone(lm, ids, seed=n, **how) for n in range(4)]


def test_adapters_share_no_beginnings(lm):
    """Keys and values that an adapter made are not those of other requests."""
    weight, ids = "model.layers.0.self_attn.k_proj.weight", prompt(130, seed=6)
    lm.add_lora("other", {weight: (torch.randn(4, 64), torch.randn(32, 4), 1.0)})
    try:
        with lm.batcher() as batcher:
            for adapter in ("other", None, "other"):
                request = batcher.submit(ids, max_new_tokens=12, stop=[], adapter=adapter)
                assert request.result(timeout=60) == alone(lm, ids, max_new_tokens=12, stop=[], adapter=adapter)
    finally:
        lm.remove_lora("other")


def test_a_long_prompt_lets_later_ones_in(lm):
    with lm.batcher(max_tokens=8) as batcher:
        long = batcher.submit(prompt(300, seed=7), max_new_tokens=2, stop=[])
        while batcher.running == 0:
            pass
        for n in range(3):
            short = batcher.submit(prompt(12, seed=20 + n), max_new_tokens=2, stop=[])
            assert short.result(timeout=60) == alone(lm, prompt(12, seed=20 + n), max_new_tokens=2, stop=[])
        assert not long.tokens  # it had half of the rounds meanwhile
        assert long.result(timeout=120) == alone(lm, prompt(300, seed=7), max_new_tokens=2, stop=[])


def test_logprobs(lm):
    ids = prompt(9, seed=8)
    run = lm.generate(lm.new_state(), ids[None], max_new_tokens=5, stop=[], logprobs=3)
    expected = [run.logprobs for _ in run]
    with lm.batcher() as batcher:
        other = batcher.submit(prompt(30, seed=9), max_new_tokens=20, stop=[])
        request = batcher.submit(ids, max_new_tokens=5, stop=[], logprobs=3)
        request.result(timeout=60)
        assert len(request.logprobs) == 5 and not other.logprobs
        for one, of in zip(request.logprobs, expected):
            torch.testing.assert_close((one.chosen, one.values), (of.chosen, of.values))
            assert torch.equal(one.ids, of.ids)


def test_large_priorities_come_first(lm):
    with lm.batcher(max_batch=1) as batcher:
        running = batcher.submit(prompt(4, seed=0), max_new_tokens=40, stop=[])
        next(running)
        later, sooner = (batcher.submit(prompt(4, seed=n), max_new_tokens=3, stop=[], priority=n) for n in (1, 2))
        sooner.result(timeout=60)
        assert later.finish_reason is None or len(later.tokens) == 3
        assert later.result(timeout=60) == alone(lm, prompt(4, seed=1), max_new_tokens=3, stop=[])


def test_wrong_requests_touch_no_other(lm):
    with lm.batcher(max_batch=2, max_waiting=2) as batcher:
        good = batcher.submit(prompt(9, seed=4), max_new_tokens=60, stop=[])
        next(good)
        for call, said in [
            (lambda: batcher.submit(prompt(LENGTH, seed=1), max_new_tokens=2), "over max_length"),
            (lambda: batcher.submit([VOCABULARY], max_new_tokens=2), f"id {VOCABULARY} is outside of the vocabulary"),
            (lambda: batcher.submit([], max_new_tokens=2), "ids are"),
            (lambda: batcher.submit([1], max_new_tokens=2, temperature=-1), "temperature is -1"),
            (lambda: batcher.submit([1], max_new_tokens=2, draft="prompt"), "takes no draft"),
            (lambda: lm.batcher(max_batch=9), "max_batch is 9, and has to be 1 to 4"),
        ]:
            with pytest.raises(ingot.InputError, match=re.escape(said)):
                call()

        def fails(ids, scores):
            raise ZeroDivisionError("a processor's own")

        failing = batcher.submit(prompt(3, seed=1), max_new_tokens=2, logits_processors=[fails])
        with pytest.raises(ZeroDivisionError, match="a processor's own"):
            failing.result(timeout=60)
        assert good.result(timeout=120) == alone(lm, prompt(9, seed=4), max_new_tokens=60, stop=[])


def test_full_and_closed(lm):
    batcher = lm.batcher(max_batch=1, max_waiting=2)
    running = batcher.submit(prompt(4, seed=0), max_new_tokens=200, stop=[])
    next(running)
    waiting = [batcher.submit(prompt(4, seed=n), max_new_tokens=5, stop=[]) for n in (1, 2)]
    with pytest.raises(ingot.InputError, match="2 requests wait already, max_waiting"):
        batcher.submit(prompt(4, seed=3), max_new_tokens=5)
    with pytest.raises(TimeoutError):
        waiting[1].result(timeout=0.001)
    threads = threading.active_count()
    batcher.close()
    assert {r.finish_reason for r in (running, *waiting)} == {"cancelled"} and threading.active_count() == threads - 1
    with pytest.raises(ingot.InputError, match="the batcher is closed"):
        batcher.submit(prompt(4, seed=3), max_new_tokens=5)
    assert pages_in_use(lm) == 0


def test_a_model_without_pages_says_so():
    with pytest.raises(ingot.UnsupportedError, match="needs a cache in pages"):
        ingot.llm.compile(small("Mamba"), max_length=32).batcher()
