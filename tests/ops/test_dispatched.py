"""Forms of operators that torch's dispatcher chooses by device and library: cuDNN's, MIOpen's, oneDNN's. Eager has kernels of few of them on a CPU, so each is compared with the operator that it stands for,
and its code is made for a GPU. Of several results those are compared that inference reads."""

from __future__ import annotations

import operator

import pytest
import torch
from accuracy import assert_accurate
from capture_sample import run
from ingot.capture.functional import Functional, Slot
from ingot.capture.writer import write
from ingot.engine import _engine, _library
from ingot.errors import DeviceError

aten, F = torch.ops.aten, torch.nn.functional
POINTS = {"padding": [1, 0], "stride": [1, 2], "dilation": [2, 1], "groups": 2}


def normed(x, weight, bias, mean, variance):
    return F.batch_norm(x, mean, variance, weight, bias, False, 0.1, 1e-3)


def convolved(x, w, b=None, **more):
    return F.conv2d(x, w, b, **(POINTS | more))


def transposed(x, w, b=None):
    return F.conv_transpose2d(x, w, b, [1, 2], [1, 0], [0, 1], 2, [2, 1])


def lstm_cell(x, h, c, b):
    enters, stays, new, leaves = (x + h + b).chunk(4, 1)
    c = stays.sigmoid() * c + enters.sigmoid() * new.tanh()
    return leaves.sigmoid() * c.tanh(), c


def gru_cell(x, h, before, b):
    h = h + b
    reset, update = (x[:, :6] + h[:, :6]).sigmoid().chunk(2, 1)
    new = (x[:, 6:] + reset * h[:, 6:]).tanh()
    return new + update * (before - new)


NORM = [(2, 4, 3, 5), (4,), (4,), (4,), (4,)]
CONV, TRANSPOSED = [(2, 4, 7, 6), (6, 2, 3, 2)], [(2, 4, 7, 6), (4, 3, 3, 2)]
HEADS = [(1, 2, 5, 8)] * 3


def lstm(layers, both, batch_first):
    """The shapes of an LSTM's input, states and weights."""
    sides = 2 if both else 1
    weights = [s for layer in range(layers) for _ in range(sides) for s in ((12, 5 if layer == 0 else 3 * sides), (12, 3), (12,), (12,))]
    return [(2, 4, 5) if batch_first else (4, 2, 5), (layers * sides, 2, 3), (layers * sides, 2, 3), *weights]


def cudnn_lstm(layers, both, batch_first):
    def dispatched(x, h, c, *w):
        return aten._cudnn_rnn.default, (x, w, 4, None, h, c, 2, 3, 0, layers, batch_first, 0.0, False, both, [], None)

    return dispatched, lambda x, h, c, *w: torch.lstm(x, (h, c), w, True, layers, 0.0, False, both, batch_first), lstm(layers, both, batch_first)


def cudnn_layer(mode, function, gates):
    shapes = [(4, 2, 5), (1, 2, 3), (3 * gates, 5), (3 * gates, 3)]
    return (
        lambda x, h, *w: (aten._cudnn_rnn.default, (x, w, 2, None, h, None, mode, 3, 0, 1, False, 0.0, False, False, [], None)),
        lambda x, h, *w: function(x, h, w, False, 1, 0.0, False, False, False),
        shapes,
    )


def onednn_lstm(backward):
    def dispatched(x, h, c, *w):
        return aten.mkldnn_rnn_layer.default, (x, *w, h, c, backward, [], 2, 3, 1, True, False, False, False)

    def stands_for(x, h, c, *w):
        y, h, c = torch.lstm(x.flip(0) if backward else x, (h, c), w, True, 1, 0.0, False, False, False)
        return y.flip(0) if backward else y, h, c

    return dispatched, stands_for, lstm(1, False, False)


