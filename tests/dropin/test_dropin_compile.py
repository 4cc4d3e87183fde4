"""The entry points: compile with each ir, trace, the bytes of an engine, refit, files."""

import inspect
import logging

import pytest
import torch
from eager import Small, same

import ingot
import ingot.torch_tensorrt as torch_tensorrt
from ingot.torch_tensorrt.dynamo.conversion import UnsupportedOperatorException

X, K = torch.randn(3, 16, generator=torch.Generator().manual_seed(0)), torch.linspace(0, 1, 32)
ONE = {"min_block_size": 1}


def engines(module):
    return [name for name, _ in module.named_children() if "_run_on_acc" in name]


@pytest.mark.parametrize("ir", ["default", "dynamo"])
def test_compile_gives_a_graph_module(ir):
    model = Small()
    made = torch_tensorrt.compile(model, ir=ir, inputs=[torch_tensorrt.Input((3, 16))], **ONE)
    assert isinstance(made, torch.fx.GraphModule) and engines(made) == ["_run_on_acc_0"] and made.report.whole
    same(made(X), model, X)
    same(made._run_on_acc_0(X), model, X)


def test_what_stays_in_torch_is_in_the_graph():
    model = Small()
    made = torch_tensorrt.compile(model, inputs=[X], torch_executed_ops={"torch.ops.aten.sin.default"}, **ONE)
    assert engines(made) == ["_run_on_acc_0", "_run_on_acc_2"] and torch.ops.aten.sin.default in [n.target for n in made.graph.nodes]
    same(made(X), model, X)


def test_keywords_go_by_position_too():
    model = Small()
    made = torch_tensorrt.compile(model, arg_inputs=[X], kwarg_inputs={"k": K}, **ONE)
    same(made(X, k=K), model, X, K)
    same(made(X, K), model, X, K)


def test_an_edited_graph_runs_as_edited():
    model = Small()
    for more in ({}, {"torch_executed_ops": {"aten.sin"}}):
        made = torch_tensorrt.compile(model, inputs=[X], **ONE, **more)
        made.recompile()
        same(made(X), model, X)
        output = next(n for n in made.graph.nodes if n.op == "output")
        with made.graph.inserting_before(output):
            output.args = ([made.graph.call_function(torch.ops.aten.neg.default, (output.args[0][0],))],)
        made.recompile()
        torch.testing.assert_close(made(X), -model(X))


def test_structures_of_inputs_and_results():
    class Nested(torch.nn.Module):
        def forward(self, pair, *, more):
            a, b = pair
            return {"sum": a + b, "parts": [a * more["s"], (b.relu(), 3)], "rows": a.shape[0]}

    model = Nested()
    given = ((torch_tensorrt.Input(min_shape=(1, 4), opt_shape=(2, 4), max_shape=(9, 4), shared_dims={0: "B"}),) * 2,)
    made = torch_tensorrt.compile(model, arg_inputs=given, kwarg_inputs={"more": {"s": torch.ones(4)}}, **ONE)
    pair, more = (torch.randn(5, 4), torch.randn(5, 4)), {"s": torch.randn(4)}
    same(made(pair, more=more), model, pair, more=more)
    with pytest.raises(ValueError, match="outside the range"):
        made((torch.randn(10, 4), torch.randn(10, 4)), more=more)


def test_dynamic_sizes():
    model = Small()
    made = torch_tensorrt.compile(model, inputs=[torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(4, 16), max_shape=(8, 16), dtype=torch.float32)], **ONE)
    for batch in (1, 4, 8):
        same(made(torch.ones(batch, 16)), model, torch.ones(batch, 16))


