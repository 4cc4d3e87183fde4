"""Numbers that a model's own code computes from open sizes in tensors without axes, and loops over open sizes, as convolutional codecs of audio have."""

import pytest
import torch
import torch.nn.functional as F

import ingot


class Padded(torch.nn.Module):
    """A convolution that pads so that its last window is full. The amount is a tensor: it comes from buffers and from the length."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 2, 5, 3)
        self.register_buffer("stride", torch.tensor(3), persistent=False)
        self.register_buffer("kernel", torch.tensor(5), persistent=False)

    def forward(self, x):
        length, total = x.shape[-1], self.kernel - self.stride
        frames = torch.ceil((length - self.kernel + total) / self.stride + 1).to(torch.int64) - 1
        extra = frames * self.stride + self.kernel - total - length
        left, right = total - total // 2, total // 2 + extra
        if length <= max(left, right):
            x = F.pad(x, (0, max(left, right) - length + 1))
        return self.conv(F.pad(x, (left, right), "reflect"))


class Chunks(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        size, found = x.shape[-1] if self.size is None else self.size, []
        for begin in range(0, x.shape[-1], size):
            found.append(x[..., begin : begin + size].cumsum(-1))
        return torch.cat(found, -1)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def lengths(low, high, usual):
    return [ingot.Input(min_shape=(1, 2, low), opt_shape=(1, 2, usual), max_shape=(3, 2, high))]


@pytest.mark.parametrize("way", ["compiled", "saved"])
def test_paddings_that_follow_from_the_length(way, tmp_path):
    model = Padded().eval()
    compiled = ingot.compile(model, inputs=lengths(8, 40, 20))
    assert compiled.report.whole
    if way == "saved":
        ingot.save(compiled, tmp_path / "m.ingot")
        compiled = ingot.load(tmp_path / "m.ingot")
    for length in range(8, 41):
        x = torch.randn(1 + length % 3, 2, length)
        torch.testing.assert_close(compiled(x), model(x))


def test_a_buffer_that_changed_is_refused():
    model, x = Padded().eval(), torch.randn(1, 2, 20)
    compiled = ingot.compile(model, inputs=lengths(8, 40, 20))
    model.stride.fill_(2)
    with pytest.raises(ingot.InputError, match="stride changed: the model was compiled for"):
        compiled(x)


def test_a_number_that_eager_rounds_differently_is_refused():
    """float32 has no 2^24 + 1: eager's number is another than the size."""

    class Halves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("two", torch.tensor(2.0))

        def forward(self, x):
            return torch.zeros(torch.ceil(x.shape[0] * self.two / 2).long(), dtype=torch.bool) if self.two > 0 else x

    compiled = ingot.compile(Halves(), inputs=[ingot.Input(min_shape=(2,), opt_shape=(8,), max_shape=(1 << 25,), dtype=torch.bool)])
    for size in (3, 1 << 24):
        assert compiled(torch.zeros(size, dtype=torch.bool)).shape == (size,)
    with pytest.raises(ingot.InputError, match="two"):
        compiled(torch.zeros((1 << 24) + 1, dtype=torch.bool))


@pytest.mark.parametrize("size, low, high, usual", [(None, 2, 30, 12), (10, 11, 20, 16)], ids=["one pass", "two passes"])
def test_loops_over_the_length(size, low, high, usual):
    model = Chunks(size)
    compiled = ingot.compile(model, inputs=lengths(low, high, usual))
    assert compiled.report.whole
    for length in range(low, high + 1):
        x = torch.randn(1, 2, length)
        torch.testing.assert_close(compiled(x), model(x))


def test_sizes_for_which_a_loop_has_other_passes_are_refused():
    compiled = ingot.compile(Chunks(10), inputs=lengths(2, 30, 16))
    compiled(torch.randn(1, 2, 11)), compiled(torch.randn(1, 2, 20))
    for length in (10, 21):
        with pytest.raises(ingot.InputError, match="these input sizes do not fit the model: it was captured for .* == 2"):
            compiled(torch.randn(1, 2, length))


def test_left_out_by_name(monkeypatch):
    monkeypatch.setenv("INGOT_DISABLE", "open_calls")
    with pytest.raises(ingot.InputError, match="fixes axis 2"):
        ingot.compile(Chunks(10), inputs=lengths(11, 20, 16))


class Distances(torch.nn.Module):
    """Numbers of positions, read of a tensor: sizes of a table of distances, as in Funnel, whose positions are floats."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        places = torch.arange(0, x.shape[1], dtype=self.dtype)
        pooled = torch.cat([places.new_tensor([-1]), places[1:-1][::2]])
        steps = torch.arange(places[-1] - pooled[0], pooled[1] - places[-1], -2)
        return x + torch.arange(pooled[-1] + 1, dtype=x.dtype).sum() + steps.sum()


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
@pytest.mark.parametrize("door", ["compile", "open", "torch.compile"])
def test_numbers_at_places_of_a_range(door, dtype):
    if (door, dtype) == ("open", torch.float32):
        pytest.skip("torch does not take a float that follows from open sizes")
    model = Distances(dtype)
    make = {
        "compile": lambda n: ingot.compile(model, inputs=[ingot.Input((2, n, 3))]),
        "open": lambda n: ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 5, 3), opt_shape=(2, 9, 3), max_shape=(2, 40, 3))]),
        "torch.compile": lambda n: torch.compile(model, backend="ingot"),
    }[door]
    compiled = make(9)
    if door != "torch.compile":
        assert compiled.report.whole
    for n in (9,) if door == "compile" else (5, 6, 9, 12, 39, 40):
        x = torch.randn(2, n, 3)
        assert torch.equal(compiled(x), model(x))
