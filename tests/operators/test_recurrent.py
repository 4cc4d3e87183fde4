"""Recurrent layers against eager, in one engine."""

import copy
import functools
import sys
from pathlib import Path

import fresh
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from accuracy import assert_accurate

import ingot
from ingot.capture.switches import recurrent_casts, recurrent_layers

LAYERS = {
    "lstm": (torch.nn.LSTM, {}),
    "gru": (torch.nn.GRU, {}),
    "tanh": (torch.nn.RNN, {}),
    "relu": (torch.nn.RNN, {"nonlinearity": "relu"}),
    "projected": (torch.nn.LSTM, {"proj_size": 6}),
}
FORMS = {
    "plain": {},
    "no biases": {"bias": False},
    "three layers": {"num_layers": 3, "dropout": 0.1},
    "both directions": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True, "bidirectional": True},
}


def leaves(results):
    return torch.utils._pytree.tree_leaves(results)


def compared(layer, inputs, module=None, **options):
    compiled = ingot.compile(layer, inputs=module or list(inputs), min_block_size=1, **options)
    assert compiled.report.whole, compiled.report.summary()
    wide = copy.deepcopy(layer).double()
    exact = wide(*torch.utils._pytree.tree_map(lambda t: t.double(), inputs))
    with torch.no_grad():
        for made, eager, want in zip(leaves(compiled(*inputs)), leaves(layer(*inputs)), leaves(exact), strict=True):
            assert_accurate(made, eager, want, depth=16 * 7)
    return compiled


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.one_in(6)
def test_layers(kind, form):
    torch.manual_seed(0)
    make, options = LAYERS[kind]
    layer = make(12, 16, **options, **FORMS[form]).eval()
    x = torch.randn(5, 7, 12) if form == "batch first" else torch.randn(7, 5, 12)
    compared(layer, (x,))


CELLS = {"lstm": (torch.nn.LSTMCell, {}), "gru": (torch.nn.GRUCell, {}), "tanh": (torch.nn.RNNCell, {}), "relu": (torch.nn.RNNCell, {"nonlinearity": "relu"})}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.one_in(3)
def test_cells(kind, bias):
    """One step, with a state of the caller's or none; an open batch."""
    torch.manual_seed(0)
    make, options = CELLS[kind]
    cell = make(12, 16, bias=bias, **options).eval()
    x, h = torch.randn(5, 12), torch.randn(5, 16)
    compared(cell, (x,))
    compared(cell, (x, (h, torch.randn(5, 16)) if kind == "lstm" else h))
    b = ingot.Input(min_shape=(1, 12), opt_shape=(5, 12), max_shape=(9, 12))
    compared(cell, (x,), module=[b])


@pytest.mark.parametrize("kind", LAYERS)
def test_a_first_state(kind):
    torch.manual_seed(1)
    make, options = LAYERS[kind]
    layer = make(12, 16, num_layers=2, **options).eval()
    state = torch.randn(2, 3, options.get("proj_size", 16))
    compared(layer, (torch.randn(4, 3, 12), (state, torch.randn(2, 3, 16)) if make is torch.nn.LSTM else state))


def test_an_open_batch():
    torch.manual_seed(2)
    layer = torch.nn.LSTM(12, 16, batch_first=True, bidirectional=True).eval()
    compiled = compared(layer, (torch.randn(3, 7, 12),), [ingot.Input(min_shape=(2, 7, 12), opt_shape=(3, 7, 12), max_shape=(9, 7, 12))])
    x = torch.randn(9, 7, 12)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x)[0], layer(x)[0])


STEPS = (7, 1, 2, 64, 5)


def sequence(steps, batch, batch_first):
    return torch.randn(*((batch, steps) if batch_first else (steps, batch)), 12)


def open_sequence(batch_first):
    """An Input with an open number of steps and an open batch."""
    least, usual, most = ((b, t, 12) if batch_first else (t, b, 12) for t, b in ((1, 1), (7, 5), (64, 9)))
    return ingot.Input(min_shape=least, opt_shape=usual, max_shape=most, shared_dims={0 if batch_first else 1: "batch"})


