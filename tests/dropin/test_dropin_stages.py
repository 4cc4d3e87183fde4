"""The stages that scripts call directly, and the attributes of engines that they read."""

import logging
import operator

import pytest
import torch
from eager import Calls, Small, same

import ingot.torch_tensorrt as torch_tensorrt
from ingot.torch_tensorrt import runtime
from ingot.torch_tensorrt.dynamo import CompilationSettings, lowering, partitioning, utils
from ingot.torch_tensorrt.dynamo._compiler import _build_user_symbol_bounds
from ingot.torch_tensorrt.dynamo._engine_cache import BaseEngineCache, DiskEngineCache
from ingot.torch_tensorrt.dynamo._tracer import build_dim_registry, get_dynamic_shapes_args, get_dynamic_shapes_kwargs
from ingot.torch_tensorrt.dynamo.conversion import DYNAMO_CONVERTERS
from ingot.torch_tensorrt.dynamo.lowering._buffer_lifting import inline_lifted_buffers_into_gm, lift_mutated_buffers
from ingot.torch_tensorrt.dynamo.lowering.passes.eliminate_sym_min_int64_max import eliminate_sym_min_int64_max
from ingot.torch_tensorrt.dynamo.lowering.passes.normalize_negative_slice_stop import normalize_negative_slice_stop
from ingot.torch_tensorrt.dynamo.partitioning._atomic_subgraphs import ATOMIC_SUBGRAPHS, register_atomic_subgraph, trace_atomic_graph

X = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
ONE = {"min_block_size": 1}
aten = torch.ops.aten


def targets(graph):
    return {n.target for n in graph.nodes if n.op == "call_function"}


@pytest.mark.parametrize("form", ["efficient", "flash", "cudnn"])
def test_attention_as_a_gpu_calls_it_runs_in_the_engine(form):
    """torch has no such kernels on the CPU, and needs none: the program is traced with fake tensors."""
    q, k, v = (torch.randn(2, 4, 8, 16) for _ in range(3))
    bias = torch.randn(2, 4, 8, 8)
    functions = {
        "efficient": lambda q, k, v, b: aten._scaled_dot_product_efficient_attention.default(q, k, v, b, False, 0.0, False, scale=0.3)[0],
        "flash": lambda q, k, v, b: aten._scaled_dot_product_flash_attention.default(q, k, v, 0.0, True, scale=0.3)[0] + b.sum(),
        "cudnn": lambda q, k, v, b: aten._scaled_dot_product_cudnn_attention.default(q, k, v, b, False, 0.0, False, scale=0.3)[0],
    }
    program = torch.export.export(Calls(functions[form]), (q, k, v, bias))
    made = torch_tensorrt.dynamo.compile(program, [q, k, v, bias], require_full_compilation=True, **ONE)
    usual = torch.nn.functional.scaled_dot_product_attention
    same(made(q, k, v, bias), Calls(lambda q, k, v, b: usual(q, k, v, is_causal=True, scale=0.3) + b.sum() if form == "flash" else usual(q, k, v, b, scale=0.3)), q, k, v, bias)


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_takes_fewer_heads_of_keys(causal):
    q, k, v = torch.randn(2, 6, 8, 16), torch.randn(2, 2, 8, 16), torch.randn(2, 2, 8, 16)
    program = torch.export.export(Calls(lambda q, k, v: aten._scaled_dot_product_flash_attention.default(q, k, v, 0.0, causal)[:2]), (q, k, v))
    made, sums = torch_tensorrt.dynamo.compile(program, [q, k, v], require_full_compilation=True, **ONE)(q, k, v)
    torch.testing.assert_close(made, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True), rtol=1e-4, atol=1e-5)
    scores = q @ k.repeat_interleave(3, 1).mT / 4
    torch.testing.assert_close(sums, (scores.masked_fill(torch.ones(8, 8).triu(1) > 0, -torch.inf) if causal else scores).logsumexp(-1), rtol=1e-4, atol=1e-5)


# ---- decompositions


