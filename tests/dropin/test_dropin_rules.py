"""Users' additions to a build: decompositions, passes, converters, plugins; and partitioning by hand."""

import pytest
import torch
from eager import Small, same

import ingot
import ingot.torch_tensorrt as torch_tensorrt
from ingot.torch_tensorrt.dynamo import conversion, lowering, partitioning
from ingot.torch_tensorrt.dynamo.conversion import DYNAMO_CONVERTERS, ConverterPriority, dynamo_tensorrt_converter
from ingot.torch_tensorrt.dynamo.lowering.passes import ATEN_LOWERING_PASSES, _aten_lowering_pass, _remove_lowering_pass, dump_lowering_passes
from ingot.torch_tensorrt.dynamo.lowering.passes.pass_utils import clean_up_graph_after_modifications, get_tensor_placeholders
from ingot.torch_tensorrt.dynamo.tools import opset_coverage

X = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
ONE = {"min_block_size": 1}
RANGE = torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(2, 16), max_shape=(8, 16))


@torch.library.custom_op("dropin_tests::wave", mutates_args=())
def wave(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2


@wave.register_fake
def _(x):
    return torch.empty_like(x)


class Wave(Small):
    def forward(self, x):
        return self.second(torch.ops.dropin_tests.wave.default(self.first(x)))


@pytest.fixture(autouse=True)
def clean():
    yield
    lowering.torch_trt_decompositions.clear()
    DYNAMO_CONVERTERS.registry.clear()
    DYNAMO_CONVERTERS.set_disallowed_targets(())
    ATEN_LOWERING_PASSES.passes.clear()


def made_of(model, **more):
    made = torch_tensorrt.compile(model, inputs=[RANGE], **ONE, **more)
    for rows in (1, 3, 8):
        torch.testing.assert_close(made(torch.ones(rows, 16)), model(torch.ones(rows, 16)))
    return made


def test_an_operator_of_the_users_runs_in_torch():
    made = made_of(Wave())
    assert made.report.in_torch == 1
    conversion.plugins.custom_op("dropin_tests::wave", supports_dynamic_shapes=True)
    with pytest.raises(ingot.InputError, match="no operator"):
        conversion.plugins.generate_plugin_converter("dropin_tests::nothing")


@pytest.mark.parametrize("rule", ["decomposition", "converter", "pass"])
def test_rules_apply_under_torch_compile_too(rule):
    """Each makes of wave(x) the triple of x, which no other way would give."""
    op = torch.ops.dropin_tests.wave.default
    triple = lambda x: torch.ops.aten.mul.Tensor(x, 3)  # noqa: E731
    model = Wave()
    expected = lambda x: model.second(model.first(x) * 3)  # noqa: E731

    def replace(gm, settings):
        assert settings.min_block_size == 1
        for node in list(gm.graph.find_nodes(op="call_function", target=op)):
            with gm.graph.inserting_before(node):
                node.replace_all_uses_with(gm.graph.call_function(torch.ops.aten.mul.Tensor, (node.args[0], 3)))
        return clean_up_graph_after_modifications(gm)

    if rule == "decomposition":
        lowering.register_torch_trt_decomposition(op)(triple)
    elif rule == "converter":
        dynamo_tensorrt_converter(op)(lambda ctx, target, args, kwargs, name: triple(*args))
    else:
        _aten_lowering_pass(replace)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=torch_tensorrt.dynamo.backend.torch_tensorrt_backend, options={**ONE, "pass_through_build_failures": True})
    with torch.no_grad():
        torch._dynamo.mark_dynamic(rows := torch.randn(3, 16), 0)
        for x in (rows, torch.randn(5, 16)):
            torch.testing.assert_close(compiled(x), expected(x))
        model.first.weight.mul_(2)  # is still followed
        torch.testing.assert_close(compiled(x), expected(x))


def test_a_converter_of_layers_under_torch_compile(caplog):
    dynamo_tensorrt_converter(torch.ops.dropin_tests.wave.default)(lambda ctx, target, args, kwargs, name: ctx.net.add_activation(args[0]))
    torch._dynamo.reset()
    model = Wave()
    with torch.no_grad():
        same(torch.compile(model, backend=torch_tensorrt.dynamo.backend.torch_tensorrt_backend, options=ONE)(X), model, X)
    assert "builds layers of TensorRT" in caplog.text


def test_a_decomposition():
    @lowering.register_torch_trt_decomposition(torch.ops.dropin_tests.wave.default)
    def _(x):
        return torch.sin(x) * 2

    assert made_of(Wave()).report.whole and torch.ops.dropin_tests.wave.default in lowering.get_decompositions()
    with pytest.raises(ingot.InputError, match="already"):
        lowering.register_torch_trt_decomposition(torch.ops.dropin_tests.wave)(lambda x: x)


def test_a_converter_that_composes_operators():
    seen = []

    @dynamo_tensorrt_converter(torch.ops.dropin_tests.wave.default, capability_validator=lambda node, settings: settings.min_block_size == 1, supports_dynamic_shapes=True)
    def _(ctx, target, args, kwargs, name):
        seen.append((target, ctx.compilation_settings.min_block_size))
        return torch.ops.aten.mul.Tensor(torch.ops.aten.sin.default(args[0]), 2)

    assert made_of(Wave()).report.whole and seen[0] == (torch.ops.dropin_tests.wave.default, 1)
    assert torch.ops.dropin_tests.wave.default in DYNAMO_CONVERTERS


