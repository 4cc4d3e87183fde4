"""Faults that random programs found, each reduced by hand to a program that a user might write."""

import math
import pytest
import torch
from accuracy import assert_accurate

import ingot


def memory(t):
    return t.untyped_storage().data_ptr()


def narrow_from_the_end(x):
    return torch.narrow(x, -1, -3, 2) + 1, torch.narrow(x, 0, torch.tensor(-2), 1)


def parts_of_a_written_strided_input(x):
    x.mul_(2)
    return x.swapaxes(0, -1), x.contiguous(), x[1:], x.reshape(-1), x


def view_before_the_write(x):
    row = x[1:]
    x.add_(1)
    return row, row.clone(), x.contiguous()


PROGRAMS = [narrow_from_the_end, parts_of_a_written_strided_input, view_before_the_write]
LAYOUTS = {"dense": lambda: torch.arange(12.0).view(3, 4), "every other column": lambda: torch.arange(24.0).view(3, 8)[:, ::2], "transposed": lambda: torch.arange(12.0).view(4, 3).t()}


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.one_in(3)
def test_found(program, layout, way):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: program(x)})()
    mine, theirs = LAYOUTS[layout](), LAYOUTS[layout]()
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(model, backend="ingot") if way == "torch.compile" else ingot.compile(model, inputs=[LAYOUTS[layout]()])
        results, expected = compiled(mine), model(theirs)
    assert torch.equal(mine, theirs)
    for result, eager in zip(results, expected, strict=True):
        assert torch.equal(result, eager) and result.stride() == eager.stride()
        assert (memory(result) == memory(mine)) == (memory(eager) == memory(theirs))


def compiled(forward, *inputs, way="compile", **options):
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, *given: forward(*given)})()
    torch._dynamo.reset()
    return model, torch.compile(model, backend="ingot") if way == "torch.compile" else ingot.compile(model, inputs=list(inputs), **options)


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_shuffle_of_one_group_copies(way):
    """In a new process torch's shape function gives a view."""

    def forward(x):
        return torch.channel_shuffle(x.clip_(2, 5), 1), x

    with torch.no_grad():
        torch._subclasses.FakeTensorMode.cache_clear()
        x, y = (torch.arange(24.0).view(2, 3, 4) for _ in range(2))
        model, module = compiled(forward, x.clone(), way=way)
        (shuffled, given), (expected, _) = module(x), model(y)
    assert torch.equal(shuffled, expected) and memory(given) == memory(x)
    assert memory(expected) != memory(y) and memory(shuffled) != memory(x)


@pytest.mark.parametrize("shuffle", [torch.channel_shuffle, torch.ops.aten.native_channel_shuffle])
def test_shuffle_of_one_group_keeps_its_values(shuffle):
    """A later write to the operand does not reach the copy."""

    def forward(x):
        y = x + 1
        shuffled = shuffle(y, 1)
        y.mul_(2)
        return y, shuffled

    torch._subclasses.FakeTensorMode.cache_clear()
    x = torch.arange(24.0).view(2, 3, 4)
    model, module = compiled(forward, x)
    for result, expected in zip(module(x), model(x), strict=True):
        assert torch.equal(result, expected)


aten = torch.ops.aten
TRANSPOSED = torch.arange(8.0).view(2, 2, 2).transpose(1, 2)
CHANNELS_LAST = torch.arange(40.0).view(5, 2, 2, 2).permute(0, 3, 1, 2)
STRIDES = {
    "masked_fill": lambda x: x.masked_fill(x > 2, 1.0),
    "index_fill": lambda x: x.index_fill(-1, torch.tensor([1]), 1.0),
    "upsample_nearest1d": lambda x: torch.nn.functional.interpolate(x.permute(2, 1, 0), scale_factor=2.0),
    "batch_norm": lambda x: torch.nn.functional.batch_norm(x, torch.zeros(2), torch.ones(2)),
    "zero": lambda x: aten.zero(x),
    "log_sigmoid": lambda x: torch.nn.functional.logsigmoid(x),
    "powers of a number": lambda x: torch.pow(2, x),
    "channel_shuffle": lambda x: torch.channel_shuffle(x.permute(2, 1, 0)[None].to(memory_format=torch.channels_last), 2),
    "xlogy of integers, transposed": lambda x: torch.special.xlogy(x.to(torch.int32), torch.ones(x.shape, dtype=torch.int32)),
    "write to a power of a number": lambda x: aten.round_.decimals(torch.pow(3, x), decimals=-2),
    "isin": lambda x: torch.isin(x, torch.arange(3.0)).float(),
    "view of a corrected one": lambda x: torch.xlogy(x, x.to(torch.float16)[:1]).swapdims(0, 1),
    "another name of floor division": lambda x: aten.divide.Tensor_mode(x, torch.ones(x.shape), rounding_mode="floor"),
    "another name of multiply, mixed types": lambda x: aten.multiply(x.to(torch.int8), torch.ones(x.shape)),
    "what reads an out": lambda x: 2 * aten.mul.out(x.to(torch.int8), torch.ones(1), out=torch.zeros(x.shape)),
    "cast beside a write": lambda x: (x.add_(1), torch.floor_divide(x, torch.tensor(2.0)).to(torch.int32))[1],
    "xlogy beside a write": lambda x: (x.add_(1), torch.xlogy(x[:, 0], torch.ones(2, 2).t()))[1],
}


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("name", STRIDES)
@pytest.mark.one_in(3)
def test_strides_that_torch_records_wrongly(name, way):
    model, call = compiled(STRIDES[name], TRANSPOSED.clone(), way=way)
    with torch.no_grad():
        result, eager = call(TRANSPOSED.clone()), model(TRANSPOSED.clone())
    assert result.stride() == eager.stride() and torch.allclose(result, eager, equal_nan=True)


