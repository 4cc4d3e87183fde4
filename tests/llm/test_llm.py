"""ingot.llm: greedy tokens are eager's, however a prompt is cut, batched or saved; states fork, rewind and go into files; wrong calls change nothing."""

import copy
import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import transformers
from llm_architectures import LENGTH, VOCABULARY, small

sys.path.insert(0, str(Path(__file__).parents[1]))
from accuracy import assert_accurate
from greedy import assert_greedy

import ingot
import ingot.llm
from ingot.llm.command import main
from ingot.llm.tokens import tokenizer_of


@pytest.fixture(scope="module")
def llama():
    model = small("Llama")
    return model, ingot.llm.compile(model, max_length=LENGTH, max_batch=3)


def prompt(rows=1, tokens=11, seed=1):
    return torch.randint(0, VOCABULARY, (rows, tokens), generator=torch.Generator().manual_seed(seed))


def answer(lm, ids, count=24, state=None, **how):
    state = lm.new_state(ids.shape[0]) if state is None else state
    return torch.stack(list(lm.generate(state, ids, max_new_tokens=count, stop=[], **how)), 1)


def test_greedy_tokens_are_eagers(llama):
    model, lm = llama
    assert lm.module.report.whole
    tokens = answer(lm, prompt(), 256)
    assert_greedy(model, prompt(), tokens)
    assert len(set(tokens[0].tolist())) >= 40


def test_attention_reads_the_filled_part_of_the_pages_where_they_are_and_they_are_written_in_place(llama):
    _, lm = llama
    pools = [torch.zeros(4, *pool.shape[1:]) for pool in lm._caches.pool.tensors.values()]
    steps = str(lm.module.engine.session().profile(torch.tensor([[3]]), torch.tensor([1]), torch.tensor([[0]]), torch.tensor([[1, 0]]), torch.tensor([0]), *pools, runs=1))
    assert steps.count("keys in pages, filled keys") == 2 and steps.count("scatter") == 4
    assert "copy: layers" not in steps


def test_the_tokens_depend_on_the_cache(llama):
    """Without it, the test of greedy tokens fails."""
    model, lm = llama
    state = lm.new_state()
    run = lm.generate(state, prompt(), max_new_tokens=20, stop=[])
    tokens = []
    for token in run:
        tokens.append(token)
        for pool in lm._caches.pool.tensors.values():
            pool[state._memory.rows[0]] = 0
    with pytest.raises(AssertionError):
        assert_greedy(model, prompt(), torch.stack(tokens, 1))


def test_a_prompt_may_be_cut_anywhere(llama):
    _, lm = llama
    ids = prompt(tokens=23)
    whole = answer(lm, ids)
    for sizes in ([1] * 23, [7, 7, 7, 2], [22, 1]):
        state, at = lm.new_state(), 0
        for size in sizes[:-1]:
            lm.step(state, ids[:, at : at + size])
            at += size
        assert torch.equal(answer(lm, ids[:, at:], state=state), whole), sizes


def test_rows_of_different_lengths(llama):
    _, lm = llama
    ids, lengths = prompt(3), [11, 4, 7]
    state = lm.new_state(3)
    together = answer(lm, ids, state=state, lengths=lengths)
    assert state.lengths == [11 + 23, 4 + 23, 7 + 23]
    ids[1, 4:] = -1  # what does not count may be anything
    assert torch.equal(together, answer(lm, ids, lengths=torch.tensor(lengths)))
    for row, length in enumerate(lengths):
        assert torch.equal(answer(lm, ids[row : row + 1, :length])[0], together[row])


def test_logits_of_the_last_token_and_of_all(llama):
    model, lm = llama
    ids = prompt(3)
    with torch.no_grad():
        eager = model(ids).logits
    every = lm.step(lm.new_state(3), ids, logits="all")
    torch.testing.assert_close(every, eager, rtol=1e-4, atol=1e-4)
    last = lm.step(lm.new_state(3), ids, [11, 0, 6])
    assert last.shape == (3, VOCABULARY) and last.dtype == torch.float32
    torch.testing.assert_close(last[[0, 2]], torch.stack([every[0, 10], every[2, 5]]))


