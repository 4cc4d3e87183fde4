"""Random operators: torch's own beside torch, and an engine's own numbers where nothing may stay in torch."""

import math

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop

import ingot
from ingot.capture.fixes.random_numbers import STATE, philox
from ingot.engine import _library


class Draws(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def both_ways(function, x, way, **options):
    torch._dynamo.reset()
    model = Draws(function).eval()
    return ingot.compile(model, inputs=[x], **options) if way == "ahead of time" else torch.compile(model, backend="ingot", options=options)


def engine(function, x, **options):
    compiled = both_ways(function, x, "ahead of time", fallback="error", **options)
    assert compiled.report.whole
    return compiled


def test_philox_gives_the_numbers_of_its_authors():
    """The known answers of Random123 for philox2x32 with 10 rounds."""
    answers = {(0, 0, 0): (0xFF1DAE59, 0x6CD10DF2), (0xFFFFFFFF,) * 3: (0x2C3F628B, 0xAB4FD7AD), (0x13198A2E, 0x243F6A88, 0x85A308D3): (0xDD7CE038, 0xF62A4C12)}
    for given, wanted in answers.items():
        assert tuple(word.item() for word in philox(*map(torch.tensor, given))) == wanted


def test_rrelu_in_eval_mode_draws_nothing():
    x = torch.linspace(-2, 2, 9)
    function = torch.nn.RReLU(0.1, 0.3).eval()
    assert torch.equal(engine(function, x)(x), function(x))


def test_beside_torch_the_numbers_are_those_of_eager():
    model = Draws(lambda x: torch.sin(x) + torch.randn_like(x) + torch.rand(x.shape)).eval()
    x = torch.ones(8, 9)
    compiled = ingot.compile(model, inputs=[x], min_block_size=1)
    torch.manual_seed(3)
    wanted = model(x)
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(x), wanted)


MOMENTS = {  # a function, the mean and the deviation of its numbers, their bounds
    "rand": (lambda x: torch.rand(x.shape), 0.5, 12**-0.5, 0, 1),
    "rand_like half": (lambda x: torch.rand_like(x, dtype=torch.float16).float(), 0.5 - 2**-12, 12**-0.5, 0, 1),
    "rand double": (lambda x: torch.rand(x.shape, dtype=torch.float64), 0.5, 12**-0.5, 0, 1),
    "randn": (lambda x: torch.randn(x.shape), 0, 1, -7, 7),
    "randn_like": (lambda x: torch.randn_like(x, dtype=torch.float64), 0, 1, -7, 7),
    "randint": (lambda x: torch.randint(7, x.shape), 3, 2, 0, 6.5),
    "randint low": (lambda x: torch.randint(-3, 4, x.shape), 0, 2, -3, 3.5),
    "randint_like": (lambda x: torch.randint_like(x, 2, 9), 5, 2, 2, 8.5),
    "bernoulli": (lambda x: torch.bernoulli(x * 0.25), 0.25, 0.1875**0.5, 0, 1.5),
    "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.25), 0.25, 0.1875**0.5, 0, 1.5),
    "dropout": (lambda x: torch.dropout(x, 0.2, True), 1, 0.5, 0, 1.3),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(2, 6), 4, 4 * 12**-0.5, 2, 6),
    "normal_": (lambda x: torch.empty_like(x).normal_(2, 3), 2, 3, -19, 23),
    "normal": (lambda x: torch.normal(x * 2, x * 3), 2, 3, -19, 23),
    "exponential_": (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.5, 0, 12),
}


@torch.no_grad()
@pytest.mark.parametrize("way", ["ahead of time", "torch.compile"])
@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.one_in(9)
def test_numbers_of_an_engine(name, way):
    function, mean, deviation, low, high = MOMENTS[name]
    x = torch.ones(300, 401)
    torch.manual_seed(0)
    compiled = both_ways(function, x, way, fallback="error")
    eager, made, again = function(x), compiled(x), compiled(x)
    assert (made.dtype, made.shape) == (eager.dtype, eager.shape)
    assert not torch.equal(made, again), "each run has numbers of its own"
    n = x.numel()
    for numbers in (made.double().flatten(), again.double().flatten()):
        assert low <= numbers.min() and numbers.max() < high
        assert abs(numbers.mean() - mean) < 5 * deviation / math.sqrt(n)
        assert abs(numbers.std() - deviation) < 0.02 * deviation
        centred = (numbers - mean) / deviation
        for step in (1, 2, 401):  # neighbours, and rows, tell nothing about one another
            assert abs((centred[:-step] * centred[step:]).mean()) < 5 / math.sqrt(n)
    assert abs(((made.double() - mean) * (again.double() - mean)).mean()) / deviation**2 < 5 / math.sqrt(n)


