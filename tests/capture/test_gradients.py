"""Calls in grad mode, transforms of torch.func, and nested tensors. Engines have no derivatives and no batching rules, and nothing loses them silently."""

import copy

import pytest
import torch

import ingot
from ingot.backend import ingot_backend


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.norm, self.two = torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4)

    def forward(self, x):
        y = self.two(torch.relu(self.norm(self.one(x))))
        with torch.no_grad():
            fixed = y.softmax(-1)
        return y, fixed, y.argmax(-1), self.two.weight[1:], x


X = torch.randn(5, 8)
BACKWARD = 'a gradient is asked for through a model that is compiled with backend="ingot", which is for inference alone'


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def counted(model, **option):
    """The model under torch.compile, and the list of reports of its graphs."""
    reports = []

    def backend(graph, examples):
        made = ingot_backend(graph, examples, options=option)
        reports.append(made.report)
        return made

    return torch.compile(model, backend=backend), reports


@pytest.mark.parametrize("option", [{}, {"torch_executed_ops": ["relu"], "min_block_size": 1}, {"min_block_size": 1000}], ids=["whole", "cut", "in torch"])
def test_results_require_what_eagers_do(option):
    model = Model().eval()
    fast, reports = counted(model, **option)
    for x in (X, X.clone().requires_grad_()):
        for result, eager in zip(fast(x), model(x)):
            assert result.requires_grad == eager.requires_grad and torch.allclose(result, eager, atol=1e-5)
    if "min_block_size" not in option:
        assert any(r.in_engine for r in reports)
    with torch.no_grad():
        assert not any(r.requires_grad for r in fast(X)[:3])


def test_a_training_loop_by_mistake():
    model, twin = Model(), Model()
    fast, _ = counted(model)
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    loss = fast(X)[0].square().sum()
    with pytest.raises(ingot.UnsupportedError) as caught:
        loss.backward()
    assert caught.value.message == BACKWARD and "torch.no_grad()" in caught.value.remedy
    assert all(p.grad is None for p in model.parameters())
    with pytest.raises(ingot.UnsupportedError):
        torch.autograd.grad(fast(X)[0].sum(), list(model.parameters()))
    optimiser.zero_grad()
    # A trainable head after the model needs only its own gradients, as in eager; gradients of the model are the error.
    head = torch.nn.Linear(4, 1)
    with pytest.raises(ingot.UnsupportedError):
        head(fast(X)[0]).sum().backward()
    head(fast(X)[0].detach()).sum().backward()
    assert head.weight.grad is not None
    # The model itself trains on.
    model(X)[0].square().sum().backward()
    twin(X)[0].square().sum().backward()
    assert torch.allclose(model.one.weight.grad, twin.one.weight.grad, atol=1e-5)


def test_a_frozen_model_trains_what_is_behind_it():
    fast, _ = counted(Model().eval().requires_grad_(False))
    head = torch.nn.Linear(4, 1)
    head(fast(X)[0]).sum().backward()
    assert head.weight.grad is not None


def test_writes():
    """Buffers are written in grad mode too; an input that would come to require gradients is refused."""
    model, eager = Model(), Model()
    fast, _ = counted(model)
    for _ in range(3):
        assert torch.allclose(fast(X)[0], eager(X)[0], atol=1e-5)
    assert torch.allclose(model.norm.running_mean, eager.norm.running_mean, atol=1e-6) and model.norm.num_batches_tracked == 3

    class Writes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(8))

        def forward(self, x):
            x.add_(self.w)
            return x * 2

    fast, x = counted(Writes(), min_block_size=1)[0], X.clone()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        fast(x)
    assert type(caught.value.inner_exception) is ingot.InputError and "would write a value that requires gradients into one of its inputs" in caught.value.inner_exception.message
    assert torch.equal(x, X)
    with torch.no_grad():
        assert torch.equal(fast(x), (X + 1) * 2)


def test_results_may_be_written():
    fast, _ = counted(Model().eval())
    result = fast(X)[0]
    result.add_(1)
    assert result.requires_grad


def test_modules_compiled_ahead_of_time():
    """They are for inference: their results require no gradients, as under torch.no_grad(), and an input that does is refused."""
    compiled = ingot.compile(Model().eval(), inputs=[X])
    result = compiled(X)[0]
    assert not result.requires_grad and not list(compiled.parameters())
    with pytest.raises(RuntimeError, match="does not require grad"):
        result.sum().backward()
    with pytest.raises(ingot.InputError, match="an input requires gradients"):
        compiled(X.clone().requires_grad_())


# ---- transforms


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x)).softmax(-1)


