"""Layouts of inputs and weights: a tensor in the layout that the model was compiled for (channels_last, or any dense order) is read in place; another one is copied."""

import copy
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot.inputs import Input

nn = torch.nn
LAST = torch.channels_last
COPIES = {"aten::copy_", "aten::contiguous", "aten::clone", "aten::_to_copy"}


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.last = nn.Conv2d(16, 8, 1)

    def forward(self, image):
        return self.last(self.first(image))


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def model():
    return Image().eval().to(memory_format=LAST)


def last(*shape):
    return torch.randn(shape).to(memory_format=LAST)


def orders(engine, function=0):
    return [binding.get("order") for binding in engine.inputs(function)]


def labels(engine):
    return [step["label"] for step in engine.inspect()["functions"][0]["programs"][0]["steps"]]


def check(compiled, model, x):
    got, want = compiled(x), model(x)
    assert_accurate(got, want, copy.deepcopy(model).double()(x.double()), depth=1000)
    assert got.stride() == want.stride()


def operators_of(call):
    with torch.profiler.profile() as seen:
        call()
    return {event.name for event in seen.events() if event.name.startswith("aten::")}


def test_read_where_it_is(model):
    x = last(2, 3, 12, 10)
    compiled = ingot.compile(model, inputs=[x], fallback="error")
    assert orders(compiled.engine) == [[0, 2, 3, 1]] and compiled.engine.inputs()[0]["dims"] == [2, 3, 12, 10]
    steps = labels(compiled.engine)
    assert steps[0].startswith("matmul") and steps == labels(ingot.compile(model, inputs=[x.contiguous()]).engine)  # no padding, no copy
    check(compiled, model, x)
    assert not operators_of(lambda: compiled(x)) & COPIES


def test_any_other_tensor(model):
    compiled = ingot.compile(model, inputs=[last(2, 3, 12, 10)])
    wide = torch.randn(2, 3, 12, 20)[..., ::2]
    for x in (torch.randn(2, 3, 12, 10), wide, torch.randn(3, 10, 2, 12).permute(2, 0, 3, 1), torch.randn(1, 3, 12, 10).expand(2, 3, 12, 10)):
        check(compiled, model, x)


def test_contiguous_stays_contiguous(model):
    for x in (torch.randn(2, 3, 12, 10), torch.randn(1, 1, 1, 10).to(memory_format=LAST)):
        compiled = ingot.compile(model if x.shape[1] == 3 else nn.ReLU(), inputs=[x])
        assert orders(compiled.engine) == [None]
        y = last(*x.shape)
        assert_accurate(compiled(y), compiled(y.contiguous()), compiled(y.contiguous()).double(), depth=1)


def test_one_channel_or_one_image(model):
    one = nn.Conv2d(1, 4, 3)
    assert orders(ingot.compile(one, inputs=[last(2, 1, 8, 8)]).engine) == [None]  # contiguous too
    single = ingot.compile(model, inputs=[last(1, 3, 12, 10)])
    assert orders(single.engine) == [[0, 2, 3, 1]]
    check(single, model, last(1, 3, 12, 10))
    check(single, model, torch.randn(12, 10, 3).permute(2, 0, 1)[None])  # has this layout for any stride of its single image


@pytest.mark.parametrize("order", [o for o in itertools.permutations(range(3))])
def test_every_order(order):
    class Two(nn.Module):
        def forward(self, x, y):
            return torch.softmax(x, -1) + y, x.sum(1)

    def lying(o, shape=(4, 5, 6)):
        return torch.randn([shape[a] for a in o]).permute([o.index(a) for a in range(3)])

    x, y = lying(order), torch.randn(4, 5, 6)
    compiled = ingot.compile(Two(), inputs=[x, y], fallback="error")
    assert orders(compiled.engine) == [None if order == (0, 1, 2) else list(order), None]
    for given in (x, y, lying((2, 1, 0))):
        for got, want, exact in zip(compiled(given, y), Two()(given, y), Two()(given.double(), y.double())):
            assert_accurate(got, want, exact, depth=16)


def test_gaps_and_repeats_are_copied_as_ever():
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    for x in (torch.randn(4, 5, 6)[:, ::2], torch.randn(4, 5, 6).permute(2, 0, 1)[:, :, 1:], torch.randn(4, 1).expand(4, 6)):
        compiled = ingot.compile(model, inputs=[x])
        assert orders(compiled.engine) == [None]
        assert_accurate(compiled(x), model(x), model(x.double()), depth=4)