INDEX = torch.tensor([[0, 1, 2, 0], [1, 2, 1, 1]])
SOURCE = torch.arange(1.0, 9.0).reshape(2, 4)
RULES = {
    "rsqrt": (aten.rsqrt.default, lambda x: aten.rsqrt.default(x.abs() + 1)),
    "reciprocal": (aten.reciprocal.default, lambda x: aten.reciprocal.default(x.abs() + 1)),
    "variance": (aten.var.correction, lambda x: torch.var(x, 1, correction=0, keepdim=True)),
    "log softmax": (aten._log_softmax.default, lambda x: torch.log_softmax(x, 1)),
    "select scatter": (aten.select_scatter.default, lambda x: torch.select_scatter(x, x[0] + 1, 0, -1)),
    "instance norm": (aten.instance_norm.default, lambda x: torch.nn.functional.instance_norm(x.reshape(1, 3, 16))),
    "scatter add": (aten.scatter_add.default, lambda x: torch.scatter_add(x, 1, INDEX, SOURCE.to(x.dtype))),
    "masked scatter": (aten.masked_scatter.default, lambda x: torch.masked_scatter(x, x > 0, x.flatten() + 1)),
    "full like": (aten.full_like.default, lambda x: torch.full_like(x, 2) + x),
    **{f"scatter {kind} {own}": (aten.scatter_reduce.two, lambda x, kind=kind, own=own: torch.scatter_reduce(x, 0, INDEX, SOURCE.to(x.dtype), kind, include_self=own)) for kind in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)},
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
@pytest.mark.one_in(4)
def test_decompositions_give_what_the_operators_give(name):
    operator, function = RULES[name]
    program = torch.export.export(Calls(function), (X,))
    taken_apart = program.run_decompositions(lowering.get_decompositions())
    assert operator not in targets(taken_apart.graph)
    same(taken_apart.module()(X), Calls(function), X)


def test_decompositions_of_attention():
    q = torch.randn(1, 4, 8, 16, dtype=torch.half)
    k = torch.randn(1, 2, 8, 16, dtype=torch.half)
    model = Calls(lambda q, k: torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True))
    program = torch.export.export(model, (q, k))
    assert aten.scaled_dot_product_attention.default in targets(program.run_decompositions(lowering.get_decompositions()).graph)
    for wide, dtype in ((False, torch.half), (True, torch.float32)):
        apart = program.run_decompositions(lowering.get_decompositions(decompose_attention=True, use_fp32_acc=wide))
        products = [n for n in apart.graph.nodes if n.target in (aten.matmul.default, aten.bmm.default)]
        assert products and all(n.meta["val"].dtype is dtype for n in products)
    same(apart.module()(q, k), model, q, k)


def test_post_lowering_drops_indices_of_poolings_and_guards():
    class Pools(torch.nn.Module):
        def forward(self, x):
            y, where = aten.max_pool2d_with_indices.default(x, [2, 2])
            return aten.max_pool2d_with_indices.default(x, [2, 2])[0] + y, where

    x = torch.randn(1, 2, 4, 4)
    lowered = lowering.post_lowering(torch.export.export(Pools(), (x,)).module(), CompilationSettings())
    assert targets(lowered.graph) >= {aten.max_pool2d.default, aten.max_pool2d_with_indices.default} and not any(n.op == "call_module" for n in lowered.graph.nodes)
    same(lowered(x)[0], Calls(lambda x: Pools()(x)[0]), x)


# ---- partitioning


def test_a_graph_for_several_backends():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 4, 3), torch.nn.Tanh()).eval()
    x = torch.randn(1, 3, 8, 8)
    gm = lowering.post_lowering(torch.export.export(model, (x,)).run_decompositions(lowering.get_decompositions()).module())
    support = {"other": {"torch.ops.aten.convolution.default"}, "tensorrt": DYNAMO_CONVERTERS.keys()}
    made, found = partitioning.hierarchical_adjacency_partition(gm, backend_support_map=support, torch_executed_ops={"aten.tanh.default"}, **ONE)
    assert [n for n, _ in made.named_children()] == ["_run_on_acc_other_0", "_run_on_acc_tensorrt_1", "_run_on_acc_other_2", "_run_on_gpu_3"]
    assert found.unsupported_operators == {"aten.tanh.default": 1}
    same(made(x), model, x)
    with pytest.raises(AssertionError):
        partitioning.hierarchical_adjacency_partition(gm, backend_support_map=support, require_full_compilation=True)


