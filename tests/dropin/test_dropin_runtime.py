"""runtime.*, logging, Debugger, MutableTorchTensorRTModule."""

import copy
import json
import logging
import pickle
import subprocess
import sys
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from eager import Small, same

import ingot
import ingot.torch_tensorrt as torch_tensorrt
from ingot.torch_tensorrt import _said, runtime
from ingot.torch_tensorrt.dynamo.runtime import RefitFlag

X = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
ONE = {"min_block_size": 1}


@pytest.fixture
def made():
    return torch_tensorrt.compile(Small(), inputs=[X], **ONE)


@pytest.fixture(autouse=True)
def anew():
    _said.forget()
    with torch_tensorrt.logging.info():
        yield
    runtime.set_cudagraphs_mode(False)


def told(caplog, text):
    return [r for r in caplog.records if text in r.getMessage()]


def test_cuda_graphs(made, caplog):
    assert not runtime.get_cudagraphs_mode()
    for _ in range(2):
        with runtime.enable_cudagraphs(made) as module:
            assert module is made and runtime.get_cudagraphs_mode() and not runtime.get_whole_cudagraphs_mode()
            same(module(X), Small(), X)
    assert not runtime.get_cudagraphs_mode() and len(told(caplog, "CUDA graphs")) == 1
    torch_tensorrt.runtime.set_cudagraphs_mode(True)
    with pytest.raises(RuntimeError, match="Both CUDA Graphs and dynamic output allocation are enabled.*exclude one another"):
        runtime.enable_output_allocator(made).__enter__()
    runtime.set_cudagraphs_mode(False)
    with runtime.enable_output_allocator(made), pytest.raises(RuntimeError, match="exclude one another"):
        runtime.enable_cudagraphs(made).__enter__()
    assert not runtime.get_cudagraphs_mode()
    same(made(X), Small(), X)
    with pytest.raises(RuntimeError, match="TRT-RTX-only"):
        runtime.enable_cudagraphs(made, cuda_graph_strategy="whole_graph_capture")


def test_engines_that_read_sizes_from_data_are_no_part_of_a_recording():
    class Found(torch.nn.Module):
        def forward(self, x):
            return torch.nonzero(x).sum(0)

    x = torch.tensor([0, 3, 0, 5])
    found = torch_tensorrt.compile(Found(), inputs=[x], **ONE)
    assert found._run_on_acc_0.requires_output_allocator
    with pytest.raises(RuntimeError, match="require a dynamic output allocator at runtime"):
        runtime.enable_cudagraphs(found).__enter__()
    assert not runtime.get_cudagraphs_mode()
    runtime.set_cudagraphs_mode(True)
    for call in (found, found._run_on_acc_0):
        with pytest.raises(RuntimeError, match="require a dynamic output allocator at runtime"):
            call(x)
    runtime.set_cudagraphs_mode(False)
    with runtime.enable_output_allocator(found) as module:
        assert module(x).tolist() == [4]
    outside = torch_tensorrt.compile(Found(), inputs=[x], torch_executed_ops={"aten.nonzero"}, **ONE)  # torch reads the sizes, between engines
    with pytest.raises(RuntimeError, match="require a dynamic output allocator at runtime"):
        runtime.enable_cudagraphs(outside).__enter__()
    assert outside(x).tolist() == [4]


def test_an_engine_that_is_loaded_when_it_is_asked_for(tmp_path):
    data = torch_tensorrt.convert_method_to_trt_engine(Small(), inputs=[X], ir="dynamo")
    lazy = torch_tensorrt.dynamo.runtime.TorchTensorRTModule(data, settings=torch_tensorrt.dynamo.CompilationSettings(lazy_engine_init=True))
    assert lazy.engine is None
    with pytest.raises(RuntimeError, match=r"setup_engine\(\)"):
        lazy(X)
    lazy.setup_engine()
    same(lazy(X), Small(), X)


def test_an_engine_in_a_pickle_and_a_copy(made):
    module = torch_tensorrt.dynamo.runtime.TorchTensorRTModule(torch_tensorrt.convert_method_to_trt_engine(Small(), inputs=[X]), ["x"], ["y"], name="small")
    with torch.no_grad():
        for each in (module, made._run_on_acc_0):
            for copied in (pickle.loads(pickle.dumps(each)), copy.deepcopy(each)):
                same(copied(X), Small(), X)
                assert copied.name == each.name and copied.input_binding_names == each.input_binding_names and copied.get_engine() is not each.get_engine()