def test_strides_of_padded_volumes():
    model, call = compiled(lambda x: torch.nn.functional.pad(x, [1] * 6, mode="replicate"), CHANNELS_LAST)
    result, eager = call(CHANNELS_LAST), model(CHANNELS_LAST)
    assert result.stride() == eager.stride()
    assert torch.equal(result, eager)


def test_strides_of_batch_norm_where_an_axis_of_size_1_lies_anywhere():
    """Channels last in memory, although the strides do not show it."""
    x = torch.arange(4.0).as_strided((1, 2, 2, 1), (1, 1, 2, 2))
    model, call = compiled(lambda x: torch.nn.functional.batch_norm(x, torch.zeros(2), torch.ones(2)), x)
    result, eager = call(x), model(x)
    assert result.stride()[1:3] == eager.stride()[1:3] == (1, 2)
    assert torch.allclose(result, eager)


def test_what_torch_computes_from_a_view_with_gaps_lies_as_the_view():
    model, call = compiled(lambda x: torch.nn.functional.mish(torch.diagonal(x, 0, -2, 0)), TRANSPOSED, min_block_size=1, torch_executed_ops=["aten.mish.default"])
    assert call(TRANSPOSED).stride() == model(TRANSPOSED).stride() == (1, 2)


@pytest.mark.parametrize("values", [torch.tensor([1, 65504], dtype=torch.float16), torch.tensor([1e30, -3e38, 2e38]), torch.tensor([1e-30, 3e-30]), torch.tensor([1e30, -3e38], dtype=torch.bfloat16), torch.full([8], 0.1)])
def test_std_whose_square_its_type_does_not_hold(values):
    model, call = compiled(lambda x: (x.std(), *torch.std_mean(x, unbiased=False)), values)
    for result, eager, exact in zip(call(values), model(values), model(values.double()), strict=True):
        assert_accurate(result, eager, exact.to(torch.float64), depth=values.numel())


@pytest.mark.parametrize("weight", [7.0, 0.25, 1.0, "tensor"])
def test_lerp_between_infinities(weight):
    start, end = torch.tensor([-torch.inf, 1.0, 0.3]), torch.tensor([1.0, torch.inf, 0.7])
    weight = torch.tensor([7.0, 0.25, 1.0]) if weight == "tensor" else weight
    model, call = compiled(lambda a, b: torch.lerp(a, b, weight), start, end)
    assert torch.equal(call(start, end).nan_to_num(5), model(start, end).nan_to_num(5))


def test_upsampling_to_the_same_size_by_another_scale():
    x = torch.arange(8.0).view(2, 2, 2)
    model, call = compiled(lambda x: aten.upsample_nearest1d(x, [2], 2.0), x)
    assert torch.equal(call(x), model(x))


def test_high_norm_of_one_number():
    x = torch.tensor([[0.3125]])
    model, call = compiled(lambda x: x.norm(255), x)
    assert torch.equal(call(x), model(x))


def test_elu_of_zero():
    zero = torch.tensor([0.0, -0.0])
    model, call = compiled(lambda x: (aten.elu(x, 1.0, 2, float("-inf")), torch.celu(x, float("-inf"))), zero)
    assert all(torch.equal(a, b) for a, b in zip(call(zero), model(zero), strict=True))


def test_part_of_unbind_written_with_open_sizes():
    def first_of_two(x):
        a, b = x.unbind()
        return a + 1, torch.nn.functional.relu6(b, inplace=True)

    model, call = compiled(first_of_two, ingot.Input(min_shape=(2, 1, 1), opt_shape=(2, 3, 1), max_shape=(2, 64, 1)))
    for n in (3, 1, 7):
        mine = torch.randn(2, n, 1)
        theirs = mine.clone()
        assert all(torch.equal(a, b) for a, b in zip(call(mine), model(theirs), strict=True)) and torch.equal(mine, theirs)