def test_operators_with_sizes_from_data_stay_when_asked():
    gm = torch.export.export(Calls(torch.nonzero), (X,)).module()
    node = next(n for n in gm.graph.nodes if n.target is aten.nonzero.default)
    support, before = partitioning.TorchTensorRTOperatorSupport(), DYNAMO_CONVERTERS.compilation_settings
    try:
        for value in (False, True):
            DYNAMO_CONVERTERS.set_compilation_settings(CompilationSettings(fallback_data_dependent_ops=value))
            assert support.is_node_supported({}, node) is not value
    finally:
        DYNAMO_CONVERTERS.set_compilation_settings(before)


def test_atomic_subgraphs():
    @register_atomic_subgraph(init_args=(), is_core_aten=True)
    class Pattern(torch.nn.Module):
        def forward(self, x):
            return aten.relu.default(aten.neg.default(x))

    try:
        assert ATOMIC_SUBGRAPHS[-1] == (Pattern, (), True)
        graph = trace_atomic_graph(Pattern, (), True)
        assert targets(graph.graph) == {aten.relu.default, aten.neg.default} and trace_atomic_graph(Pattern, (), True) is graph
    finally:
        ATOMIC_SUBGRAPHS.pop()
        trace_atomic_graph.cache_clear()


# ---- sizes


def ranged(name, low, high, shared=None):
    return torch_tensorrt.Input(min_shape=(low, 16), opt_shape=(high, 16), max_shape=(high, 16), name=name, shared_dims={0: shared} if shared else None)


def test_shared_dimensions_by_name(caplog):
    with caplog.at_level(logging.INFO, logger="torch_tensorrt.dynamo._tracer"):
        registry = build_dim_registry([ranged("a", 1, 8, "batch")], {"b": ranged("b", 1, 8, "batch"), "c": [ranged("c", 1, 8, "other")]})
    assert set(registry) == {"batch", "other"} and "a[0]" in caplog.text and "b[0]" in caplog.text
    assert get_dynamic_shapes_args(Small(), [ranged("a", 1, 8, "batch")], registry) == {"x": {0: registry["batch"]}}
    assert get_dynamic_shapes_kwargs({"b": ranged("b", 1, 8, "batch"), "c": X}, registry) == {"b": {0: registry["batch"]}, "c": {}}
    with pytest.raises(ValueError, match=r"a\[0\] from 1 to 4, b\[0\] from 1 to 8"):
        build_dim_registry([ranged("a", 1, 4, "batch"), ranged("b", 1, 8, "batch")], {})


def test_ranges_of_open_sizes():
    program = lambda dim: torch.export.export(Small(), (X,), dynamic_shapes={"x": {0: dim}})  # noqa: E731
    size_of = lambda program: next(n.meta["val"].shape[0] for n in program.graph.nodes if n.op == "placeholder" and n.name == "x")  # noqa: E731
    open_one, closed = program(torch.export.Dim.DYNAMIC), program(torch.export.Dim("batch", min=2, max=8))
    size = size_of(open_one)
    assert utils.extract_var_range_info(size) == {"min": 1, "max": None, "opt": 3}
    assert utils.extract_var_range_info(size, {size.node.expr: (2, 6)}) == {"min": 2, "max": 6, "opt": 3}
    bounds = lambda program, *inputs: _build_user_symbol_bounds(program.module(), list(inputs), {}, program.graph_signature)  # noqa: E731
    assert bounds(open_one, ranged("x", 2, 6)) == {size.node.expr: (2, 6)} and bounds(open_one, torch_tensorrt.Input((3, 16))) == {}
    assert list(bounds(closed, ranged("x", 2, 4)).values()) == [(2, 4)]
    with pytest.raises(ValueError, match="ends at 8"):
        bounds(closed, ranged("x", 2, 9))
    with pytest.raises(ValueError, match="begins at 3"):
        bounds(program(torch.export.Dim("batch", min=3, max=8)), ranged("x", 2, 8))


