"""Branches on data whose one side only computes other values: both sides are computed, ahead of time and under torch.compile."""

import functools

import asserting
import pytest
import torch

import ingot
from ingot.backend import ingot_backend
from ingot.capture.switches import both_sides


class Layer(torch.nn.Module):
    """As the layers of BART: values that are not finite are clamped."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.__shift = 0.5  # a name that Python changes inside a class

    def forward(self, x, more=False):
        y = super().__getattr__("linear")(x)
        if y.dtype == torch.float32 and not torch.isfinite(y).all():
            limit = torch.finfo(y.dtype).max - 1000
            y = torch.clamp(y, min=-limit, max=limit)
        if y.abs().max() > 2:
            y = y * 0.5 + self.__shift
        if more and y.sum() > 0:
            y = -y
        return y


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList([Layer(), Layer(), Layer()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x, more=layer is self.layers[-1])
        return x


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def just_in_time(model, reports, dynamic=None):
    @functools.wraps(ingot_backend)
    def backend(graph, examples):
        made = ingot_backend(graph, examples, options={"min_block_size": 1})
        reports.append(made.report)
        return made

    return torch.compile(model, backend=backend, dynamic=dynamic)


def test_the_drop_in_takes_them_too():
    from ingot.torch_tensorrt.dynamo.backend import torch_tensorrt_backend

    model = Model().eval()
    compiled = torch.compile(model, backend=torch_tensorrt_backend, fullgraph=True)
    for x in inputs():
        torch.testing.assert_close(compiled(x), model(x))


def inputs():
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    yield from (x, x * 9, -x, x * 0.01)
    for value in (float("inf"), float("-inf"), 3e38):
        yield x.index_put((torch.tensor([1]), torch.tensor([2])), torch.tensor(value))


@pytest.mark.parametrize("way", ["ahead of time", "strict", "just in time", "dynamic"])
def test_both_sides_are_computed(way):
    model, reports, code = Model().eval(), [], Layer.forward.__code__
    if way in ("just in time", "dynamic"):
        compiled = just_in_time(model, reports, way == "dynamic" or None)
    else:
        compiled = ingot.compile(model, inputs=[torch.randn(3, 4)], min_block_size=1, strict=way == "strict")
        reports.append(compiled.report)
    for x in inputs():
        torch.testing.assert_close(compiled(x), model(x), equal_nan=True, rtol=1e-5, atol=1e-5)
    assert [report.whole for report in reports] == [True] and Layer.forward.__code__ is code


def test_other_backends_break_the_graph():
    graphs = []
    torch.compile(Model().eval(), backend=lambda graph, examples: graphs.append(graph) or graph)(torch.randn(3, 4))
    assert len(graphs) > 1


def reads_an_index(x, at):
    if (at < x.shape[0]).all():
        x = x[at]
    return x


def takes_rows(x, at):
    if (at < x.shape[0]).all():
        x = torch.index_select(x, 0, at)
    return x


def writes(x, out):
    if x.sum() > 0:
        out = out.add_(1)
    return out


def appends(x, found):
    if x.sum() > 0:
        found = found.append(x)
    return found


def counts(x):
    global total
    if x.sum() > 0:
        total = total + 1
    return x


def may_have_no_value(x):
    if x.sum() > 0:
        y = x * 2
        z = y + 1
    return y, z


def divides(x, n):
    if x.sum() > 0:
        n = n // x
    return n


def otherwise(x):
    if x.sum() > 0:
        x = x * 2
    else:
        x = x * 3
    return x


def of_a_size(x):
    if x[0] > 0:
        x = x * 2
    return x


@pytest.mark.parametrize("function", [reads_an_index, takes_rows, writes, appends, counts, may_have_no_value, divides, otherwise, of_a_size], ids=lambda f: f.__name__)
def test_statements_that_stay(function):
    """One side might fail or have effects where the condition does not hold, or nothing shows that a tensor is asked."""
    assert both_sides.of_code(function.__code__) is None


class OfOtherTypes(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x.to(torch.float64)
        return x * 2


class Around(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = OfOtherTypes()

    def forward(self, x):
        return self.inner(x.exp()).sin()


def test_sides_of_other_types_are_pythons():
    assert both_sides.of_code(OfOtherTypes.forward.__code__) is not None
    model, x = Around(), torch.randn(3, 4)
    with pytest.raises(ingot.UnsupportedError, match="branches on a value"):
        ingot.compile(model, inputs=[x])
    torch.testing.assert_close(just_in_time(model, [])(x), model(x))


def test_a_function_that_is_not_what_its_file_says(tmp_path):
    file = tmp_path / "made.py"
    text = "def f(x):\n    if x.sum() > 0:\n        x = x * 2\n    return x\n"
    file.write_text(text.replace("x * 2", "x - 1 - x"))
    scope = {}
    exec(compile(text, str(file), "exec"), scope)
    assert both_sides.of_code(scope["f"].__code__) is None


def mask_of(lengths):
    longest = int(lengths.max())
    return torch.arange(longest).expand(len(lengths), longest) < lengths.unsqueeze(1)


class Masked(torch.nn.Module):
    """As torchaudio's Conformer: the longest of the lengths is a size."""

    def forward(self, x, lengths):
        return x.masked_fill(~mask_of(lengths).unsqueeze(2), 0).cumsum(1)