@pytest.fixture(params=[{}, {"torch_executed_ops": ["relu"], "min_block_size": 1}], ids=["whole", "cut"])
def ahead(request):
    inputs = [ingot.Input(min_shape=(1, 4), opt_shape=(2, 4), max_shape=(8, 4), name="x")]
    return ingot.compile(Plain().eval().requires_grad_(False), inputs=inputs, **request.param)


def test_vmap(ahead):
    x, model = torch.randn(3, 2, 4), Plain().eval().requires_grad_(False)
    with pytest.raises(ingot.UnsupportedError) as caught:
        torch.vmap(ahead)(x)
    assert caught.value.message == "torch.vmap cannot map over a compiled module: its engine is made for whole batches"
    assert ahead(x[0]).shape == (2, 4)  # as good as new
    assert torch.allclose(torch.vmap(torch.compile(model, backend="ingot"))(x), model(x), atol=1e-6)

    class Mapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return torch.vmap(self.model)(x)

    assert torch.allclose(ingot.compile(Mapped(), inputs=[x])(x), model(x), atol=1e-6)


@pytest.mark.parametrize("transform", ["grad", "jacrev", "vjp", "jvp", "jacfwd", "dual"])
@pytest.mark.one_in(2)
def test_derivatives(ahead, transform):
    x = torch.randn(2, 4)

    def call():
        if transform == "dual":
            with torch.autograd.forward_ad.dual_level():
                return ahead(torch.autograd.forward_ad.make_dual(x, x))
        if transform == "jvp":
            return torch.func.jvp(ahead, (x,), (x,))
        if transform == "vjp":
            return torch.func.vjp(ahead, x)
        return getattr(torch.func, transform)(lambda v: ahead(v).sum())(x)

    with pytest.raises((ingot.InputError, ingot.UnsupportedError)) as caught:
        call()
    assert "gradients" in caught.value.message or "derivatives" in caught.value.message or "torch.vmap" in caught.value.message
    assert ahead(x).shape == (2, 4)


def test_derivatives_just_in_time_are_eagers():
    x, model = torch.randn(2, 4), Plain().eval()
    fast = torch.compile(copy.deepcopy(model), backend="ingot")
    for transform in (lambda f: torch.func.grad(lambda v: f(v).square().sum())(x), lambda f: torch.func.jvp(f, (x,), (x,))[1], lambda f: torch.func.jacrev(f)(x)):
        assert torch.allclose(transform(fast), transform(model), atol=1e-5)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev, torch.func.hessian, lambda f: torch.vmap(torch.func.grad(f))], ids=["grad", "jacrev", "hessian", "vmap"])
@pytest.mark.filterwarnings("ignore")
def test_derivatives_inside_a_model(transform):
    """torch.export loses them, or fails in its tracer; it is not a program then."""

    class Inside(torch.nn.Module):
        def forward(self, x):
            return transform(lambda v: (v.sin() * v).sum())(x)

    x = torch.randn(3, 5)
    with pytest.raises(ingot.UnsupportedError, match="torch.export does not take the model: ") as caught:
        ingot.compile(Inside(), inputs=[x])
    assert 'torch.compile(model, backend="ingot")' in caught.value.remedy
    if transform is not torch.func.hessian:  # torch: nested forward derivatives
        for mode in (True, False):
            torch._dynamo.reset()
            with torch.set_grad_enabled(mode):
                assert torch.allclose(torch.compile(Inside(), backend="ingot")(x), Inside()(x), atol=1e-6)


# ---- nested tensors


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors(ahead, layout):
    def nested(*lengths):
        return torch.nested.nested_tensor([torch.randn(n, 4) for n in lengths], layout=layout)

    with pytest.raises(ingot.InputError) as caught:
        ahead(nested(2, 3))
    assert caught.value.message == "input 'x' is a nested tensor, and engines take plain ones" and "to_padded_tensor" in caught.value.remedy
    three = ingot.compile(Plain().eval(), inputs=[torch.randn(2, 3, 4)])
    for lengths in ((2, 3), (3, 3)):
        with pytest.raises(ingot.InputError, match="is a nested tensor, and engines take plain ones"):
            three(nested(*lengths))
    with pytest.raises(ingot.UnsupportedError) as caught:
        ingot.compile(Plain(), inputs=[nested(2, 3)])
    assert caught.value.message == "inputs[0] is a nested tensor, which a program for one set of shapes does not take"
    model, given = Plain().eval().requires_grad_(False), nested(2, 3)
    for a, b in zip(torch.compile(model, backend="ingot")(given).unbind(), model(given).unbind()):
        assert torch.allclose(a, b, atol=1e-6)