def compared_at_all_steps(compiled, layer, batch_first, state=lambda batch: ()):
    wide = copy.deepcopy(layer).double()
    for steps in STEPS:
        for batch in (5, 1, 2):
            inputs = (sequence(steps, batch, batch_first), *state(batch))
            with torch.no_grad():
                exact = wide(*torch.utils._pytree.tree_map(lambda t: t.double(), inputs))
                for made, eager, want in zip(leaves(compiled(*inputs)), leaves(layer(*inputs)), leaves(exact), strict=True):
                    assert made.stride() == eager.stride()
                    assert_accurate(made, eager, want, depth=16 * max(steps, 7))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.one_in(9)
def test_an_open_number_of_steps(kind, form):
    torch.manual_seed(6)
    make, options = LAYERS[kind]
    layer, batch_first = make(12, 16, **options, **FORMS[form]).eval(), form == "batch first"
    compiled = ingot.compile(layer, inputs=[open_sequence(batch_first)], fallback="error")
    compared_at_all_steps(compiled, layer, batch_first)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.one_in(3)
def test_an_open_number_of_steps_under_torch_compile(kind):
    """One graph for all lengths but 1, of which torch makes another."""
    torch.manual_seed(7)
    make, options = LAYERS[kind]
    layer = make(12, 16, num_layers=2, bidirectional=True, **options).eval()
    calls = [(sequence(steps, 5, False),) for steps in STEPS]
    assert in_torch_of(layer, *calls, dynamic=True) == [0, 0]
    compared_at_all_steps(torch.compile(layer, backend="ingot", dynamic=True), layer, False)
    torch._dynamo.reset()


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.one_in(3)
def test_an_open_number_of_steps_with_a_first_state(kind):
    torch.manual_seed(8)
    make, options = LAYERS[kind]
    layer = make(12, 16, **options).eval()

    def parts(batch):
        return [(1, batch, options.get("proj_size", 16)), (1, batch, 16)][: 2 if make is torch.nn.LSTM else 1]

    inputs = [ingot.Input(min_shape=least, opt_shape=usual, max_shape=most, shared_dims={1: "batch"}) for least, usual, most in zip(*(parts(b) for b in (1, 5, 9)))]
    state = tuple(inputs) if make is torch.nn.LSTM else inputs[0]
    compiled = ingot.compile(layer, inputs=[open_sequence(False), state], fallback="error")
    compared_at_all_steps(compiled, layer, False, lambda b: ((tuple(torch.randn(p) for p in parts(b)) if make is torch.nn.LSTM else torch.randn(parts(b)[0])),))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_an_open_number_of_steps_in_half_types(kind, dtype):
    torch.manual_seed(9)
    layer = LAYERS[kind][0](12, 16, bidirectional=True).to(dtype).eval()
    wide = copy.deepcopy(layer).double()
    compiled = ingot.compile(layer, inputs=[ingot.Input(min_shape=(1, 3, 12), opt_shape=(7, 3, 12), max_shape=(64, 3, 12), dtype=dtype)], fallback="error")
    for steps in (1, 7, 20):
        x = torch.randn(steps, 3, 12, dtype=dtype)
        with torch.no_grad():
            for made, eager, want in zip(leaves(compiled(x)), leaves(layer(x)), leaves(wide(x.double())), strict=True):
                assert_accurate(made, eager, want, depth=16 * 7)


class InRegion(torch.nn.Module):
    """The layer in a region of autocast inside a model, behind a product of half precision or not."""

    def __init__(self, layer, dense):
        super().__init__()
        self.layer, self.dense = layer, torch.nn.Linear(12, 12) if dense else torch.nn.Identity()

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.layer(self.dense(x))