def test_wrong_calls():
    model = Small()
    for kind, arguments in (
        (AssertionError, {}),
        (AssertionError, {"inputs": [X], "arg_inputs": [X]}),
        (ValueError, {"ir": "onnx", "inputs": [X]}),
        (ingot.UnsupportedError, {"ir": "fx", "inputs": [X]}),
        (ingot.UnsupportedError, {"inputs": [X], "enable_cross_compile_for_windows": True}),
    ):
        with pytest.raises(kind):
            torch_tensorrt.compile(model, **arguments)
    with pytest.raises(ValueError, match="cannot be compiled"):
        torch_tensorrt.compile(lambda x: x, inputs=[X])


class Fourier(torch.nn.Module):
    def forward(self, x):
        return torch.special.airy_ai(x.relu()) + 1


def test_full_compilation():
    made = torch_tensorrt.compile(Small(), inputs=[X], require_full_compilation=True)
    assert made.report.whole
    with pytest.raises(AssertionError, match="airy_ai"):
        torch_tensorrt.compile(Fourier(), inputs=[X], require_full_compilation=True)
    with pytest.raises(ValueError, match="torch_executed_ops keeps operators in torch"):
        torch_tensorrt.compile(Small(), inputs=[X], require_full_compilation=True, torch_executed_ops={"aten.sin"})
    same(torch_tensorrt.compile(Fourier(), inputs=[X], **ONE)(X), Fourier(), X)


def test_min_block_size_is_five():
    made = torch_tensorrt.compile(Small(), inputs=[X], torch_executed_ops=["aten.sin"])
    assert engines(made) == [] and made.report.in_engine == 0
    same(made(X), Small(), X)
    assert engines(torch_tensorrt.compile(Small(), inputs=[X])) == ["_run_on_acc_0"]  # it is one engine


def test_names_that_the_model_does_not_have(caplog):
    class Convolves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Conv2d(3, 4, 3)

        def forward(self, x):
            return torch.softmax(self.layer(x).relu(), 1)

    model, image = Convolves().eval(), torch.randn(1, 3, 8, 8)
    kept = {torch.ops.aten.convolution.default, "torch.ops.aten._softmax.default", "torch.ops.aten.mul.Tensor"}
    with torch_tensorrt.logging.info():
        made = torch_tensorrt.compile(model, inputs=[image], torch_executed_ops=kept, fallback_data_dependent_ops=True, **ONE)
    assert {n["target"] for n in made.report.nodes if n["segment"] is None} == {"aten.conv2d.default", "aten.softmax.int"}
    assert "the model has no aten.mul.Tensor" in caplog.text and "no aten.conv1d" not in caplog.text
    with torch.no_grad():
        same(made(image), model, image)
        same(torch.compile(model, backend="tensorrt", options={"torch_executed_ops": kept, **ONE})(image), model, image)
    torch._dynamo.reset()


def test_dryrun(capsys, tmp_path, caplog):
    made = torch_tensorrt.compile(Small(), inputs=[X], dryrun=True)
    assert "run in torch" not in caplog.text  # the report says what would run where
    assert "TRT Engine #1 - Submodule name: _run_on_acc_0" in capsys.readouterr().out and engines(made) == []
    same(made(X), Small(), X)
    torch_tensorrt.compile(Small(), inputs=[X], dryrun=str(tmp_path / "report.txt"), **ONE)
    assert "engine segment" in (tmp_path / "report.txt").read_text()


def test_trace_and_compile():
    model = Small()
    program = torch_tensorrt.dynamo.trace(model, arg_inputs=[torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(2, 16), max_shape=(4, 16))])
    assert isinstance(program, torch.export.ExportedProgram) and len(program.range_constraints) == 1
    made = torch_tensorrt.dynamo.compile(program, **ONE)
    same(made(X), model, X)
    same(torch_tensorrt.compile(program, inputs=[X], **ONE)(X), model, X)


# ---- bytes of an engine