def test_two_operators_draw_different_numbers():
    a, b = engine(lambda x: (torch.rand_like(x), torch.rand_like(x)), torch.ones(50, 40))(torch.ones(50, 40))
    assert not torch.equal(a, b)
    assert abs(((a - 0.5) * (b - 0.5)).mean()) * 12 < 5 / math.sqrt(2000)


def test_permutations():
    compiled = engine(lambda x: torch.randperm(x.shape[0]), torch.ones(1500))
    first, second = compiled(torch.ones(1500)), compiled(torch.ones(1500))
    assert torch.equal(first.sort().values, torch.arange(1500)) and not torch.equal(first, second)


def test_open_sizes():
    compiled = engine(lambda x: torch.rand(x.shape[0], 3), ingot.Input(min_shape=(1, 2), opt_shape=(4, 2), max_shape=(64, 2)))
    for rows in (1, 5, 64):
        assert compiled(torch.ones(rows, 2)).shape == (rows, 3)


def test_the_seed_is_drawn_when_the_program_is_compiled():
    x = torch.ones(40)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(engine(torch.randn_like, x)(x))
    assert torch.equal(made[0], made[1]) and not torch.equal(made[0], made[2])


def test_a_file_goes_on_with_its_own_numbers(tmp_path):
    x = torch.ones(40)
    torch.manual_seed(1)
    compiled = engine(torch.randn_like, x)
    ingot.save(compiled, tmp_path / "draws.ingot")
    loaded = ingot.load(tmp_path / "draws.ingot")
    for _ in range(2):
        assert torch.equal(loaded(x), compiled(x))


def test_the_state_can_be_set():
    x = torch.ones(40)
    compiled = engine(torch.randn_like, x)
    state = dict(compiled.named_buffers())[STATE]
    before = state.clone()
    first = compiled(x)
    assert state.tolist() == [before[0].item(), 1]
    state.copy_(before)
    assert torch.equal(compiled(x), first)


# ---- in branches and loops


def zero():
    return torch.zeros((), dtype=torch.int64)


def rows(x):
    """Each turn fills one row."""
    return while_loop(lambda i, y: i < 300, lambda i, y: (i + 1, y.index_copy(0, i.reshape(1), torch.rand(1, 401))), (zero(), x * 0))[1]


def branch(x):
    return torch.cond(x.sum() > 0, lambda x: torch.rand_like(x), lambda x: torch.randn_like(x), (x,))


def loop_in_a_branch_in_a_loop(x):
    """A dropout in eval mode draws nothing."""

    def inner(j, y):
        return j + 1, torch.rand_like(y)

    def turn(i, y):
        y = torch.cond(i % 2 == 0, lambda y: while_loop(lambda j, y: j < 2, inner, (zero(), y))[1], lambda y: torch.bernoulli(y * 0 + 0.5), (y,))
        return i + 1, torch.dropout(y, 0.5, False)

    return while_loop(lambda i, y: i < 3, turn, (zero(), x))[1]


def dropout(x):
    """Two turns of it keep a quarter, four times as large."""
    return while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, torch.dropout(y, 0.5, True)), (zero(), x))[1]


REGIONS = {"rows": (rows, 0.5, 12**-0.5), "branch": (branch, 0.5, 12**-0.5), "nested": (loop_in_a_branch_in_a_loop, 0.5, 12**-0.5), "dropout": (dropout, 1, 3**0.5)}


@torch.no_grad()
@pytest.mark.parametrize("way", ["ahead of time", "torch.compile"])
@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.one_in(2)
def test_numbers_of_regions(name, way):
    function, mean, deviation = REGIONS[name]
    x = torch.ones(300, 401)
    torch.manual_seed(5)
    compiled = both_ways(function, x, way, fallback="error")
    runs = [compiled(x).double() for _ in range(2)]
    n = x.numel()
    for numbers in runs:
        assert abs(numbers.mean() - mean) < 5 * deviation / math.sqrt(n) and abs(numbers.std() - deviation) < 0.02 * deviation
        centred = (numbers.flatten() - mean) / deviation
        for step in (1, 401, 802):  # neighbours, and what other turns drew
            assert abs((centred[:-step] * centred[step:]).mean()) < 5 / math.sqrt(n)
    assert abs(((runs[0] - mean) * (runs[1] - mean)).mean()) / deviation**2 < 5 / math.sqrt(n)


