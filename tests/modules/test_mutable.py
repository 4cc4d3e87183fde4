"""`ingot.MutableModule`: a model that is compiled when it is called, and anew when its sizes, layers or numbers change."""

import concurrent.futures
import copy

import pytest
import torch

import ingot


class Small(torch.nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.last, self.factor = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4), 1.0

    def forward(self, x, *, shift=None):
        y = self.last(torch.relu(self.first(x))) * self.factor
        return y if shift is None else y + shift

    def doubled(self):
        return self.factor * 2


X = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))


def of(model, **more):
    return ingot.MutableModule(model, min_block_size=1, **more)


def same(module, model, *args, **kwargs):
    torch.testing.assert_close(module(*args, **kwargs), model(*args, **kwargs), atol=1e-5, rtol=1e-5)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def test_its_face():
    model = Small().eval()
    module = of(model)
    assert isinstance(module, Small) and isinstance(module, ingot.MutableModule) and module.compiled is None and module.first is model.first and module.doubled() == 2
    assert module.state_dict().keys() == model.state_dict().keys() and not hasattr(module, "lost")
    same(module, model, X)
    assert isinstance(module.compiled, ingot.Module)
    with pytest.raises(ingot.UnsupportedError, match="neither copied nor pickled"):
        copy.deepcopy(module)
    with pytest.raises(ingot.InputError, match="of type int"):
        of(3)
    with pytest.raises(ingot.OptionError, match="min_block_sise"):
        same(ingot.MutableModule(model, min_block_sise=1), model, X)


def test_weights_without_a_build_and_the_rest_with_one():
    model = Small().eval()
    module = of(model)
    same(module, model, X)
    built = module.compiled
    module.load_state_dict(Small(1).state_dict())
    same(module, Small(1), X)
    model.first.weight.mul_(2)
    module.last.bias = torch.nn.Parameter(torch.ones(4))
    same(module, model, X)
    assert module.compiled is built
    module.factor = 3.0
    same(module, model, X)
    assert module.compiled is not built
    module.last = torch.nn.Linear(16, 6)
    same(module, model, X)
    built = module.compiled
    module.first.weight.data.mul_(2)  # torch does not count these writes, but the layer and the method were asked for here
    same(module, model, X)
    module.get_submodule("last").bias.data += torch.ones(6)
    same(module, model, X)
    assert module.compiled is built
    module.add_module("unused", torch.nn.ReLU())  # by a method of the model
    same(module, model, X)
    assert module.compiled is not built


def test_numbers_in_containers_are_part_of_a_build():
    class Scaled(Small):
        def __init__(self):
            super().__init__()
            self.scaling, self.merged, self.steps = {"default": 2.0}, [], (torch.ones(1), 2)

        def forward(self, x):
            return super().forward(x) * (1.0 if self.merged else self.scaling["default"])

        def set_scale(self, value):
            self.scaling["default"] = value

        def merge(self):
            self.merged.append("default")

    model = Scaled().eval()
    module = of(model)
    same(module, model, X)
    module.set_scale(0.5)
    same(module, model, X)
    module.merge()
    same(module, model, X)
    built = module.compiled
    module.doubled()
    same(module, model, X)
    assert module.compiled is built


CHANGES = {
    "number": lambda l: setattr(l, "number", 2.0),
    "text": lambda l: setattr(l, "mode", "b"),
    "dictionary": lambda l: l.numbers.update(a=3.0),
    "list": lambda l: l.numbers["list"].__setitem__(0, 3.0),
    "function": lambda l: setattr(l, "function", torch.tanh),
    "layer": lambda l: setattr(l, "a", torch.nn.Linear(4, 4)),
    "hook": lambda l: l.register_forward_hook(lambda m, i, o: o + 5),
    "hook before": lambda l: l.register_forward_pre_hook(lambda m, i: (i[0] + 5,)),
    "forward": lambda l: setattr(l, "forward", lambda x: x * 7),
    "class": lambda l: setattr(l, "__class__", type("Other", (type(l),), {"forward": lambda self, x: self.a(x) - 9})),
    "tensor": lambda l: setattr(l, "shift", torch.ones(4)),
}


