"""Operations on a compiled module: each works as docs/modules.md says, or is refused with one line that says what to write instead."""

import copy
import io
import pickle
import sys
import threading
import weakref
from pathlib import Path

import fresh
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot


class Counts(torch.nn.Module):
    """Writes a buffer with each call."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen += x.sum(0)
        return torch.relu(self.linear(x)) + self.seen


def plain():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8))


X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
KINDS = ["one engine", "gelu in torch", "a buffer", "a .ingot file", "a .pt2 file", "all in torch"]


class Pair:
    """A compiled module, and the model that it must agree with."""

    def __init__(self, kind, folder):
        torch.manual_seed(0)
        self.kind = kind
        self.model = (Counts() if kind == "a buffer" else plain()).eval().requires_grad_(False)
        options = {"gelu in torch": {"torch_executed_ops": ["gelu"], "min_block_size": 1}}.get(kind, {})
        self.compiled = ingot.compile(self.model, inputs=[X], **options)
        if kind == "a .ingot file":
            ingot.save(self.compiled, folder / "m.ingot")
            self.compiled = ingot.load(folder / "m.ingot")
        elif kind == "a .pt2 file":
            ingot.save(self.compiled, folder / "m.pt2", format="exported_program")
            self.compiled = ingot.load(folder / "m.pt2")
        elif kind == "all in torch":
            torch.export.save(torch.export.export(self.model, (X,)), folder / "m.pt2")
            self.compiled = ingot.load(folder / "m.pt2")

    def own(self):
        """Names of the parameters and buffers that the compiled module holds itself."""
        return {"a buffer": ["seen"], "a .pt2 file": list(self.model.state_dict()), "all in torch": list(self.model.state_dict())}.get(self.kind, [])

    def check(self, call=None, model=None):
        model = model or self.model
        if self.kind == "a buffer":  # both write the same one
            before = model.seen.clone()
            found = (call or self.compiled)(X)
            self.model.seen.copy_(before), model.seen.copy_(before)
        else:
            found = (call or self.compiled)(X)
        with torch.no_grad():
            assert_accurate(found, model(X), copy.deepcopy(model).double()(X.double()), depth=64)


@pytest.fixture(params=KINDS)
def pair(request, tmp_path):
    return Pair(request.param, tmp_path)


def told(kind, call):
    with pytest.raises(kind) as caught:
        call()
    return caught.value.message, caught.value.remedy


# ---- copies


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": pickle.dumps,
    "torch.save": lambda m: torch.save(m, io.BytesIO()),
    "in a model": lambda m: copy.deepcopy(torch.nn.Sequential(m, torch.nn.Linear(8, 2))),
    "averaged": torch.optim.swa_utils.AveragedModel,
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.one_in(3)
def test_copies_are_refused(pair, way):
    if pair.kind == "all in torch":  # torch can copy a module that torch runs as a whole
        if way in ("deepcopy", "in a model"):
            made = COPIES[way](pair.compiled)
            other = {n: t * 2 for n, t in pair.compiled.state_dict().items()}
            (made if way == "deepcopy" else made[0]).load_state_dict(other, assign=True)
            pair.check()
        return
    said = told(ingot.UnsupportedError, lambda: COPIES[way](pair.compiled))
    assert said == ("a compiled module is neither copied nor pickled", "ingot.save it and ingot.load the file; for a copy with other weights compile the model again")
    pair.check()


def test_copies_of_the_model_are_apart(pair):
    other = copy.deepcopy(pair.model)
    for p in other.parameters():
        p.mul_(2)
    pair.check()


# ---- places, dtypes, modes


def test_where_it_is(pair):
    compiled = pair.compiled
    for same in (compiled.to("cpu"), compiled.cpu(), compiled.float(), compiled.to(torch.float32), compiled.to(X), compiled.eval(), compiled.train(False), compiled.requires_grad_(False), compiled.share_memory()):
        assert same is compiled
    pair.check()
    calls = {"half": compiled.half, "bfloat16": compiled.bfloat16, "double": compiled.double, "to": lambda: compiled.to(torch.float64), "meta": lambda: compiled.to("meta"), "type": lambda: compiled.type(torch.float16)}
    for name, call in calls.items():
        message, remedy = told(ingot.InputError, call)
        assert message.startswith("a compiled module stays on cpu with the dtypes it was compiled for; it cannot become torch.") and remedy == "convert the model, then compile it again", name
    assert told(ingot.InputError, torch.nn.Sequential(compiled, torch.nn.Linear(8, 2)).half)[1] == "convert the model, then compile it again"
    pair.check()


def test_training_is_refused(pair):
    remedy = "train the model itself: the compiled module follows its weights"
    assert not pair.compiled.training
    for call in (pair.compiled.train, torch.nn.Sequential(pair.compiled).train):
        assert told(ingot.UnsupportedError, call) == ("a compiled module computes what the model did when it was compiled, and has no other mode", remedy)
    assert told(ingot.UnsupportedError, pair.compiled.requires_grad_) == ("a compiled module computes no gradients", remedy)
    assert not pair.compiled.training
    with torch.enable_grad():
        if pair.kind != "all in torch":
            assert told(ingot.InputError, lambda: pair.compiled(X.clone().requires_grad_()))[1].startswith("call it under torch.no_grad()")
        assert not pair.compiled(X).requires_grad
    pair.model.seen.zero_() if pair.kind == "a buffer" else None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.one_in(2)
def test_modes_of_torch(pair, mode):
    with mode():
        pair.check()


# ---- weights


def test_what_it_holds(pair):
    compiled, names = pair.compiled, pair.own()
    assert sorted(compiled.state_dict()) == sorted(names)
    assert sorted(n for n, _ in (*compiled.named_parameters(), *compiled.named_buffers())) == sorted(names)
    assert [n for n, m in compiled.named_modules() if m is compiled] == [""]
    assert compiled.apply(lambda m: None) is compiled
    compiled.zero_grad()
    assert "Module(" in repr(compiled)


def test_load_state_dict(pair):
    compiled, model = pair.compiled, pair.model
    state = {n: t * 1.5 for n, t in model.state_dict().items()}
    held = {n: t for n, t in state.items() if n in pair.own()}
    for assign in (False, True):
        if pair.own():
            assert not any(compiled.load_state_dict(held, assign=assign))
            if pair.kind == "a buffer":
                compiled.load_state_dict({"seen": torch.full((8,), 2.0)}, assign=assign)
                expected = torch.relu(model.linear(X)) + 2 + X.sum(0)
                assert torch.allclose(compiled(X), expected, atol=1e-5)
                assert torch.allclose(compiled.seen, 2 + X.sum(0)) and compiled.state_dict()["seen"].data_ptr() == compiled.seen.data_ptr()
            else:
                model.load_state_dict(state)
                pair.check()
        else:
            name = min(state)
            assert told(ingot.InputError, lambda: compiled.load_state_dict(state, assign=assign)) == (
                f"a compiled module does not hold {name!r}: its weights are the model's own tensors", "model.load_state_dict(...), which it follows, or compiled.update_weights(...)")  # fmt: skip
            assert sorted(compiled.load_state_dict(state, strict=False).unexpected_keys) == sorted(state)
            pair.check()
    assert told(ingot.InputError, lambda: compiled.load_state_dict({**held, "nothing": X}))[0].startswith("a compiled module does not hold 'nothing'")
    for name in pair.own()[:1]:
        with pytest.raises(RuntimeError, match="size mismatch for " + name):
            compiled.load_state_dict({**held, name: torch.zeros(3)})
        with pytest.raises(RuntimeError, match="Missing key"):
            compiled.load_state_dict({n: t for n, t in held.items() if n != name})


def test_functional_call(pair):
    """functional_call works with the parameters that the module holds; the model's own are not among them."""
    if pair.kind == "a buffer":
        before = pair.model.seen.clone()
        found = torch.func.functional_call(pair.compiled, {"seen": torch.full((8,), 2.0)}, (X,))
        assert torch.allclose(found, torch.relu(pair.model.linear(X)) + 2 + X.sum(0), atol=1e-5)
        assert torch.equal(pair.model.seen, before)
        return
    other = {n: t * 0.5 for n, t in pair.model.state_dict().items()}
    if not pair.own():
        assert told(ingot.InputError, lambda: torch.func.functional_call(pair.compiled, other, (X,))) == (
            "a compiled module does not hold '0': its weights are the model's own tensors", "model.load_state_dict(...), which it follows, or compiled.update_weights(...)")  # fmt: skip
        assert not hasattr(pair.compiled, "0") and not hasattr(pair.compiled, "nothing")
    else:
        for _ in range(2):
            found = torch.func.functional_call(pair.compiled, other, (X,))
            assert torch.allclose(found, torch.func.functional_call(pair.model, other, (X,)), atol=1e-5)
            pair.check()
    pair.check()