@torch.no_grad()
@pytest.mark.parametrize("way", ["ahead of time", "torch.compile"])
@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.one_in(3)
def test_beside_torch_regions_have_the_numbers_of_eager(name, way):
    function, x = REGIONS[name][0], torch.ones(300, 401)
    compiled = both_ways(function, x, way)
    compiled(x)  # torch.compile traces in the first call, which draws
    torch.manual_seed(3)
    wanted = function(x)
    torch.manual_seed(3)
    assert torch.equal(compiled(x), wanted)


@torch.no_grad()
@pytest.mark.parametrize("way", ["ahead of time", "torch.compile"])
def test_a_condition_that_draws(way):
    """As many turns as heads come first: 4 on average."""
    torch.manual_seed(8)
    compiled = both_ways(lambda x: while_loop(lambda i: torch.rand(()) < 0.8, lambda i: (i + 1,), (zero(),))[0] + x, torch.zeros(()), way, fallback="error")
    turns = torch.stack([compiled(torch.zeros(())) for _ in range(500)])
    assert abs(turns.mean() - 4) < 5 * 20**0.5 / 500**0.5 and turns.min() == 0


@torch.no_grad()
def test_a_loop_goes_on_with_its_numbers_in_a_file(tmp_path):
    """The state counts turns, too."""
    x = torch.ones(300, 401)
    compiled = engine(rows, x)
    before = dict(compiled.named_buffers())[STATE].clone()
    ingot.save(compiled, tmp_path / "rows.ingot")
    loaded = ingot.load(tmp_path / "rows.ingot")
    for _ in range(2):
        assert torch.equal(loaded(x), compiled(x))
    assert dict(compiled.named_buffers())[STATE].tolist() == [before[0], 2 * 301]


@torch.no_grad()
def test_in_a_region_of_autocast():
    class Cast(torch.nn.Module):
        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return torch.dropout(x @ x, 0.5, True)

    x = torch.full((64, 64), 1 / 64)
    torch.manual_seed(2)
    made = ingot.compile(Cast(), inputs=[x], fallback="error")(x)
    assert made.dtype == torch.bfloat16 and set(made.unique().tolist()) == {0.0, 0.03125} and 0.45 < (made == 0).float().mean() < 0.55


# ---- under torch.compile


@torch.no_grad()
def test_torch_compile_has_numbers_of_its_own_where_nothing_may_stay_in_torch():
    x, made = torch.ones(300, 401), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        compiled = both_ways(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand(x.shape), x, "torch.compile", fallback="error")
        first, second = compiled(x), compiled(x)
        assert not torch.equal(first, second)
        made.append(first)
    assert torch.equal(made[0], made[1]) and not torch.equal(made[0], made[2])
    assert abs(made[0].mean() - 1.5) < 0.02 and abs(made[0].std() - (1 + 1 / 12) ** 0.5) < 0.02


@torch.no_grad()
def test_torch_compile_counts_weights_and_writes_beside():
    class Noisy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.calls += 1
            return self.linear(x) + torch.rand_like(x) * 0

    torch._dynamo.reset()
    model, x = Noisy(), torch.randn(3, 4)
    compiled = torch.compile(model, backend="ingot", options={"fallback": "error"})
    for call in range(3):
        torch.testing.assert_close(compiled(x), model.linear(x))
        assert model.calls == call + 1
        model.linear.weight.mul_(0.5)


def test_without_python_the_error_says_what_to_do(tmp_path):
    """`ingot compile` has no Python that could put numbers of the engine's own in their place."""

    class Noisy(torch.nn.Module):
        def forward(self, x):
            return torch.dropout(torch.sin(x), 0.5, True) + torch.randn_like(x)

    torch.export.save(torch.export.export(Noisy(), (torch.ones(4, 4),)), tmp_path / "noisy.pt2")
    with pytest.raises(ingot.UnsupportedError) as caught:
        _library.Model.open(str(tmp_path / "noisy.pt2")).compile({"fallback": "error"})
    text = str(caught.value)
    assert "aten.dropout.default: dropout in training mode draws random numbers, which only torch's generator gives (call model.eval() first, or compile in Python with fallback=\"error\": the engine draws its own)\n    at " in text
    assert "aten.randn_like.default: randn_like draws random numbers, which only torch's generator gives\n    at " in text and "torch.randn_like(x)`" in text
    assert 'ingot.compile(program, fallback="error") in Python makes a plan that draws its own' in caught.value.remedy
