"""ingot.llm's encoders: vectors of texts are those of sentence-transformers and of the model in eager, saved and loaded, whatever runs together."""

import json

import pytest
import tokenizers
import torch
import transformers

import ingot
import ingot.llm


def tokenizer_of_bytes():
    found = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={c: n for n, c in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    found.pre_tokenizer, found.decoder = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), tokenizers.decoders.ByteLevel()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small BERT with a tokenizer of bytes, which says that it cuts texts and fills them up."""
    torch.manual_seed(0)
    where = tmp_path_factory.mktemp("encoder")
    configuration = transformers.BertConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=300, max_position_embeddings=64)
    transformers.BertModel(configuration).save_pretrained(where)
    words = tokenizer_of_bytes()
    words.enable_truncation(16)
    words.enable_padding(pad_id=5)
    words.save(str(where / "tokenizer.json"))
    return where


TEXTS = ["a", "Once upon a time", "there was", "a very long text, longer than the tokenizer would let it be", ""]


def in_eager(folder, ids, pooling):
    model = transformers.AutoModel.from_pretrained(folder).double().eval()
    with torch.no_grad():
        hidden = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    return {"mean": hidden.mean(0), "cls": hidden[0], "last": hidden[-1]}[pooling]


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_poolings(folder, pooling, tmp_path):
    encoder = ingot.llm.compile_encoder(folder, max_length=64, max_batch=3, pooling=pooling)
    encoder.save(tmp_path / "e.ingot")
    loaded = ingot.llm.load_encoder(tmp_path / "e.ingot")
    assert (loaded.width, loaded.pooling, loaded.normalize, loaded.max_batch) == (32, pooling, False, 3)
    made = encoder.embed(TEXTS[:4])
    assert made.shape == (4, 32)
    torch.testing.assert_close(loaded.embed(TEXTS[:4]), made)
    for text, vector in zip(TEXTS, made):
        ids = list(tokenizer_of_bytes().encode(text).ids)
        torch.testing.assert_close(vector.double(), in_eager(folder, ids, pooling), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(encoder.embed([ids])[0], vector)


def test_a_folder_of_sentence_transformers(folder, tmp_path):
    sentences = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    words = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_of_bytes(), pad_token="!")
    transformers.AutoModel.from_pretrained(folder).save_pretrained(tmp_path / "plain")
    words.save_pretrained(tmp_path / "plain")
    model = sentences.SentenceTransformer(modules=[Transformer(str(tmp_path / "plain")), Pooling(32, "mean"), Normalize()])
    model.save(str(tmp_path / "model"))
    encoder = ingot.llm.compile_encoder(tmp_path / "model", max_length=64)
    assert encoder.pooling == "mean" and encoder.normalize
    torch.testing.assert_close(encoder.embed(TEXTS[:4]), torch.from_numpy(model.encode(TEXTS[:4])), rtol=1e-5, atol=1e-6)


def test_what_folders_of_sentence_transformers_say(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "1_Pooling").mkdir()
    parts = [{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(parts))
    for old, name in [("pooling_mode_cls_token", "cls"), ("pooling_mode_lasttoken", "last"), ("pooling_mode_mean_tokens", "mean")]:
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({old: True, "pooling_mode_max_tokens": False}))
        found = ingot.llm.compile_encoder(tmp_path, max_length=8)
        assert found.pooling == name and not found.normalize
    for config, more, said in [
        ({"pooling_mode_max_tokens": True}, [], "pools by 'max'"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, [], "pools by"),
        ({"pooling_mode": "mean"}, [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}], "a part Dense at '2_Dense'"),
    ]:
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(config))
        (tmp_path / "modules.json").write_text(json.dumps(parts + more))
        with pytest.raises(ingot.UnsupportedError, match=said):
            ingot.llm.compile_encoder(tmp_path, max_length=8)


def test_wrong_calls(folder, tmp_path):
    encoder = ingot.llm.compile_encoder(folder, max_length=8)
    encoder.save(tmp_path / "e.ingot")
    for call, said in [
        (lambda: encoder.embed("a text"), "one text"),
        (lambda: encoder.embed(["too long a text"]), "15 tokens, and the encoder takes 1 to 8"),
        (lambda: encoder.embed([""]), "0 tokens"),
        (lambda: encoder.embed([[300]]), "id 300 is outside of the vocabulary"),
        (lambda: ingot.llm.compile_encoder(folder, max_length=8, pooling="max"), "pooling is 'max'"),
        (lambda: ingot.llm.compile_encoder(folder, max_length=65), "positions for 64 tokens"),
        (lambda: ingot.llm.compile_encoder(torch.nn.Linear(2, 2), max_length=8), "no model of transformers"),
    ]:
        with pytest.raises(ingot.InputError, match=said):
            call()
    with pytest.raises(ingot.FormatError, match="is an encoder, not a language model"):
        ingot.llm.load(tmp_path / "e.ingot")
    assert encoder.embed([]).shape == (0, 32)