def test_cuda_graphs_of_a_module_with_parts_in_torch(caplog):
    mixed = torch_tensorrt.compile(Small(), inputs=[X], torch_executed_ops=["aten.sin"], **ONE)
    with runtime.enable_cudagraphs(mixed) as module:
        assert runtime.get_whole_cudagraphs_mode()
        same(module(X), Small(), X)
    assert not runtime.get_whole_cudagraphs_mode()
    assert len(told(caplog, "on the CPU, so nothing is recorded")) == 1


class Parts(torch.nn.Module):
    """An engine, a part in torch, an engine. The first engine's result is read by torch, and by the caller as a view (views=True)."""

    def __init__(self, views=False):
        super().__init__()
        self.views = views

    def forward(self, x):
        y = torch.relu(x * 2)
        z = torch.sin(y)
        return (y.view(-1), torch.relu(z + 1)) if self.views else torch.relu(z + 1)


def in_parts(views=False, **inputs):
    taken = [torch_tensorrt.Input(**inputs)] if inputs else [X]
    return torch_tensorrt.compile(Parts(views), inputs=taken, torch_executed_ops=["aten.sin"], device="cpu", **ONE)


def ahead(module):
    return [[t.data_ptr() for t in engine.pre_allocated_outputs] for engine in runtime._settings.engines_of(module)]


def test_results_are_allocated_ahead(made):
    assert ahead(made) == [[]]
    with runtime.enable_pre_allocated_outputs(made) as module:
        assert module is made and ahead(made) == [[]]
        results, seen = [], []
        for n in range(4):
            results.append(module(X + n))
            assert not seen or [results[-1].data_ptr()] == seen[-1]
            seen.append(ahead(made)[0])
        assert len({r.data_ptr() for r in results} | {seen[-1][0]}) == 5
        for n, result in enumerate(results):
            same(result, Small(), X + n)
        with pytest.raises(ingot.InputError, match="has size 8"):
            module(X[:, :8])
        same(torch.func.functional_call(made, {}, (X,)), Small(), X)
        with torch.inference_mode():
            assert module(X).is_inference()
        assert not module(X).is_inference()
    assert ahead(made) == [[]]
    same(made(X), Small(), X)


def test_memory_ahead_is_for_the_same_sizes():
    module = in_parts(min_shape=(1, 16), opt_shape=(3, 16), max_shape=(8, 16))
    context = runtime.enable_pre_allocated_outputs(module)
    context.set_pre_allocated_output(True)
    given = [torch.randn(n, 16) for n in (3, 3, 5, 1, 1, 3)]
    for x, result in [(x, module(x)) for x in given]:
        same(result, Parts(), x)
    context.set_pre_allocated_output(False)
    assert ahead(module) == [[], []]


def test_what_only_torch_reads_is_written_again():
    module = in_parts()
    first, last = runtime._settings.engines_of(module)
    assert (first.are_output_tensors_unowned(), last.are_output_tensors_unowned()) == (False, True)
    with runtime.enable_pre_allocated_outputs(module):
        one, before = module(X), ahead(module)
        two, after = module(X + 1), ahead(module)
        assert before[0] == after[0] and before[1] == [two.data_ptr()] != after[1]
        same(one, Parts(), X)
        same(two, Parts(), X + 1)


def test_a_result_that_is_a_view_of_what_torch_reads_is_kept():
    module = in_parts(views=True)
    with runtime.enable_pre_allocated_outputs(module):
        for x, result in [(X + n, module(X + n)) for n in range(4)]:
            same(result, Parts(True), x)
    memory = ingot.engine.result_memory.ResultMemory(lambda flat: [torch.empty_like(t) for t in flat], torch.device("cpu"), inner=True)
    kind = memory.kind([X])
    (result,) = memory.take(kind, [X])
    memory.after(kind, [X], [result])
    part, at = result.view(-1), result.data_ptr()
    del result
    (result,) = memory.take(kind, [X])
    assert result.data_ptr() != at
    memory.after(kind, [X], [result])
    at = result.data_ptr()
    del result, part
    assert memory.take(kind, [X])[0].data_ptr() == at