def test_bytes():
    model = Small()
    data = torch_tensorrt.convert_method_to_trt_engine(model, inputs=[X])
    assert isinstance(data, bytes)
    engine = torch_tensorrt.TorchTensorRTModule(data, input_binding_names=["a"], output_binding_names=["b"], name="mine")
    same(engine(X), model, X)
    assert engine.input_binding_names == ["a"] and "steps" in engine.get_layer_info()
    assert ingot.load_engine(data).input_names == ["x"]
    other = torch_tensorrt.TorchTensorRTModule()
    other.load_state_dict(engine.state_dict())
    same(other(X), model, X)
    with pytest.raises(AssertionError, match="takes 1 tensor"):
        engine(X, X)
    with pytest.raises(ingot.InputError, match="binding names"):
        torch_tensorrt.TorchTensorRTModule(data, input_binding_names=["a", "b"])
    with pytest.raises(ingot.FormatError):
        torch_tensorrt.TorchTensorRTModule(b"ptrt" * 100)


def test_bytes_without_weights():
    model = Small()
    data = torch_tensorrt.convert_method_to_trt_engine(model, inputs=[X], strip_engine_weights=True)
    assert len(data) < len(torch_tensorrt.convert_method_to_trt_engine(model, inputs=[X]))
    same(torch_tensorrt.TorchTensorRTModule(data, weights=dict(model.state_dict()))(X), model, X)


def test_bytes_of_another_method_and_of_what_is_not_whole():
    class Two(Small):
        def half(self, x):
            return self.first(x) * 0.5

    data = torch_tensorrt.convert_method_to_trt_engine(Two(), "half", inputs=[X])
    torch.testing.assert_close(torch_tensorrt.TorchTensorRTModule(data)(X), Two().half(X))
    with pytest.raises(UnsupportedOperatorException, match="airy_ai"):
        torch_tensorrt.convert_method_to_trt_engine(Fourier(), inputs=[X])
    with pytest.raises(RuntimeError):
        torch_tensorrt.convert_method_to_trt_engine(Two(), inputs=[X], ir="torch_compile")


def test_names_of_bindings():
    program = torch_tensorrt.dynamo.trace(Small(), arg_inputs=[X], kwarg_inputs={"k": K})
    convert = torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine
    data = convert(program, arg_input_binding_names=("image",), kwarg_input_binding_names={"k": "shift"})
    assert ingot.load_engine(data).input_names == ["image", "shift"]
    for names in ({"arg_input_binding_names": ("a", "b")}, {"arg_input_binding_names": ("a",), "kwarg_input_binding_names": {"k": "a"}}, {"arg_input_binding_names": (1,), "kwarg_input_binding_names": {"k": "a"}}):
        with pytest.raises(torch_tensorrt.dynamo.BindingNameMismatchError):
            convert(program, **names)
    data = convert(program, kwarg_input_binding_names={"k": "shift"}, output_binding_names="y")
    engine = ingot.load_engine(data)
    assert engine.input_names == ["x", "shift"] and [o["name"] for o in engine.outputs()] == ["y"]
    for wrong, text in ((("y", "z"), "does not match"), (3, "must all be strings"), ("shift", "two inputs or outputs")):
        with pytest.raises(torch_tensorrt.dynamo.BindingNameMismatchError, match=text):
            convert(program, kwarg_input_binding_names={"k": "shift"}, output_binding_names=wrong)


def test_names_of_several_results():
    class Several(torch.nn.Module):
        def forward(self, x):
            return {"sum": x + 1, "parts": [torch.relu(x), 3, x]}

    program = torch.export.export(Several(), (X,))
    convert = torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine
    data = convert(program, arg_input_binding_names=["image"], output_binding_names={"sum": "s", "parts": ["r", "three", "same"]})
    engine = torch_tensorrt.TorchTensorRTModule(data)
    assert engine.input_binding_names == ["image"] and engine.output_binding_names == ["s", "r", "same"]
    for made, right in zip(engine(X), (X + 1, torch.relu(X), X)):
        torch.testing.assert_close(made, right)
    with pytest.raises(torch_tensorrt.dynamo.BindingNameMismatchError, match="duplicate"):
        convert(program, output_binding_names={"sum": "s", "parts": ["s", "three", "same"]})