def test_view_that_reads_the_shape_of_a_fused_value():
    def shaped(x, w):
        y = torch.nn.functional.group_norm(x, 2)
        return x.reshape_as(y), torch.lerp(y, w, 0.7)

    x, w = torch.randn(2, 2), torch.randn(2, 2)
    model, call = compiled(shaped, x, w)
    same, result = call(x, w)
    assert memory(same) == memory(x)
    assert_accurate(result, model(x, w)[1], model(x.double(), w.double())[1], depth=2)


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_shape_of_an_input_changed_in_place(way):
    """A new value cannot express that, so the model runs in torch."""
    model, call = compiled(lambda x: x.squeeze_() + 1, torch.ones(1, 3), way=way)
    mine, theirs = torch.ones(1, 3), torch.ones(1, 3)
    with torch.no_grad():
        assert torch.equal(call(mine), model(theirs)) and mine.shape == theirs.shape


def test_copy_with_out_broadcasts():
    model, call = compiled(lambda x, w, o: aten.copy.out(x, w, out=o) * 2, torch.ones(2, 1), torch.ones(1), torch.zeros(2, 1))
    mine, theirs = torch.zeros(2, 1), torch.zeros(2, 1)
    assert torch.equal(call(torch.ones(2, 1), torch.ones(1), mine), model(torch.ones(2, 1), torch.ones(1), theirs)) and torch.equal(mine, theirs)


@pytest.mark.parametrize("causal", [False, True])
def test_both_results_of_attention(causal):
    """The logsumexp of causal attention read freed memory while attention was expanded."""

    def attend(q, k):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, k, 0.0, causal)

    model = type("Model", (torch.nn.Module,), {"forward": lambda self, q, k: attend(q, k)})()
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 5, 4), torch.randn(2, 1, 3, 4)
    with torch.no_grad():
        for result, eager in zip(ingot.compile(model, inputs=[q, k], fallback="error")(q, k), attend(q, k), strict=True):
            assert_accurate(result, eager, eager, depth=16)


def test_logsumexp_of_attention_in_float64():
    q, k = torch.randn(1, 2, 3, 4, dtype=torch.float64), torch.randn(1, 2, 5, 4, dtype=torch.float64)
    model, call = compiled(lambda q, k: aten._scaled_dot_product_flash_attention_for_cpu(q, k, k)[1], q, k)
    assert_accurate(call(q, k), model(q, k), model(q, k), depth=20)


@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("to", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_floats_that_integers_do_not_hold(source, to):
    x = torch.tensor([torch.inf, -torch.inf, torch.nan, 3e9, -3e9, 2147483647.5, -2147483648.5, 1e20, 70000.0, -1.5]).to(source)
    model, call = compiled(lambda x: x.to(to), x)
    assert torch.equal(call(x), model(x))


def test_clamp_keeps_the_sign_of_zero():
    zero = torch.tensor([0.0, -0.0])
    model, call = compiled(lambda x: tuple(1 / y for y in (x.clamp(0, 6), x.clamp(min=-0.0), x.clamp(max=0.0), aten.hardtanh(x, 0, 1), aten.relu6(x))), zero)
    assert all(torch.equal(a, b) for a, b in zip(call(zero), model(zero), strict=True))


def test_average_of_negative_zeros():
    x = torch.full([1, 1, 2, 2], -0.0)
    model, call = compiled(lambda x: (1 / aten.avg_pool2d(x, [1, 1]), 1 / aten.avg_pool2d(x, [2, 2])), x)
    assert all(torch.equal(a, b) for a, b in zip(call(x), model(x), strict=True))


@pytest.mark.parametrize("lies", [lambda x: x[:1].expand(3, 4), lambda x: x.view(-1).as_strided((3, 4), (1, 1))])
def test_written_input_that_overlaps_itself(lies):
    """Compiled for an input without overlap: a write to one element would be lost under the old value of another."""
    x = torch.arange(12.0).view(3, 4)

    def forward(x):
        x[0].add_(1)
        return x * 2

    _, call = compiled(forward, x.clone())
    before = x.clone()
    with pytest.raises(ingot.InputError, match="several elements of .* are one place in memory .* and the model writes to it"):
        call(lies(x))
    assert torch.equal(x, before)


def test_reductions_of_a_scalar_inside_those_of_a_row():
    x, row = torch.tensor(2.5), torch.arange(4.0)
    model, call = compiled(lambda x, row: ((x.sum() > row).sum(), (x.amax() * row).sum(), (x.sum() > row + 2).any(), torch.bucketize(x.count_nonzero(), row)), x, row)
    assert all(torch.equal(a, b) for a, b in zip(call(x, row), model(x, row), strict=True))


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.type_as(x).floor_(),
        lambda x: torch.dropout(x, 0.5, False).floor_(),
        lambda x: torch.nn.functional.dropout(x, 0.0, training=True).floor_(),
        lambda x: x.expand(2, 2).floor_(),
        lambda x: x.expand(1, 2, 2)[0].floor_(),
        lambda x: x.broadcast_to(2, -1).t().floor_(),
    ],
    ids=["type_as", "dropout in evaluation", "dropout of nothing", "expand of no axis", "part of an expand", "broadcast_to, transposed"],
)
@pytest.mark.one_in(2)
def test_writes_through_what_is_the_operand_itself(write, way):
    """Infinities stay infinities: writes are not undone by additions."""
    x = torch.tensor([[torch.inf, 1.5], [-0.5, 3e38]])
    model, call = compiled(write, x.clone(), way=way)
    mine, theirs = x.clone(), x.clone()
    with torch.no_grad():
        result, eager = call(mine), model(theirs)
    assert torch.equal(result, eager) and torch.equal(mine, theirs)
    assert result.data_ptr() == mine.data_ptr()


