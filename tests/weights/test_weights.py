"""Weights that change after compiling: loaded into the model, given to the module, tied, moved."""

import copy
import gc
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot.engine import _library
from ingot.running import weight_changes


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
    model.body.load_state_dict({k: v * 0.5 if v.is_floating_point() else v for k, v in model.body.state_dict().items()})  # a submodule only
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
    assert len(weight_changes._followed[model]) == 1
    del compiled
    gc.collect()
    assert not weight_changes._followed[model]


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


# ---- weights in files


@pytest.mark.parametrize("options", [{}, {"torch_executed_ops": ["gelu"]}], ids=["one engine", "gelu in torch"])
@pytest.mark.parametrize("way", ["update_weights", "load_state_dict", "assign"])
def test_a_file_has_the_weights_of_now(model, options, way, tmp_path):
    compiled = ingot.compile(model, inputs=[IDS], **options)
    before, state = compiled(IDS), changed(model)
    if way == "update_weights":
        compiled.update_weights(state)
    else:
        model.load_state_dict(state, assign=way == "assign")
    ingot.save(compiled, tmp_path / "m.ingot")
    other = copy.deepcopy(model)
    other.load_state_dict(state)
    loaded = ingot.load(tmp_path / "m.ingot")
    assert equal(loaded, other) and not torch.allclose(loaded(IDS), before)
    loaded.update_weights(changed(other, 0.5))  # a loaded one is saved with its own of now too
    ingot.save(loaded, tmp_path / "again.ingot")
    assert torch.equal(ingot.load(tmp_path / "again.ingot")(IDS), loaded(IDS)) and not equal(loaded, other)


def test_option_weights(tmp_path):
    """The option of the build applies unless save says otherwise, in Python and on the command line."""
    large, x = torch.nn.Linear(300, 300).eval().requires_grad_(False), torch.randn(2, 300)
    compiled = ingot.compile(large, inputs=[x], weights="strip")
    ingot.save(compiled, tmp_path / "stripped.ingot")
    ingot.save(compiled, tmp_path / "whole.ingot", weights="embed")
    torch.export.save(torch.export.export(large, (x,)), tmp_path / "m.pt2")
    subprocess.run([_library.find("ingot"), "compile", tmp_path / "m.pt2", "-o", tmp_path / "cli.ingot", "--set", "weights=strip"], check=True)
    for name in ("stripped.ingot", "cli.ingot"):
        assert (tmp_path / name).stat().st_size < 20_000 < large.weight.nbytes
        assert torch.equal(ingot.load(tmp_path / name, weights=large.state_dict())(x), compiled(x))
    assert torch.equal(ingot.load(tmp_path / "whole.ingot")(x), compiled(x))


def test_weights_left_out_of_a_file(model, tmp_path):
    compiled = ingot.compile(model, inputs=[IDS])
    ingot.save(compiled, tmp_path / "whole.ingot")
    ingot.save(compiled, tmp_path / "model.ingot", weights="strip")
    large = torch.nn.Linear(300, 300)
    ingot.save(ingot.compile(large, inputs=[torch.zeros(2, 300)]), tmp_path / "large.ingot", weights="strip")
    assert (tmp_path / "large.ingot").stat().st_size < 20_000 < large.weight.nbytes
    assert torch.equal(ingot.load(tmp_path / "model.ingot", weights=model.state_dict())(IDS), compiled(IDS))
    other = copy.deepcopy(model)
    other.load_state_dict(changed(model))
    for name in ("model.ingot", "whole.ingot"):  # instead of the values in the file
        assert equal(ingot.load(tmp_path / name, weights=other.state_dict()), other)
    arrays = {n: t.numpy() for n, t in other.state_dict().items()}
    session = ingot.load_engine(tmp_path / "model.ingot", weights=arrays).session()
    assert torch.allclose(torch.from_numpy(session.run(IDS.numpy())[0]), other(IDS), atol=1e-5)


def test_weights_that_a_file_needs(model, tmp_path):
    compiled = ingot.compile(model, inputs=[IDS])
    ingot.save(compiled, tmp_path / "model.ingot", weights="strip")
    said = "the plan was saved without the values of its weights, and {} of {} are not given: {}\n  remedy: ingot.load(path, weights=state_dict)"
    names = [w["name"] for w in compiled.engine.inspect()["weights"]]
    with pytest.raises(ingot.InputError) as caught:
        ingot.load(tmp_path / "model.ingot")
    assert str(caught.value) == said.format(len(names), len(names), ", ".join(names[:3]) + ", ...")
    part = {n: t for n, t in model.state_dict().items() if n != "body.0.bias"}
    with pytest.raises(ingot.InputError) as caught:
        ingot.load(tmp_path / "model.ingot", weights=part)
    assert str(caught.value) == said.format(1, len(names), "body.0.bias")
    with pytest.raises(ingot.InputError) as caught:
        ingot.load(tmp_path / "model.ingot", weights={**part, "body.0.bias": torch.zeros(3)})
    assert str(caught.value) == "weight 'body.0.bias' is float32 [3], but the engine was built for float32 [8]"
    with pytest.raises(ingot.OptionError) as caught:
        ingot.save(compiled, tmp_path / "model.pt2", format="exported_program", weights="strip")
    assert str(caught.value) == "weights \"strip\" is for format \"ingot\", not 'exported_program'\n  remedy: a torch program keeps its parameters"


def test_weights_that_prepare_must_lay_out_anew():
    """A product's weights behind a reshape that only a copy can express."""

    class Rearranged(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(6, 4, 5))

        def forward(self, x):
            return torch.nn.functional.linear(x, self.weight.permute(1, 2, 0).reshape(20, 6)) @ self.weight.permute(1, 2, 0).reshape(20, 6)

    model, x = Rearranged(), torch.randn(3, 6)
    with torch.no_grad():
        torch.testing.assert_close(ingot.compile(model, inputs=[ingot.Input.from_tensor(x)])(x), model(x), rtol=1e-4, atol=1e-4)