def test_keyword_inputs_that_are_left_out_stay_as_exported():
    n = torch.export.Dim("n", min=2, max=9)
    program = torch.export.export(Small(), (X,), {"k": K}, dynamic_shapes={"x": {0: n}, "k": None})
    made = torch_tensorrt.dynamo.compile(program, inputs=[X], **ONE)
    more = torch.cat([X, X])
    torch.testing.assert_close(made(more, k=K), Small()(more, k=K))
    with pytest.raises(ingot.InputError, match="argument 'k' is missing"):
        made(more)
    by_position = torch_tensorrt.dynamo.compile(program, inputs=[torch_tensorrt.Input(min_shape=(2, 16), opt_shape=(3, 16), max_shape=(9, 16)), torch_tensorrt.Input(K.shape)], **ONE)
    torch.testing.assert_close(by_position(more, k=K), Small()(more, k=K))


# ---- torch.compile


@pytest.mark.parametrize("backend", ["tensorrt", "torch_tensorrt", "aot_torch_tensorrt_aten"])
def test_backends(backend):
    model = Small()
    with torch.no_grad():
        same(torch.compile(model, backend=backend, options=ONE)(X), model, X)
    torch._dynamo.reset()


def test_torch_compile_ir():
    model = Small()
    with torch.no_grad():
        same(torch_tensorrt.compile(model, ir="torch_compile", **ONE)(X), model, X)
    torch._dynamo.reset()


def test_a_graph_that_cannot_be_built(monkeypatch, caplog):
    from ingot.torch_tensorrt.dynamo import backend

    def broken(*arguments, **more):
        raise ingot.InternalError("broken")

    monkeypatch.setattr(backend._backend, "ingot_backend", broken)
    model = Small()
    with torch.no_grad(), caplog.at_level(logging.WARNING):
        same(torch.compile(model, backend="tensorrt", options=ONE)(X), model, X)
        assert "runs as it was" in caplog.text
        torch._dynamo.reset()
        with pytest.raises(Exception, match="broken"):
            torch.compile(model, backend="tensorrt", options={**ONE, "pass_through_build_failures": True})(X)
    torch._dynamo.reset()


# ---- refit


def test_refit():
    model, other = Small(0), Small(1)
    program, new = (torch_tensorrt.dynamo.trace(m, arg_inputs=[X]) for m in (model, other))
    made = torch_tensorrt.dynamo.compile(program, arg_inputs=[X], immutable_weights=False, **ONE)
    refitted = torch_tensorrt.dynamo.refit_module_weights(made, new, arg_inputs=[X], verify_output=True)
    same(refitted(X), other, X)
    same(made(X), model, X)
    assert torch_tensorrt.dynamo.refit_module_weights(made, new, in_place=True) is made
    same(made(X), other, X)


@pytest.mark.parametrize("kept", [set(), {"aten.sin"}])
def test_stripped_engines_have_zeros_until_they_are_refitted(kept, caplog):
    model = Small()
    program, before = torch.export.export(model, (X,)), {name: t.clone() for name, t in model.state_dict().items()}
    made = torch_tensorrt.dynamo.compile(program, [X], strip_engine_weights=True, torch_executed_ops=kept, **ONE)
    assert "4 weights are zeros until refit_module_weights" in caplog.text
    assert not made(X).any() and all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    same(torch_tensorrt.dynamo.refit_module_weights(made, program)(X), model, X)
    assert not made(X).any()
    assert torch_tensorrt.dynamo.refit_module_weights(made, program, in_place=True) is made
    same(made(X), model, X)