# ---- engines


def test_profiles_are_chosen_and_shown():
    shape = lambda *rows: dict(zip(("min_shape", "opt_shape", "max_shape"), [(n, 16) for n in rows]))  # noqa: E731
    one = torch_tensorrt.Input(profiles=[shape(1, 1, 1), shape(1, 4, 8)])
    assert "profiles=" in str(one)
    made = torch_tensorrt.compile(Small(), inputs=[one], torch_executed_ops={"aten.sin"}, **ONE)
    found = [m.engine for m in made.modules() if isinstance(m, torch_tensorrt.TorchTensorRTModule)]
    assert len(found) == 2 and all(e.num_optimization_profiles == 2 for e in found)
    active = lambda: {e._active_profile_index for e in found}  # noqa: E731
    with runtime.optimization_profile(made, "auto"):
        for rows, expected in ((1, 0), (3, 1), (1, 1)):  # the one in use stays where the inputs fit it
            same(made(X[:rows]), Small(), X[:rows])
            assert active() == {expected} and all(e._auto_select_profiles for e in found)
        with runtime.optimization_profile(made, 0):
            assert active() == {0} and not any(e._auto_select_profiles for e in found)
        assert active() == {1}
    assert active() == {0} and not found[0]._auto_select_profiles


def test_what_engines_write_in_place():
    class Cache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, cache, update):
            cache[:, :, 1:2] = update
            self.count += 1
            return cache.sum() + self.count

    cache, update = torch.zeros(1, 2, 4, 3), torch.ones(1, 2, 1, 3)
    made = torch_tensorrt.compile(Cache(), inputs=[cache, update], **ONE)
    assert made._run_on_acc_0.aliased_io == {"cache": ("cache", "kv_cache_update"), "count": ("count", "user")}
    assert made._run_on_acc_0.engine.aliased_input_binding_names == {"cache", "count"} and made._run_on_acc_0.engine.in_binding_names == ["cache", "update", "count"]
    made(cache, update)
    assert cache.sum() == update.sum()
    assert torch_tensorrt.compile(Small(), inputs=[X], **ONE)._run_on_acc_0.aliased_io == {}


def test_which_pieces_give_results_of_the_model():
    made = torch_tensorrt.compile(Small(), inputs=[X], torch_executed_ops={"aten.sin"}, **ONE)
    assert [made._run_on_acc_0.are_output_tensors_unowned(), made._run_on_acc_2.are_output_tensors_unowned()] == [False, True]


def test_entries_of_caches(tmp_path):
    values = dict(serialized_engine=b"engine", input_names=["x"], output_names=["y"], input_specs=(), compilation_settings=CompilationSettings(), requires_output_allocator=False,
                  requires_native_multidevice=False, aliased_io={"cache": ("cache", "kv_cache_update")})  # fmt: skip
    cache = DiskEngineCache(str(tmp_path))
    cache.insert("packed", tuple(values.values()))
    cache.insert("bytes", b"as builds keep them")
    assert cache.check("packed") == tuple(values.values()) and cache.check("bytes") == b"as builds keep them" and cache.check("none") is None
    assert BaseEngineCache.unpack(BaseEngineCache.pack(**{**values, "aliased_io": None}))[7] == {}


def test_settings_of_older_pickles():
    state = vars(CompilationSettings(min_block_size=3)).copy()
    del state["fallback_data_dependent_ops"]
    restored = CompilationSettings.__new__(CompilationSettings)
    restored.__setstate__(state)
    assert restored == CompilationSettings(min_block_size=3)