# ---- the original model


def parametrized(model):
    torch.nn.utils.parametrizations.weight_norm(model[0])
    return model[0].parametrizations.weight.original0


def old_weight_norm(model):
    torch.nn.utils.weight_norm(model[0])
    return model[0].weight_g


def orthogonal(model):
    torch.nn.utils.parametrizations.orthogonal(model[2])
    return model[2].parametrizations.weight.original


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("make", [parametrized, old_weight_norm, orthogonal])
def test_a_parametrized_model(make):
    torch.manual_seed(0)
    model = plain().eval()
    before = ingot.compile(model, inputs=[X])
    before(X)
    weight = make(model)
    assert told(ingot.InputError, lambda: before(X)) == (f"the model has no weight {'2.weight' if make is orthogonal else '0.weight'!r} any more", "compile it again")
    compiled = ingot.compile(model, inputs=[X])
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(X), model(X), rtol=1e-4, atol=1e-4)
            weight.add_(0.25)


def test_hooks_of_the_model_are_captured():
    model = plain().eval()
    model[0].register_forward_hook(lambda m, args, out: out * 2)
    model.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    torch.testing.assert_close(ingot.compile(model, inputs=[X])(X), model(X), rtol=1e-4, atol=1e-5)


def test_hooks(pair):
    compiled, seen = pair.compiled, []
    hooks = [
        compiled.register_forward_pre_hook(lambda m, args: (seen.append("before"), (args[0] * 1,))[1]),
        compiled.register_forward_hook(lambda m, args, out: (seen.append("after"), out + 1)[1]),
        torch.nn.modules.module.register_module_forward_hook(lambda m, args, out: seen.append("any") if m is compiled else None),
    ]
    hooked = compiled(X)
    for hook in hooks:
        hook.remove()
    assert seen == ["before", "any", "after"]
    assert not torch.equal(hooked, compiled(X)) and len(seen) == 3


