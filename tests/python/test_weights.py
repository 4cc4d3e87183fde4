"""Weights that change after compiling: loaded into the model, given to the module, tied, moved."""

import copy
import gc
import pickle
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(10, 8)
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.BatchNorm1d(8))
        self.head = torch.nn.Linear(8, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)))


IDS = torch.arange(6)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Tied().eval().requires_grad_(False)


def changed(model, factor=1.5):
    return {k: v * factor if v.is_floating_point() else v for k, v in model.state_dict().items()}


def equal(compiled, model):
    return torch.allclose(compiled(IDS), model(IDS), atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"torch_executed_ops": ["gelu"]}], ids=["one engine", "gelu in torch"])
@pytest.mark.parametrize("assign", [False, True], ids=["copied", "assigned"])
def test_load_state_dict_on_the_model_is_noticed(model, options, assign):
    compiled = ingot.compile(model, inputs=[IDS], **options)
    assert equal(compiled, model)
    before = compiled(IDS)
    model.load_state_dict(changed(model), assign=assign)
    if assign:
        model.head.weight = model.embed.weight
    assert equal(compiled, model) and not torch.allclose(compiled(IDS), before)
    model.body.load_state_dict({k: v * 0.5 if v.is_floating_point() else v for k, v in model.body.state_dict().items()})  # a part of it
    assert equal(compiled, model)


def test_tied_weights_stay_tied(model):
    compiled = ingot.compile(model, inputs=[IDS])
    state = changed(model)
    del state["head.weight"]
    compiled.update_weights(state)
    other = copy.deepcopy(model)
    other.load_state_dict(state, strict=False)
    assert equal(compiled, other)
    with pytest.raises(ingot.InputError, match="has no weight 'nothing'"):
        compiled.update_weights({"nothing": torch.zeros(1)})
    with pytest.raises(ingot.InputError, match="weight 'embed.weight' is float32 \\[2\\], but the engine was built for float32 \\[10, 8\\]"):
        compiled.update_weights({"embed.weight": torch.zeros(2)})
    assert equal(compiled, other)  # nothing half-changed


def test_copies_of_the_model_are_not_followed(model):
    compiled = ingot.compile(model, inputs=[IDS])
    before = compiled(IDS)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.load_state_dict(changed(other))
        assert torch.equal(compiled(IDS), before)
    hooks = len(model._load_state_dict_post_hooks)
    del compiled
    gc.collect()
    assert hooks == 1 and not model._load_state_dict_post_hooks


def test_to(model):
    compiled = ingot.compile(model, inputs=[IDS])
    assert compiled.to("cpu") is compiled and compiled.float() is compiled and compiled.eval() is compiled
    with pytest.raises(ingot.InputError) as caught:
        compiled.half()
    assert str(caught.value) == (
        "a compiled module stays on cpu with the dtypes it was compiled for; it cannot become torch.float16 on cpu\n  remedy: convert the model, then compile it again"
    )


def test_weights_that_are_not_row_major():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
    model[2].weight = torch.nn.Parameter(torch.randn(32, 4).t())
    x = torch.randn(5, 16)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
        for compiled in (ingot.compile(model, inputs=[x]), torch.compile(model, backend="ingot")):
            assert_accurate(compiled(x), model(x), exact, depth=32)