@pytest.mark.parametrize("way", ["ahead of time", "torch.compile", "region", "behind a product"])
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.one_in(4)
def test_an_open_number_of_steps_under_autocast(kind, way, tmp_path):
    """One loop for all lengths, with eager's types."""
    torch.manual_seed(11)
    torch._dynamo.reset()
    make, options = LAYERS[kind]
    layer = make(12, 16, num_layers=2, bidirectional=True, **options).eval()
    model = InRegion(layer, way == "behind a product") if way in ("region", "behind a product") else layer
    wide = copy.deepcopy(model).double()
    autocast = functools.partial(torch.autocast, "cpu", torch.bfloat16, enabled=model is layer)
    with torch.no_grad(), autocast():
        if way == "torch.compile":
            assert in_torch_of(model, *((sequence(steps, 5, False),) for steps in (7, 3, 20)), dynamic=True) == [0]
            runs = [torch.compile(model, backend="ingot", dynamic=True)]
        else:
            compiled = ingot.compile(model, inputs=[open_sequence(False)], fallback="error")
            assert any(f.get("regions") for f in compiled.engine.inspect()["functions"])
            ingot.save(compiled, tmp_path / "layer.ingot")
            runs = [compiled, ingot.load(tmp_path / "layer.ingot")]
        for steps, batch in ((7, 5), (3, 2), (20, 9)):
            x = sequence(steps, batch, False)
            eager = leaves(model(x))
            with torch.autocast("cpu", enabled=False):
                exact = leaves(wide.layer(wide.dense(x.double())) if model is not layer else wide(x.double()))
            for run in runs:
                for made, e, want in zip(leaves(run(x)), eager, exact, strict=True):
                    assert made.dtype == e.dtype
                    assert_accurate(made, e, want, depth=16 * max(steps, 7))


@pytest.mark.parametrize("kind", LAYERS)
def test_a_known_number_of_steps_under_autocast(kind):
    torch.manual_seed(12)
    make, options = LAYERS[kind]
    layer, x = make(12, 16, **options).eval(), torch.randn(7, 5, 12)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        compiled = ingot.compile(layer, inputs=[x], fallback="error")
        eager, made = leaves(layer(x)), leaves(compiled(x))
    assert [t.dtype for t in made] == [t.dtype for t in eager]
    for y, e, want in zip(made, eager, leaves(copy.deepcopy(layer).double()(x.double())), strict=True):
        assert_accurate(y, e, want, depth=16 * 7)


def test_models_of_open_length(tmp_path):
    """Layers between others, saved and loaded, and step by step."""
    torch.manual_seed(10)
    tagger, speech = Tagger().eval(), Speech().eval()
    words = ingot.Input(min_shape=(1, 1), opt_shape=(2, 7), max_shape=(4, 50), dtype="int64")
    sound = ingot.Input(min_shape=(2, 8, 3), opt_shape=(2, 8, 20), max_shape=(2, 8, 100))
    for number, (model, inputs, calls) in enumerate(
        (
            (tagger, [words], [(torch.randint(50, size),) for size in ((2, 7), (1, 1), (4, 50))]),
            (speech, [sound, torch.randn(1, 2, 6)], [(torch.randn(2, 8, size), torch.randn(1, 2, 6)) for size in (20, 3, 100)]),
        )
    ):
        compiled = ingot.compile(model, inputs=inputs, fallback="error")
        ingot.save(compiled, tmp_path / f"{number}.ingot")
        loaded = ingot.load(tmp_path / f"{number}.ingot")
        for given in calls:
            with torch.no_grad():
                for made, again, eager in zip(leaves(compiled(*given)), leaves(loaded(*given)), leaves(model(*given)), strict=True):
                    torch.testing.assert_close(made, eager)
                    assert torch.equal(made, again)
        steps = compiled.verify(*calls[0]).steps
        assert steps and not [s for s in steps if s["over"]]


def test_many_steps_are_a_loop():
    layer, x = torch.nn.GRU(12, 16).eval(), torch.randn(2100, 1, 12)
    compiled = compared(layer, (x,))
    assert any(f.get("regions") for f in compiled.engine.inspect()["functions"])
    assert not any(f.get("regions") for f in compared(layer, (x[:20],)).engine.inspect()["functions"])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_code_of_a_loop_for_a_gpu(dtype):
    layer = torch.nn.LSTM(16, 32, bidirectional=True).to(getattr(torch, dtype)).eval()
    ingot.compile(layer, inputs=[ingot.Input(min_shape=(1, 1, 16), opt_shape=(7, 4, 16), max_shape=(64, 8, 16), dtype=dtype)], target="cuda:sm_90", fallback="error")


