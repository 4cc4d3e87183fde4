"""Each architecture: 256 greedy tokens are eager's, from a model compiled and one saved and loaded; a prompt in parts gives the same ones. A plain run takes two."""

import pytest
import torch
from llm_architectures import CONFIGURATIONS, LENGTH, VOCABULARY, small
from greedy import assert_greedy

import ingot.llm


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name", list(CONFIGURATIONS))
def test_greedy_tokens(name, tmp_path):
    model = small(name)
    lm = ingot.llm.compile(model, max_length=LENGTH, max_batch=2)
    assert lm.module.report.whole
    ids = torch.randint(0, VOCABULARY, (1, 20), generator=torch.Generator().manual_seed(1))
    tokens = torch.stack(list(lm.generate(lm.new_state(), ids, max_new_tokens=256, stop=[])), 1)
    assert_greedy(model, ids, tokens)
    assert len(set(tokens[0].tolist())) >= 40
    for sizes in ([1] * 20, [9, 9, 2]):
        state, at = lm.new_state(), 0
        for size in sizes[:-1]:
            lm.step(state, ids[:, at : at + size])
            at += size
        parts = torch.stack(list(lm.generate(state, ids[:, at:], max_new_tokens=64, stop=[])), 1)
        assert_greedy(model, ids, parts)
    lm.save(tmp_path / "m.ingot")
    loaded = ingot.llm.load(tmp_path / "m.ingot")
    again = torch.stack(list(loaded.generate(loaded.new_state(), ids, max_new_tokens=256, stop=[])), 1)
    assert torch.equal(again, tokens)