# ---- in other models


class Around(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        torch.manual_seed(1)
        self.inner, self.head = inner, torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.inner(x * 2))


NESTED = {
    "ingot.compile": lambda outer: ingot.compile(outer, inputs=[X]),
    "torch.compile": lambda outer: torch.compile(outer, backend="eager", fullgraph=True),
    "torch.compile with ingot": lambda outer: torch.compile(outer, backend="ingot", fullgraph=True),
    "torch.export": lambda outer: torch.export.export(outer, (X,)).module(),
}


@pytest.mark.parametrize("way", NESTED)
@pytest.mark.one_in(4)
def test_nesting(pair, way):
    torch._dynamo.reset()
    with torch.no_grad():
        outer = Around(pair.compiled).eval()
        eager = Around(pair.model).eval()
        eager.head = outer.head
        if pair.kind == "a buffer":
            start = pair.model.seen.clone()
        call = NESTED[way](outer)
        for scale in (1, 1.5):
            if pair.kind not in ("a .ingot file", "a .pt2 file", "all in torch"):
                for p in pair.model.parameters():
                    p.mul_(scale)  # the engine inside follows its model there too
            if pair.kind == "a buffer":
                pair.model.seen.copy_(start)
            found = call(X)
            if pair.kind == "a buffer":
                pair.model.seen.copy_(start)
            torch.testing.assert_close(found, eager(X), rtol=1e-4, atol=1e-4)


@pytest.mark.one_in(5)
def test_a_program_of_another_process_is_refused(pair, tmp_path):
    """An exported graph names an engine of this process by number. In another process an engine with that number is not run."""
    if pair.kind == "all in torch":  # it names no engine
        return
    with torch.no_grad():
        torch.export.save(torch.export.export(Around(pair.compiled).eval(), (X,)), tmp_path / "m.pt2")
    code = """
import sys, torch, ingot
torch.set_grad_enabled(False)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8)).eval()
x = torch.randn(3, 8)
others = [ingot.compile(model, inputs=[x]) for _ in range(6)]
try:
    torch.export.load(sys.argv[1]).module()(x)
except RuntimeError as problem:
    assert "the engine of this plan tensor is not loaded in this process" in str(problem), problem
    print("refused")
"""
    done = fresh.run(code, tmp_path / "m.pt2")
    assert done.stdout == "refused\n", done.stderr[-3000:]


