"""ingot.llm's `kv_dtype`: keys and values in other types than the model's, read in pages, with the bytes of that type and an error of its rounding."""

import json

import pytest
import torch
from llm_architectures import LENGTH, VOCABULARY, small

import ingot
import ingot.llm

PARTS = (70, 30, 1, 1)  # tokens of steps


def rows(tokens, seed=1):
    return torch.randint(0, VOCABULARY, (2, tokens), generator=torch.Generator().manual_seed(seed))


def logits(lm, state):
    return torch.cat([lm.step(state, rows(n, seed=n + i), lengths=[n, max(1, n - 9)]) for i, n in enumerate(PARTS)]).double()


def labels(lm):
    return json.dumps(lm.module.engine.inspect())


@pytest.fixture(scope="module")
def exact():
    lm = ingot.llm.compile(small("Llama"), max_length=LENGTH, max_batch=2)  # float32: beside the errors here, exact
    return logits(lm, lm.new_state(2))


# Root mean square of a rounding, of the largest number: bf16 has 8 bits, f16 11; int8 has steps of 1/127 of the largest number of a head and token, of which the usual number is some third.
@pytest.mark.parametrize("kv_dtype, least, most", [("float16", 1e-5, 1e-3), ("bfloat16", 1e-4, 8e-3), ("int8", 1e-3, 2e-2)])
@pytest.mark.parametrize("deterministic", ["off", "batch"])
def test_the_error(exact, kv_dtype, least, most, deterministic):
    lm = ingot.llm.compile(small("Llama"), max_length=LENGTH, max_batch=2, kv_dtype=kv_dtype, deterministic=deterministic)
    state = lm.new_state(2)
    error = float((logits(lm, state) - exact).norm() / exact.norm())
    assert least < error < most, error
    page = 2 * 2 * 2 * 64  # layers, keys and values, heads, tokens
    assert lm._caches.pool.page_bytes == page * (16 * 1 + 4 if kv_dtype == "int8" else 16 * 2) and state.bytes == 4 * lm._caches.pool.page_bytes
    assert labels(lm).count("keys in pages with scales" if kv_dtype == "int8" else "keys in pages,") == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_of_half_types(exact, dtype):
    model = small("Llama").to(dtype)
    lm = ingot.llm.compile(model, max_length=LENGTH, max_batch=2, kv_dtype="int8")
    assert labels(lm).count("keys in pages with scales") == 2
    assert float((logits(lm, lm.new_state(2)) - exact).norm() / exact.norm()) < 4e-2
    assert lm._caches.pool.page_bytes == 2 * 2 * 2 * 64 * (16 + 2)


def test_states_of_int8(tmp_path):
    """Forks, saved states and parts are those of any state: bits equal with deterministic="batch"."""
    lm = ingot.llm.compile(small("Qwen3"), max_length=LENGTH, max_batch=2, kv_dtype=torch.int8, deterministic="batch")
    lm.save(tmp_path / "m.ingot")
    lm = ingot.llm.load(tmp_path / "m.ingot")
    ids = rows(90)
    whole = lm.step(lm.new_state(2), ids)
    state = lm.new_state(2)
    lm.step(state, ids[:, :50])
    fork = state.fork()
    lm.step(fork, ids[:, :5])
    state.save(tmp_path / "state")
    for one in (state, lm.new_state().load(tmp_path / "state")):
        assert torch.equal(lm.step(one, ids[:, 50:]), whole)
    with lm.batcher() as batcher:
        request = batcher.submit(ids[0], max_new_tokens=20, stop=[])
        assert request.result(timeout=60) == [int(t) for t in lm.generate(lm.new_state(), ids[:1], max_new_tokens=20, stop=[])]
    assert torch.isfinite(lm.step(lm.new_state(), torch.zeros(1, 3, dtype=torch.int64))).all()


def test_what_is_refused():
    with pytest.raises(ingot.OptionError, match="kv_dtype is 'int4'"):
        ingot.llm.compile(small("Llama"), max_length=32, kv_dtype="int4")
    with pytest.raises(ingot.UnsupportedError, match="has its caches in one piece"):
        ingot.llm.compile(small("Mamba"), max_length=32, kv_dtype="int8")