def test_states_fork_and_rewind(llama):
    _, lm = llama
    state = lm.new_state()
    first = answer(lm, prompt(), 8, state)
    fork = state.fork()
    assert fork.lengths == [18] and fork.bytes == state.bytes
    rest = answer(lm, first[:, -1:], 8, state)
    assert torch.equal(answer(lm, first[:, -1:], 8, fork), rest)
    assert state.rewind(8).lengths == [18]
    assert torch.equal(answer(lm, first[:, -1:], 8, state), rest)
    assert state.reset().lengths == [0] and torch.equal(answer(lm, prompt(), 8, state), first)
    rows = lm.new_state(2)
    lm.step(rows, prompt(2))
    assert rows.rewind([3, 0]).lengths == [8, 11]


def test_sequences_of_a_state_change_places(llama):
    _, lm = llama
    state = lm.new_state(3)
    first = answer(lm, prompt(3), 8, state, lengths=[11, 4, 7])
    rest = answer(lm, first[:, -1:], 8, state.fork())
    assert state.reorder([2, 2, 0]).lengths == [14, 14, 18]
    assert torch.equal(answer(lm, first[[2, 2, 0], -1:], 8, state), rest[[2, 2, 0]])


def test_states_in_files(llama, tmp_path):
    _, lm = llama
    state = lm.new_state(2)
    first = answer(lm, prompt(2), 8, state)
    state.save(tmp_path / "state")
    again = lm.new_state().load(tmp_path / "state")
    assert again.lengths == state.lengths == [18, 18] and again.batch == 2
    assert torch.equal(answer(lm, first[:, -1:], 8, again), answer(lm, first[:, -1:], 8, state))
    (tmp_path / "torn").write_bytes((tmp_path / "state").read_bytes()[:-3])
    (tmp_path / "text").write_text("no state")
    for name in ("torn", "text"):
        with pytest.raises(ingot.FormatError):
            again.load(tmp_path / name)
    assert again.lengths == [26, 26]


def test_a_saved_model(llama, tmp_path):
    model, lm = llama
    expected = answer(lm, prompt(2))  # used before it is saved
    lm.save(tmp_path / "m.ingot")
    loaded = ingot.llm.load(tmp_path / "m.ingot")
    assert (loaded.max_length, loaded.max_batch, loaded.vocabulary, loaded.stop, loaded.pad) == (LENGTH, 3, VOCABULARY, [], 0)
    state = loaded.new_state(2)
    assert state.lengths == [0, 0] and state.bytes == loaded._caches.pool.used == 0
    assert torch.equal(answer(loaded, prompt(2), state=state), expected)
    ingot.save(ingot.compile(torch.nn.Linear(2, 2).eval(), inputs=[torch.ones(1, 2)]), tmp_path / "other.ingot")
    with pytest.raises(ingot.FormatError, match="not of a language model"):
        ingot.llm.load(tmp_path / "other.ingot")


def test_the_end_of_a_sequence(llama):
    _, lm = llama
    ids = prompt(2)
    free = answer(lm, ids, 12)
    end = int(free[0, 3])
    state = lm.new_state(2)
    ended = torch.stack(list(lm.generate(state, ids, max_new_tokens=12, stop=[end])), 1)
    lengths = [row.index(end) + 1 if end in row else 12 for row in free.tolist()]
    for row, length in enumerate(lengths):
        assert ended[row].tolist() == free[row, :length].tolist() + [lm.pad] * (ended.shape[1] - length)
    assert ended.shape[1] == max(lengths) and state.lengths == [11 + length - 1 for length in lengths]
    pair = free[0, 4:6].tolist()
    assert len(list(lm.generate(lm.new_state(), ids[:1], max_new_tokens=12, stop=[pair]))) == free[0].tolist().index(pair[1], 5) + 1