def test_calls_side_by_side_have_memory_of_their_own(made):
    given = [X * n for n in range(8)]
    with runtime.enable_pre_allocated_outputs(made), ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            for x, result in zip(given, pool.map(made, given)):
                same(result, Small(), x)


def test_modules_without_engines_say_so(caplog):
    with runtime.enable_pre_allocated_outputs(torch.compile(Small(), backend="tensorrt")):
        assert len(told(caplog, "OptimizedModule has no engines of its own")) == 1


@pytest.mark.parametrize("context", [runtime.enable_output_allocator, torch_tensorrt.dynamo.runtime.ResourceAllocationStrategy])
def test_contexts_that_give_the_module(made, caplog, context):
    for _ in range(2):
        with context(made) as module:
            same(module(X), Small(), X)
    assert len(caplog.records) == 1


def test_safe_mode():
    with runtime.set_multi_device_safe_mode(True):
        assert runtime.get_multi_device_safe_mode()
    assert not runtime.get_multi_device_safe_mode()
    runtime.set_multi_device_safe_mode(True)
    assert runtime.get_multi_device_safe_mode()
    runtime.set_multi_device_safe_mode(False)


def test_weight_streaming(made, caplog):
    with runtime.weight_streaming(made) as weights:
        total = weights.total_device_budget
        assert total == 4 * (16 * 32 + 32 + 32 * 4 + 4) == weights.get_automatic_weight_streaming_budget()
        weights.device_budget = total // 2
        assert weights.device_budget == total // 2 and told(caplog, "in memory of the host already")
        same(made(X), Small(), X)
        with runtime.weight_streaming(made) as inner:
            assert inner.device_budget == total // 2
            inner.device_budget = 0
        assert weights.device_budget == total // 2
        weights.device_budget = 2 * total
        assert weights.device_budget == total
        with pytest.raises(RuntimeError, match="below 0"):
            weights.device_budget = -1
    without = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
    for module in (without, torch_tensorrt.compile(without, inputs=[X], **ONE)):
        with runtime.weight_streaming(module) as weights:
            weights.device_budget = 10
            assert weights.total_device_budget == weights.device_budget == 0


def test_profiles():
    shape = lambda *rows: dict(zip(("min_shape", "opt_shape", "max_shape"), [(n, 16) for n in rows]))  # noqa: E731
    made = torch_tensorrt.compile(Small(), inputs=[torch_tensorrt.Input(profiles=[shape(1, 1, 1), shape(2, 4, 8)])], **ONE)
    for profile in (0, 1, "auto", None):
        with runtime.optimization_profile(made, profile) as module:
            same(module(X), Small(), X)
    with pytest.raises(ValueError, match="one of the 2"):
        runtime.optimization_profile(made, 2)
    for wrong in (True, "best", 1.0):
        with pytest.raises(TypeError):
            runtime.optimization_profile(made, wrong)


def test_runtime_settings(made):
    settings = runtime.RuntimeSettings(cuda_graph_strategy="whole_graph_capture")
    assert settings.merge(runtime_cache="here").runtime_cache == "here" and settings.cuda_graph_strategy == "whole_graph_capture"
    with pytest.raises(ValueError):
        runtime.RuntimeSettings(cuda_graph_strategy="fast")
    for wrong in (lambda: settings.merge(not_a_real_field=1), lambda: runtime.runtime_config(torch.nn.ReLU(), not_a_real_field=1)):
        with pytest.raises(TypeError):
            wrong()
    engine = made._run_on_acc_0
    with runtime.runtime_config(made, cuda_graph_strategy="whole_graph_capture"):
        assert engine.runtime_settings == settings
        with runtime.set_dynamic_shapes_kernel_strategy([made], "eager"):
            assert engine.runtime_settings.dynamic_shapes_kernel_specialization_strategy == "eager"
    assert engine.runtime_settings == runtime.RuntimeSettings()
    with runtime.runtime_cache(made, "path") as cache:
        assert isinstance(cache, runtime.RuntimeCache) and engine.runtime_settings.runtime_cache is cache