def test_helpers():
    assert utils.to_torch_device("cuda:2") == utils.to_torch_device(torch_tensorrt.Device(gpu_id=2)) == torch.device("cuda", 2) and utils.to_torch_device(None).type in ("cpu", "cuda")
    assert [utils.prepare_inputs(v).dtype.to(torch.dtype) for v in (3, 1.5, True)] == [torch.int64, torch.float32, torch.bool]
    numbers = torch_tensorrt.Input(min_shape=(1, 2), opt_shape=(3, 4), max_shape=(5, 6), is_shape_tensor=True)
    assert utils.get_torch_tensor(numbers) == [3, 4]
    tiny = torch.tensor([1e-20, 2e-20])
    assert utils.cosine_similarity(tiny, 3 * tiny) == pytest.approx(1.0) and utils.cosine_similarity(tiny, 0 * tiny) == 0.0 and utils.cosine_similarity(0 * tiny, 0 * tiny) == 1.0
    assert utils.cosine_similarity(torch.tensor([1 + 1j]), torch.tensor([1 - 1j])) == pytest.approx(0.0)


def _interpreted(forward, *inputs):
    """A graph as one engine of the CPU, and the graph."""
    from ingot.torch_tensorrt.dynamo.conversion import convert_module

    graph = torch.fx.symbolic_trace(type("Model", (torch.nn.Module,), {"forward": forward})())
    return convert_module(graph, [torch_tensorrt.Input.from_tensor(x) for x in inputs], torch_tensorrt.dynamo.CompilationSettings(device="cpu")), graph


def test_an_interpreter_negates_a_tensor():
    engine, graph = _interpreted(lambda self, x: torch.sym_not(x), torch.tensor([[True]]))
    for x in (torch.tensor([[True]]), torch.tensor([[False]])):
        assert torch.equal(engine(x), torch.tensor(graph(x)))


def test_an_interpreter_reads_the_number_in_a_shape_tensor():
    from ingot.torch_tensorrt.dynamo.conversion import convert_module

    class Model(torch.nn.Module):
        def forward(self, end, x):
            return torch.ops.aten.arange.start_step(1, end, 2), x + end

    end = torch_tensorrt.Input(min_shape=(5,), opt_shape=(7,), max_shape=(10,), dtype=torch.int32, torch_tensor=torch.tensor(7, dtype=torch.int32), is_shape_tensor=True)
    engine = convert_module(torch.fx.symbolic_trace(Model()), [end, torch_tensorrt.Input((3,))], torch_tensorrt.dynamo.CompilationSettings(device="cpu"))
    x = torch.randn(3)
    for n in (5, 7, 10):
        numbers, sums = engine(torch.tensor(n, dtype=torch.int32), x)
        assert torch.equal(numbers, torch.arange(1, n, 2)) and torch.equal(sums, x + n)


@pytest.mark.parametrize("size", [(2,), (6,), (2, 2), (3, 5)])
def test_an_interpreter_gives_resize_as_a_value(size):
    def forward(self, x):
        y = torch.ops.aten.resize_.default(x, size)
        return y * 1, x + 1  # x is the resized tensor here

    x = torch.arange(1.0, 7.0).reshape(3, 2)
    engine, graph = _interpreted(forward, x)
    first, second = engine(x)
    assert x.shape == (3, 2)  # the caller's tensor stays as it was
    resized, count = torch.arange(1.0, 7.0), min(6, torch.Size(size).numel())
    assert first.shape == second.shape == size
    assert torch.equal(first.flatten()[:count], resized[:count]) and torch.equal(second, first + 1)
    assert graph.graph.find_nodes(op="call_function", target=torch.ops.aten.resize_.default)


@pytest.mark.parametrize("size, stride, offset", [((2, 3), (1, 2), 0), ((2, 2), (3, 0), 1), ((), (), 5), ((2, 2, 2), (1, 1, 1), None)])
def test_an_interpreter_reads_as_strided_from_a_row_major_value(size, stride, offset):
    def forward(self, x):
        return torch.ops.aten.as_strided.default(x, size, stride, offset)

    x = torch.arange(20.0).reshape(4, 5)
    engine, _ = _interpreted(forward, x)
    for lies in (x, x.t().contiguous().t()):
        assert torch.equal(engine(lies), x.as_strided(size, stride, offset))


