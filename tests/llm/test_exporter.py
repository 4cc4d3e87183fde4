"""Programs of transformers' exporter for generation: one graph takes prompts, parts of prompts and single tokens, with a cache of another length than the example's."""

import copy

import pytest
import torch
import transformers
from llm_architectures import VOCABULARY, small
from greedy import assert_greedy

import ingot

exporters = pytest.importorskip("transformers.exporters")


def exported(model):
    ids = torch.randint(0, VOCABULARY, (2, 7))
    how = transformers.GenerationConfig(cache_implementation="static", max_new_tokens=8, do_sample=False)
    made = exporters.DynamoExporter().export_for_generation(
        model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, exporters.DynamoConfig(dynamic=True), generation_config=how, multi_token_decode=True
    )
    return made.components["decode"].program


def mask_of(start, tokens, room):
    key, place = torch.arange(room), torch.arange(start, start + tokens)[:, None]
    return (key <= place)[None, None]


def static_cache(model, room):
    config = model.config
    cache = transformers.StaticCache(config=config, max_cache_len=room)
    heads, width = getattr(config, "num_key_value_heads", config.num_attention_heads), getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache.early_initialization(1, heads, width, torch.float32, torch.device("cpu"))
    return cache


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["Llama", "Qwen3", "GPT2"])
def test_one_graph(name):
    """Layers with a window are left out: their static cache has a Python number that chose a branch while the program was traced, and ties the number of tokens to it."""
    model = small(name)
    program = exported(copy.deepcopy(model))
    compiled = ingot.compile(program, fallback="error")
    assert compiled.report.whole
    asked = program.call_spec.in_spec.children()[1]
    ids = torch.randint(0, VOCABULARY, (1, 12), generator=torch.Generator().manual_seed(1))
    room, answers = 40, []

    def run(cache, now, at):
        mask, places = mask_of(at, now.shape[1], room), torch.arange(at, at + now.shape[1])[None]
        form = asked.children()[asked.context.index("attention_mask")]
        every = {"input_ids": now, "position_ids": places, "past_key_values": cache, "attention_mask": mask if form.is_leaf() else {kind: mask for kind in form.context}}
        return compiled(**{key: every[key] for key in asked.context}).logits[:, -1]

    for sizes in ([12], [5, 4, 3], [1] * 12):
        cache, at, tokens = static_cache(model, room), 0, []
        for size in sizes:
            logits = run(cache, ids[:, at : at + size], at)
            at += size
        for _ in range(16):
            tokens.append(logits.argmax(-1))
            logits = run(cache, tokens[-1][:, None], at)
            at += 1
        answers.append(torch.stack(tokens, 1))
        assert_greedy(model, ids, answers[-1])
    assert torch.equal(answers[0], answers[1]) and torch.equal(answers[0], answers[2])