def test_no_steps_are_refused():
    layer = torch.nn.GRU(12, 16).eval()
    compiled = ingot.compile(layer, inputs=[ingot.Input(min_shape=(0, 1, 12), opt_shape=(7, 1, 12), max_shape=(64, 1, 12))])
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        layer(torch.zeros(0, 1, 12))
    with pytest.raises(ingot.InputError, match="a recurrent layer has steps"):
        compiled(torch.zeros(0, 1, 12))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_half_types(kind, dtype):
    torch.manual_seed(3)
    compared(LAYERS[kind][0](12, 16).to(dtype).eval(), (torch.randn(7, 5, 12, dtype=dtype),))


def test_changed_weights():
    layer = torch.nn.RNN(12, 16).eval()
    x = torch.randn(7, 5, 12)
    with torch.no_grad():
        compiled = ingot.compile(layer, inputs=[x])
        compiled(x)
        layer.weight_hh_l0.mul_(0.5)
        torch.testing.assert_close(compiled(x)[0], layer(x)[0])


def in_torch_of(model, *calls, dynamic=False):
    """How many operators each graph leaves in torch that torch.compile makes for the calls."""
    found = []
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="ingot", dynamic=dynamic, options={"dryrun": lambda report: found.append(report.in_torch)})
    with torch.no_grad():
        for inputs in calls:
            compiled(*inputs)
    torch._dynamo.reset()
    return found


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.one_in(3)
def test_under_torch_compile(kind):
    torch.manual_seed(4)
    make, options = LAYERS[kind]
    layer, x = make(12, 16, **options).eval(), torch.randn(7, 5, 12)
    assert in_torch_of(layer, (x,), (x[:3],)) == [0, 0]
    with torch.no_grad():
        made = torch.compile(layer, backend="ingot", dynamic=False)(x)
        eager = layer(x)
    for y, e, want in zip(leaves(made), leaves(eager), leaves(copy.deepcopy(layer).double()(x.double())), strict=True):
        assert_accurate(y, e, want, depth=16 * 7)


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers, self.tags = torch.nn.Embedding(50, 8), torch.nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True), torch.nn.Linear(12, 4)

    def forward(self, words):
        return self.tags(self.layers(self.words(words))[0])


class Speech(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.frames, self.layer, self.letters = torch.nn.Conv1d(8, 8, 3, stride=2), torch.nn.GRU(8, 6, batch_first=True), torch.nn.Linear(6, 4)

    def forward(self, sound, state):
        y, state = self.layer(self.frames(sound).relu().transpose(1, 2), state)
        return self.letters(y).log_softmax(-1), state


MODELS = {"tagger": (Tagger, lambda: (torch.randint(50, (2, 7)),)), "speech": (Speech, lambda: (torch.randn(2, 8, 20), torch.randn(1, 2, 6)))}


@pytest.mark.parametrize("kind", MODELS)
def test_models_under_torch_compile_are_one_graph(kind):
    torch.manual_seed(5)
    make, example = MODELS[kind]
    model, inputs = make().eval(), example()
    assert in_torch_of(model, inputs) == [0]
    with torch.no_grad():
        for y, e in zip(leaves(torch.compile(model, backend="ingot", fullgraph=True)(*inputs)), leaves(model(*inputs)), strict=True):
            torch.testing.assert_close(y, e)


def test_wrapped_backends_get_graphs_of_layers_too():
    layer, x, graphs = torch.nn.GRU(12, 16).eval(), torch.randn(7, 5, 12), []

    @functools.wraps(ingot.ingot_backend)
    def wrapped(graph, examples):
        graphs.append(graph)
        return ingot.ingot_backend(graph, examples)

    for backend in (wrapped, functools.partial(wrapped)):
        torch._dynamo.reset()
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(layer, backend=backend)(x), layer(x))
    assert len(graphs) == 2