def test_the_one_of_high_priority_goes_first():
    @dynamo_tensorrt_converter(torch.ops.aten.sin.default)
    def _(ctx, target, args, kwargs, name):
        return torch.cos(args[0])

    @dynamo_tensorrt_converter(torch.ops.aten.sin.default, priority=ConverterPriority.HIGH, capability_validator=lambda node, settings: True)
    def _(ctx, target, args, kwargs, name):
        return torch.tanh(args[0])

    class Tanh(Small):
        def forward(self, x):
            return self.second(torch.tanh(torch.nn.functional.gelu(self.first(x))))

    made = torch_tensorrt.compile(Small(), inputs=[X], **ONE)
    same(made(X), Tanh(), X)
    DYNAMO_CONVERTERS.set_disallowed_targets({torch.ops.aten.sin.default})
    same(torch_tensorrt.compile(Small(), inputs=[X], **ONE)(X), Small(), X)


def test_a_converter_that_builds_tensorrt_layers_is_refused():
    @dynamo_tensorrt_converter(torch.ops.dropin_tests.wave.default)
    def _(ctx, target, args, kwargs, name):
        return ctx.net.add_activation(args[0])

    with pytest.raises(ingot.UnsupportedError, match="ctx.net.*(\n.*)*compose torch's operators"):
        torch_tensorrt.compile(Wave(), inputs=[X], **ONE)


def test_a_pass():
    @_aten_lowering_pass
    def no_waves(gm, settings):
        for node in gm.graph.nodes:
            if node.target is torch.ops.dropin_tests.wave.default:
                with gm.graph.inserting_before(node):
                    sine = gm.graph.call_function(torch.ops.aten.sin.default, node.args)
                    node.replace_all_uses_with(gm.graph.call_function(torch.ops.aten.mul.Tensor, (sine, 2)))
                gm.graph.erase_node(node)
        gm.recompile()
        return gm

    assert made_of(Wave()).report.whole and "no_waves" in dump_lowering_passes()
    with_keyword = torch_tensorrt.compile(Small(), arg_inputs=[RANGE], kwarg_inputs={"k": torch.ones(32)}, **ONE)
    same(with_keyword(X, k=torch.ones(32)), Small(), X, k=torch.ones(32))
    _remove_lowering_pass(index=0)
    assert made_of(Wave()).report.in_torch == 1


def test_partitioning():
    gm = torch.export.export(Small(), (X,)).module(check_guards=False)
    assert partitioning.get_graph_converter_support(gm) == (4, 4) and partitioning.get_graph_converter_support(gm, {"aten.sin"}) == (3, 4)
    names = lambda module: [n for n, _ in module.named_children() if n.startswith("_run_on")]  # noqa: E731
    made, support = partitioning.fast_partition(gm, min_block_size=1, torch_executed_ops={torch.ops.aten.sin.default})
    assert names(made) == ["_run_on_acc_0", "_run_on_gpu_1", "_run_on_acc_2"] and support.unsupported_operators == {"aten.sin.default": 1}
    same(made(X), Small(), X)
    assert names(partitioning.fast_partition(gm, min_block_size=2, torch_executed_ops={"aten.sin"})[0]) == ["_run_on_acc_0", "_run_on_gpu_1"]
    gm = torch.export.export(Small(), (X,)).module(check_guards=False)
    made, _ = partitioning.global_partition(gm, min_block_size=1, torch_executed_ops={"aten.sin"})
    assert names(made) == ["_run_on_acc_0", "_run_on_acc_1"]
    same(made(X), Small(), X)
    with pytest.raises(AssertionError):
        partitioning.fast_partition(torch.export.export(Small(), (X,)).module(check_guards=False), require_full_compilation=True, torch_executed_ops={"aten.sin"})


def test_coverage():
    found = opset_coverage.opset_coverage([torch.ops.aten.relu.default, torch.ops.dropin_tests.wave.default])
    assert found.support_count == {"CONVERTED": 1, "FALLBACK": 1}
    assert opset_coverage.opset_coverage(opset_coverage.get_aten_ops()).support_count["CONVERTED"] > 100


def test_a_backend_of_ones_own_with_repair_input_aliasing():
    """As upstream's guide to custom backends has it: aot_export_joint_simple takes a graph that writes and returns its inputs once they are copied."""
    from torch._functorch.aot_autograd import aot_export_joint_simple

    def forward(x, y):
        x.add_(y)
        return x.view(-1), y, torch.relu(y.clone())

    x, y = torch.randn(2, 3), torch.randn(2, 3)
    with pytest.raises(RuntimeError, match="does not support"):
        aot_export_joint_simple(torch.fx.symbolic_trace(forward), (x, y), trace_joint=False)
    gm = aot_export_joint_simple(lowering.repair_input_aliasing(torch.fx.symbolic_trace(forward)), (x, y), trace_joint=False)
    expected = forward(x.clone(), y)
    copies = sum(n.target is torch.ops.aten.clone.default for n in gm.graph.nodes)
    lowered = lowering.post_lowering(gm)
    assert sum(n.target is torch.ops.aten.clone.default for n in lowered.graph.nodes) < copies
    before = x.clone(), y.clone()
    results = lowered(x, y)
    assert all(torch.equal(a, b) for a, b in zip(results, expected)) and torch.equal(x, before[0]) and torch.equal(y, before[1])
    assert all(r.untyped_storage().data_ptr() not in (x.untyped_storage().data_ptr(), y.untyped_storage().data_ptr()) for r in results)


def test_what_passes_of_scripts_use():
    gm = torch.export.export(Small(), (X,)).module(check_guards=False)
    with gm.graph.inserting_before(gm.graph.output_node()):
        gm.graph.call_function(torch.ops.aten.relu.default, (get_tensor_placeholders(gm)[0],))
    count = len(gm.graph.nodes)
    assert len(clean_up_graph_after_modifications(gm).graph.nodes) == count - 1