def test_data_parallel(pair):
    if torch.cuda.is_available():  # it moves the module there
        assert told(ingot.InputError, lambda: torch.nn.DataParallel(pair.compiled))[1] == "convert the model, then compile it again"
    else:
        assert torch.nn.DataParallel(pair.compiled)(X).shape == (3, 8)
    assert told(ingot.UnsupportedError, pair.compiled._replicate_for_data_parallel) == ("a compiled module runs on one GPU", "compile the model once on each, or leave torch.nn.DataParallel out")


# ---- tracers


def test_tracers(pair):
    for call in (lambda: torch.jit.trace(pair.compiled, (X,)), lambda: torch.jit.script(pair.compiled), lambda: torch.jit.trace(Around(pair.compiled), (X,))):
        message, remedy = told(ingot.UnsupportedError, call)
        assert message.startswith("torch.jit.") and message.endswith("cannot see into a compiled module") and 'format="exported_program"' in remedy
    for call in (lambda: torch.fx.symbolic_trace(pair.compiled), lambda: torch.fx.symbolic_trace(Around(pair.compiled))):
        assert told(ingot.UnsupportedError, call) == ("torch.fx cannot see into a compiled module", "trace with a torch.fx.Tracer whose is_leaf_module is True for ingot.Module")

    class Leaves(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return isinstance(module, ingot.Module) or super().is_leaf_module(module, name)

    outer = Around(pair.compiled).eval()
    traced = torch.fx.GraphModule(outer, Leaves().trace(outer))
    with torch.no_grad():
        if pair.kind == "a buffer":
            start = pair.model.seen.clone()
            first = traced(X)
            pair.model.seen.copy_(start)
            torch.testing.assert_close(first, outer(X))
        else:
            torch.testing.assert_close(traced(X), outer(X))


class Bare(torch.nn.Module):
    """Has a parameter itself, in no layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.w, self.b = torch.nn.Parameter(torch.randn(8, 8)), torch.nn.Parameter(torch.randn(8))

    def forward(self, x):
        return torch.relu(x @ self.w + self.b)


def test_weights_are_not_set_on_the_module():
    """It would be passed over: the weights are the model's."""
    compiled, w = ingot.compile(Bare().eval(), inputs=[X]), torch.ones(8, 8)
    for call in (lambda: setattr(compiled, "w", torch.nn.Parameter(w)), lambda: setattr(compiled, "w", w), lambda: torch.func.functional_call(compiled, {"w": w}, (X,)), lambda: compiled.w):
        assert told(ingot.InputError, call)[0] == "a compiled module does not hold 'w': its weights are the model's own tensors"
    with pytest.raises(AttributeError, match="nothing"):
        compiled.nothing
    compiled.mine = torch.nn.Parameter(w)
    assert [n for n, _ in compiled.named_parameters()] == ["mine"]


class Calm(torch.Tensor):
    """A subclass that leaves operators as they are."""


class Unit(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        return super().__torch_function__(function, types, arguments, keywords or {})


class Wrapper(torch.Tensor):
    """Holds its values in another tensor."""

    @staticmethod
    def __new__(cls, values):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=values.dtype)

    def __init__(self, values):
        self.values_of = values

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        plain_of = lambda t: t.values_of if isinstance(t, Wrapper) else t  # noqa: E731
        results = function(*torch.utils._pytree.tree_map(plain_of, arguments), **torch.utils._pytree.tree_map(plain_of, keywords or {}))
        return torch.utils._pytree.tree_map(lambda t: Wrapper(t) if isinstance(t, torch.Tensor) else t, results)


def test_subclasses(pair):
    """Subclasses that compute like torch.Tensor are read as tensors. Others are refused, because an engine would ignore their operators."""
    if pair.kind == "all in torch":  # torch takes what it takes
        return
    name = "x" if pair.kind == "a buffer" else "input"
    pair.check(lambda x: pair.compiled(x.as_subclass(Calm)))
    pair.check(lambda x: pair.compiled(torch.nn.Parameter(x, requires_grad=False)))
    assert type(pair.compiled(X.as_subclass(Calm))) is torch.Tensor
    pair.model.seen.zero_() if pair.kind == "a buffer" else None
    for given in (X.as_subclass(Unit), Wrapper(X)):
        assert told(ingot.InputError, lambda: pair.compiled(given)) == (f"input {name!r} is of type {type(given).__name__}, a tensor subclass that engines do not know", "give a plain tensor")


NOT_PLAIN = {  # weights without values in memory
    "a wrapper": (lambda: Wrapper(torch.ones(8, 8)), "is of type Wrapper, a tensor subclass that engines do not know"),
    "sparse": (lambda: torch.eye(8).to_sparse(), "has layout sparse_coo, but the engine takes strided tensors"),
    "meta": (lambda: torch.ones(8, 8, device="meta"), "is on the meta device, which holds no values"),
    "no memory": (lambda: (lambda t: (t.untyped_storage().resize_(0), t)[1])(torch.ones(8, 8)), "has no memory"),
    "zeros of torch.func": (lambda: torch._efficientzerotensor((8, 8)), "has no memory"),
}


@pytest.mark.parametrize("kind", NOT_PLAIN)
@pytest.mark.parametrize("options", [{}, {"torch_executed_ops": ["relu"], "min_block_size": 1}], ids=["one engine", "relu in torch"])
def test_weights_that_are_not_plain(kind, options, tmp_path):
    make, said = NOT_PLAIN[kind]
    model = Bare().eval().requires_grad_(False)
    compiled = ingot.compile(model, inputs=[X], **options)
    expected = compiled(X)
    assert told(ingot.InputError, lambda: compiled.update_weights({"w": make()}))[0] == f"weight 'w' {said}"
    assert torch.equal(compiled(X), expected)
    if not options:
        ingot.save(compiled, tmp_path / "m.ingot", weights="strip")
        assert told(ingot.InputError, lambda: ingot.load(tmp_path / "m.ingot", weights={"w": make(), "b": model.b}))[0] == f"weight 'w' {said}"
    before = model.w
    model.w = torch.nn.Parameter(make(), requires_grad=False)
    message, remedy = told(ingot.InputError, lambda: compiled(X))
    assert message == f"weight 'w' {said}" and remedy.endswith("or compile the model again")
    model.w = before
    assert torch.equal(compiled(X), expected)


@pytest.mark.parametrize("given", [None, "text", [[1.0, "a"]]], ids=str)
def test_weights_that_are_no_tensors(given, tmp_path):
    compiled = ingot.compile(Bare().eval(), inputs=[X])
    assert told(ingot.InputError, lambda: compiled.update_weights({"w": given}))[0].startswith("the value given for weight 'w' cannot become a tensor: ")
    assert told(ingot.InputError, lambda: compiled.update_weights(Bare())) == ("weights are given by name, and this is of type Bare", "give model.state_dict()")
    ingot.save(compiled, tmp_path / "m.ingot")
    for call in (lambda: ingot.load(tmp_path / "m.ingot", weights=Bare()), lambda: ingot.load(tmp_path / "m.ingot").engine.update_weights(Bare())):
        assert told(ingot.InputError, call) == ("weights are given by name, and this is of type Bare", "give model.state_dict()")
    for call in (lambda: ingot.load(tmp_path / "m.ingot", weights={"w": given}), lambda: ingot.load(tmp_path / "m.ingot").update_weights({"w": given})):
        assert told(ingot.InputError, call)[0] == f"weight 'w' is of type {type(given).__name__}, and has to be a tensor or an array"


@pytest.mark.parametrize("how", ["compiled", "assigned", "given", "loaded"])
def test_negative_views_as_weights(how, tmp_path):
    """Their memory holds the numbers before the sign is turned."""
    model, w = Bare().eval().requires_grad_(False), torch._neg_view(torch.randn(8, 8))
    if how == "compiled":
        model.w.data = w
    compiled = ingot.compile(model, inputs=[X])
    if how == "assigned":
        model.w.data = w
    elif how == "given":
        compiled.update_weights({"w": w})
    elif how == "loaded":
        ingot.save(compiled, tmp_path / "m.ingot")
        compiled = ingot.load(tmp_path / "m.ingot", weights={"w": w})
    model.w.data = w.resolve_neg()
    torch.testing.assert_close(compiled(X), model(X))


def test_negative_views_that_are_written():
    model = Counts().eval()
    compiled = ingot.compile(model, inputs=[X])
    model.seen = torch._neg_view(torch.ones(8))
    message, remedy = told(ingot.InputError, lambda: compiled(X))
    assert message.startswith("buffer 'seen' is a negative view") and remedy == "give its resolve_neg()"


def test_tensors_that_are_not_plain(pair):
    if pair.kind == "all in torch":  # torch takes what it takes
        return
    name = "x" if pair.kind == "a buffer" else "input"
    with torch._subclasses.FakeTensorMode() as mode:
        fake = mode.from_tensor(X)
        assert told(ingot.InputError, lambda: pair.compiled(fake)) == (f"input {name!r} is a FakeTensor, and the module's weights hold values", "FakeTensorMode(allow_non_fake_inputs=True)")
    masked = torch.masked.masked_tensor(X, X > 0)
    assert told(ingot.InputError, lambda: pair.compiled(masked)) == (f"input {name!r} is of type MaskedTensor, a tensor subclass that engines do not know", "give a plain tensor")
    assert "meta" in told(ingot.InputError, lambda: pair.compiled(X.to("meta")))[0]
    pair.check(lambda x: pair.compiled(torch.nn.Parameter(x, requires_grad=False)))


# ---- writes in place


class Halves(torch.nn.Module):
    def __init__(self, table=None):
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x):
        (x if self.table is None else self.table).mul_(0.5)
        return x + 1


