"""A compiled module takes arguments by position and by name as the model's forward does; the exact errors for arguments that do not fit. Models without operators, without inputs or with
constants among their results are included."""

import pytest
import torch

import ingot


class Model(torch.nn.Module):
    def forward(self, x, y=None, scale=2.0, *rest, z=None, **more):
        total = x * scale
        for other in (y, z, *rest, *(more[name] for name in sorted(more))):
            if other is not None:
                total = 2 * total + other
        return total


X = [torch.tensor([1.0, 10.0**i]) for i in range(6)]


def refused(call):
    with pytest.raises(ingot.InputError) as caught:
        call()
    assert caught.value.origin == ""
    return caught.value.message


@pytest.fixture(params=["module", "loaded", "torch program", "exported", "file", "in torch"])
def compiled(request, tmp_path):
    def make(arguments, keywords=None):
        keywords = keywords or {}
        cut = {"min_block_size": 1000} if request.param == "in torch" else {"min_block_size": 1}
        if request.param in ("exported", "file"):
            program = torch.export.export(Model(), tuple(arguments), keywords)
            if request.param == "file":
                torch.export.save(program, tmp_path / "m.pt2")
                return ingot.compile(str(tmp_path / "m.pt2"), **cut)
            return ingot.compile(program, **cut)
        module = ingot.compile(Model(), inputs=arguments, kwarg_inputs=keywords, **cut)
        if request.param in ("loaded", "torch program"):
            kind = "ingot" if request.param == "loaded" else "exported_program"
            path = tmp_path / ("m.ingot" if kind == "ingot" else "m.pt2")
            ingot.save(module, path, format=kind)
            return ingot.load(path)
        return module

    make.knows_forward = request.param in ("module", "loaded", "in torch")
    return make


def test_by_position_and_by_name(compiled):
    x, y = X[:2]
    module, expected = compiled([x, y]), Model()(x, y)
    for call in (lambda: module(x, y), lambda: module(x, y=y), lambda: module(y=y, x=x)):
        assert torch.equal(call(), expected)
    module = compiled([x], {"y": y})
    for call in (lambda: module(x, y), lambda: module(x, y=y), lambda: module(y=y, x=x)):
        assert torch.equal(call(), expected)
    module = compiled([], {"x": x, "y": y})
    for call in (lambda: module(x, y), lambda: module(x, y=y), lambda: module(y=y, x=x)):
        assert torch.equal(call(), expected)
    assert refused(lambda: module(x)) == "argument 'y' is missing; the model was compiled with the arguments x, y"
    assert refused(lambda: module(x, x=x)) == "argument 'x' is given twice, by position and by name"
    assert refused(lambda: module(x, y, q=x)) == "unexpected keyword argument 'q'; the model was compiled with the arguments x, y"


def test_any_number_of_arguments(compiled):
    module = compiled([X[0], X[1], 2.0, X[2], X[3]], {"z": X[4], "b": X[5], "a": X[2]})
    assert torch.equal(module(X[0], X[1], 2.0, X[2], X[3], a=X[2], z=X[4], b=X[5]), Model()(X[0], X[1], 2.0, X[2], X[3], a=X[2], z=X[4], b=X[5]))
    assert refused(lambda: module(X[0], X[1], 2.0, X[2], X[3], a=X[2], b=X[5])).startswith("argument 'z' is missing; the model was compiled with the arguments ")
    assert refused(lambda: module(X[0], X[1], 3.0, X[2], X[3], a=X[2], b=X[5], z=X[4])) == "argument 2 is 3.0, but the model was compiled with 2.0 there"


def test_defaults(compiled):
    module = compiled([X[0], None, 2.0], {"z": X[1]})
    if compiled.knows_forward:
        assert torch.equal(module(X[0], z=X[1]), Model()(X[0], z=X[1]))
    else:
        assert refused(lambda: module(X[0], z=X[1])).startswith("argument 'y' is missing")
    module = compiled([X[0]])
    if compiled.knows_forward:
        for call in (lambda: module(X[0], None), lambda: module(X[0], scale=2.0), lambda: module(X[0], None, 2.0, z=None)):
            assert torch.equal(call(), Model()(X[0]))
        assert refused(lambda: module(X[0], X[1])) == "argument 'y' is given, but the model was compiled without it, for its default None"
        assert refused(lambda: module(X[0], z=X[1])) == "argument 'z' is given, but the model was compiled without it, for its default None"
        assert refused(lambda: module(X[0], None, 3.0)) == "argument 'scale' is given, but the model was compiled without it, for its default 2.0"
    else:
        assert refused(lambda: module(X[0], X[1])) == "the model takes 1 argument, but 2 are given"


def test_a_program_in_a_file(tmp_path):
    x, y = X[:2]
    torch.export.save(torch.export.export(Model(), (), {"x": x, "y": y}), tmp_path / "m.pt2")
    module, expected = ingot.compile(str(tmp_path / "m.pt2")), Model()(x, y)
    for call in (lambda: module(x, y), lambda: module(x, y=y), lambda: module(y=y, x=x)):
        assert torch.equal(call(), expected)


# ---- models with nothing to compile


class Constant(torch.nn.Module):
    def forward(self):
        return torch.ops.aten.scalar_tensor.default(1.5)


class Weight(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(3.0))

    def forward(self):
        return self.w, 7


class Same(torch.nn.Module):
    def forward(self, x, y):
        return y, {"x": x, "n": x.shape[0]}, None


class Dropout(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5, False)


@pytest.mark.parametrize("option", [{}, {"fallback": "error"}, {"min_block_size": 1}], ids=str)
@pytest.mark.parametrize("model, inputs", [(Constant(), []), (Weight(), []), (Same(), X[:2]), (Dropout(), X[:1])], ids=lambda v: type(v).__name__)
@pytest.mark.one_in(2)
def test_nothing_to_compile(model, inputs, option, tmp_path):
    compiled, eager = ingot.compile(model, inputs=inputs, **option), model(*inputs)
    assert torch.utils._pytree.tree_map(lambda t: t.tolist() if isinstance(t, torch.Tensor) else t, compiled(*inputs)) == torch.utils._pytree.tree_map(
        lambda t: t.tolist() if isinstance(t, torch.Tensor) else t, eager
    )
    if compiled.report.operators == 0:
        assert str(compiled.report) == "the model has no operators: nothing is to be compiled\n" and not compiled.report.in_torch
    for kind, name in (("exported_program", "m.pt2"), ("ingot", "m.ingot")):
        try:
            ingot.save(compiled, tmp_path / name, format=kind)
        except ingot.UnsupportedError as problem:
            assert kind == "ingot" and problem.message == "the model has no operators, so there is no engine for a .ingot file" and problem.remedy
            continue
        loaded = ingot.load(tmp_path / name)
        flat, expected = (torch.utils._pytree.tree_leaves(v) for v in (loaded(*inputs), eager))
        assert all(torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b for a, b in zip(flat, expected, strict=True))
    torch._dynamo.reset()
    with torch.no_grad():
        for a, b in zip(*(torch.utils._pytree.tree_leaves(v) for v in (torch.compile(model, backend="ingot")(*inputs), eager))):
            assert torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b