def test_dropout_of_nothing_is_its_operand():
    x = torch.ones(3)
    model, call = compiled(lambda x: (torch.dropout(x, 1.0, False), x.type_as(x), x + 1), x)
    assert [r.data_ptr() == x.data_ptr() for r in call(x)] == [r.data_ptr() == x.data_ptr() for r in model(x)] == [True, True, False]


@pytest.mark.parametrize("size", [[3, 4], [5, 1], [9, 2]])
def test_windows_of_adaptive_pooling_keep_infinities_apart(size):
    x = torch.randn(2, 3, 7, 5)
    x[0, 0, 0, 0], x[1, 2, 3, 3], x[0, 1, 6, 4] = torch.inf, torch.nan, -torch.inf
    model, call = compiled(lambda x: torch.nn.functional.adaptive_avg_pool2d(x, size), x)
    result, eager = call(x), model(x)
    assert torch.equal(result.isfinite(), eager.isfinite()) and torch.equal(result.isnan(), eager.isnan())
    finite = eager.isfinite()
    assert_accurate(result[finite], eager[finite], model(x.double())[finite], depth=35)


@pytest.mark.parametrize("sizes, scales", [([2, 3], (2.0, None)), ([4, 6], (2.5, 3.0)), ([4, 3], (None, 0.5)), ([5, 7], (2.0, 2.0))])
def test_upsampling_in_two_dimensions_looks_at_sizes_first(sizes, scales):
    x = torch.arange(6.0).view(1, 1, 2, 3)
    model, call = compiled(lambda x: aten.upsample_nearest2d(x, sizes, *scales), x)
    assert torch.equal(call(x), model(x))


@pytest.mark.parametrize("sizes", [(3,), (3, 3), (3, 4), (3, 3, 3), (7, 5), (2, 2, 3)])
@pytest.mark.parametrize("scale", [0.9, 1.3, 1.5, 2.1])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.one_in(2)
def test_upsampling_by_a_scale_that_keeps_some_sizes(mode, scale, sizes):
    x = torch.arange(float(math.prod(sizes))).view(1, 1, *sizes)
    model, call = compiled(lambda x: torch.nn.functional.interpolate(x, scale_factor=scale, mode=mode), x)
    assert torch.equal(call(x), model(x))


def test_variance_of_nothing():
    x = torch.ones(2, 0)
    model, call = compiled(lambda x: (x.var(correction=-1), x.std(1, correction=-0.5), x.var(1)), x)
    assert all(torch.equal(a.isnan(), b.isnan()) and b.isnan().all() for a, b in zip(call(x), model(x), strict=True))


def broadcast(y):
    return torch.broadcast_tensors(torch.ones(3, 2), y)[1]


# Views that torch's functionalisation does not know, or undoes by additions. y is 1e10, and a write through one tensor must show in the other.
HIDDEN = {
    "expand": lambda y: y.expand(3, 2), "expand_as": lambda y: y.expand_as(y), "broadcast_to": lambda y: torch.broadcast_to(y, (1, 3, 2)), "broadcast_tensors": broadcast,
    "dropout": lambda y: torch.dropout(y, 0.5, False), "dropout of dropout": lambda y: torch.dropout(torch.dropout(y, 0.0, True), 0.5, False),
    "type_as": lambda y: y.type_as(y), "einsum": lambda y: torch.einsum("ij->ij", y), "einsum that transposes": lambda y: torch.einsum("ij->ji", y), "view of dropout": lambda y: torch.dropout(y, 0.5, False)[1:],
}  # fmt: skip


