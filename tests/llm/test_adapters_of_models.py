"""`add_lora` and `adapter=` of language models, and `logprobs=`: each against eager."""

import copy
import json
import threading

import pytest
import safetensors.torch
import torch
from greedy import assert_greedy
from llm_architectures import LENGTH, VOCABULARY, small

import ingot
import ingot.llm

RANK = 4
LAYERS = [f"model.layers.{n}.{part}" for n in range(2) for part in ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj")]


def prompt(rows=1, seed=1):
    return torch.randint(0, VOCABULARY, (rows, 9), generator=torch.Generator().manual_seed(seed))


def factors(model, seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = {name: model.get_submodule(name).weight.shape for name in LAYERS}
    return {name: (torch.randn(RANK, i, generator=generator) * i**-0.5, torch.randn(o, RANK, generator=generator)) for name, (o, i) in shapes.items()}


def with_adapter(model, parts, scale):
    """Eager with the products added to its weights."""
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for name, (a, b) in parts.items():
            changed.get_submodule(name).weight += scale * b @ a
    return changed


@pytest.fixture(scope="module")
def model():
    return small("Llama")


@pytest.fixture(scope="module")
def compiled(model):
    return ingot.llm.compile(model, max_length=LENGTH, max_batch=2)


@pytest.fixture(scope="module", params=["compiled", "loaded"])
def lm(model, compiled, request, tmp_path_factory):
    """With two adapters: a folder of PEFT, and matrices by weight."""
    lm = ingot.llm.LanguageModel(compiled.module)
    folder = tmp_path_factory.mktemp("adapter")
    if request.param == "loaded":
        lm.save(folder / "m.ingot")
        lm = ingot.llm.load(folder / "m.ingot")
    tensors = {f"base_model.model.{name}.lora_{letter}.weight": m for name, pair in factors(model, 1).items() for letter, m in zip("AB", pair)}
    safetensors.torch.save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": RANK, "lora_alpha": 2 * RANK, "target_modules": ["q_proj", "v_proj", "down_proj"]}))
    lm.add_lora("first", folder)
    lm.add_lora("second", {f"{name}.weight": (a, b, 0.5) for name, (a, b) in factors(model, 2).items()})
    return lm


def tokens(lm, adapter, state=None, **how):
    return torch.stack(list(lm.generate(lm.new_state(2) if state is None else state, prompt(2), max_new_tokens=16, stop=[], adapter=adapter, **how)), 1)


def test_each_call_has_its_own(model, lm):
    eager = {None: model, "first": with_adapter(model, factors(model, 1), 2.0), "second": with_adapter(model, factors(model, 2), 0.5)}
    made = {}
    for name in (None, "first", "second", "first", None):
        made[name] = tokens(lm, name)
        assert_greedy(eager[name], prompt(2), made[name])
    assert not torch.equal(made[None], made["first"]) and not torch.equal(made["first"], made["second"])
    with torch.no_grad():
        torch.testing.assert_close(lm.step(lm.new_state(2), prompt(2), adapter="second"), eager["second"](prompt(2)).logits[:, -1], rtol=1e-4, atol=1e-4)
    assert torch.equal(tokens(lm, "first", draft="prompt"), made["first"])


def test_threads_with_different_adapters(lm):
    expected = {name: tokens(lm, name) for name in (None, "first", "second")}
    right = []
    threads = [threading.Thread(target=lambda name=name: right.append(torch.equal(tokens(lm, name), expected[name]))) for name in expected for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 6


def test_wrong_adapters(lm):
    state = lm.new_state(2)
    for call, said in [
        (lambda: lm.generate(state, prompt(2), max_new_tokens=2, adapter="third"), "there is no adapter 'third'"),
        (lambda: lm.step(state, prompt(2), adapter="third"), "there is no adapter 'third'"),
        (lambda: lm.add_lora("first", {"x": (torch.ones(1, 1), torch.ones(1, 1), 1.0)}), "the model has no weight 'x'"),
        (lambda: lm.add_lora("first", {"lm_head.weight": (torch.ones(1, 64), torch.ones(VOCABULARY, 1), 1.0)}), "there is an adapter 'first' already"),
        (lambda: lm.remove_lora("third"), "there is no adapter 'third'"),
    ]:
        with pytest.raises(ingot.InputError, match=said):
            call()
    assert state.lengths == [0, 0]
    lm.add_lora("third", {"lm_head.weight": (torch.ones(1, 64), torch.ones(VOCABULARY, 1), 1.0)})
    lm.step(state, prompt(2), adapter="third")
    lm.remove_lora("third")
    with pytest.raises(ingot.InputError, match="there is no adapter 'third'"):
        lm.step(state, prompt(2), adapter="third")


@pytest.mark.parametrize("draft", [None, "prompt"])
def test_logprobs_are_the_models(model, lm, draft):
    """Of the model's own logits, whatever the temperature, until a sequence ends."""
    how = {"temperature": 1.7, "top_k": 5, "repetition_penalty": 1.4, "seed": 3, "draft": draft}
    free = tokens(lm, None, **how)
    end = int(free[1, 6])
    run = lm.generate(lm.new_state(2), prompt(2), max_new_tokens=16, stop=[end], logprobs=4, **how)
    every = torch.cat([prompt(2), free], 1)
    with torch.no_grad():
        expected = model(every).logits[:, 8:-1].log_softmax(-1)
    ended = [False, False]
    for number, token in enumerate(run):
        of = run.logprobs
        assert of.chosen.shape == (2,) and of.ids.shape == of.values.shape == (2, 4)
        for row in range(2):
            if ended[row]:
                assert token[row] == lm.pad and of.chosen[row].isnan() and of.values[row].isnan().all() and (of.ids[row] == lm.pad).all()
                continue
            top = expected[row, number].topk(4)
            torch.testing.assert_close(of.chosen[row], expected[row, number, token[row]], rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(of.values[row], top.values, rtol=1e-3, atol=1e-3)
            assert torch.equal(of.ids[row], top.indices)
        ended = run.ended
    assert ended[1] and number >= 6
    for wrong in (-1, VOCABULARY + 1, 1.5):
        with pytest.raises(ingot.InputError, match="logprobs is"):
            lm.generate(lm.new_state(), prompt(), max_new_tokens=2, logprobs=wrong)
    assert lm.generate(lm.new_state(), prompt(), max_new_tokens=2).logprobs is None