# name: (the overload and its arguments, the results that it has, the operands' shapes)
CASES = {
    "cudnn_batch_norm": (lambda *t: (aten.cudnn_batch_norm.default, (*t, False, 0.1, 1e-3)), normed, NORM),
    "miopen_batch_norm": (lambda *t: (aten.miopen_batch_norm.default, (*t, False, 0.1, 1e-3)), normed, NORM),
    "_batch_norm_no_update": (lambda *t: (aten._batch_norm_no_update.default, (*t, 0.1, 1e-3)), normed, NORM),
    "cudnn_convolution": (lambda x, w: (aten.cudnn_convolution.default, (x, w, *POINTS.values(), False, False, True)), convolved, CONV),
    "miopen_convolution": (lambda x, w, b: (aten.miopen_convolution.default, (x, w, b, *POINTS.values(), False, False)), convolved, [*CONV, (6,)]),
    "miopen_depthwise_convolution": (
        lambda x, w: (aten.miopen_depthwise_convolution.default, (x, w, None, [1, 0], [1, 2], [2, 1], 4, False, False)),
        lambda x, w: convolved(x, w, groups=4),
        [(2, 4, 7, 6), (4, 1, 3, 2)],
    ),
    "mkldnn_convolution": (lambda x, w, b: (aten.mkldnn_convolution.default, (x, w, b, *POINTS.values())), convolved, [*CONV, (6,)]),
    "_convolution": (lambda x, w, b: (aten._convolution.default, (x, w, b, [1, 2], [1, 0], [2, 1], False, [0, 0], 2, False, False, True, True)), convolved, [*CONV, (6,)]),
    "_convolution, deprecated": (lambda x, w, b: (aten._convolution.deprecated, (x, w, b, [1, 2], [1, 0], [2, 1], False, [0, 0], 2, False, False, True)), convolved, [*CONV, (6,)]),
    "convolution_overrideable": (lambda x, w, b: (aten.convolution_overrideable.default, (x, w, b, [1, 2], [1, 0], [2, 1], True, [0, 1], 2)), transposed, [*TRANSPOSED, (6,)]),
    "cudnn_convolution_transpose": (lambda x, w: (aten.cudnn_convolution_transpose.default, (x, w, [1, 0], [0, 1], [1, 2], [2, 1], 2, False, False, True)), transposed, TRANSPOSED),
    "miopen_convolution_transpose": (lambda x, w, b: (aten.miopen_convolution_transpose.default, (x, w, b, [1, 0], [0, 1], [1, 2], [2, 1], 2, False, False)), transposed, [*TRANSPOSED, (6,)]),
    "cudnn_convolution_relu": (lambda x, w, b: (aten.cudnn_convolution_relu.default, (x, w, b, [1, 2], [1, 0], [2, 1], 2)), lambda *t: convolved(*t).relu(), [*CONV, (6,)]),
    "cudnn_convolution_add_relu": (
        lambda x, w, z, b: (aten.cudnn_convolution_add_relu.default, (x, w, z, 0.5, b, [1, 2], [1, 0], [2, 1], 2)),
        lambda x, w, z, b: (convolved(x, w, b) + 0.5 * z).relu(),
        [*CONV, (2, 6, 5, 3), (6,)],
    ),
    "_addmm_activation": (lambda *t: (aten._addmm_activation.default, t), lambda *t: torch.addmm(*t).relu(), [(4,), (3, 5), (5, 4)]),
    "_thnn_fused_lstm_cell": (lambda x, h, c, b: (aten._thnn_fused_lstm_cell.default, (x, h, c, b, None)), lstm_cell, [(2, 12), (2, 12), (2, 3), (12,)]),
    "_thnn_fused_gru_cell": (lambda x, h, s, b: (aten._thnn_fused_gru_cell.default, (x, h, s, None, b)), gru_cell, [(2, 9), (2, 9), (2, 3), (9,)]),
    "cudnn_grid_sampler": (lambda x, grid: (aten.cudnn_grid_sampler.default, (x, grid)), lambda x, grid: F.grid_sample(x, grid, align_corners=True), [(2, 3, 5, 4), (2, 3, 3, 2)]),
    "cudnn_affine_grid_generator": (lambda t: (aten.cudnn_affine_grid_generator.default, (t, 2, 3, 4, 5)), lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=True), [(2, 2, 3)]),
    "_scaled_dot_product_fused_attention_overrideable": (
        lambda q, k, v, m: (aten._scaled_dot_product_fused_attention_overrideable.default, (q, k, v, m)),
        F.scaled_dot_product_attention,
        [*HEADS, (5, 5)],
    ),
    "_cudnn_rnn, LSTM": cudnn_lstm(1, False, False),
    "_cudnn_rnn, both directions": cudnn_lstm(2, True, True),
    "_cudnn_rnn, GRU": cudnn_layer(3, torch.gru, 3),
    "_cudnn_rnn, tanh": cudnn_layer(1, torch.rnn_tanh, 1),
    "_cudnn_rnn, relu": cudnn_layer(0, torch.rnn_relu, 1),
    "miopen_rnn": (
        lambda x, h, c, *w: (aten.miopen_rnn.default, (x, w, 4, h, c, 2, 3, 1, False, 0.0, False, False, [], None)),
        lambda x, h, c, *w: torch.lstm(x, (h, c), w, True, 1, 0.0, False, False, False),
        lstm(1, False, False),
    ),
    "mkldnn_rnn_layer": onednn_lstm(False),
    "mkldnn_rnn_layer, backward": onednn_lstm(True),
}