def test_wrong_calls_change_nothing(llama):
    model, lm = llama
    state = lm.new_state(2)
    lm.step(state, prompt(2))
    pages = torch.tensor(state._memory.rows)
    kept = [pool[pages].clone() for pool in lm._caches.pool.tensors.values()]

    class Other(ingot.llm.LanguageModel):
        pass

    foreign = Other(lm.module).new_state(2)
    for call, said in [
        (lambda: lm.step(state, prompt(2, LENGTH - 10)), f"has 11 tokens, and {LENGTH - 10} more are over max_length, {LENGTH}"),
        (lambda: lm.step(state, torch.tensor([[1], [VOCABULARY]])), f"id {VOCABULARY} is outside of the vocabulary"),
        (lambda: lm.step(state, torch.tensor([[1], [-1]])), "id -1 is outside of the vocabulary"),
        (lambda: lm.step(state, prompt(3)), "the state has 2 sequences"),
        (lambda: lm.step(state, prompt(2).float()), "have to be int64"),
        (lambda: lm.step(state, prompt(2), [3, 12]), r"lengths\[1\] is 12"),
        (lambda: lm.step(state, prompt(2), [3]), "one for each of the 2 sequences"),
        (lambda: lm.step(state, prompt(2), logits="first"), "logits is 'first'"),
        (lambda: lm.step(foreign, prompt(2)), "the state belongs to another model"),
        (lambda: lm.generate(foreign, prompt(2), max_new_tokens=1), "the state belongs to another model"),
        (lambda: lm.generate(state, prompt(2), max_new_tokens=LENGTH), "over max_length"),
        (lambda: lm.generate(state, prompt(2), max_new_tokens=0), "max_new_tokens is 0"),
        (lambda: lm.generate(state, prompt(2), max_new_tokens=1, temperature=-1), "temperature is -1"),
        (lambda: lm.generate(state, prompt(2), max_new_tokens=1, top_k=0), "top_k is 0"),
        (lambda: lm.generate(state, prompt(2), max_new_tokens=1, top_p=1.5), "top_p is 1.5"),
        (lambda: lm.generate(state, prompt(2), max_new_tokens=1, stop=["end"]), "stop has"),
        (lambda: lm.generate(state, prompt(2), max_new_tokens=1, temperature=1.0, seed=[1]), "one for each of the 2 sequences"),
        (lambda: state.rewind(12), "has 11 tokens, and 12"),
        (lambda: state.reorder([0, 2]), "rows has 2, and the sequences are 0 to 1"),
        (lambda: state.reorder([0]), "one for each of the 2 sequences"),
        (lambda: lm.new_state(4), "compiled for 1 to 3"),
    ]:
        with pytest.raises(ingot.InputError, match=said):
            call()
    assert state.lengths == [11, 11] and all(torch.equal(pool[pages], before) for pool, before in zip(lm._caches.pool.tensors.values(), kept))
    with state.in_use(), pytest.raises(ingot.InputError, match="the state is in use"):
        lm.step(state, prompt(2))
    lm.step(state, prompt(2))


def test_models_that_it_does_not_take(tmp_path):
    with pytest.raises(ingot.InputError, match="no language model of transformers"):
        ingot.llm.compile(torch.nn.Linear(2, 2), max_length=8)
    with pytest.raises(ingot.InputError, match="max_length is 0"):
        ingot.llm.compile(small("Llama"), max_length=0)
    with pytest.raises(ingot.InputError, match="no config.json"):
        ingot.llm.compile(tmp_path, max_length=8)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ingot.InputError, match="no .*safetensors"):
        ingot.llm.compile(tmp_path, max_length=8)
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "config.json").write_text('{"model_type": "mine", "auto_map": {"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.M"}}')
    with pytest.raises((ingot.UnsupportedError, ingot.FormatError)):
        ingot.llm.compile(tmp_path, max_length=8)


def test_a_folder_in_another_type(tmp_path):
    """Weights and files of a folder; nothing of it is needed after saving."""
    model = small("Llama")
    model.generation_config.update(do_sample=True, temperature=0.7, top_k=9, eos_token_id=[3, 5], repetition_penalty=1.1)
    model.save_pretrained(tmp_path / "folder")
    (tmp_path / "folder" / "chat_template.jinja").write_text("{{ messages }}")
    lm = ingot.llm.compile(tmp_path / "folder", max_length=32, dtype="bfloat16")
    ids = prompt()
    with torch.no_grad():
        eager, exact = copy.deepcopy(model).bfloat16()(ids).logits, copy.deepcopy(model).double()(ids).logits
    assert_accurate(lm.step(lm.new_state(), ids, logits="all"), eager, exact, depth=128)
    lm.save(tmp_path / "m.ingot")
    loaded = ingot.llm.load(tmp_path / "m.ingot")
    assert loaded.files == {"chat_template.jinja": "{{ messages }}"} and loaded.stop == [3, 5] and loaded.pad == 3
    assert loaded.generation == {"temperature": 0.7, "top_k": 9, "repetition_penalty": 1.1}
    drawn = [list(map(int, of.generate(of.new_state(), ids, max_new_tokens=12, seed=5))) for of in (lm, loaded)]
    assert drawn[0] == drawn[1]


