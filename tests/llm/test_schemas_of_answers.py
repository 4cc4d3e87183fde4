"""`schema=`: what a model with random weights writes is JSON of the schema, matches the expression or is of the grammar, however tokens are chosen."""

import json
import random
import re

import pytest
import torch
from llm_architectures import small

import ingot
import ingot.llm

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
pytest.importorskip("llguidance", reason="llguidance is not installed")
END = 0


def tokenizer():
    """Bytes, and a few words of several."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = {"<end>": END, **{c: n + 1 for n, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}}
    merges = [("t", "r"), ("tr", "u"), ("tru", "e"), ('"', ":"), ("{", '"'), ('"', "}"), (",", '"'), ("1", "2"), ("Ã", "©")]
    words |= {a + b: len(words) + n for n, (a, b) in enumerate(merges)}
    made = Tokenizer(models.BPE(vocab=words, merges=merges))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), decoders.ByteLevel()
    made.add_special_tokens(["<end>"])
    return made


@pytest.fixture(scope="module")
def words():
    return tokenizer()


@pytest.fixture(scope="module")
def lm(words, tmp_path_factory):
    """Its vocabulary is larger than the tokenizer's, as models' often are."""
    folder = tmp_path_factory.mktemp("folder")
    model = small("Llama")
    model.generation_config.eos_token_id = END
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(words.to_str())
    lm = ingot.llm.compile(folder, max_length=1024, max_batch=4)
    lm.save(folder / "m.ingot")
    return ingot.llm.load(folder / "m.ingot")


def written(lm, words, schema, batch=1, count=1000, **how):
    """The texts, None for those that did not end."""
    run = lm.generate(lm.new_state(batch), torch.tensor([[65, 66]] * batch), max_new_tokens=count, schema=schema, **how)
    rows = torch.stack(list(run), 1).tolist()
    return [words.decode([n for n in row if n != END]) if ended else None for row, ended in zip(rows, run.ended)]


SCHEMAS = [
    {},
    {"type": "boolean"},
    {"type": "null"},
    {"type": "integer"},
    {"type": "integer", "minimum": -3, "maximum": 40},
    {"type": "integer", "exclusiveMinimum": 9, "exclusiveMaximum": 12},
    {"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 99},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"type": "string", "maxLength": 5},
    {"type": "string", "minLength": 3, "maxLength": 3},
    {"type": "string", "pattern": "^[a-f]{2,4}$"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "time"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "ipv4"},
    {"enum": ["red", "green", 3, None, {"a": 1}]},
    {"const": "caf\u00e9 \u2603 \"quoted\" \\"},
    {"type": ["integer", "boolean"]},
    {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 2}]},
    {"type": "array", "items": {"type": "integer", "maximum": 99, "minimum": 0}, "maxItems": 5},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 3, "maxItems": 3},
    {"type": "array", "prefixItems": [{"type": "boolean"}, {"enum": ["a", "b"]}], "items": False, "minItems": 2},
    {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}}, "additionalProperties": False},
    {"type": "object", "properties": {"\u00fc\"": {"type": "null"}}, "required": ["\u00fc\""], "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "boolean"}},
    {"type": "object", "patternProperties": {"^k[0-9]$": {"type": "null"}}, "additionalProperties": False},
    {"$defs": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 4},
    {"$defs": {"t": {"type": "object", "properties": {"v": {"type": "boolean"}, "next": {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]}}, "required": ["v", "next"], "additionalProperties": False}}, "$ref": "#/$defs/t"},
    {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 30}]},
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 3}},
     "required": ["name", "age", "tags"], "additionalProperties": False},
]  # fmt: skip


def drawn_schema(choose: random.Random, depth=3):
    kind = choose.choice(["boolean", "null", "integer", "number", "string", "enum", "object", "array", "either"][: 9 if depth else 6])
    if kind == "integer":
        low = choose.randint(-50, 50)
        return {"type": "integer", "minimum": low, "maximum": low + choose.randint(0, 2000)}
    if kind == "number":
        return {"type": "number", "minimum": choose.randint(-5, 0), "maximum": choose.randint(1, 9)}
    if kind == "string":
        return {"type": "string", **choose.choice([{"maxLength": choose.randint(0, 6)}, {"pattern": choose.choice(["^[a-z]{1,5}$", "^(on|off)$", "^[0-9]{3}-x?$"])}, {"format": choose.choice(["date", "uuid", "ipv4", "time"])}])}
    if kind == "enum":
        return {"enum": choose.sample(["a", "bc", "\u00e9\u2603", 1, 2.5, None, True, [1], {"k": "v"}], choose.randint(1, 4))}
    if kind == "object":
        names = choose.sample(["a", "b", "name", "\u00fc", "two words", '"', "9"], choose.randint(0, 4))
        return {"type": "object", "properties": {name: drawn_schema(choose, depth - 1) for name in names}, "required": names[: choose.randint(0, len(names))], "additionalProperties": False}
    if kind == "array":
        least = choose.randint(0, 2)
        return {"type": "array", "items": drawn_schema(choose, depth - 1), "minItems": least, "maxItems": least + choose.randint(0, 3)}
    if kind == "either":
        return {"anyOf": [drawn_schema(choose, depth - 1) for _ in range(choose.randint(1, 3))]}
    return {"type": kind}


def assert_valid(text, schema):
    jsonschema.validate(json.loads(text), schema, format_checker=jsonschema.FormatChecker(["date", "uuid", "ipv4"]))


@pytest.mark.parametrize("number", range(0, len(SCHEMAS), 4))
@pytest.mark.parametrize("how", [{}, {"temperature": 1.5}, {"temperature": 1.0, "draft": "prompt"}], ids=["greedy", "drawn", "draft"])
def test_named_schemas(lm, words, number, how):
    schemas = (SCHEMAS[number : number + 4] * 4)[:4]
    for schema, text in zip(schemas, written(lm, words, schemas, 4, seed=[1, 2, 3, 4], **how)):
        if text is not None:
            assert_valid(text, schema)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("number", range(250))
def test_a_thousand_schemas(lm, words, number):
    """Four at a time, and nearly all end."""
    choose = random.Random(number)
    schemas = [drawn_schema(choose) for _ in range(4)]
    texts = written(lm, words, schemas, 4, temperature=choose.choice([0.7, 1.0, 2.0]), seed=[number, number + 1, number + 2, number + 3], draft=choose.choice([None, "prompt"]))
    for schema, text in zip(schemas, texts):
        if text is not None:
            assert_valid(text, schema)
    assert texts.count(None) <= 1, "bounded schemas end"


def test_expressions_and_grammars(lm, words):
    texts = written(lm, words, [re.compile("[0-9]{3}-[a-c]+x"), re.compile("HELLO", re.I), 'start: "<" name ">"\nname: /[a-z]{2,5}/', None], 4, count=300, temperature=1.3, seed=3)
    assert re.fullmatch("[0-9]{3}-[a-c]+x", texts[0]) and texts[1].lower() == "hello" and re.fullmatch("<[a-z]{2,5}>", texts[2])


def test_the_end_of_a_text(lm, words):
    """A complete text ends at once if nothing can follow, else by an end id, which is allowed only there."""
    state = lm.new_state()
    run = lm.generate(state, torch.tensor([[65]]), max_new_tokens=50, schema=re.compile("ab"))
    assert words.decode([int(n) for n in run]) == "ab" and run.ended == [True] and state.lengths == [2]
    run = lm.generate(lm.new_state(), torch.tensor([[65]]), max_new_tokens=50, schema=re.compile("ab*"), temperature=2.0, seed=4)
    ids = [int(n) for n in run]
    assert run.ended == [True] and ids[-1] == END and re.fullmatch("ab*", words.decode(ids[:-1]))
    run = lm.generate(lm.new_state(), torch.tensor([[65]]), max_new_tokens=30, schema=re.compile("ab*"), stop=[])
    assert END not in map(int, run) and run.ended == [False]


@pytest.mark.parametrize("how", [{}, {"temperature": 1.2, "top_k": 30, "seed": 5}], ids=["greedy", "drawn"])
def test_with_a_draft_the_same_text_comes(lm, words, how):
    schema = SCHEMAS[-1]
    plain = written(lm, words, schema, 2, 400, **how)
    assert written(lm, words, schema, 2, 400, draft="prompt", **how) == plain
    assert written(lm, words, schema, 2, 400, draft=lm, **how) == plain


def test_wrong_schemas(lm):
    other = ingot.llm.LanguageModel(lm.module)
    other.files.clear()
    for of, schema, said in [
        (lm, {"type": "objec"}, "schema cannot be followed: .*objec"),
        (lm, {"not": {}}, "schema cannot be followed: .*not"),
        (lm, {"type": {1}}, "schema is no JSON"),
        (lm, re.compile("(?=a)b"), "schema cannot be followed"),
        (lm, 'start: "a" | b', "schema cannot be followed: .*unknown name"),
        (lm, "object", "has to be a JSON schema"),
        (lm, 3, "schema is 3"),
        (lm, [{}], "schema is a list of 1, and the state has 2 sequences"),
        (other, {}, "the model has no tokenizer"),
    ]:
        state = of.new_state(2) if of is lm else of.new_state()
        with pytest.raises(ingot.InputError, match=said):
            of.generate(state, torch.tensor([[65]] * state.batch), max_new_tokens=4, schema=schema)
        assert state.lengths == [0] * state.batch


def test_without_the_package(lm, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "llguidance", None)
    monkeypatch.setattr(lm, "_words", None)
    with pytest.raises(ingot.InputError, match="schema needs the package llguidance.*\n?.*pip install"):
        lm.generate(lm.new_state(), torch.tensor([[65]]), max_new_tokens=4, schema={})