def test_a_whole_number_that_is_read_stays_a_size():
    x, code = torch.randn(2, 5, 3), mask_of.__code__
    compiled = ingot.compile(Masked(), inputs=[x, torch.tensor([5, 2])], min_block_size=1)
    assert compiled.report.whole and mask_of.__code__ is code
    for lengths in ([5, 2], [0, 5], [5, 5]):
        torch.testing.assert_close(compiled(x, torch.tensor(lengths)), Masked()(x, torch.tensor(lengths)))
    with pytest.raises(ingot.InputError):
        compiled(x, torch.tensor([3, 2]))  # eager's mask does not fit either


@pytest.mark.parametrize("jit", [False, True], ids=["aot", "jit"])
def test_numbers_that_are_only_asserted_stay_tensors(jit):
    model, x, reports = asserting.Model(), torch.rand(2, 5, 3) + 1, []
    if jit:
        call = just_in_time(model, reports)
        call(x, torch.tensor([5, 2]))
        assert [report.whole for report in reports] == [True]
    else:
        call = ingot.compile(model, inputs=[x, torch.tensor([5, 2])], min_block_size=1)
        assert call.report.whole
    for lengths in ([5, 2], [0, 1]):
        torch.testing.assert_close(call(x, torch.tensor(lengths)), model(x, torch.tensor(lengths)))
    half = torch.tensor(0.05).expand_as(x)  # as a number, twice of it is more than 0.1
    torch.testing.assert_close(call(half.clone(), torch.tensor([5, 2])), model(half, torch.tensor([5, 2])))
    with pytest.raises((ingot.InputError, RuntimeError)):
        call(x, torch.tensor([6, 2]))
    with pytest.raises((ingot.InputError, RuntimeError)):
        call(x * 0, torch.tensor([5, 2]))


@pytest.mark.parametrize("test", ["x.item() in (1, 2)", "x.item() is True", "max(x.item(), 3) < 5", "x.item() if y else z"])
def test_assertions_that_ask_more_keep_their_numbers(test, tmp_path):
    file = tmp_path / "made.py"
    file.write_text(f"def f(x, y, z):\n    assert {test}\n    return x\n")
    scope = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    assert both_sides.of_code(scope["f"].__code__) is None


class OfAFunction(torch.nn.Module):
    def forward(self, x):
        return clamped(x.exp()) + 1


def clamped(x):
    if not torch.isfinite(x).all():
        x = torch.clamp(x, max=100)
    return x


def test_functions_that_forward_calls():
    compiled = ingot.compile(OfAFunction(), inputs=[torch.randn(3, 4)], min_block_size=1)
    assert compiled.report.whole
    for x in inputs():
        torch.testing.assert_close(compiled(x), OfAFunction()(x), rtol=1e-5, atol=1e-5)
