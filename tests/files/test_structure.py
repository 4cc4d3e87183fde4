"""ingot.save keeps the structure of a model's inputs and results, or refuses. Tested in the process that saved, and in one without its classes."""

from __future__ import annotations

import collections
import dataclasses
import json
import subprocess
import sys
import typing
from pathlib import Path

import pytest
import torch
import torch.utils._pytree as pytree

import ingot
from ingot.base import structure

Pair = collections.namedtuple("Pair", "first second")


class Typed(typing.NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class WithMethods(collections.namedtuple("WithMethods", "first second")):
    @property
    def both(self):
        return self.first + self.second


class Own(collections.namedtuple("Own", "first second")):
    def __new__(cls, first, second=None):
        return super().__new__(cls, first, second)


@dataclasses.dataclass
class Data:
    first: torch.Tensor
    second: typing.Optional[torch.Tensor] = None


class Odd:
    def __init__(self, value):
        self.value = value


torch.export.register_dataclass(Data, serialized_type_name="test_structure.Data")
pytree.register_pytree_node(Odd, lambda o: ([o.value], {"kept": (1, "two", [None, 2.5])}), lambda values, context: Odd(*values), serialized_type_name="test_structure.Odd")

MAKES = {
    "leaf": lambda y: y,
    "tuple": lambda y: (y, y + 1),
    "nested": lambda y: {"a": [y, (y + 1, {"b": y * 2, 3: None})], "c": True, "d": 2.5, "e": 7},
    "ordered": lambda y: collections.OrderedDict(second=y, first=y + 1),
    "namedtuple": lambda y: Pair(y, y + 1),
    "typed": lambda y: Typed(y, [y + 1]),
    "methods": lambda y: WithMethods(y, y + 1),
    "return type": lambda y: (torch.topk(y, 2), torch.max(y, 1)),
    "dataclass": lambda y: Data(y),
    "dataclass, whole": lambda y: Data(y, y + 1),
    "registered": lambda y: Odd(y),
    "sizes": lambda y: (y, y.shape[0] * 2 + 1, y.shape[0] ** 3, y.shape[0] // 2, max(y.shape[0], 3)),
    "empty": lambda y: ((), [], {}, y),
}
REFUSED = {
    "deque": (lambda y: collections.deque([y]), "the model takes or gives a collections:deque, whose structure a file does not keep"),
    "defaultdict": (lambda y: collections.defaultdict(list, a=y), "the model takes or gives a collections:defaultdict, whose structure a file does not keep"),
    "own constructor": (lambda y: Own(y, y + 1), f"the model takes or gives a {__name__}:Own, a namedtuple with a constructor of its own, which a file does not keep"),
    "odd key": (lambda y: {2.5: y}, "the model takes or gives a dict with the key 2.5, which a file does not keep"),
}


class Model(torch.nn.Module):
    def __init__(self, make):
        super().__init__()
        self.line = torch.nn.Linear(4, 4)
        self.make = make

    def forward(self, x):
        return self.make(self.line(x))


def compiled(make):
    return ingot.compile(Model(make).eval(), inputs=[ingot.Input(min_shape=(1, 4), opt_shape=(2, 4), max_shape=(8, 4), name="x")])


def same(a, b):
    assert pytree.tree_structure(a) == pytree.tree_structure(b)
    for x, y in zip(pytree.tree_leaves(a), pytree.tree_leaves(b)):
        assert type(x) is type(y) and (torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y)


@pytest.mark.parametrize("name", MAKES)
def test_results_keep_their_structure(tmp_path, name):
    module, x = compiled(MAKES[name]), torch.randn(3, 4)
    ingot.save(module, tmp_path / "x.ingot")
    loaded = ingot.load(tmp_path / "x.ingot")
    same(loaded(x), module(x))
    ingot.save(loaded, tmp_path / "again.ingot")
    same(ingot.load(tmp_path / "again.ingot")(x), module(x))


@pytest.mark.parametrize("name", [n for n in MAKES if n not in ("typed", "methods", "namedtuple", "return type")])
def test_a_torch_program_keeps_it_too(tmp_path, name):
    module, x = compiled(MAKES[name]), torch.randn(3, 4)
    ingot.save(module, tmp_path / "x.pt2", format="exported_program")
    same(ingot.load(tmp_path / "x.pt2")(x), module(x))


@pytest.mark.parametrize("format", ["exported_program", "aot_inductor"])
@pytest.mark.parametrize("name", ["typed", "namedtuple", "return type"])
def test_or_refuses_what_torch_has_no_name_for(tmp_path, name, format):
    with pytest.raises(ingot.UnsupportedError, match="torch cannot save the structure of the model's inputs or results"):
        ingot.save(compiled(MAKES[name]), tmp_path / "x.pt2", format=format)
    assert not list(tmp_path.iterdir())


def test_or_refuses_text_which_torch_does_not_read(tmp_path):
    module, x = compiled(lambda x: (x + 1, "text")), torch.randn(3, 4)
    with pytest.raises(ingot.UnsupportedError, match="returns the text 'text'"):
        ingot.save(module, tmp_path / "x.pt2", format="exported_program")
    assert not list(tmp_path.iterdir())
    ingot.save(module, tmp_path / "x.ingot")
    same(ingot.load(tmp_path / "x.ingot")(x), module(x))


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_plan_does_not_keep_is_refused_at_save(tmp_path, name):
    make, message = REFUSED[name]
    module, x = compiled(make), torch.randn(3, 4)
    module(x)  # it runs
    for save in (lambda: ingot.save(module, tmp_path / "x.ingot"), lambda: module._kind.plan().save(tmp_path / "x.ingot")):
        with pytest.raises(ingot.UnsupportedError) as caught:
            save()
        assert caught.value.message == message
    assert not list(tmp_path.iterdir())


def test_inputs_keep_their_structure(tmp_path):
    class Takes(torch.nn.Module):
        def forward(self, pair, *, more):
            return pair.first @ more["a"][0].t() + pair.second

    x, w = torch.randn(3, 4), torch.randn(3, 4)
    module = ingot.compile(Takes(), inputs=[Pair(x, torch.ones(3, 3))], kwarg_inputs={"more": {"a": (w,)}})
    ingot.save(module, tmp_path / "x.ingot")
    loaded = ingot.load(tmp_path / "x.ingot")
    want = module(Pair(x, torch.ones(3, 3)), more={"a": (w,)})
    assert torch.equal(loaded(Pair(x, torch.ones(3, 3)), more={"a": (w,)}), want)
    assert torch.equal(loaded(Typed(x, torch.ones(3, 3)), more={"a": (w,)}), want)  # a namedtuple of these fields
    with pytest.raises(ingot.InputError, match="the arguments have the structure"):
        loaded((x, torch.ones(3, 3)), more={"a": (w,)})


ELSEWHERE = """
import sys, torch, ingot
torch.set_grad_enabled(False)
before = set(sys.modules)
for path in sys.argv[1:]:
    try:
        out = ingot.load(path)(torch.ones(3, 4))
        print(type(out).__name__, getattr(out, "_fields", None))
    except ingot.Error as problem:
        print(type(problem).__name__, str(problem))
print(sorted(n for n in set(sys.modules) - before if n.startswith("test_structure")))
"""


def test_where_the_classes_are_missing(tmp_path):
    for name in ("namedtuple", "methods", "dataclass"):
        ingot.save(compiled(MAKES[name]), tmp_path / f"{name}.ingot")
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, *(tmp_path / f"{n}.ingot" for n in ("namedtuple", "methods", "dataclass"))],
                          capture_output=True, text=True, env={**__import__("os").environ, "PYTHONPATH": str(Path(__file__).parent)})  # fmt: skip
    assert done.stdout.splitlines() == [
        "Pair ('first', 'second')",
        "WithMethods ('first', 'second')",
        f"UnsupportedError the model takes or gives a {__name__}:Data, which this program has not registered with pytree",
        "  remedy: import the module that defines it, and register it as where the model was compiled (torch.export.register_dataclass), before the file is loaded",
        "[]",
    ], done.stderr


def test_a_program_of_torch_compiled_from_its_file(tmp_path):
    """`ingot compile` keeps torch's words for the structure in the plan."""
    for name in ("nested", "ordered", "dataclass", "registered", "empty"):
        model, x = Model(lambda y, make=MAKES[name]: make(y)).eval(), torch.randn(3, 4)
        torch.export.save(torch.export.export(model, (x,)), tmp_path / "x.pt2")
        module = ingot.compile(tmp_path / "x.pt2")
        ingot.save(module, tmp_path / "x.ingot")
        got, want = ingot.load(tmp_path / "x.ingot")(x), model(x)
        assert pytree.tree_structure(got) == pytree.tree_structure(want)


def test_every_structure_is_read_as_it_was_written():
    trees = [make(torch.ones(4, 4)) for name, make in MAKES.items()]
    for tree in [*trees, None, 1, [[[[]]]], {"a": {True: 1, "b": {}}}, Data(trees[0], Pair(1, [2]))]:
        spec = pytree.tree_structure(tree)
        assert structure.read(json.loads(json.dumps(structure.write(spec))), "x") == spec