@pytest.mark.parametrize("way", ["compile", "dynamic", "torch.compile", "program of a file"])
@pytest.mark.parametrize("through", ["view", "base", "input"])
@pytest.mark.parametrize("view", HIDDEN)
@pytest.mark.one_in(10)
def test_writes_that_hidden_views_see(view, through, way, tmp_path):
    def forward(self, x):
        y = x if through == "input" else x.ceil()
        v = HIDDEN[view](y)
        if through == "base":
            y.mul_(1e-12)
        else:
            v.mul_(1e-12)
            v[..., 0].fill_(3)
        return y * 1, v * 1, v

    x, eagers = torch.full((3, 2), 1e10), torch.full((3, 2), 1e10)
    model = type("Model", (torch.nn.Module,), {"forward": forward})().eval()
    torch._dynamo.reset()
    if way == "program of a file":
        torch.export.save(torch.export.export(model, (x.clone(),)), tmp_path / "program.pt2")
        call = ingot.compile(torch.export.load(tmp_path / "program.pt2"))
    elif way == "torch.compile":
        call = torch.compile(model, backend="ingot")
    else:
        fixed = view in ("expand", "broadcast_to", "broadcast_tensors")  # to 3 rows
        call = ingot.compile(model, inputs=[ingot.Input(min_shape=(3, 2), opt_shape=(3, 2), max_shape=(5, 2)) if way == "dynamic" and not fixed else x.clone()])
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(call(x), model(eagers), strict=True)) and torch.equal(x, eagers)


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_a_view_of_a_constant_beside_a_write_stays_in_the_engine(way):
    """Position embeddings as LTX-2's: the whole model stayed in torch."""

    def forward(x):
        scale = torch.tensor((2, 3))
        y = x * scale.view(1, -1)
        y[:, 0] = y[:, 0].clamp(min=0)
        return y * scale

    x = torch.randn(3, 2)
    model, call = compiled(forward, x, way=way)
    with torch.no_grad():
        assert torch.equal(call(x), model(x))
    if way == "compile":
        assert call.report.whole, call.report


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_an_einsum_that_permutes_a_written_tensor_stays_in_the_engine(way):
    """As patches of an image that was copied into zeros (Cosmos 3): the whole model stayed in torch."""

    def forward(x):
        padded = x.new_zeros(2, 4, 4)
        padded[:, :3, :4] = x
        return torch.einsum("chpwq->hwpqc", padded.reshape(2, 2, 2, 2, 2)).reshape(4, 8) * 2

    x = torch.randn(2, 3, 4)
    model, call = compiled(forward, x, way=way)
    with torch.no_grad():
        assert torch.equal(call(x), model(x))
    if way == "compile":
        assert call.report.whole, call.report


@pytest.mark.parametrize("write", [lambda x: x.view(-1)[1:].expand(5).zero_(), lambda x: x.unbind(0)[1].add_(1), lambda x: torch.dropout(x, 0.5, False).add_(1)])
def test_an_input_by_the_name_of_a_function_of_python(write):
    """torch renames such an argument when it copies a graph."""

    class Model(torch.nn.Module):
        def forward(self, input):
            y = input * 2
            write(y)
            return y * 1

    x = torch.arange(6.0).view(2, 3)
    assert torch.equal(ingot.compile(Model(), inputs=[x])(x), Model()(x))
    layers = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.ReLU()).eval()
    assert torch.equal(ingot.compile(layers, inputs=[x])(x), layers(x))


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_result_and_a_view_of_it_that_was_written(way):
    """torch's functional graph has another stride for an axis of size 1, which does not matter."""

    def forward(x):
        pooled = aten.max_pool3d(x, [1, 2, 2])
        return pooled.movedim(4, -3).neg_(), pooled

    x = torch.arange(16.0).view(1, 2, 2, 2, 2)
    model, call = compiled(forward, x, way=way)
    with torch.no_grad():
        (view, result), expected = call(x), model(x)
    assert torch.equal(result, expected[1]) and torch.equal(view, expected[0])
    assert memory(view) == memory(result)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.one_in(2)
def test_batch_norm_of_half_precision_beside_a_write(dtype, training):
    """torch's graph records wrong types for the running statistics of a step."""

    def forward(x, mean, variance, weight):
        y = torch.nn.functional.batch_norm(x, mean, variance, weight, training=training, momentum=0.5)
        return y, mean * 2, weight.pow_(2)

    def given():
        return torch.arange(8.0).view(2, 2, 2).to(dtype), torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype), torch.full([2], 0.5, dtype=dtype)

    model, call = compiled(forward, *given(), min_block_size=1)
    mine, theirs, exact = given(), given(), [t.double() for t in given()]
    for result, eager, wide in zip((*call(*mine), *mine), (*model(*theirs), *theirs), (*model(*exact), *exact), strict=True):
        assert result.dtype is eager.dtype
        assert_accurate(result, eager, wide, depth=4)