def test_a_runtime_cache_keeps_the_bytes_of_its_file(made, tmp_path):
    path = tmp_path / "folder" / "cache.bin"
    with runtime.runtime_cache(made, path):
        made(X)
    assert not path.exists()  # there is nothing to keep
    path.parent.mkdir()
    path.write_bytes(b"warm")
    with runtime.runtime_cache(made, path) as cache:
        assert cache.path == str(path) and not cache.autosave_on_del
        path.unlink()
    assert path.read_bytes() == b"warm"
    path.unlink()
    copied = pickle.loads(pickle.dumps(cache))
    copied.autosave_on_del = True
    del copied
    assert path.read_bytes() == b"warm"
    path.unlink()
    cache.save(tmp_path / "other.bin")
    assert (tmp_path / "other.bin").read_bytes() == b"warm" and not path.exists()


def test_a_runtime_cache_saves_at_the_end_of_the_process(tmp_path):
    path, other = tmp_path / "cache.bin", tmp_path / "read.bin"
    other.write_bytes(b"warm")
    code = f"from ingot.torch_tensorrt.runtime import RuntimeCache\ncache = RuntimeCache({str(path)!r}, autosave_on_del=True)\ncache.load({str(other)!r})\nimport sys; sys.kept = cache"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert path.read_bytes() == b"warm"


def test_levels():
    log = logging.getLogger("ingot")
    before = log.level
    with torch_tensorrt.logging.errors():
        assert log.level == logging.ERROR == logging.getLogger("torch_tensorrt").level
        with torch_tensorrt.logging.graphs():
            assert log.level < logging.DEBUG
    assert log.level == before
    with pytest.raises(ValueError, match="not known"):
        torch_tensorrt.logging.set_level("loud")


