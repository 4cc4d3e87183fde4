"""The export format "ingot" of transformers: any model, and language models with transformers' own generate: pipelines, streamers, beams, assistants, stopping criteria."""

import copy

import pytest
import torch
import transformers
from llm_architectures import LENGTH, VOCABULARY, small

import ingot
import ingot.llm

exporters = pytest.importorskip("transformers.exporters", reason="this transformers has no exporters")
if not hasattr(exporters, "register_backend"):
    pytest.skip("this transformers has no register_backend", allow_module_level=True)
from ingot.llm.hugging_face import IngotConfig, IngotExporter, IngotModelForCausalLM, StateCache

END, PAD = 3, 1


def with_ends(name="Llama"):
    model = small(name)
    model.generation_config.update(eos_token_id=END, pad_token_id=PAD)
    model.config.update({"eos_token_id": END, "pad_token_id": PAD})
    return model


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Eager, and the same from a folder."""
    folder, model = tmp_path_factory.mktemp("exported"), with_ends()
    exported = IngotExporter().export_for_generation(model, {}, IngotConfig(max_length=LENGTH, max_batch=6))
    exported.save_pretrained(folder)
    return model, IngotModelForCausalLM.from_pretrained(folder)


def prompt(rows=1, tokens=9, seed=1):
    return torch.randint(4, VOCABULARY, (rows, tokens), generator=torch.Generator().manual_seed(seed))


def padded():
    """Prompts of 9, 4 and 6 tokens, padded on the left."""
    ids = prompt(3)
    mask = torch.ones_like(ids)
    mask[1, :5], mask[2, :3] = 0, 0
    return {"input_ids": torch.where(mask.bool(), ids, PAD), "attention_mask": mask}


def test_what_a_model_of_transformers_has(models):
    model, mine = models
    assert mine.device == torch.device("cpu") and mine.dtype == torch.float32 and mine.can_generate()
    assert mine.config.to_dict() | {"_name_or_path": ""} == model.config.to_dict() and mine.generation_config.eos_token_id == END
    assert mine.to("cpu") is mine.eval()
    with pytest.raises(ingot.InputError, match="the plan runs on cpu, and is wanted on cuda"):
        mine.to("cuda")


def test_forward(models):
    model, mine = models
    given = padded()
    kept = given["attention_mask"].bool()
    with torch.no_grad():
        eager = model(**given)
    found = mine(**given)
    torch.testing.assert_close(found.logits[kept], eager.logits[kept], rtol=1e-4, atol=1e-4)
    assert found.past_key_values.get_seq_length() == 9 and found.past_key_values.state.lengths == [9, 4, 6]
    more = {"input_ids": prompt(3, 2, seed=5), "attention_mask": torch.cat([given["attention_mask"], torch.ones(3, 2, dtype=torch.int64)], 1)}
    with torch.no_grad():
        eager = model(**more, past_key_values=eager.past_key_values)
    last = mine(**more, past_key_values=copy.copy(found.past_key_values), logits_to_keep=1)
    torch.testing.assert_close(last.logits, eager.logits[:, -1:], rtol=1e-4, atol=1e-4)


WAYS = {
    "greedy": {},
    "sampled": dict(do_sample=True, top_k=20, temperature=0.9),
    "beams": dict(num_beams=2, num_return_sequences=2),
    "penalty": dict(repetition_penalty=1.5, no_repeat_ngram_size=2),
    "no cache": dict(use_cache=False),
    "chunks": dict(prefill_chunk_size=4),
    "scores": dict(output_scores=True, output_logits=True),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.one_in(3)
def test_generate_is_eagers(models, way):
    tokens = []
    for model in models:
        torch.manual_seed(0)
        made = model.generate(**padded(), max_new_tokens=12, return_dict_in_generate=True, **WAYS[way])
        tokens.append(made.sequences)
        assert way != "scores" or len(made.scores) == len(made.logits) == made.sequences.shape[1] - 9
    assert torch.equal(*tokens)


@pytest.mark.parametrize("who", ["ingot", "eager", "prompt"])
def test_assisted(models, who):
    model, mine = models
    plain = model.generate(prompt(), max_new_tokens=20)
    how = {"prompt_lookup_num_tokens": 3} if who == "prompt" else {"assistant_model": mine if who == "ingot" else model}
    before = copy.deepcopy(model.generation_config)
    try:
        assert torch.equal(mine.generate(prompt(), max_new_tokens=20, **how), plain)
        assert torch.equal(model.generate(prompt(), max_new_tokens=20, assistant_model=mine), plain)
    finally:
        model.generation_config = before


def test_streamers_and_stopping_criteria(models):
    class Streamer(transformers.generation.streamers.BaseStreamer):
        def __init__(self):
            self.tokens = []

        def put(self, value):
            self.tokens += value.flatten().tolist()

        def end(self):
            self.tokens.append("end")

    model, mine = models

    def long_enough(ids, scores, **kwargs):
        return torch.full((ids.shape[0],), ids.shape[1] >= 14, dtype=torch.bool)

    streamer = Streamer()
    tokens = mine.generate(prompt(), max_new_tokens=50, streamer=streamer, stopping_criteria=transformers.StoppingCriteriaList([long_enough]))
    assert tokens.shape == (1, 14) and streamer.tokens == [*tokens[0].tolist(), "end"]
    assert torch.equal(tokens, model.generate(prompt(), max_new_tokens=5))


def test_a_conversation_goes_on_with_its_cache(models):
    model, mine = models
    first = mine.generate(prompt(), max_new_tokens=5, return_dict_in_generate=True)
    assert isinstance(first.past_key_values, StateCache)
    more = torch.cat([first.sequences, prompt(1, 3, seed=2)], 1)
    assert torch.equal(mine.generate(more, past_key_values=first.past_key_values, max_new_tokens=6), model.generate(more, max_new_tokens=6))


def test_the_pipeline(models, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(transformers.pipelines.base.logger, "error", said.append)
    from tokenizers import Tokenizer, models as kinds, pre_tokenizers

    words = Tokenizer(kinds.WordLevel({f"w{n}": n for n in range(VOCABULARY)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token=f"w{END}", pad_token=f"w{PAD}", padding_side="left")
    texts = [" ".join(f"w{n}" for n in row) for row in (prompt()[0].tolist(), prompt(1, 5, seed=3)[0].tolist())]
    answers = [transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)(texts, max_new_tokens=8, do_sample=False, batch_size=2) for model in models]
    assert said == [], "a pipeline takes the class without a word"
    assert answers[0] == answers[1] and len(answers[1][0][0]["generated_text"].split()) > 9


def test_any_model(tmp_path):
    """`export` makes a plan of one forward."""
    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=100)
    model = transformers.BertModel(config).eval()
    given = {"input_ids": torch.randint(0, 100, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    exported = IngotExporter().export(model, given, IngotConfig(dynamic=True))
    exported.save_pretrained(tmp_path)
    loaded = exporters.ExportedModel.from_pretrained(tmp_path)
    assert (tmp_path / "model.ingot").is_file() and loaded.export_format == "ingot" and loaded.device == torch.device("cpu") and loaded.dtype == torch.float32
    other = {"input_ids": torch.randint(0, 100, (3, 11)), "attention_mask": torch.ones(3, 11, dtype=torch.int64)}
    with torch.no_grad():
        eager = model(**other)
    for one in (exported, loaded):
        found = one(**other)
        assert type(found) is type(eager)
        torch.testing.assert_close(found.last_hidden_state, eager.last_hidden_state, rtol=1e-4, atol=1e-5)
    loaded.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "model.ingot").read_bytes() == (tmp_path / "model.ingot").read_bytes()
    with pytest.raises(ingot.InputError, match="is not a language model for generation"):
        IngotModelForCausalLM(loaded)


def test_recurrent_layers():
    model = with_ends("Mamba")
    mine = IngotModelForCausalLM(IngotExporter().export_for_generation(model, {}, {"max_length": 64}))
    assert torch.equal(mine.generate(prompt(), max_new_tokens=6), model.generate(prompt(), max_new_tokens=6))
    with pytest.raises(ingot.InputError, match="recurrent layers"):
        mine.generate(prompt(), max_new_tokens=6, prompt_lookup_num_tokens=2)


def test_wrong_calls(models):
    model, mine = models
    ids = prompt()
    for call, said in [
        (lambda: mine(input_ids=ids, inputs_embeds=torch.ones(1)), "the plan does not take inputs_embeds"),
        (lambda: mine(attention_mask=ids), "input_ids are missing"),
        (lambda: mine(input_ids=ids, attention_mask=torch.ones(1, 8)), r"attention_mask is \[1, 8\], and has to be \[1, 9\]"),
        (lambda: mine(input_ids=ids, position_ids=torch.arange(1, 10)[None]), "position_ids are not those"),
        (lambda: mine(input_ids=ids, past_key_values=transformers.DynamicCache()), "past_key_values is a DynamicCache"),
        (lambda: mine.generate(ids, max_new_tokens=2, num_beams=7), "compiled for 1 to 6"),
        (lambda: mine.generate(ids, max_new_tokens=2, cache_implementation="static"), "cache_implementation is 'static'"),
        (lambda: mine.generate(ids, max_new_tokens=LENGTH), "over max_length"),
        (lambda: IngotExporter().export_for_generation(model, {}, 3), "config is of type int"),
        (lambda: IngotModelForCausalLM(exporters.ExportedModel({}, "ingot")), "is not a language model"),
    ]:
        with pytest.raises(ingot.InputError, match=said):
            call()
    with pytest.raises(ingot.OptionError, match="config has no max_length"):
        IngotExporter().export_for_generation(model, {}, IngotConfig())