def test_the_command(llama, tmp_path, capfd):
    from tokenizers import Tokenizer, models

    _, lm = llama
    lm.save(tmp_path / "m.ingot")
    expected = answer(lm, prompt(), 5)[0].tolist()
    assert main([str(tmp_path / "m.ingot"), "--ids", ",".join(map(str, prompt()[0].tolist())), "--max-new-tokens", "5", "--stats"]) == 0
    printed = capfd.readouterr()
    assert list(map(int, printed.out.split())) == expected and "tokens a second" in printed.err
    for arguments, said in ((["--ids", "1,x"], "has to be numbers"), (["--ids", str(VOCABULARY)], "outside of the vocabulary"), (["--prompt", "x"], "has no tokenizer")):
        assert main([str(tmp_path / "m.ingot"), *arguments]) == 1 and said in capfd.readouterr().err
    words = Tokenizer(models.WordLevel({f"w{n}": n for n in range(VOCABULARY)}, unk_token="w0"))
    lm.files["tokenizer.json"] = words.to_str()
    try:
        assert tokenizer_of(lm.files, "give --ids").decode(tokenizer_of(lm.files, "give --ids").encode("w7").ids) == "w7"
    finally:
        del lm.files["tokenizer.json"]


def test_the_commands_drafts_choices_and_states(llama, tmp_path, capfd):
    _, lm = llama
    plan = str(tmp_path / "m.ingot")
    lm.save(plan)
    ids = prompt()[0].tolist()

    def said(ids, *arguments):
        assert main([plan, "--ids", ",".join(map(str, ids)), *arguments]) == 0
        return list(map(int, capfd.readouterr().out.split()))

    whole = said(ids, "--max-new-tokens", "8")
    assert whole == answer(lm, prompt(), 8)[0].tolist()
    for draft in ("prompt", plan):
        assert said(ids, "--max-new-tokens", "8", "--draft", draft, "--draft-tokens", "3") == whole
    drawn = said(ids, "--max-new-tokens", "8", "--temperature", "0.9", "--top-k", "50", "--top-p", "0.9", "--min-p", "0.01", "--repetition-penalty", "1.1", "--seed", "4")
    how = dict(temperature=0.9, top_k=50, top_p=0.9, min_p=0.01, repetition_penalty=1.1, seed=4)
    assert drawn == answer(lm, prompt(), 8, **how)[0].tolist()
    state = str(tmp_path / "state")
    first = said(ids, "--max-new-tokens", "5", "--state-out", state)
    assert first + said(first[-1:], "--max-new-tokens", "3", "--state-in", state) == whole
    for arguments, problem in ((["--regex", "("], "--regex is"), (["--schema", str(tmp_path / "none")], "cannot be read"), (["--schema", plan], "cannot be read"), (["--regex", "a"], "tokenizer")):
        assert main([plan, "--ids", "1", *arguments]) == 1 and problem in capfd.readouterr().err


def test_the_list_of_commands_has_generate():
    done = subprocess.run([sys.executable, "-m", "ingot", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "  generate  " in done.stdout and "  compile  " in done.stdout


def test_weights_of_eight_bits(llama):
    model, lm = llama
    smaller = ingot.llm.compile(model, max_length=LENGTH, weight_dtype="int8")

    def packed(of):  # types of the matrices of four products a layer, and of the head
        return re.findall(r'"matmul_pack", "label": "pack", "writes": \[\{"dtype": "(\w+)"', json.dumps(of.module.engine.inspect()))

    assert packed(lm) == ["f32"] * 9 and packed(smaller) == ["i8"] * 9
    assert answer(smaller, prompt()).shape == (1, 24)


def test_threads_with_a_state_each(llama):
    _, lm = llama
    expected = [answer(lm, prompt(seed=n)) for n in range(4)]
    right = []

    def decode(n):
        right.append(torch.equal(answer(lm, prompt(seed=n)), expected[n]))

    threads = [threading.Thread(target=decode, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sequences_together_on_a_gpu(dtype):
    """Each step of one to eight sequences gives eager's logits."""
    config = transformers.LlamaConfig(hidden_size=512, intermediate_size=1024, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2, vocab_size=1024, eos_token_id=None)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).eval().cuda()
    lm = ingot.llm.compile(model, max_length=256, max_batch=9)
    for batch in (1, 2, 8, 9):
        ids = torch.randint(0, 1024, (batch, 90), generator=torch.Generator().manual_seed(batch)).cuda()
        state = lm.new_state(batch=batch)
        found = [lm.step(state, ids[:, :86]), *(lm.step(state, ids[:, n : n + 1]) for n in range(86, 90))]
        with torch.no_grad():
            wanted = model(ids).logits[:, 85:]
        assert (torch.stack(found, 1) - wanted).abs().max() < 0.05 * wanted.abs().max()