def test_debugger(tmp_path):
    with torch_tensorrt.dynamo.Debugger("debug", capture_fx_graph_after=["constant_fold"], save_engine_profile=True, save_layer_info=True, logging_dir=str(tmp_path)):
        made = torch_tensorrt.compile(Small(), inputs=[X], **ONE)
        made(X)
    assert json.loads((tmp_path / "_run_on_acc_0_engine_layer_info.json").read_text())["inputs"][0]["name"] == "x"
    events = json.loads((tmp_path / "_run_on_acc_0_engine_engine_execution_profile.trace").read_text())["traceEvents"]
    assert events and all(e["dur"] >= 0 for e in events if e["ph"] == "X")
    graphs = sorted(p.stem for p in tmp_path.glob("*.txt"))
    assert "00_captured" in graphs and len(graphs) > 4  # the library's own passes
    assert graphs == sorted(p.stem for p in tmp_path.glob("*.svg"))
    boxes = [t.text for t in xml.etree.ElementTree.parse(tmp_path / "00_captured.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert "aten.linear.default" in boxes and "input x" in boxes


@pytest.mark.parametrize("kept", [[], ["aten.sin"]])
def test_a_profile_of_a_module(tmp_path, kept):
    """A call of the module writes the profile of each of its engines, with the model's weights of now."""
    model = Small()
    made = torch_tensorrt.compile(model, inputs=[X], torch_executed_ops=kept, **ONE)
    engines = [engine for name, engine in made.named_children() if "_run_on_acc" in name]
    for engine in engines:
        engine.enable_profiling(str(tmp_path))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    same(made(X), model, X)
    assert len(list(tmp_path.glob("*.trace"))) == len(engines) == 1 + len(kept)
    for engine in engines:
        engine.disable_profiling()
    for path in tmp_path.glob("*.trace"):
        path.unlink()
    same(made(X), model, X)
    assert not list(tmp_path.glob("*.trace"))


# ---- the mutable module


def test_it_compiles_when_it_is_called():
    model = Small()
    module = torch_tensorrt.MutableTorchTensorRTModule(model, **ONE)
    assert isinstance(module, Small) and isinstance(module, torch_tensorrt.MutableTorchTensorRTModule) and module.compiled is None
    same(module(X), model, X)
    assert module.refit_state.get_state() is RefitFlag.LIVE
    built = module.compiled
    same(module(X + 1), model, X + 1)
    assert module.compiled is built and module.first is model.first and module.device == torch.device("cpu")


def test_weights_are_followed_without_a_build():
    model = Small()
    module = torch_tensorrt.MutableTorchTensorRTModule(model, **ONE)
    module(X)
    built = module.compiled
    module.load_state_dict(Small(1).state_dict())
    assert module.refit_state.get_state() is RefitFlag.NEEDS_REFIT
    same(module(X), Small(1), X)
    with torch.no_grad():
        module.first.weight.mul_(2)
    module.second.bias = torch.nn.Parameter(torch.ones(4))
    same(module(X), model, X)
    module.second.weight.data += 1  # which torch does not count
    module.update_refit_condition()
    assert module.refit_state.get_state() is RefitFlag.NEEDS_REFIT
    same(module(X), model, X)
    assert module.compiled is built


def test_adapters_that_the_models_own_methods_load_and_fuse():
    class Low(torch.nn.Module):  # as PEFT's layers are
        def __init__(self, base):
            super().__init__()
            self.base, self.down, self.up, self.merged = base, torch.nn.Linear(16, 2, bias=False), torch.nn.Linear(2, 32, bias=False), False

        def forward(self, x):
            return self.base(x) if self.merged else self.base(x) + self.up(self.down(x))

    class Loading(Small):
        def load_lora_weights(self):
            self.first = Low(self.first)

        @torch.no_grad()
        def fuse_lora(self):
            self.first.base.weight.add_(self.first.up.weight @ self.first.down.weight)
            self.first.merged = True

        def unload_lora_weights(self):
            self.first = self.first.base

    model = Loading()
    module = torch_tensorrt.MutableTorchTensorRTModule(model, **ONE)
    same(module(X), model, X)
    before = module(X)
    for change in ("load_lora_weights", "fuse_lora", "unload_lora_weights"):
        getattr(module, change)()
        same(module(X), model, X)
        assert not torch.allclose(module(X), before)


def test_other_changes_are_built():
    model = Small()
    module = torch_tensorrt.MutableTorchTensorRTModule(model, **ONE)
    module(X)
    module.second = torch.nn.Sequential(torch.nn.Linear(32, 4), torch.nn.Tanh())
    assert module.refit_state.get_state() is RefitFlag.NEEDS_RECOMPILE
    same(module(X), model, X)
    module.second[1] = torch.nn.ReLU()  # inside of what the module gave
    same(module(X), model, X)
    model.second[0] = torch.nn.Linear(32, 7)  # behind its back: the weights do not fit
    same(module(X), model, X)
    module.half_way = 3
    assert model.half_way == 3
    del module.half_way
    assert not hasattr(model, "half_way")


def test_new_sizes_widen_the_range():
    model = Small()
    module = torch_tensorrt.MutableTorchTensorRTModule(model, **ONE)
    for rows in (3, 7):
        same(module(torch.ones(rows, 16)), model, torch.ones(rows, 16))
    built = module.compiled
    for rows in (3, 5, 7):
        same(module(torch.ones(rows, 16)), model, torch.ones(rows, 16))
    assert module.compiled is built
    same(module(torch.ones(1, 16)), model, torch.ones(1, 16))
    assert module.compiled is not built
    same(module(X, k=torch.ones(32)), model, X, k=torch.ones(32))


def test_sizes_that_the_model_fixes_are_built_each_by_itself():
    class Fixed(torch.nn.Module):
        def forward(self, x):
            return x.reshape(int(x.shape[0]), -1) * len(x)

    module = torch_tensorrt.MutableTorchTensorRTModule(Fixed(), strict=False, **ONE)
    for rows in (3, 7, 3):
        same(module(torch.ones(rows, 4)), Fixed(), torch.ones(rows, 4))


def test_arguments_are_compared_with_what_was_compiled():
    compare = torch_tensorrt.MutableTorchTensorRTModule._check_inputs_shape
    batch = {0: torch.export.Dim("batch", min=1, max=8)}
    one, other = {"k": [torch.zeros(2, 8)], "n": 3}, {"k": [torch.zeros(5, 8)], "n": 3}
    assert compare(one, one) and not compare(one, other) and compare(one, other, {"k": [batch], "n": None})
    assert not compare(one, {"k": [torch.zeros(9, 8)], "n": 3}, {"k": [batch], "n": None})  # beyond the range
    assert not compare(one, {"k": [torch.zeros(5, 7)], "n": 3}, {"k": [batch], "n": None})
    assert not compare(one, {"k": [torch.zeros(2, 8, dtype=torch.float64)], "n": 3}) and not compare(one, {"k": [torch.zeros(2, 8)], "n": 4}) and not compare(one, {"k": [torch.zeros(2, 8)]})
    made = torch_tensorrt.MutableTorchTensorRTModule._process_kwarg_inputs({"k": [X, 2.5], "n": None})
    assert made["k"][0] is X and torch.equal(made["k"][1], torch.tensor(2.5)) and made["n"] is None
    with pytest.raises(ValueError, match="neither a tensor nor a number"):
        torch_tensorrt.MutableTorchTensorRTModule._process_kwarg_inputs({"k": object()})

    module = torch_tensorrt.MutableTorchTensorRTModule(Small(), **ONE)
    for wrong in ((batch, {}), ((batch,), (batch,))):
        with pytest.raises(AssertionError, match="are a tuple"):
            module.set_expected_dynamic_shape_range(*wrong)
    module.set_expected_dynamic_shape_range((batch,), {})
    module(X)
    module._validate_inputs(torch.zeros(5, X.shape[1]))
    assert module.refit_state.get_state() is RefitFlag.LIVE and module.arg_dynamic_shapes == (batch,)
    module._validate_inputs(torch.zeros(9, X.shape[1]))
    assert module.refit_state.get_state() is RefitFlag.NEEDS_RECOMPILE and module.arg_dynamic_shapes is None
    beyond = torch.randn(9, X.shape[1])
    torch.testing.assert_close(module(beyond), module.original_model(beyond))
    module._validate_inputs(X)  # the range was widened
    assert module.refit_state.get_state() is RefitFlag.LIVE


def test_the_expected_range():
    model, batch = Small(), torch.export.Dim("batch", min=1, max=8)
    module = torch_tensorrt.MutableTorchTensorRTModule(model, **ONE)
    module.set_expected_dynamic_shape_range(({0: batch},), {"k": {0: torch.export.Dim.AUTO}} and {})
    for rows in (3, 1, 8):
        same(module(torch.ones(rows, 16)), model, torch.ones(rows, 16))
        built = module.compiled
    assert module.compiled is built and module.compiled.ingot_module.engine.symbols()["batch"]["max"] == 8


def test_a_budget_for_the_weights():
    module = torch_tensorrt.MutableTorchTensorRTModule(Small(), weight_streaming_budget=100, **ONE)
    module.set_weight_streaming_ctx()  # nothing is compiled yet
    same(module(X), Small(), X)
    with runtime.weight_streaming(module) as weights:
        assert weights.device_budget == 100
        weights.device_budget = 50
        module.set_weight_streaming_ctx()
        assert weights.device_budget == 100


def test_save_and_load(tmp_path):
    module = torch_tensorrt.MutableTorchTensorRTModule(Small(), torch_executed_ops={torch.ops.aten.sin.default}, device=torch_tensorrt.Device("cpu"), **ONE)
    module.set_expected_dynamic_shape_range(({0: torch.export.Dim("batch", min=1, max=8)},), {})
    module(X)
    torch_tensorrt.MutableTorchTensorRTModule.save(module, str(tmp_path / "module.pt"))
    loaded = torch_tensorrt.MutableTorchTensorRTModule.load(str(tmp_path / "module.pt"))
    same(loaded(X), Small(), X)
    built = loaded.compiled
    same(loaded(X[:1]), Small(), X[:1])
    assert loaded.compiled is built and "_run_on_acc_2" in dict(built.named_children())


def test_what_it_refuses(caplog):
    with pytest.raises(AssertionError, match="immutable_weights"):
        torch_tensorrt.MutableTorchTensorRTModule(Small(), immutable_weights=True)
    with pytest.raises(ingot.UnsupportedError, match="DLA"):
        torch_tensorrt.MutableTorchTensorRTModule(Small(), device="dla:0")
    with pytest.raises(ingot.InputError, match="not called yet"):
        torch_tensorrt.MutableTorchTensorRTModule(Small()).compile()