def test_stripping_leaves_tables_of_integers_and_what_torch_reads():
    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("places", torch.tensor([1, 0, 2]))
            self.register_buffer("shift", torch.tensor([4.0, 5.0, 6.0]))
            self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x):
            return torch.sin(x[:, self.places] * self.scale), torch.fft.fft(x[:, :3] + 1).real + self.shift

    model = Table()
    stripped = torch_tensorrt.compile(model, inputs=[X], strip_engine_weights=True, torch_executed_ops={"aten.add.Tensor"}, **ONE)
    assert not stripped(X)[0].any()
    torch.testing.assert_close(stripped(X)[1], model(X)[1])


def test_refit_of_a_file(tmp_path):
    model, other = Small(0), Small(1)
    path = str(tmp_path / "model.ep")
    torch_tensorrt.save(torch_tensorrt.compile(model, inputs=[X], **ONE), path, inputs=[X])
    loaded = torch_tensorrt.load(path)
    refitted = torch_tensorrt.dynamo.refit_module_weights(loaded, torch_tensorrt.dynamo.trace(other, arg_inputs=[X]))
    same(refitted(X), other, X)
    same(loaded.module()(X), model, X)
    with pytest.raises(ingot.InputError, match="have no"):
        torch_tensorrt.dynamo.refit_module_weights(loaded, torch_tensorrt.dynamo.trace(Fourier(), arg_inputs=[X]))


# ---- files


def test_save_and_load(tmp_path):
    model = Small()
    made = torch_tensorrt.compile(model, inputs=[torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(2, 16), max_shape=(4, 16))], torch_executed_ops=["aten.sin"], **ONE)
    path, extra = str(tmp_path / "model.ep"), {"note": ""}
    torch_tensorrt.save(made, path, extra_files={"note": "hello"}, retrace=True, arg_inputs=[X])
    loaded = torch_tensorrt.load(path, extra_files=extra)
    assert isinstance(loaded, torch.export.ExportedProgram) and extra["note"] in ("hello", b"hello")
    for rows in (1, 4):
        same(loaded.module()(torch.ones(rows, 16)), model, torch.ones(rows, 16))
    same(torch.export.load(path).module()(X), model, X)
    program = torch_tensorrt.dynamo.export(made)
    torch_tensorrt.save(program, path)
    same(torch_tensorrt.load(path).module()(X), model, X)


def test_an_ingot_file(tmp_path):
    model, path = Small(), str(tmp_path / "model.ingot")
    torch_tensorrt.save(torch_tensorrt.compile(model, inputs=[X], **ONE), path, output_format="ingot")
    same(torch_tensorrt.load(path)(X), model, X)


def test_torchscript_is_loaded(tmp_path):
    path = str(tmp_path / "model.ts")
    torch.jit.trace(Small(), X).save(path)
    same(torch_tensorrt.load(path)(X), Small(), X)


def test_what_is_not_saved(tmp_path):
    made, path = torch_tensorrt.compile(Small(), inputs=[X], **ONE), str(tmp_path / "file")
    for module, arguments in ((Small(), {}), (torch.compile(Small(), backend="tensorrt"), {}), (made, {"output_format": "onnx"})):
        with pytest.raises(ValueError):
            torch_tensorrt.save(module, path, **arguments)
    with pytest.raises(ingot.UnsupportedError, match="refused"):
        torch_tensorrt.save(made, path, output_format="executorch")
    (tmp_path / "file").write_bytes(b"ptrt" + bytes(100))
    with pytest.raises(ValueError, match="compiled again from the model"):
        torch_tensorrt.load(path)
    with pytest.raises(OSError):
        torch_tensorrt.load(str(tmp_path / "nowhere"))


# ---- TorchScript


def test_torchscript():
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()
    for script in (torch.jit.trace(model, X), torch.jit.script(model)):
        made = torch_tensorrt.compile(script, inputs=[X], **ONE)
        same(made(X), model, X)
    rows = torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(3, 16), max_shape=(8, 16))
    made = torch_tensorrt.ts.compile(model, inputs=[rows], **ONE)
    for n in (1, 8):
        same(made(torch.ones(n, 16)), model, torch.ones(n, 16))
    assert torch_tensorrt.ts.check_method_op_support(torch.jit.trace(model, X))
    data = torch_tensorrt.ts.convert_method_to_trt_engine(torch.jit.trace(model, X), inputs=[X])
    same(torch_tensorrt.ts.embed_engine_in_new_module(data)(X), model, X)