def test_what_reads_a_type_that_torch_records_wrongly():
    def forward(x, mean, variance):
        made = aten._native_batch_norm_legit_functional(x, None, None, mean, variance, True, 1.0, 1.0)
        return made[3] + 1, made[4].view(1, 2)[0] * 2

    x = torch.arange(8.0).view(2, 2, 2).bfloat16()
    model, call = compiled(forward, x, x[0, 0], x[0, 1], min_block_size=1)
    for result, eager in zip(call(x, x[0, 0], x[0, 1]), model(x, x[0, 0], x[0, 1]), strict=True):
        assert result.dtype is eager.dtype is torch.bfloat16
        assert_accurate(result, eager, eager.double(), depth=4)


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
def test_write_through_views_of_an_empty_tensor(way):
    """torch's functional graph lost the operator that computes it."""
    model, call = compiled(lambda x: aten.tril_(aten.expand(x, [2, -1])), torch.ones(0, dtype=torch.int32), way=way)
    with torch.no_grad():
        assert call(torch.ones(0, dtype=torch.int32)).shape == (2, 0)


def test_functional_graph_for_one_size_alone():
    """torch takes a diagonal of length 1 in the example for a constant: its program refuses other lengths with an error when it runs."""

    def forward(x):
        return torch.diagonal(x, -1, 0, 2).add_(1)

    square = ingot.Input(min_shape=(1, 1, 1), opt_shape=(2, 2, 3), max_shape=(64, 64, 64), shared_dims={0: "m", 1: "m", 2: "n"})
    model, call = compiled(forward, square)
    for n in (2, 5):
        mine, theirs = torch.ones(2, 2, n), torch.ones(2, 2, n)
        assert torch.equal(call(mine), model(theirs)) and torch.equal(mine, theirs)


def test_constants_and_buffers_of_a_program_that_writes():
    """torch's functional graph takes a constant beside a write for a buffer, and puts it elsewhere among its inputs."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cube, self.place = torch.ones(1, 1, 1), torch.tensor([1])

        def forward(self, x):
            return self.cube * 2, x.index_fill_(0, self.place, 3.0)

    call = ingot.compile(Model(), inputs=[torch.ones(2)])
    assert call.report.whole
    assert call(torch.ones(2))[1].tolist() == [1.0, 3.0]


def test_detached_buffer_in_a_saved_program(tmp_path):
    """The buffers of a loaded program may be views, which torch cannot detach in place."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.ones(1))

        def forward(self, x):
            return self.b.detach_(), torch.linalg.inv(x)

    call = ingot.compile(Model(), inputs=[torch.eye(2)])
    ingot.save(call, tmp_path / "model.pt2", format="exported_program")
    assert torch.equal(ingot.load(tmp_path / "model.pt2", trust="code")(torch.eye(2))[1], torch.eye(2))


@pytest.mark.parametrize("name", ["mT", "mH", "adjoint"])
def test_transpose_of_a_number(name):
    model, call = compiled(lambda x: getattr(aten, name)(x) + 1, torch.tensor(1.0), fallback="error")
    assert call(torch.tensor(1.0)) == 2


@pytest.mark.parametrize("value", [1.0, -2.0, torch.inf, -torch.inf, torch.nan])
def test_softmax_of_a_number(value):
    x = torch.tensor(value)
    model, call = compiled(lambda x: (x.softmax(-1), x.log_softmax(0), aten._safe_softmax(x, 0)), x)
    assert all(torch.equal(a.nan_to_num(7), b.nan_to_num(7)) for a, b in zip(call(x), model(x), strict=True))


@pytest.mark.parametrize("norm", [lambda x: aten.linalg_vector_norm(x, 2, [-1, 0]), lambda x: aten.norm.ScalarOpt_dim(x, 2, [-1, 0])])
def test_norm_whose_rank_torch_records_wrongly(norm):
    """torch 2.11 records a wrong rank for a norm. Its readers in an engine are recorded with the rank that torch's kernel returns."""
    x = torch.full([1, 1], 3.0)
    model = type("Model", (torch.nn.Module,), {"forward": lambda self, x: (norm(x) + 1) * 2})()
    program = torch.export.export(model, (x,))
    with next(n for n in program.graph.nodes if n.op == "call_function").meta["val"].fake_mode:
        for n in program.graph.nodes:
            if n.op == "call_function":
                n.meta["val"] = torch.empty(1)
    call = ingot.compile(program, min_block_size=1, torch_executed_ops=[next(str(n.target) for n in program.graph.nodes if "norm" in str(n.target))])
    assert len(call.report.segments) == 1 and torch.equal(call(x), model(x))