def model_of(call, arguments, tensors, results) -> _library.Model:
    """A graph of one call. Results that nothing reads are recorded as what torch records there: something else."""
    graph, slots = torch.fx.Graph(), []
    for number, t in enumerate(tensors):
        node = graph.placeholder(f"x{number}")
        node.meta["val"] = t
        slots.append(Slot(node, "input", node.name))
    places = {id(t): slot.node for t, slot in zip(tensors, slots)}
    swap = lambda a: places[id(a)] if isinstance(a, torch.Tensor) else type(a)(map(swap, a)) if isinstance(a, (list, tuple)) else a
    node = graph.call_function(call, tuple(map(swap, arguments)))
    unread = [torch.empty(0) if str(r.type) == "Tensor" else 1 for r in call._schema.returns[len(results) :]]
    count = len(results) + len(unread)
    node.meta["val"] = results[0] if count == 1 else (*results, *unread)
    outputs = [node] if count == 1 else [graph.call_function(operator.getitem, (node, i)) for i in range(len(results))]
    for output, value in zip(outputs, results):
        output.meta["val"] = value
    graph.output(tuple(outputs))
    captured = write(Functional(torch.fx.GraphModule(torch.nn.Module(), graph), slots, outputs, []).complete())
    return _library.Model.from_json(captured.json, captured.weights)


def listed(results) -> list[torch.Tensor]:
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.one_in(4)
def test_stands_for_eager(name, dtype):
    dispatched, stands_for, shapes = CASES[name]
    torch.manual_seed(0)
    tensors = [torch.rand(shape).sub(0.0 if "norm" in name else 0.5).to(dtype) for shape in shapes]
    with torch.no_grad():
        eager, exact = listed(stands_for(*tensors)), listed(stands_for(*(t.double() for t in tensors)))
    model = model_of(*dispatched(*tensors), tensors, eager)
    engine = _engine.Engine(model.compile({"fallback": "error", "target": "cpu"}))
    for backend in ("reference", "cpu"):
        for y, e, x in zip(run(engine, tensors, backend), eager, exact, strict=True):
            assert_accurate(y, e, x, depth=64)
    try:
        model.compile({"fallback": "error", "target": "cuda:sm_90"})
    except DeviceError as error:
        assert "NVRTC" in str(error)


def test_batch_norm_of_half_values_by_float32_statistics():
    """As autocast calls it."""
    x, rest = torch.randn(2, 4, 3, 5).half(), [torch.rand(4) for _ in range(4)]
    exact = normed(x.double(), *(t.double() for t in rest))
    model = model_of(aten.cudnn_batch_norm.default, (x, *rest, False, 0.1, 1e-3), [x, *rest], [exact.half()])
    y = run(_engine.Engine(model.compile({"fallback": "error", "target": "cpu"})), [x, *rest], "cpu")[0]
    assert_accurate(y, exact.half(), exact)


def test_batch_norm_of_a_batch_is_refused():
    """In training mode it would write its running statistics, which its schema does not say."""
    tensors = [torch.rand(shape) for shape in NORM]
    nodes = model_of(aten.cudnn_batch_norm.default, (*tensors, True, 0.1, 1e-3), tensors, [tensors[0]]).explain({})["nodes"]
    assert "model.eval()" in next(n["reason"] for n in nodes if n["segment"] is None)