@pytest.mark.parametrize("open_axes", [(0,), (2, 3), (0, 2, 3)], ids=str)
def test_open_sizes(model, open_axes):
    low, high = [1, 3, 9, 8], [4, 3, 20, 21]
    usual = [2, 3, 12, 10]
    low, high = ([b if axis in open_axes else u for axis, (b, u) in enumerate(zip(bound, usual))] for bound in (low, high))
    compiled = ingot.compile(model, inputs=[Input(min_shape=low, opt_shape=usual, max_shape=high, memory_format=LAST, name="image")], fallback="error")
    assert orders(compiled.engine) == [[0, 2, 3, 1]]
    assert [isinstance(size, str) for size in compiled.engine.inputs()[0]["dims"]] == [axis in open_axes for axis in range(4)]
    for shape in (low, usual, high):
        check(compiled, model, last(*shape))
        check(compiled, model, torch.randn(shape))
    for axis in open_axes:
        shape = [*usual]
        shape[axis] = high[axis] + 1
        with pytest.raises(ingot.InputError) as caught:
            compiled(last(*shape))
        assert caught.value.message == f'axis {axis} of input "image" has size {high[axis] + 1}, outside the range {low[axis]}..{high[axis]} the plan was built for'


def test_refusals_speak_of_the_callers_axes(model):
    compiled = ingot.compile(model, inputs=[Input((2, 3, 12, 10), name="image", memory_format=LAST)])
    with pytest.raises(ingot.InputError, match=r"axis 1 of input .image. \(shape \[2, 4, 12, 10\]\) has size 4, but the plan was built for 3 there"):
        compiled(last(2, 4, 12, 10))
    with pytest.raises(ingot.InputError, match="rank 3"):
        compiled(torch.randn(2, 3, 12))


def just_in_time(model):
    """The model under torch.compile, and the list that gets ingot's compiled graphs."""
    torch._dynamo.reset()
    made = []

    def backend(graph, examples):
        from ingot.backend import ingot_backend

        made.append(ingot_backend(graph, examples))
        return made[-1]

    return torch.compile(model, backend=backend), made


@pytest.mark.parametrize("shape", [(2, 3, 12, 10), (1, 3, 9, 9)], ids=str)
def test_torch_compile(model, shape):
    compiled, made = just_in_time(model)
    x = last(*shape)
    check(compiled, model, x)
    assert orders(made[0].engine) == [[0, 2, 3, 1]]
    assert not operators_of(lambda: compiled(x)) & COPIES
    check(compiled, model, torch.randn(shape))


def test_torch_compile_with_open_sizes(model):
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="ingot", dynamic=True)
    for shape in ((2, 3, 12, 10), (3, 3, 17, 11)):
        check(compiled, model, last(*shape))
        check(compiled, model, torch.randn(shape))


def test_written_as_it_lies():
    class Writes(nn.Module):
        def forward(self, x):
            x[:, 0].mul_(2)
            x.add_(1)
            return x * 3

    for make in (lambda: last(2, 3, 4, 5), lambda: torch.randn(2, 3, 4, 5)):
        compiled = ingot.compile(Writes(), inputs=[last(2, 3, 4, 5)])
        assert orders(compiled.engine) == [[0, 2, 3, 1]]
        x = make()
        expected = x.clone()
        want, got = Writes()(expected), compiled(x)
        assert torch.equal(x, expected) and torch.equal(got, want)