class ReadsSizes(torch.nn.Module):
    """TorchScript reads the sizes of a traced reshape from tensors; traced cells write in place to parts of a tensor."""

    def __init__(self):
        super().__init__()
        self.cell, self.attention, self.unread = torch.nn.LSTMCell(16, 8), torch.nn.MultiheadAttention(8, 2, batch_first=True), torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        rows = self.cell(x)[0].unsqueeze(0)
        return self.attention(rows, rows, rows, need_weights=False)[0] + 0 * self.unread.sum()


def test_torchscript_of_sizes_and_writes():
    torch.manual_seed(0)
    model = ReadsSizes().eval()
    script = torch.jit.trace(model, X, check_trace=False)
    data = torch_tensorrt.ts.convert_method_to_trt_engine(script, inputs=[X])  # one engine with all of it
    same(torch_tensorrt.ts.embed_engine_in_new_module(data)(X), model, X)
    same(torch_tensorrt.ts.compile(script, inputs=[X], **ONE)(X), model, X)


def test_torchscript_that_is_not_converted(caplog):
    class Prints(torch.nn.Module):
        def forward(self, x):
            print(x.shape)
            return x + 1

    script = torch.jit.script(Prints())
    made = torch_tensorrt.compile(script, ir="ts", inputs=[X])
    assert torch.equal(made(X), X + 1)
    if made is script:
        assert "it runs as it was" in caplog.text


# ---- a GraphModule as one engine


def test_the_interpreter():
    from ingot.torch_tensorrt.dynamo._tracer import get_dynamic_shapes_args
    from ingot.torch_tensorrt.dynamo.conversion import TRTInterpreter, convert_module
    from ingot.torch_tensorrt.dynamo.utils import get_torch_inputs

    class Attends(torch.nn.Module):
        def forward(self, q, k):
            return torch.nn.functional.scaled_dot_product_attention(q, k, k)

    inputs = [torch_tensorrt.Input(min_shape=(1, 2, 4, 8), opt_shape=(2, 2, 4, 8), max_shape=(4, 2, 4, 8)) for _ in "qk"]
    program = torch.export.export(Attends(), tuple(get_torch_inputs(inputs, "cpu")), dynamic_shapes=get_dynamic_shapes_args(Attends(), inputs))
    on_cpu = torch_tensorrt.dynamo.CompilationSettings(device="cpu")
    made = TRTInterpreter(program.module(check_guards=False), inputs, compilation_settings=on_cpu).run()
    engine = torch_tensorrt.TorchTensorRTModule(made.engine.serialize(), made.input_names, made.output_names)
    q = torch.randn(3, 2, 4, 8)
    same(engine(q, q), Attends(), q, q)
    same(convert_module(torch.nn.Dropout().eval(), [torch_tensorrt.Input((3, 16))], on_cpu)(X), torch.nn.Dropout().eval(), X)
    with pytest.raises(UnsupportedOperatorException, match="airy_ai"):
        convert_module(Fourier(), [torch_tensorrt.Input((3, 16))], on_cpu)


def test_a_graph_is_moved_to_a_device():
    from ingot.torch_tensorrt.dynamo.conversion._conversion import _on

    class Makes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.constant = torch.nn.Linear(4, 4), torch.ones(4)

        def forward(self, x):
            return self.layer(x) + torch.arange(4) + torch.zeros_like(x) + self.constant + torch.full((x.shape[0], 1), 2.0)

    graph = torch.export.export(Makes(), (torch.ones(2, 4),), dynamic_shapes=({0: torch.export.Dim("B")},)).module(check_guards=False)
    moved = _on(graph, torch.device("meta"))
    assert moved(torch.ones(2, 4, device="meta")).is_meta and not graph(torch.ones(2, 4)).is_meta