def test_a_graph_is_named_without_the_names_of_its_inputs():
    class First(torch.nn.Module):
        def forward(self, a, b):
            return a + b

    class Second(torch.nn.Module):
        def forward(self, c, d):
            return c + d

    class Other(torch.nn.Module):
        def forward(self, c, d):
            return d + c * 1

    named = [BaseEngineCache.get_hash(torch.export.export(m(), (X, X)).module(), (), CompilationSettings()) for m in (First, Second, Other)]
    assert named[0] == named[1] != named[2]


def test_a_narrower_range_is_told(caplog):
    program = torch.export.export(Small(), (X,), dynamic_shapes={"x": {0: torch.export.Dim("rows", min=2, max=64)}})
    with torch_tensorrt.logging.info():
        _build_user_symbol_bounds(program.module(), [torch_tensorrt.Input(min_shape=(4, 16), opt_shape=(8, 16), max_shape=(16, 16))])
    assert "Narrowing engine profile: input x, axis 0 takes 4 to 16; the exported program takes 2 to 64" in caplog.text


class _Cache(torch.nn.Module):
    def forward(self, cache, update):
        cache[:, :, 3:4, :] = update
        return torch.cat([cache.sum().reshape(1), update.flatten()[:1]])


def test_an_engine_is_written_down_and_made_anew():
    from ingot.torch_tensorrt.dynamo.runtime import TorchTensorRTModule
    from ingot.torch_tensorrt.dynamo.runtime._TRTEngine import TRTEngine

    cache, update = torch.zeros(2, 4, 8, 2), torch.full((2, 4, 1, 2), 7.0)
    piece = torch_tensorrt.compile(_Cache(), inputs=[cache.clone(), update], **ONE)._run_on_acc_0
    fields = piece.engine.serialized_info
    engine = TRTEngine(list(fields))
    assert len(fields) == 13 and engine.in_binding_names == piece.engine.in_binding_names and engine.aliased_input_binding_names == {"cache"}
    assert engine.execute([cache, update])[0].tolist() == [112.0, 7.0] and cache[0, 0, 3, 0] == 7 and cache.sum() == 112
    mixed = torch_tensorrt.compile(Small(), inputs=[X], torch_executed_ops=["aten.sin"], **ONE)
    last = [m for n, m in mixed.named_children() if n.startswith("_run_on_acc")][-1]
    given = torch.randn(3, 32)
    assert torch.equal(TorchTensorRTModule(last.serialized_engine)(given), last(given))
    with pytest.raises(ValueError, match="13 fields"):
        TRTEngine(fields[:4])