def test_a_cut_between(model):
    """A result of torch in channels_last is passed to the engine without a copy."""

    class Cut(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model.last(torch.sin(self.model.first(x)))

    cut = Cut(model)
    x = last(2, 3, 12, 10)
    compiled = ingot.compile(cut, inputs=[x], torch_executed_ops=["sin"], min_block_size=1)
    assert len(compiled.segments) == 2 and [orders(compiled.engine, f) for f in (0, 1)] == [[[0, 2, 3, 1]]] * 2
    check(compiled, cut, x)
    check(compiled, cut, x.contiguous())


@pytest.mark.parametrize("form", ["ingot", "exported_program"])
def test_saved_and_loaded(model, tmp_path, form):
    x = last(2, 3, 12, 10)
    path = tmp_path / ("m.ingot" if form == "ingot" else "m.pt2")
    ingot.save(ingot.compile(model, inputs=[x]), path, format=form)
    loaded = ingot.load(path)
    assert orders(loaded.engine) == [[0, 2, 3, 1]]
    for given in (x, x.contiguous()):
        assert_accurate(loaded(given), model(given), copy.deepcopy(model).double()(given.double()), depth=1000)
    if form == "exported_program":
        program = torch.export.load(path).module()
        for given in (x, x.contiguous()):
            assert_accurate(program(given), model(given), copy.deepcopy(model).double()(given.double()), depth=1000)


def test_a_file_of_torch(model, tmp_path):
    x = last(2, 3, 12, 10)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    compiled = ingot.compile(tmp_path / "m.pt2")
    assert orders(compiled.engine) == [[0, 2, 3, 1]]
    assert_accurate(compiled(x), model(x), copy.deepcopy(model).double()(x.double()), depth=1000)
    ingot.compile(tmp_path / "m.pt2", inputs=[Input((2, 3, 12, 10), memory_format=LAST)])
    torch.export.save(torch.export.export(model, (x.contiguous(),)), tmp_path / "rows.pt2")
    with pytest.raises(ingot.InputError, match="has memory_format torch.channels_last, but the program was exported for another one"):
        ingot.compile(tmp_path / "rows.pt2", inputs=[Input((2, 3, 12, 10), memory_format=LAST)])


def test_arrays_and_the_reference(model, tmp_path):
    x = last(2, 3, 12, 10)
    ingot.save(ingot.compile(model, inputs=[x]), tmp_path / "m.ingot")
    engine = ingot.load_engine(tmp_path / "m.ingot")
    exact = copy.deepcopy(model).double()(x.double())
    for array in (x.numpy(), x.contiguous().numpy(), np.asfortranarray(x.numpy())):
        assert_accurate(torch.from_numpy(engine.session().run(array)[0]), model(x), exact, depth=1000)
        assert_accurate(torch.from_numpy(engine.reference(array)[0]), model(x), exact, depth=1000)


def test_three_spatial_axes():
    model = nn.Conv3d(4, 6, 3).to(memory_format=torch.channels_last_3d)
    compiled = ingot.compile(model, inputs=[Input((2, 4, 5, 6, 7), memory_format=torch.channels_last_3d)])
    assert orders(compiled.engine) == [[0, 2, 3, 4, 1]]
    for x in (torch.randn(2, 4, 5, 6, 7).to(memory_format=torch.channels_last_3d), torch.randn(2, 4, 5, 6, 7)):
        assert_accurate(compiled(x), model(x), copy.deepcopy(model).double()(x.double()), depth=1000)


@pytest.mark.parametrize("arguments, text", [
    (dict(shape=(2, 3), memory_format=LAST, name="x"), "input 'x': torch.channels_last is for tensors of 4 axes, and the input has rank 2"),
    (dict(shape=(2, 3), memory_format="last"), "an input: memory_format 'last' is not known"),
    (dict(shape=(2, 3), memory_format=torch.preserve_format), "an input: memory_format torch.preserve_format is not known"),
])  # fmt: skip
def test_formats_refused(arguments, text):
    with pytest.raises(ingot.InputError) as caught:
        Input(**arguments)
    assert caught.value.message == text


def test_inputs_of_tensors():
    assert Input.from_tensor(last(2, 3, 4, 5)).memory_format is LAST and Input.from_tensor(torch.randn(2, 3, 4, 5)).memory_format is None
    assert Input((2, 3, 4, 5), memory_format=LAST).example().is_contiguous(memory_format=LAST)
    assert Input((2, 3), memory_format=torch.contiguous_format).memory_format is None
    assert repr(Input((2, 3, 4, 5), memory_format=LAST)) == "Input((2, 3, 4, 5), float32, memory_format=torch.channels_last)"


# ---- weights as they lie


class Weights(nn.Module):
    """Weights in several orders, used as products, convolutions and by themselves, two of them of one memory."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.image = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=2), nn.Conv2d(16, 6, 1)).to(memory_format=LAST)
        self.columns = nn.Parameter(torch.randn(6, 5).t())
        self.turned = nn.Parameter(torch.randn(4, 6, 5).permute(2, 0, 1))
        self.rows = nn.Parameter(torch.randn(6, 6))
        self.same_memory = nn.Parameter(self.rows.detach().t())
        self.table = nn.Embedding(7, 6)
        self.table.weight = nn.Parameter(torch.randn(6, 7).t())

    def forward(self, x, ids):
        y = self.image(x).mean((2, 3)) + self.table(ids).sum(1)
        y = (y @ self.rows + y @ self.same_memory) @ self.columns.T
        return y + self.turned.sum((1, 2)), torch.softmax(self.turned, -1) * y[0, :, None, None]


ORDERS = {"image.0.weight": [0, 2, 3, 1], "image.2.weight": [0, 2, 3, 1], "columns": [1, 0], "turned": [1, 2, 0], "same_memory": [1, 0], "table.weight": [1, 0]}


def orders_of_weights(engine):
    return {w["name"]: w["order"] for w in engine.inspect()["weights"] if "order" in w}


@pytest.fixture
def weights():
    return Weights().eval().requires_grad_(False)


X, IDS = last(2, 8, 7, 6), torch.tensor([[0, 3], [6, 6]])


def check_weights(compiled, model):
    for got, want, exact in zip(compiled(X, IDS), model(X, IDS), copy.deepcopy(model).double()(X.double(), IDS)):
        assert_accurate(got, want, exact, depth=1000)


def other_values(model, lay):
    return {name: lay(torch.randn(t.shape)) for name, t in model.named_parameters()}


def lies_turned(t):
    return t.permute([*range(t.dim())][::-1]).contiguous().permute([*range(t.dim())][::-1])


LAYS = {"rows": torch.Tensor.contiguous, "turned": lies_turned, "gaps": lambda t: torch.stack([t, t], -1)[..., 0]}


def test_weights_are_read_where_they_are(weights):
    compiled = ingot.compile(weights, inputs=[X, IDS], fallback="error")
    assert orders_of_weights(compiled.engine) == ORDERS
    assert {w["name"]: w["dims"] for w in compiled.engine.inspect()["weights"]} == {n: list(t.shape) for n, t in weights.named_parameters()}
    check_weights(compiled, weights)
    given = compiled.engine._built_from
    assert all(given[name].data_ptr() == t.data_ptr() for name, t in weights.named_parameters())
    own = nn.Parameter(torch.randn(5, 4).t(), requires_grad=False)  # a weight without derived weights is read in place by each call

    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = own

        def forward(self, x):
            return x + self.own

    compiled, x = ingot.compile(Adds(), inputs=[torch.randn(4, 5)]), torch.randn(4, 5)
    own.mul_(2)
    assert torch.equal(compiled(x), x + own)


@pytest.mark.parametrize("lay", LAYS.values(), ids=LAYS)
@pytest.mark.parametrize("options", [{}, {"torch_executed_ops": ["mean"], "min_block_size": 1}], ids=["one engine", "cut"])
def test_other_weights(weights, options, lay):
    compiled = ingot.compile(weights, inputs=[X, IDS], **options)
    check_weights(compiled, weights)
    values = other_values(weights, lay)
    compiled.update_weights(values)
    other = Weights().eval().requires_grad_(False)
    other.load_state_dict(values, assign=True)
    check_weights(compiled, other)
    weights.load_state_dict(other_values(weights, lay), assign=True)
    check_weights(compiled, weights.requires_grad_(False))


def test_a_weight_that_lies_right_is_not_copied(weights):
    compiled = ingot.compile(weights, inputs=[X, IDS])
    right, wrong = torch.randn(6, 5).t(), torch.randn(5, 6)
    compiled.update_weights({"columns": right})
    assert compiled.engine._values["columns"].data_ptr() == right.data_ptr()
    compiled.update_weights({"columns": wrong})
    kept = compiled.engine._values["columns"]
    assert torch.equal(kept, wrong) and kept.stride() == right.stride()


@pytest.mark.parametrize("lay", LAYS.values(), ids=LAYS)
@pytest.mark.parametrize("how", ["embed", "strip"])
def test_weights_in_files(weights, tmp_path, how, lay):
    compiled = ingot.compile(weights, inputs=[X, IDS])
    values = other_values(weights, lay)
    compiled.update_weights(values)
    weights.load_state_dict(values, assign=True)
    ingot.save(compiled, tmp_path / "m.ingot", weights=how)
    loaded = ingot.load(tmp_path / "m.ingot", **({"weights": values} if how == "strip" else {}))
    assert orders_of_weights(loaded.engine) == ORDERS
    check_weights(loaded, weights)
    ingot.save(loaded, tmp_path / "again.ingot", weights="embed")
    check_weights(ingot.load(tmp_path / "again.ingot"), weights)


def test_weights_of_arrays(weights, tmp_path):
    ingot.save(ingot.compile(weights, inputs=[X, IDS]), tmp_path / "m.ingot", weights="strip")
    state = {name: t.numpy() for name, t in weights.named_parameters()}
    for lay in (np.asarray, np.ascontiguousarray, np.asfortranarray):
        engine = ingot.load_engine(tmp_path / "m.ingot", weights={name: lay(a) for name, a in state.items()})
        for arrays in (engine.session().run(X.numpy(), IDS.numpy()), engine.reference(X.numpy(), IDS.numpy())):
            check_weights(lambda *_: [torch.from_numpy(a) for a in arrays], weights)  # noqa: B023
        engine.update_weights({name: lay(a * 2) for name, a in state.items()})
        twice = copy.deepcopy(weights)
        twice.load_state_dict({name: t * 2 for name, t in weights.state_dict().items()})
        check_weights(lambda *given: [torch.from_numpy(a) for a in engine.session().run(*(t.numpy() for t in given))], twice)  # noqa: B023


def test_weights_of_a_torch_program(weights, tmp_path):
    ingot.save(ingot.compile(weights, inputs=[X, IDS]), tmp_path / "m.pt2", format="exported_program")
    loaded = ingot.load(tmp_path / "m.pt2")
    assert orders_of_weights(loaded.engine) == ORDERS
    check_weights(loaded, weights)
    program = torch.export.load(tmp_path / "m.pt2").module()
    check_weights(program, weights)
    values = other_values(weights, torch.Tensor.contiguous)
    for module in (program, weights):
        module.load_state_dict(values, assign=True)
    check_weights(program, weights)


def test_weights_of_a_file_of_torch(weights, tmp_path):
    torch.export.save(torch.export.export(weights, (X, IDS)), tmp_path / "m.pt2")
    compiled = ingot.compile(tmp_path / "m.pt2")
    assert orders_of_weights(compiled.engine) == ORDERS
    check_weights(compiled, weights)


def test_weights_under_torch_compile(weights):
    compiled, made = just_in_time(weights)
    check_weights(compiled, weights)
    assert sorted(orders_of_weights(made[0].engine).values()) == sorted(ORDERS.values())
    for _, t in weights.named_parameters():
        t.mul_(0.5)
    check_weights(compiled, weights)
    weights.columns = nn.Parameter(torch.randn(5, 6), requires_grad=False)
    check_weights(compiled, weights)


def test_tied_weights_of_one_layout():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
            self.to(memory_format=LAST)
            self.two.weight = self.one.weight

        def forward(self, x):
            return self.two(self.one(x))

    model, x = Tied().requires_grad_(False), last(1, 4, 5, 5)
    compiled = ingot.compile(model, inputs=[x])
    assert list(orders_of_weights(compiled.engine).values()) == [[0, 2, 3, 1]]
    for value in (last(4, 4, 3, 3), torch.randn(4, 4, 3, 3)):
        compiled.update_weights({"two.weight": value})
        model.one.weight.copy_(value)
        check(compiled, model, x)


def test_what_is_written_is_row_major(tmp_path):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.arange(12.0).view(4, 3).t())

        def forward(self, x):
            self.seen.add_(x)
            return self.seen * 2

    x = torch.randn(3, 4)
    torch.export.save(torch.export.export(Counts(), (x,)), tmp_path / "m.pt2")
    for compiled in (ingot.compile(Counts(), inputs=[x]), ingot.compile(tmp_path / "m.pt2")):
        model = Counts()
        assert not orders_of_weights(compiled.engine)
        for _ in range(2):
            assert torch.equal(compiled(x), model(x))


def test_nothing_is_made_of_kernels_that_lie_along_k(weights):
    """A GPU reads these weights in place."""
    model = weights.image[0]
    for image, made in ((model, 0), (copy.deepcopy(model).to(memory_format=torch.contiguous_format), 1)):
        program = torch.export.export(copy.deepcopy(image).half(), (X.half(),))
        try:
            compiled = ingot.compile(program, target="cuda:sm_90")
        except ingot.UnsupportedError as problem:
            pytest.skip(problem.message)  # no NVRTC
        assert len(compiled.engine.inspect()["targets"][0]["derived"]) == made


def test_permuted_results_are_one_call(tmp_path):
    """A result whose axes are in another order in memory takes a view of torch, not a graph of torch around the engine: such a module can be profiled and verified."""

    class Permuted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 6)

        def forward(self, x):
            h = self.linear(x)
            heads = (h * 2).unflatten(-1, (2, 3))
            return h.transpose(1, 2), heads.permute(2, 0, 1, 3), torch.tanh(h)

    model, x = Permuted().eval(), torch.randn(2, 5, 8)
    compiled = ingot.compile(model, inputs=[x])
    ingot.save(compiled, tmp_path / "m.pt2", format="exported_program")
    opened = ingot.compile(model, inputs=[Input(min_shape=(1, 2, 8), opt_shape=(2, 5, 8), max_shape=(4, 9, 8))])
    for one in (compiled, ingot.load(tmp_path / "m.pt2"), opened):
        assert type(one._kind.way).__name__ == "OneCall"
        for wanted, made in zip(model(x), one(x)):
            torch.testing.assert_close(made, wanted)
            assert made.stride() == wanted.stride() and made.storage_offset() == 0
        assert len(one.profile(x, runs=2)) > 0 and one.verify(x)
