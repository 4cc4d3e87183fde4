"""Programs of transformers' exporter for generation: one graph takes prompts, parts of prompts and single tokens, with a cache of another length than the example's."""

import copy

import pytest
import torch
import transformers
from architectures import VOCABULARY, small
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


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", ["Llama", "Qwen3", "GPT2", "Mistral", "Gemma3Text"])
def test_one_graph(name):
    model = small(name)
    if name in ("Mistral", "Gemma3Text"):  # the program is that of a window that is not full yet
        model.config.sliding_window = 64
    program = exported(copy.deepcopy(model))
    compiled = ingot.compile(program, fallback="error")
    assert compiled.report.whole
    ids = torch.randint(0, VOCABULARY, (1, 12), generator=torch.Generator().manual_seed(1))
    room, answers = 40, []
    for sizes in ([12], [5, 4, 3], [1] * 12):
        cache = transformers.StaticCache(config=model.config, max_cache_len=room)
        text = model.config.get_text_config()
        heads, width = getattr(text, "num_key_value_heads", text.num_attention_heads), getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        cache.early_initialization(1, heads, width, torch.float32, torch.device("cpu"))
        at, tokens = 0, []

        def run(now, at):
            mask, places = mask_of(at, now.shape[1], room), torch.arange(at, at + now.shape[1])[None]
            asked = program.call_spec.in_spec.children()[1].context
            every = {"input_ids": now, "attention_mask": mask, "position_ids": places, "past_key_values": cache}
            if name == "Gemma3Text":
                every["attention_mask"] = {"sliding_attention": mask, "full_attention": mask}
            for layer in cache.layers:
                if hasattr(layer, "cumulative_length_int"):
                    layer.cumulative_length_int = 7  # what it was in the example: a number that chose the branch for a window that is not full
            return compiled(**{key: value for key, value in every.items() if key in asked}).logits[:, -1]

        for size in sizes:
            now = run(ids[:, at : at + size], at)
            at += size
        for _ in range(16):
            tokens.append(now.argmax(-1))
            now = run(tokens[-1][:, None], at)
            at += 1
        answers.append(torch.stack(tokens, 1))
        assert_greedy(model, ids, answers[-1])
    assert torch.equal(answers[0], answers[1]) and torch.equal(answers[0], answers[2])