class _Convolutions(torch.nn.Module):
    """Weights of 72, 144 and 288 KiB, and one of 5 KiB."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.Conv2d(64, 128, 3, padding=1)
        self.norm, self.last = torch.nn.BatchNorm2d(64), torch.nn.Linear(128, 10)
        self.eval()

    def forward(self, x):
        y = self.second(torch.relu(self.norm(self.first(x))))
        return self.last(torch.relu(self.third(torch.tanh(y))).mean((2, 3))), y


@pytest.mark.parametrize("cut", [partitioning.fast_partition, partitioning.global_partition])
def test_blocks_are_cut_by_the_memory_that_their_builds_take(cut, monkeypatch):
    from ingot.torch_tensorrt.dynamo.partitioning import _resource_partitioner

    monkeypatch.setattr(_resource_partitioner, "at_hand", lambda budget: budget)
    model, x = _Convolutions(), torch.randn(1, 32, 8, 8)

    def pieces(kib):
        graph = lowering.post_lowering(torch.export.export(model, (x,)).run_decompositions(lowering.get_decompositions()).module(), CompilationSettings())
        made = _resource_partitioner.resource_partition(cut(graph, min_block_size=1)[0], 4 * kib << 10)
        torch.testing.assert_close(made(x), model(x))
        return [[n.target._opname for n in m.graph.nodes if isinstance(n.target, torch._ops.OpOverload)] for name, m in made.named_children() if "_run_on_acc" in name]

    assert len(pieces(600)) == 1
    first, second = pieces(300)
    assert "tanh" in first and first.count("convolution") == 2 and second.count("convolution") == 1
    first, second, third = pieces(150)
    assert first[-1] == "relu" and second == ["convolution", "tanh"] and third[0] == "convolution"  # what follows a convolution stays with it
    assert len(pieces(60)) == 1  # not even the first fits
    with pytest.raises(ValueError, match="more than 50 times"):
        pieces(2)

    @register_atomic_subgraph(init_args=(), is_core_aten=True)
    class Joined(torch.nn.Module):
        def forward(self, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
            return torch.ops.aten.convolution.default(torch.ops.aten.tanh.default(x), weight, bias, stride, padding, dilation, transposed, output_padding, groups)

    try:
        first, second = pieces(300)
        assert "tanh" in second and first.count("convolution") == 2
    finally:
        ATOMIC_SUBGRAPHS.remove((Joined, (), True))


def test_a_cut_by_hand_is_moved_to_where_operators_part():
    from ingot.torch_tensorrt.dynamo.partitioning._resource_partitioner import ResourcePartitioner

    graph = torch.export.export(_Convolutions(), (torch.randn(1, 32, 8, 8),)).run_decompositions(lowering.get_decompositions()).module()
    partitioner = ResourcePartitioner(lowering.post_lowering(graph, CompilationSettings()), "block", 1 << 40)
    (whole,) = partitioner.put_nodes_into_subgraphs()
    assert whole.is_acc and partitioner.get_leaf_node(whole.nodes) is whole.nodes[-1]
    places = [i for i, node in enumerate(whole.nodes) if _op_name(node) == "relu"]

    def cut(at):
        first, second = partitioner.put_nodes_into_subgraphs() + partitioner.put_nodes_into_subgraphs()
        first.nodes, second.nodes = whole.nodes[:at], whole.nodes[at:]
        return [first, second]

    for place, begins, ends in zip(places, ("convolution", "convolution"), (True, False)):
        pieces = cut(place)  # before a relu, which belongs to the convolution in front of it
        with pytest.raises(ValueError, match="belong together"):
            partitioner._verify_all_fusion_nodes_in_same_subgraph(pieces)
        assert partitioner.step_if_break_fusion(pieces, partitioner.get_leaf_node(pieces[0].nodes), set(pieces[0].nodes), set(pieces[1].nodes))
        partitioner._verify_all_fusion_nodes_in_same_subgraph(pieces)
        assert pieces[0].nodes + pieces[1].nodes == whole.nodes and pieces[0].nodes
        assert (_op_name(pieces[0].nodes[-1]) == "relu") == ends and _op_name(pieces[1].nodes[0]) == begins
        assert not partitioner.step_if_break_fusion(pieces, None, set(pieces[0].nodes), set(pieces[1].nodes))


def _op_name(node):
    return node.target._opname if isinstance(node.target, torch._ops.OpOverload) else ""


# ---- passes by name, and buffers as inputs


class Cache(torch.nn.Module):
    """Writes a row of a cache, and gives its sum."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Module()
        self.inner.register_buffer("cache", torch.zeros(1, 4, 16, 8))

    def forward(self, x):
        self.inner.cache[:, :, 3:4, :] = x
        return self.inner.cache.sum() * 2


ROW = torch.ones(1, 4, 1, 8)