class Looks(torch.nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x):
        return torch.relu(x @ (self.table * 2).t())  # prepared once


@pytest.mark.parametrize("way", ["compiled", ".ingot", ".pt2", "torch.compile"])
@pytest.mark.one_in(2)
def test_writes_are_counted(way, tmp_path):
    """Writes are counted as in eager: for autograd, and for other compiled modules that have the tensor as a weight."""
    table = torch.randn(8, 8)
    models = Halves(table), Looks(table)
    writes, looks = (torch.compile(m, backend="ingot") if way == "torch.compile" else ingot.compile(m, inputs=[X]) for m in models)
    if way in (".ingot", ".pt2"):
        inputs = ingot.compile(Halves(), inputs=[X])
        ingot.save(inputs, tmp_path / f"m{way}", format={".ingot": "ingot", ".pt2": "exported_program"}[way])
        inputs = ingot.load(tmp_path / f"m{way}")
    else:
        inputs = torch.compile(Halves(), backend="ingot") if way == "torch.compile" else ingot.compile(Halves(), inputs=[X])
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(looks(X), models[1](X))
            before = table._version
            writes(X)
            assert table._version > before
            torch.testing.assert_close(looks(X), models[1](X))
    a, b = X.clone(), torch.ones(3, 8, requires_grad=True)
    with torch.enable_grad():
        z = (a * b).sum()
    with torch.no_grad():
        inputs(a)
    assert torch.equal(a, X / 2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_writes_to_tensors_of_inference_mode():
    """torch does not count these writes."""
    compiled = ingot.compile(Halves(), inputs=[X])
    with torch.inference_mode():
        x = X.clone()
        compiled(x)
    compiled(x)
    assert torch.equal(x, X / 4)


# ---- the rest


def test_weak_references_and_threads(pair):
    found, expected = [], pair.compiled(X)
    threads = [threading.Thread(target=lambda: found.extend(pair.compiled(X) for _ in range(20))) for _ in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert len(found) == 80
    if pair.kind != "a buffer":
        assert all(torch.equal(y, expected) for y in found)
    reference = weakref.ref(pair.compiled)
    assert reference() is pair.compiled


class Halvings(torch.nn.Module):
    """Counts within the call, as Funnel does: the number begins anew with each call."""

    def __init__(self):
        super().__init__()
        self.halved = None

    def forward(self, x):
        self.halved = 1
        for _ in range(2):
            self.halved *= 2
            x = x[:, ::2] / self.halved
        return x


def test_a_number_that_counts_within_the_call():
    model = Halvings()
    for _ in range(2):  # before a first call it is None, behind it 4
        assert torch.equal(ingot.compile(model, inputs=[X])(X), model(X))