def test_reshape_beside_a_write_takes_inputs_that_lie_otherwise():
    x, y = torch.ones(2, 3), torch.ones(2)
    model, call = compiled(lambda x, y: (y.add_(1), x.reshape(-1))[1], x, y)
    turned = torch.arange(6.0).view(3, 2).t()
    assert torch.equal(call(turned, y), model(turned, y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_whole_quotients_are_of_the_rounded_quotient(dtype, mode):
    x = torch.tensor([1.0, -1.0, 0.3, 0.7, 2.9, -0.6, 6.0, 1e4]).to(dtype)
    model, call = compiled(lambda x: (torch.div(x, 0.1, rounding_mode=mode), torch.div(x, x.flip(0), rounding_mode=mode)), x)
    assert all(torch.equal(a, b) for a, b in zip(call(x), model(x), strict=True))


@pytest.mark.parametrize("columns", [10, 300])
def test_probabilities_below_the_least_normal_number_are_not_zero(columns):
    x = torch.tensor([0.0, -80, -87, -87.4, -88, -95, -100, -102, -106, -200]).repeat(3, columns // 10)
    model, call = compiled(lambda x: (torch.softmax(x, -1), torch.softmax(x, -1).log()), x)
    mine, eager = call(x), model(x)
    assert torch.equal(mine[0] > 0, eager[0] > 0)
    seen = eager[0] > 2.0**-140  # below it, a rounding of the probability changes its logarithm a lot
    for y, e, exact in zip(mine, eager, model(x.double()), strict=True):
        assert_accurate(y[seen], e[seen], exact[seen])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [8, 64])
def test_a_zero_alpha_ignores_the_product(dtype, n):
    a, b, v = torch.ones(n, n, dtype=dtype), torch.full((n, n), 2, dtype=dtype), torch.ones(n, dtype=dtype)
    a[0, 0] = torch.inf
    with_zero = lambda a, b, v: (
        *(torch.addmm(b, a, b, alpha=0, beta=beta) for beta in (0, 1, 3)), torch.baddbmm(b[None], a[None], b[None], alpha=0),
        torch.addbmm(v, a[None], b[None], alpha=0), torch.addmv(v, a, v, alpha=0), torch.addr(v, v, v, alpha=0),
    )  # fmt: skip
    model, call = compiled(with_zero, a, b, v)
    assert all(torch.equal(mine, eager) for mine, eager in zip(call(a, b, v), model(a, b, v), strict=True))


def test_softshrink_gives_positive_zeros():
    x = torch.tensor([-0.25, 0.25, -0.5, 2, -2, torch.nan, torch.inf, -torch.inf]).repeat(4)
    model, call = compiled(lambda x: (1 / torch.nn.functional.softshrink(x), torch.nn.functional.softshrink(x, 0.0)), x)
    assert all(torch.equal(mine.nan_to_num(7), eager.nan_to_num(7)) for mine, eager in zip(call(x), model(x), strict=True))


def test_statistics_of_a_half_layer_norm_with_wider_weights():
    x, wide = torch.randn(3, 4).bfloat16(), torch.ones(4)
    for weight, bias in [(None, None), (wide, None), (None, wide), (wide.bfloat16(), wide.bfloat16())]:
        model, call = compiled(lambda x, weight=weight, bias=bias: torch.native_layer_norm(x, [4], weight, bias, 1e-5), x)
        assert [t.dtype for t in call(x)] == [t.dtype for t in model(x)]


def test_scatter_into_a_number_takes_more_values_than_it_needs():
    x, index, source = torch.tensor(1.0), torch.tensor(0), torch.tensor([5.0, 6, 7])
    n = torch.export.Dim("n", min=1, max=8)
    model, call = compiled(lambda x, i, s: (x.scatter(0, i, s), x.scatter_add(0, i, s)), x, index, source, dynamic_shapes={"given": ({}, {}, {0: n})})
    for given in (source, source[:1], torch.arange(8.0)):
        assert all(torch.equal(mine, eager) for mine, eager in zip(call(x, index, given), model(x, index, given), strict=True))


def test_a_power_of_bools_is_bool():
    x = torch.tensor([True, False])
    model, call = compiled(lambda x: (torch.pow(x, False).any(), torch.pow(x, True), torch.pow(x, 2)), x)
    assert all(torch.equal(mine, eager) and mine.dtype == eager.dtype for mine, eager in zip(call(x), model(x), strict=True))


def test_views_of_what_a_mask_selects():
    x, mask = torch.randn(2, 2, 3), torch.tensor([[True, False], [True, True]])
    model, call = compiled(lambda x, mask: (x[mask].unbind(1)[0], x[mask].unfold(1, 2, 1)), x, mask)
    assert all(torch.equal(mine, eager) for mine, eager in zip(call(x, mask), model(x, mask), strict=True))


def turned(x):
    row = x[0]
    x.t_()
    x.add_(1)
    return row, x[0]


def turned_and_scaled(x):
    x.transpose_(0, 1).mul_(torch.arange(3.0))
    return x.view_as(x), x.flatten()


def squeezed_scalar(x):
    x = x[0, 0]
    x.squeeze_()
    x.add_(1)
    return x.permute(()), x.view(1)


@pytest.mark.parametrize("view", [False, True], ids=["own", "view"])
@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("program", [turned, turned_and_scaled, squeezed_scalar], ids=lambda p: p.__name__)
@pytest.mark.one_in(2)
def test_axes_changed_in_place(program, way, view):
    """Also for an example that is a view: the inputs of calls need not be views."""
    def given():
        return torch.arange(9.0).view(3, 3) if view else torch.arange(9.0).view(3, 3).clone()

    model, call = compiled(program, given(), way=way)
    mine, theirs = given(), given()
    whole, whole_theirs = mine.view(-1), theirs.view(-1)
    with torch.no_grad():
        results, expected = call(mine), model(theirs)
    assert torch.equal(whole, whole_theirs) and mine.stride() == theirs.stride()
    for result, eager in zip(results, expected, strict=True):
        assert torch.equal(result, eager) and result.stride() == eager.stride() and (memory(result) == memory(mine)) == (memory(eager) == memory(theirs))


ZEROS = torch.tensor([[-0.0, -0.0, 0.0, -0.0], [0.0, -0.0, -0.0, 0.0], [-0.0, -0.0, -0.0, -0.0], [1.0, -1.0, -0.0, -0.0]])
SIGNS = {
    "cumsum": lambda x: (x.cumsum(-1), x.cumsum(0)),
    "batch_norm": lambda x: (torch.nn.functional.batch_norm(x, x.new_zeros(4), x.new_ones(4)),),
    "max_pool": lambda x: (torch.nn.functional.max_pool1d(x[None], 2, 1), torch.nn.functional.max_pool2d(x[None, None], 2, 1)),
    "max_pool of windows": lambda x: tuple(
        torch.nn.functional.max_pool2d(x.repeat(3, 3).expand(1, 20, 12, 12).contiguous(memory_format=order), size, 2, size // 2) for size in (2, 3, 5) for order in (torch.contiguous_format, torch.channels_last)
    ),
    "softshrink": lambda x: (torch.nn.functional.softshrink(x), torch.nn.functional.softshrink(x * 0.3)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SIGNS)
def test_signs_of_zeros(name, dtype):
    x = ZEROS.to(dtype)
    model, call = compiled(SIGNS[name], x)
    for result, eager in zip(call(x), model(x), strict=True):
        assert torch.equal(1 / result, 1 / eager)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_logsumexp_of_attention_of_halves(dtype):
    q, k, v = (torch.randn(1, 2, 16, 8, generator=torch.Generator().manual_seed(n)).to(dtype) for n in range(3))
    model, call = compiled(lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[1], q, k, v)
    exact = (q.double() @ k.double().transpose(-2, -1) / 8**0.5).logsumexp(-1)
    result, eager = call(q, k, v), model(q, k, v)
    assert result.dtype == eager.dtype == torch.float32
    assert_accurate(result, eager, exact, depth=8)


def test_lift_gives_its_operand():
    for way in ("compile", "torch.compile"):
        model, call = compiled(lambda x: (aten.lift(x), x + 1), torch.ones(2), way=way)
        x = torch.ones(2)
        assert memory(call(x)[0]) == memory(x)


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0), (3, 2)])
def test_what_is_behind_a_reduction_of_nothing_is_read(shape):
    x, y = torch.ones(shape), torch.tensor([[4.0, 5.0]])
    first = lambda x: x.isinf() & (torch.arange(x.shape[1]) < 1)
    model, call = compiled(lambda x, y: (torch.where(aten.any.dims(first(x), [0, 1], True), 7.0, y[:, 1:]), torch.where(first(x).any(), 7.0, y)), x, y)
    assert all(torch.equal(mine, eager) for mine, eager in zip(call(x, y), model(x, y), strict=True))


@pytest.mark.parametrize("weight", [1e30, 0.1])
def test_the_weight_of_a_lerp_is_not_rounded_to_halves(weight):
    x, y = torch.tensor([1.0, 2.0, 1.0, 1.0], dtype=torch.float16), torch.tensor([1.0, 2.0, 1.0, 2048.0], dtype=torch.float16)
    model, call = compiled(lambda x, y: torch.lerp(x, y, weight), x, y)
    assert torch.equal(call(x, y), model(x, y))