def test_buffers_are_lifted_and_put_back():
    gm = torch.export.export(Cache(), (ROW,)).run_decompositions({}).module()
    lifted, found = lift_mutated_buffers(gm)
    (place, name, tensor), cache = *found, torch.ones(1, 4, 16, 8)
    assert (place, name, tuple(tensor.shape)) == ("buf_inner_cache", "inner.cache", (1, 4, 16, 8))
    assert aten.copy_.default not in targets(lifted.graph) and [n.name for n in lifted.graph.find_nodes(op="placeholder")] == ["x", "buf_inner_cache"]
    assert lifted(ROW * 3, cache)[0] == 2 * (512 - 32 + 96) and cache.sum() == 512
    again = inline_lifted_buffers_into_gm(lifted, [(place, name, cache)])
    assert again(ROW * 3)[0] == 2 * (512 - 32 + 96) and again.inner.cache is cache
    plain = torch.export.export(Small(), (X,)).module()
    assert lift_mutated_buffers(plain) == (plain, []) and inline_lifted_buffers_into_gm(plain, []) is plain


def test_an_engine_takes_lifted_buffers_and_writes_them():
    program = torch.export.export(Cache(), (ROW,))
    data = torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine(program, [ROW], lift_mutable_buffers=True)
    engine, cache = torch_tensorrt.dynamo.runtime.TorchTensorRTModule(data), torch.zeros(1, 4, 16, 8)
    assert engine.input_binding_names == ["x", "buf_inner_cache"] and engine.aliased_io == {"buf_inner_cache": ("buf_inner_cache", "kv_cache_update")}
    assert engine(ROW * 3, cache) == 192 and torch.equal(cache[:, :, 3:4], ROW * 3) and cache.sum() == 96


def test_negative_ends_of_slices_are_counted_from_the_front():
    graph = torch.fx.Graph()
    x, n = graph.placeholder("x"), graph.placeholder("n")
    x.meta["val"] = torch.empty(2, 5, 3)
    back, kept = graph.call_function(operator.neg, (n,)), graph.call_function(aten.neg.default, (n,))
    graph.output((graph.call_function(aten.slice.Tensor, (x, -2, back)), graph.call_function(aten.slice.Tensor, (x, 1, 0, kept)), graph.call_function(aten.slice.Tensor, (x, 1, -2))))
    gm, value = normalize_negative_slice_stop(torch.fx.GraphModule({}, graph)), torch.arange(30.0).reshape(2, 5, 3)
    assert not {operator.neg, aten.neg.default} & targets(gm.graph)
    assert all(map(torch.equal, gm(value, 2), (value[:, -2:], value[:, :-2], value[:, -2:])))


def test_the_least_of_a_size_and_the_largest_integer_is_the_size():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.sym_min, (x, 2**63 - 1)), graph.call_function(torch.sym_min, (2**63 - 1, x)), graph.call_function(torch.sym_min, (x, 7))))
    gm = eliminate_sym_min_int64_max(torch.fx.GraphModule({}, graph))
    assert sum(n.target is torch.sym_min for n in gm.graph.nodes) == 1 and gm(9) == (9, 9, 7)


@pytest.mark.parametrize("function", [
    lambda x, y: torch.slice_scatter(x, y, 0, 2, 2 + y.shape[0]),
    lambda x, y: torch.slice_scatter(x, y, 0, x.shape[0] - y.shape[0]),
    lambda x, y: torch.slice_scatter(x, y, -2, 0, 2 * y.shape[0], 2),
])  # fmt: skip
def test_writes_to_slices_of_open_ends_are_scatters(function):
    x, y, rows = torch.zeros(16, 3), torch.randn(4, 3), torch.export.Dim("rows", min=2, max=7)
    gm = lowering.post_lowering(torch.export.export(Calls(function), (x, y), dynamic_shapes=(({}, {0: rows}),)).module())
    assert aten.scatter.src in targets(gm.graph) and aten.slice_scatter.default not in targets(gm.graph)
    for more in (y, torch.randn(7, 3)):
        assert torch.equal(gm(x, more), function(x, more))
    still = lowering.post_lowering(torch.export.export(Calls(lambda x, y: torch.slice_scatter(x, y, 0, 2, 6)), (x, y)).module())
    assert aten.slice_scatter.default in targets(still.graph)