@pytest.mark.parametrize("through", [False, True], ids=["on the model", "through the module"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.one_in(2)
def test_changes_inside_a_layer(change, through):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.number, self.mode, self.numbers, self.function, self.shift = 1.0, "a", {"a": 1.0, "list": [1.0]}, torch.relu, torch.zeros(4)

        def forward(self, x):
            return self.function((self.a if self.mode == "a" else self.b)(x) * self.number * self.numbers["a"] * self.numbers["list"][0]) + self.shift

    model = torch.nn.Sequential(Layer(), torch.nn.Identity()).eval()
    module, x = ingot.MutableModule(model), torch.randn(2, 4)
    torch.testing.assert_close(module(x), model(x))
    built = module.compiled
    torch.testing.assert_close(module(x), model(x))
    assert module.compiled is built
    CHANGES[change](module.get_submodule("0") if through else model[0])
    torch.testing.assert_close(module(x), model(x))
    torch.testing.assert_close(module(x), model(x))


def test_sizes_widen_the_range():
    model = Small().eval()
    module = of(model)
    for rows in (3, 7):
        same(module, model, torch.ones(rows, 8))
    built = module.compiled
    for rows in (3, 5, 7):
        same(module, model, torch.ones(rows, 8))
    assert module.compiled is built
    same(module, model, torch.ones(12, 8))
    same(module, model, torch.ones(4, 8))
    assert module.compiled is not built
    same(module, model, X, shift=torch.ones(4))
    with pytest.raises(ingot.InputError):
        module(torch.ones(3, 9))
    same(module, model, X)


def test_ranges_to_begin_with_and_files(tmp_path):
    model = Small().eval()
    module = of(model, inputs=[ingot.Input(min_shape=(1, 8), opt_shape=(4, 8), max_shape=(9, 8), shared_dims={0: "rows"})])
    same(module, model, X)
    module.save(tmp_path / "module.pt")
    with pytest.raises(ingot.InputError, match='trust="code"'):
        ingot.MutableModule.load(tmp_path / "module.pt")
    loaded = ingot.MutableModule.load(tmp_path / "module.pt", trust="code")
    for each in (module, loaded):
        same(each, model, X)
        built = each.compiled
        for rows in (1, 9):
            same(each, model, torch.ones(rows, 8))
        assert each.compiled is built
    torch.save({"model": 1}, tmp_path / "other.pt")
    with pytest.raises(ingot.FormatError, match="no mutable module"):
        ingot.MutableModule.load(tmp_path / "other.pt", trust="code")


def test_adapters_stay():
    model = Small().eval()
    module = of(model)
    a, b = torch.randn(2, 8), torch.randn(16, 2)
    module.add_lora("style", {"first.weight": (a, b, 0.5)})
    changed = copy.deepcopy(model)
    changed.first.weight.add_(0.5 * b @ a)
    for rows in (3, 6, 2):
        same(module, changed, torch.ones(rows, 8))
    with pytest.raises(ingot.InputError, match="already"):
        module.add_lora("style", {"first.weight": (a, b, 0.5)})
    with pytest.raises(ingot.InputError, match="did you mean 'last.weight'"):
        module.add_lora("other", {"lats.weight": (a, b, 0.5)})
    module.remove_lora("style")
    same(module, model, X)
    with pytest.raises(ingot.InputError, match="no adapter 'style'"):
        module.remove_lora("style")


def test_threads():
    model = Small().eval()
    module, sizes = of(model), [2, 3, 4, 5] * 4
    wanted = [model(torch.ones(rows, 8)) for rows in sizes]  # not meanwhile: while torch traces a model, its parameters are fakes
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for made, want in zip(pool.map(lambda rows: module(torch.ones(rows, 8)), sizes), wanted):
            torch.testing.assert_close(made, want, atol=1e-5, rtol=1e-5)


class Pair(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y) * 2


def builds(module, monkeypatch):
    made, compiled = [], type(module)._compiled
    monkeypatch.setattr(type(module), "_compiled", lambda self, call: made.append(call) or compiled(self, call))
    return made


def test_an_input_that_is_wrong_raises_and_builds_nothing(monkeypatch):
    model = Small().eval()
    module = of(model)
    for rows in (3, 7):
        same(module, model, torch.ones(rows, 8))
    made, kept = builds(module, monkeypatch), module.compiled
    with torch.enable_grad(), pytest.raises(ingot.InputError, match="requires gradients"):
        module(torch.ones(3, 8, requires_grad=True))
    assert not made and module.compiled is kept
    same(module, model, torch.ones(5, 8))
    assert not made


def test_a_relation_of_sizes_that_does_not_hold(monkeypatch):
    module, model = of(Pair()), Pair()
    for rows in (4, 9):
        same(module, model, torch.ones(rows, 8), torch.ones(rows, 8))
    made = builds(module, monkeypatch)
    with pytest.raises(ingot.InputError):
        module(torch.ones(5, 8), torch.ones(6, 8))
    assert not made
    same(module, model, torch.ones(6, 8), torch.ones(6, 8))


def test_what_a_build_can_mend_is_built(monkeypatch):
    model = Small().eval()
    module = of(model)
    same(module, model, X)
    made = builds(module, monkeypatch)
    model.last = torch.nn.Linear(16, 6)  # behind its back
    same(module, model, X)
    assert len(made) == 1
    model.double()
    same(module, model, X.double())
    assert len(made) == 2
    with torch.autocast("cpu", torch.bfloat16):
        model.float()
        torch.testing.assert_close(module(X), model(X), atol=0.05, rtol=0.05)
    assert len(made) > 2