def test_other_backends_get_what_they_got():
    """One setting of Dynamo's is on while ingot gets a layer, and no longer."""
    layer, x, graphs = torch.nn.RNN(12, 16).eval(), torch.randn(7, 5, 12), []

    def other(graph, examples):
        graphs.append(graph)
        return graph

    kernels = [dict(op.py_kernels) for op in recurrent_casts.LAYERS]

    class Breaks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            y = self.layer(x)[0]
            raise ValueError("not this one")
            return y

    assert in_torch_of(layer, (x,)) == [0]
    with pytest.raises(ValueError, match="not this one"):
        torch.compile(Breaks(), backend="ingot")(x)
    torch._dynamo.reset()
    assert [dict(op.py_kernels) for op in recurrent_casts.LAYERS] == kernels and not recurrent_layers._traces
    with torch.no_grad():
        torch.compile(layer, backend=other)(x)
        assert not graphs and not torch._dynamo.config.allow_rnn
        torch._dynamo.reset()
        with torch._dynamo.config.patch(allow_rnn=True):
            torch.compile(layer, backend=other)(x)
    assert len(graphs) == 1
    torch._dynamo.reset()


def test_importing_ingot_changes_nothing_of_dynamo():
    code = (
        "import torch, ingot\n"
        "from torch._dynamo.variables.builder import VariableBuilder\n"
        "assert VariableBuilder.wrap_module.__module__ == 'torch._dynamo.variables.builder' and not hasattr(VariableBuilder.wrap_module, '__wrapped__')"
    )
    fresh.run(code, check=True)


def test_packed_sequences_run_as_before():
    """Their sizes are read from data, so Dynamo makes no graph of the layer."""
    layer = torch.nn.LSTM(12, 16, batch_first=True).eval()
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(3, 7, 12), torch.tensor([7, 4, 2]), batch_first=True)
    with torch.no_grad():
        made, expected = torch.compile(layer, backend="ingot")(packed), layer(packed)
    torch.testing.assert_close(made[0].data, expected[0].data)
    torch.testing.assert_close(made[1], expected[1])


@pytest.mark.parametrize("cell", [torch.nn.LSTM, torch.nn.GRU])
def test_a_model_that_packs_and_pads_its_sequences(cell):
    """The layer between runs in torch: of the rest there are graphs."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.out = cell(8, 16, batch_first=True), torch.nn.Linear(16, 4)

        def forward(self, x, lengths):
            packed = torch.nn.utils.rnn.pack_padded_sequence(torch.relu(x), lengths.cpu(), batch_first=True)
            made, _ = self.layer(packed)
            made, _ = torch.nn.utils.rnn.pad_packed_sequence(made, batch_first=True, total_length=x.shape[1])
            return self.out(made)

    model, x, lengths = Model().eval(), torch.randn(3, 7, 8), torch.tensor([6, 4, 2])
    torch._dynamo.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="ingot")(x, lengths), model(x, lengths))


def test_the_last_states_that_torch_2_11_records_with_an_axis_more():
    from ingot.capture.fixes import result_types
    from ingot.capture.traced import Traced

    layer = torch.nn.LSTM(4, 5, num_layers=2).eval()
    module = torch.export.export(layer, (torch.zeros(3, 2, 4),)).graph_module
    graph = module.graph
    node = next(n for n in graph.nodes if n.target is torch.ops.aten.lstm.input)
    out, *states = node.meta["val"]
    wrong = (out, *(s.unsqueeze(1) for s in states))
    node.meta["val"] = wrong
    for user in node.users:
        user.meta["val"] = wrong[user.args[1]]
    assert result_types.wanted(Traced(module))
    result_types.apply(Traced(module))
    assert [tuple(t.shape) for t in node.meta["val"]] == [(3, 2, 5), (2, 2, 5), (2, 2, 5)]
    assert sorted(tuple(user.meta["val"].shape) for user in node.users) == [(2, 2, 5), (2, 2, 5), (3, 2, 5)]


@pytest.mark.parametrize("batch", [1, 5])
def test_the_shape_of_a_gpu_s_cell(batch):
    """torch's tracers ask for it where a GRU cell on a GPU has an open batch."""
    gates, hidden = (torch.empty(batch, n, device="meta") for n in (24, 8))
    made, for_gradients = torch.ops.aten._thnn_fused_gru_cell(gates, gates, hidden)
    assert made.shape == (batch, 8) and for_gradients.shape == (batch, 40)