def test_a_compiled_module_is_exported_again_by_its_inputs_names():
    """Its forward has the model's signature, so that torch.export matches dynamic_shapes by name and by place, as upstream's guide to saving does by hand."""

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, left, right, *, scale=None):
            result = self.layer(left) * right
            return result if scale is None else result * scale

    torch.manual_seed(0)
    model, x, rows = Scaled().eval(), torch.randn(3, 4), torch.export.Dim("rows", min=1, max=8)
    given = [torch_tensorrt.Input(min_shape=(1, 4), opt_shape=(3, 4), max_shape=(8, 4), shared_dims={0: "rows"}) for _ in range(2)]
    compiled = torch_tensorrt.compile(model, ir="dynamo", inputs=given, **ONE)
    assert list(inspect.signature(compiled.forward).parameters) == ["left", "right"]
    for shapes in ({"left": {0: rows}, "right": {0: rows}}, ({0: rows}, {0: rows})):
        program = torch.export.export(compiled, (x, x), dynamic_shapes=shapes, strict=False)
        with torch.no_grad():
            torch.testing.assert_close(program.module()(x[:2], x[:2]), model(x[:2], x[:2]))
    named = torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[x, x], kwarg_inputs={"scale": x[:, :1]}, **ONE)
    assert list(inspect.signature(named.forward).parameters) == ["left", "right", "scale"]
    with torch.no_grad():
        torch.testing.assert_close(named(x, right=x, scale=x[:, :1]), model(x, x, scale=x[:, :1]))


# ---- a model without tensors of its own


class Plain(torch.nn.Module):
    def forward(self, x, y):
        return torch.softmax(x, -1) @ y


def test_inputs_of_a_device():
    from ingot.torch_tensorrt._Input import Given

    taken = Given([torch_tensorrt.Input((2, 3)), [torch.ones(2), 3]], None, {"k": torch.ones(1, device="meta")})
    before = taken.positional[0]
    taken.on(torch.device("meta"))
    assert str(taken.positional[0].device) == "meta" and before.device is None and taken.positional[1][0].is_meta and taken.positional[1][1] == 3 and taken.keywords["k"].is_meta


def test_it_runs_on_the_cpu_where_there_is_nothing_else():
    x, y = torch.randn(4, 5), torch.randn(5, 6)
    compiled = torch_tensorrt.compile(Plain(), inputs=[torch_tensorrt.Input((4, 5)), torch_tensorrt.Input((5, 6))], device="cpu", min_block_size=1)
    torch.testing.assert_close(compiled(x, y), Plain()(x, y))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_it_runs_on_the_gpu_that_the_settings_name():
    from ingot.torch_tensorrt.dynamo.conversion import TRTInterpreter
    from ingot.torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    x, y = torch.randn(4, 5, device="cuda"), torch.randn(5, 6, device="cuda")
    inputs = [torch_tensorrt.Input((4, 5)), torch_tensorrt.Input.from_tensor(torch.empty(5, 6))]
    torch.testing.assert_close(torch_tensorrt.compile(Plain(), inputs=inputs, min_block_size=1)(x, y), Plain()(x, y), rtol=1e-3, atol=1e-3)
    made = TRTInterpreter(torch.fx.symbolic_trace(Plain()), inputs).run()
    torch.testing.assert_close(TorchTensorRTModule(made.serialized_engine)(x, y), Plain()(x, y), rtol=1e-3, atol=1e-3)
    linear = torch.nn.Linear(5, 6).eval()
    made = TRTInterpreter(torch.fx.symbolic_trace(linear), [torch_tensorrt.Input((4, 5))]).run()  # from tensors of the CPU
    torch.testing.assert_close(TorchTensorRTModule(made.serialized_engine)(x), linear.cuda()(x), rtol=1e-3, atol=1e-3)
