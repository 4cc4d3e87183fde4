"""Each function of torch_internals does what ingot needs of it. A test is named after its function."""

import ast
import contextlib
import io
import sys
import threading
from pathlib import Path

import fresh
import pytest
import torch

from ingot.torch_internals import aot, codegen, dynamo, flexible, modules, operators, programs, saving, shapes, sizes, tensors, tracing, trees
from ingot.torch_internals.patched import patched

FOLDER = Path(__file__).resolve().parents[2] / "python/ingot/torch_internals"
aten = torch.ops.aten


class Doubling(torch.nn.Module):
    def forward(self, x):
        return x * 2


def exported(model=None, size=3, **how):
    return torch.export.export(model or Doubling(), (torch.ones(size),), **how)


def test_every_function_has_a_test():
    functions = {node.name for path in FOLDER.glob("*.py") for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert not functions - tests, sorted(functions - tests)


# ---- patched.py


def test_patched():
    """The original is back whether the context ends or fails."""

    class Owner:
        number = 1

    with patched(Owner, "number", lambda original: original + 1):
        assert Owner.number == 2
    assert Owner.number == 1
    with pytest.raises(KeyError), patched(Owner, "number", lambda original: original + 2):
        raise KeyError
    assert Owner.number == 1


# ---- trees.py


def test_node_type():
    assert trees.node_type([1]) is list and trees.node_type(torch.return_types.max((torch.ones(1), torch.ones(1)))) in trees.pytree.SUPPORTED_NODES
    assert trees.pytree.BUILTIN_TYPES >= {list, tuple, dict} and trees.pytree.tree_map(lambda x: x + 1, {"a": [1]}) == {"a": [2]}


# ---- operators.py


def test_schema_of():
    schema = operators.schema_of(aten.add_.Tensor)
    assert schema.name == "aten::add_" and schema.is_mutable and schema.arguments[0].alias_info.is_write and schema.returns[0].alias_info.is_write


def test_overload_of():
    assert operators.overload_of(aten.add.Tensor) == "Tensor" and operators.overload_of(aten.relu.default) == "default"


def test_name_of():
    assert operators.name_of(aten.add.Tensor) == "add"


def test_packet_of():
    assert operators.packet_of(aten.add.Tensor) is aten.add and isinstance(aten.add, operators.OpOverloadPacket)


def test_of_custom_op():
    with torch.library._scoped_library("ingot_internals", "FRAGMENT"):
        op = torch.library.custom_op("ingot_internals::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
        assert operators.of_custom_op(op) is torch.ops.ingot_internals.twice.default
    assert operators.of_custom_op(len) is None


def test_call_kernel():
    made = operators.call_kernel(aten.instance_norm.default, operators.DispatchKey.CompositeImplicitAutograd, torch.randn(2, 3, 4), None, None, None, None, True, 0.1, 1e-5, False)
    assert made.shape == (2, 3, 4)


def test_kernels_changed():
    op = aten.nll_loss.default
    op._dispatch_cache["old"] = None
    operators.kernels_changed(op)
    assert not op._dispatch_cache


def test_replaced():
    op, key = flexible.flex_attention, operators.DispatchKey.Autograd
    before = op.py_kernels[key]
    with operators.replaced(op, [(op.py_kernels, key, len)]):
        assert op.py_kernels[key] is len
    assert op.py_kernels[key] is before and tracing.ProxyTorchDispatchMode in op.python_key_table


def test_constants_of_operators():
    key = operators.DispatchKey.AutocastCPU
    assert operators.has_kernel("aten::add.Tensor", "Meta") and operators.key_is_excluded(key)  # autocast is off
    operators.exclude_key(key, False)
    assert not operators.key_is_excluded(key)
    operators.exclude_key(key, True)
    with operators.below_autograd():
        assert not torch.ones(1, requires_grad=True).mul(2).requires_grad
    assert not operators.safe_softmax(torch.full((2,), -torch.inf), -1).any()
    with pytest.raises(RuntimeError, match="said"):
        operators.assert_async(torch.tensor(False), "said")
    operators.exit_inference_mode(operators.enter_inference_mode(True))
    for mode, calls in ((torch.no_grad, operators.set_grad_enabled), (torch.inference_mode, operators.enter_inference_mode), (lambda: torch.autocast("cpu", dtype=torch.bfloat16), operators.enter_autocast)):
        assert calls in _calls_in_a_graph_of(_under(mode))


def _under(mode):
    def function(x):
        with mode():
            y = x * 2
        return y + 1

    return function


def _calls_in_a_graph_of(function):
    seen = set()

    def backend(module, examples):
        seen.update(n.target for n in module.graph.nodes if n.op == "call_function")
        return module

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(torch.ones(2))
    return seen


def test_names_of_modules():
    derived = _calls_in_a_graph_of(torch.func.grad(lambda x: x.sin().sum()))
    assert any((getattr(f, "__module__", None) or "").startswith(operators.OF_DERIVATIVES) for f in derived)

    class Mapped(torch.nn.Module):
        def forward(self, x):
            return torch.vmap(torch.sin)(x)

    calls = {getattr(n.target, "__module__", "") for n in exported(Mapped()).graph.nodes}
    assert operators.OF_VMAP in calls


# ---- tensors.py


def test_address_of():
    x = torch.ones(3)
    assert tensors.address_of(x) == tensors.address_of(x) != tensors.address_of(x[:])
    assert tensors.address_of(x.untyped_storage()) == tensors.address_of(x[1:].untyped_storage()) != tensors.address_of(torch.ones(3).untyped_storage())
    with tensors.FakeTensorMode():
        fake = torch.ones(3)
        assert tensors.is_fake(fake) and tensors.address_of(fake.untyped_storage()) == tensors.address_of(fake.view(3, 1).untyped_storage())


def test_count_of_writes():
    x = torch.ones(3)
    before = tensors.count_of_writes(x)
    x.add_(1)
    assert tensors.count_of_writes(x) == before + 1


def test_count_of_owners():
    x = torch.ones(3)
    assert tensors.count_of_owners(x.untyped_storage()) == 2
    view = x[:]
    assert tensors.count_of_owners(x.untyped_storage()) == 3 and view is not x


def test_is_zero_tensor():
    assert tensors.is_zero_tensor(torch._efficientzerotensor(3)) and not tensors.is_zero_tensor(torch.zeros(3))


def test_is_view():
    assert tensors.is_view(torch.ones(3)[1:]) and not tensors.is_view(torch.ones(3))


def test_is_contiguous_or_false():
    assert tensors.is_contiguous_or_false(torch.ones(2, 3)) and not tensors.is_contiguous_or_false(torch.ones(2, 3).t())


def test_suggested_format():
    assert tensors.suggested_format(torch.ones(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)) is torch.channels_last


def test_row_major_strides():
    assert tensors.row_major_strides((2, 3, 4)) == (12, 4, 1)


def test_autocast_set_by():
    seen, original = [], torch.set_autocast_enabled
    with tensors.autocast_set_by(lambda set_enabled: lambda *given: (seen.append(given), set_enabled(*given))), torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cpu")
    assert len(seen) == 2 and torch.set_autocast_enabled is original


def test_constants_of_tensors():
    class Plain(torch.Tensor):
        __torch_function__ = tensors.no_torch_function

    assert type(torch.ones(2).as_subclass(Plain) * 2) is torch.Tensor
    assert tensors.count_of_modes() == 0 and not tensors.is_tracing() and not tensors.is_any_autocast_on()

    class Hears(tensors.TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            heard.append(operator)
            return operator(*args, **(kwargs or {}))

    heard = []
    with Hears():
        assert tensors.count_of_modes() == 1
        torch.ones(2).sin()
        with tensors.without_modes():
            torch.ones(2).cos()
    assert aten.sin.default in heard and aten.cos.default not in heard
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert tensors.is_any_autocast_on()
    assert not tensors.PROFILER[tensors.IS_PROFILING] and tensors.FORWARD_MODE[tensors.LEVEL] < 0
    with torch.autograd.profiler.profile():
        assert tensors.PROFILER[tensors.IS_PROFILING]
    with torch.autograd.forward_ad.dual_level():
        assert tensors.FORWARD_MODE[tensors.LEVEL] == 0
    traced = []
    torch.jit.trace(lambda x: (traced.append(tensors.is_tracing()), x * 2)[1], torch.ones(2), check_trace=False)
    assert traced[0]


def test_functorch():
    seen, depth = [], tensors.functorch_depth()
    torch.vmap(lambda x: (seen.append((tensors.is_wrapped_by_functorch(x), tensors.functorch_depth())), x * 2)[1])(torch.ones(2))
    assert seen == [(True, depth + 1)] and not tensors.is_wrapped_by_functorch(torch.ones(2))
    tensors.functorch_undo_to(depth)
    assert tensors.functorch_depth() == depth


# ---- modules.py


def test_own_parameters():
    layer = torch.nn.Linear(2, 2)
    assert modules.own_parameters(layer).keys() == {"weight", "bias"}
    new = modules.own_parameters(layer)["weight"] = torch.nn.Parameter(torch.zeros(2, 2))
    assert layer.weight is new


def test_own_buffers():
    assert modules.own_buffers(torch.nn.BatchNorm1d(2)).keys() == {"running_mean", "running_var", "num_batches_tracked"}


def test_own_children():
    assert list(modules.own_children(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()))) == ["0", "1"]


def test_codes_of_packed_sequences():
    """Those that packing and padding call."""
    from torch.nn.utils import rnn

    called = set()
    sys.setprofile(lambda frame, event, _: called.add(frame.f_code) if event == "call" else None)
    try:
        rnn.pad_packed_sequence(rnn.pack_padded_sequence(torch.ones(2, 3, 1), torch.tensor([3, 2]), batch_first=True))
    finally:
        sys.setprofile(None)
    assert modules.codes_of_packed_sequences() <= called and len(modules.codes_of_packed_sequences()) == 2


def test_own_hooks():
    layer, seen = torch.nn.ReLU(), []
    layer.register_forward_hook(lambda *_: seen.append("behind"))
    layer.register_forward_pre_hook(lambda *_: seen.append("before"))
    before, behind = modules.own_hooks(layer)
    assert len(before) == len(behind) == 1 and not any(modules.HOOKS_OF_ALL)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert modules.HOOKS_OF_ALL[0] and not modules.HOOKS_OF_ALL[1]
    handle.remove()
    assert modules.call_of_module(layer, torch.ones(1)) == 1 and seen == ["before", "behind"]


def test_setting_attributes_by():
    layer, seen, original = torch.nn.ReLU(), [], torch.nn.Module.__setattr__
    with modules.setting_attributes_by(lambda set_attribute: lambda m, name, value: (seen.append(name), set_attribute(m, name, value))):
        layer.number = 3
    layer.other = 4
    assert seen == ["number"] and layer.number == 3 and torch.nn.Module.__setattr__ is original


# ---- sizes.py


def open_program():
    return exported(size=4, dynamic_shapes=({0: torch.export.Dim("n", min=2, max=9)},))


def test_symbol_of():
    size = next(n.meta["val"].shape[0] for n in open_program().graph.nodes if n.op == "placeholder")
    assert sizes.symbol_of(size).is_Symbol and sizes.symbol_of(3) is None
    assert sizes.symbol_is_type(sizes.symbol_of(size), sizes.SymT.SIZE) and sizes.free_symbols(size) and not sizes.free_unbacked_symbols(size)
    symbol = size.node.expr
    assert sizes.sympy_interp(sizes.PythonReferenceAnalysis, {symbol: 4}, symbol >= 3) and sizes.bound_sympy(symbol + 1, {symbol: sizes.ValueRanges(2, 9)}).upper == 10
    assert sizes.PythonPrinter().doprint(sizes.functions.FloorDiv(symbol, 2)).strip("()").replace(" ", "") == f"{symbol}//2" and sizes.int_oo > 10**9


def test_of_any_size():
    with sizes.of_any_size():
        assert torch.fx.experimental._config.backed_size_oblivious
    assert not torch.fx.experimental._config.backed_size_oblivious


def test_regions_of_any_size():
    rows, before = [], torch.compile

    @torch._dynamo.disable
    def traced(x):
        rows.append(torch.fx.experimental._config.backed_size_oblivious)
        return x + 1

    with sizes.regions_of_any_size():
        assert torch.compile(traced, backend="eager", fullgraph=False)(torch.ones(3)).sum() == 6
    assert rows == [True] and torch.compile is before and not torch.fx.experimental._config.backed_size_oblivious


def test_of_own_code():
    def scaled(x, by=2, *, more=1):
        return x * by + more

    other = sizes.of_own_code(scaled)
    assert other(3) == 7 and other(3, 3, more=0) == 9 and other.__code__ is not scaled.__code__
    assert sizes.of_own_code(len) is len


def test_regions_are_traced_anew():
    """A trace of fixed sizes is not asked whether it fits open ones, which would fix these."""

    class Chosen(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, (x,))

    torch._dynamo.reset()
    model, rows = Chosen(), torch.export.Dim("rows", min=2, max=9)
    with sizes.regions_of_any_size():
        torch.export.export(model, (torch.ones(4, 3),))
        program = torch.export.export(model, (torch.ones(4, 3),), dynamic_shapes=({0: rows},))
    assert isinstance(program.graph.output_node().args[0][0].meta["val"].shape[0], torch.SymInt)


def test_branches_order_strides_by_the_example():
    from torch._inductor import ir

    class Chosen(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, (x,))

    def ordered():
        seen, auto = [], torch.export.Dim.AUTO
        with patched(ir, "get_stride_order", lambda original: lambda strides, environment=None: (seen.extend(strides), original(strides, environment))[1]):
            with contextlib.nullcontext() if plain else sizes.regions_of_any_size():
                torch.export.export(Chosen(), (torch.ones(4, 3),), dynamic_shapes=({0: auto, 1: auto},), strict=False)
        return seen

    plain = True
    assert any(isinstance(stride, torch.SymInt) for stride in ordered())
    plain = False
    assert {type(stride) for stride in ordered()} == {int}


def test_operators_ask_for_plain_numbers():
    class Spaced(torch.nn.Module):
        def forward(self, x):
            return torch.linspace(0, 1, x.shape[0]) * x

    asked, before = [], sizes.SymNode.guard_int
    with sizes.asked_by(lambda original: lambda size, *more: (asked.append(type(size)), original(size, *more))[1], lambda original, name: original):
        exported(Spaced(), 4, dynamic_shapes=({0: torch.export.Dim.AUTO},))
    assert sizes.SymNode in asked and sizes.SymNode.guard_int is before


def test_asked_by():
    asked, compared, before = [], [], (torch.SymBool.__bool__, torch.SymInt.__eq__, torch.SymInt.__int__, torch.SymInt.__index__)

    class Branching(torch.nn.Module):
        def forward(self, x):
            torch._check(x.shape[0] <= 9)
            return x + 1 if x.shape[0] % 2 == 0 else x - 1

    def asks(original):
        return lambda size, *more: (asked.append(str(size)), original(size, *more))[1]

    def compares(original, name):
        return lambda size, other: (compared.append(name), original(size, other))[1]

    with sizes.asked_by(asks, compares):
        exported(Branching(), 4, dynamic_shapes=({0: torch.export.Dim.AUTO},))
    assert any("2" in text for text in asked) and {"eq", "le"} <= set(compared) <= set(sizes.COMPARISONS)
    assert (torch.SymBool.__bool__, torch.SymInt.__eq__, torch.SymInt.__int__, torch.SymInt.__index__) == before


def test_errors_of_sizes():
    class OfData(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x

    with pytest.raises((sizes.GuardOnDataDependentSymNode, dynamo.UserError)):
        exported(OfData())
    environment = sizes.ShapeEnv()
    assert environment.create_unbacked_symint() is not None and issubclass(sizes.PendingUnbackedSymbolNotFound, Exception)


def test_guards_of_sizes():
    seen = []

    def make(produce):
        def note(fake_mode, **more):
            environment = fake_mode.shape_env
            seen.extend(environment.guards)
            for entry in environment.tracked_fakes:
                limits = [limit for limit in getattr(entry.symbolic_context, "constraint_sizes", None) or () if isinstance(limit, sizes.StrictMinMaxConstraint)]
                seen.extend((limit.vr.lower, limit.vr.upper) for limit in limits)
            return produce(fake_mode=fake_mode, **more)

        return note

    class Even(torch.nn.Module):
        def forward(self, x):
            return x.reshape(-1, 2)

    with tracing.guards_produced_by(make), pytest.raises(dynamo.UserError):
        exported(Even(), 4, dynamic_shapes=({0: torch.export.Dim("n", min=2, max=9)},))
    assert (2, 9) in seen
    guards = [guard for guard in seen if isinstance(guard, sizes.ShapeGuard)]
    assert guards and all(hasattr(guard, part) for guard in guards for part in ("expr", "sloc", "size_oblivious"))


# ---- tracing.py


def test_record_of_operator():
    with tensors.FakeTensorMode() as mode, pytest.raises(tracing.DataDependentOutputException) as told:
        tracing.make_fx(lambda x: x * x.item(), tracing_mode="real")(mode.from_tensor(torch.ones(1)))
    codes, trace = [], told.value.__traceback__
    while trace is not None:
        codes.append(trace.tb_frame.f_code)
        trace = trace.tb_next
    assert tracing.record_of_operator() in codes


def test_guards_produced_by():
    called, before = [], torch.export._trace.produce_guards_and_solve_constraints
    with tracing.guards_produced_by(lambda produce: lambda **given: (called.append(set(given)), produce(**given))[1]):
        open_program()
    assert called and "fake_mode" in called[0] and torch.export._trace.produce_guards_and_solve_constraints is before


def test_long_texts_told_to(capfd):
    class Slice(torch.nn.Module):
        def forward(self, x):
            return x[: int(x.sum().item())]

    told = []
    with tracing.long_texts_told_to(told.append):
        with pytest.raises(Exception):
            exported(Slice())
        with pytest.raises(RuntimeError):
            exported(torch.nn.Linear(4, 4))
    assert any("aten.sum" in text for text in told) and any("failed while attempting to run meta" in text for text in told)
    assert capfd.readouterr().err == ""
    torch.export._trace.print("as usual")
    assert capfd.readouterr().out == "as usual\n" and "as usual" not in told


def test_functions_replaced_by():
    model = type("Sine", (torch.nn.Module,), {"forward": lambda self, x: torch.sin(x)})()
    cosine = lambda original: lambda self, function, args, kwargs: original(self, torch.cos if function is torch.sin else function, args, kwargs)
    with tracing.functions_replaced_by(cosine):
        program = torch.export.export(model, (torch.ones(3),), strict=False)
    assert [n.target for n in program.graph.nodes if n.op == "call_function"] == [aten.cos.default]


def test_mapped_along_first_axis():
    model = type("Mapped", (torch.nn.Module,), {"forward": lambda self, x: torch.vmap(lambda a: a.sin(), out_dims=1)(x)})()
    x = torch.ones(3, 4)
    with tracing.mapped_along_first_axis():
        assert torch.equal(torch.export.export(model, (x,)).module()(x), model(x))


def test_attention_traced_as_in_eager():
    layer, x = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.ones(3, 4, 8)
    with torch.no_grad(), modules.attention_traced_as_in_eager():
        program = torch.export.export(layer, (x, x, x), strict=False)
    with torch.no_grad():
        assert program.module()(x, x, x)[0].stride() == layer(x, x, x)[0].stride() == (32, 8, 1)


def test_truth_answered_by():
    asked, x = [], torch.ones(())
    with tracing.truth_answered_by(lambda ask: lambda tensor: (asked.append(tensor), ask(tensor))[1]):
        assert bool(x)
    assert asked == [x] and bool(x) and len(asked) == 1 and "__bool__" not in vars(torch.Tensor)


def test_node_of():
    """And `calls_recorded_by`, in which there is a mode."""
    seen = []

    def recording(record):
        def recorded(mode, operator, pre_dispatch, args, keywords):
            made = record(mode, operator, pre_dispatch, args, keywords)
            seen.append((operator, tracing.node_of(made, mode).target))
            assert tracing.node_of(torch.ones(2), mode) is None
            with tracing.outside_of_traces():
                assert torch.ones(2).sum().item() == 2
            return made

        return recorded

    with tracing.calls_recorded_by(recording):
        torch.export.export(type("Sine", (torch.nn.Module,), {"forward": lambda self, x: x.sin()})(), (torch.ones(3),), strict=False)
    assert (aten.sin.default, aten.sin.default) in seen


test_calls_recorded_by = test_node_of


def test_with_autograd_kernels():
    op = aten.lstm.input
    before, calls = dict(op.py_kernels), []
    with tracing.composites_by({op: lambda *given: NotImplemented}):
        tracing.with_autograd_kernels(op, lambda kernel: lambda *given: (calls.append(op), kernel(*given))[1])
        assert dict(op.py_kernels) != before
        exported(torch.nn.LSTM(3, 3).eval(), (2, 3))
    assert calls and dict(op.py_kernels) == before


def test_modes_and_errors_of_tracing():
    with tensors.FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(2))
        assert tracing.detect_fake_mode([fake]) is mode and tracing.TracingContext.try_get() is None
        with pytest.raises((tracing.DynamicOutputShapeException, tracing.UnsupportedOperatorException)):
            fake.nonzero()
        assert issubclass(tracing.UnsupportedFakeTensorException, Exception)
    assert tracing.TracingContext.extract_stack() is not None
    for folder in (*tracing.FOLDERS_OF_TRACERS, *tracing.FOLDERS_OF_SHAPES):
        assert (Path(torch.__file__).parent / folder).exists(), folder


# ---- shapes.py


def test_typed_by():
    """Of torch.cov, whose own code asks about numbers."""

    class Covariance(torch.nn.Module):
        def forward(self, x):
            return torch.cov(x, fweights=torch.ones(3, dtype=torch.int64))

    op, keep = aten.cov.default, lambda *given, **named: NotImplemented
    with shapes.typed_by({op: lambda mode, op, x, **more: mode.from_tensor(torch.ones(7))}), tracing.composites_by({op: keep}):
        program = exported(Covariance(), (2, 3))
    assert [n.meta["val"].shape for n in program.graph.nodes if n.target is op] == [(7,)]
    with tracing.composites_by({op: keep}), pytest.raises(tracing.DataDependentOutputException):
        exported(Covariance(), (2, 3))


def test_set_rule():
    from torch._subclasses import FakeTensorMode, fake_impls

    with FakeTensorMode() as mode:
        shapes.set_rule(aten.sinc.default, lambda mode, operator, x: x.new_empty(7))
        try:
            assert torch.sinc(mode.from_tensor(torch.ones(2))).shape == (7,)
        finally:
            del fake_impls.op_implementations_dict[aten.sinc.default]


def test_set_shape_rule():
    from torch._subclasses import fake_impls

    rule = lambda mode, *given: None
    shapes.set_shape_rule(aten.sinc.default, rule)
    try:
        assert fake_impls.get_fast_op_impls()[aten.sinc.default] is rule
    finally:
        del fake_impls.get_fast_op_impls()[aten.sinc.default]


def test_without_shapes_of_reference():
    shapes.without_shapes_of_reference(aten.nll_loss.default)
    model, given = torch.nn.NLLLoss(reduction="none"), (torch.randn(4, 5), torch.zeros(4, dtype=torch.int64))
    n = torch.export.Dim("n", min=2, max=9)
    program = torch.export.export(model, given, dynamic_shapes=({0: n}, {0: n}))
    assert [n.meta["val"].dim() for n in program.graph.nodes if n.target is aten.nll_loss_nd.default] == [1]


def test_with_parts():
    from torch._decomp import decomposition_table

    op, before = aten.lstm.input, dict(aten.lstm.input.py_kernels)
    in_table, made = decomposition_table.get(op), []
    shapes.with_parts(op, lambda parts: made.append(parts) or parts)
    assert made and dict(op.py_kernels) == before and decomposition_table.get(op) is in_table


def test_composites():
    assert aten.einsum.default in shapes.all_composites() and shapes.is_composite(aten.einsum.default) and not shapes.is_composite(aten.add.Tensor)
    torch.testing.assert_close(shapes.decomposition_of(aten.einsum.default)("i,i->", [torch.ones(3), torch.ones(3)]), torch.tensor(3.0))


# ---- programs.py


def test_updated():
    program = exported()
    made = programs.updated(program, program.graph_module, program.graph_signature)
    assert made is not program and made.module()(torch.ones(3)).equal(torch.full((3,), 2.0))


def test_without_warnings_of_trees(recwarn):
    with programs.without_warnings_of_trees():
        exported().run_decompositions({})
    assert not [w for w in recwarn if "LeafSpec" in str(w.message)]


def test_texts_of_guards():
    class Even(torch.nn.Module):
        def forward(self, x):
            return x.reshape(-1, 2)

    texts = programs.texts_of_guards(exported(Even(), 4, dynamic_shapes=({0: torch.export.Dim.AUTO},)))
    assert all(isinstance(text, str) for text in texts) and (torch.__version__ < (2, 12) or texts)


def test_keep_guards():
    program = open_program()
    programs.keep_guards(program, lambda text: False)
    assert programs.texts_of_guards(program) == []


def test_codes_of_archives():
    assert programs.DTYPES[torch.float32] == 7 and int(programs.LAYOUTS[torch.strided]) == 7 and programs.MEMORY_FORMATS[torch.channels_last] == 2 and programs.SCHEMA_VERSION[0] == 8
    assert aten._assert_scalar.default in programs.WITH_EFFECTS or torch._check in programs.WITH_EFFECTS


# ---- saving.py, codegen.py


def archive():
    file = io.BytesIO()
    torch.export.save(exported(), file)
    file.seek(0)
    return file


def test_verifier():
    program = exported()
    torch.export.ExportedProgram(program.graph_module, program.graph, program.graph_signature, {}, program.range_constraints, program.module_call_graph, verifiers=[saving.verifier()])


def test_archive_reader():
    reader = saving.archive_reader(archive())
    assert any("models/" in name for name in reader.get_all_records()) and reader.get_record(reader.get_all_records()[0]) is not None


def test_read_archive():
    assert "model" in saving.read_archive(archive()).exported_programs


def test_script_graph():
    script = torch.jit.trace(Doubling(), torch.ones(3))
    graph = saving.script_graph(script, (torch.ones(3),))
    assert graph(torch.ones(5)).equal(torch.full((5,), 2.0)) and graph.state_dict().keys() == script.state_dict().keys()


def test_untraced():
    def function(x):
        with saving.untraced():
            assert not tensors.is_tracing()
        assert tensors.is_tracing()
        return x * 2

    assert torch.jit.trace(function, torch.ones(2), check_trace=False)(torch.ones(1)) == 2


def test_kept_script_function():
    graph = torch.jit.CompilationUnit("def forward(x):\n    return x * 2\n").forward.graph
    assert saving.kept_script_function("__torch__.ingot_internals.forward", graph)(torch.ones(1)) == 2


def test_codegen_of():
    graph, call = torch.fx.symbolic_trace(Doubling()).graph, exported().call_spec
    graph.output_node().args = (list(graph.output_node().args),)
    graph.set_codegen(codegen.PyTreeCodeGen(codegen.PyTreeInfo(["x"], call.in_spec, call.out_spec)))
    assert type(codegen.codegen_of(graph)) is codegen.PyTreeCodeGen
    assert torch.fx.GraphModule(torch.nn.Module(), graph)(torch.ones(2)).equal(torch.full((2,), 2.0))


# ---- aot.py


def test_aot():
    def write(x):
        return (x.sin().add_(1),)

    with tensors.FakeTensorMode() as mode, torch.no_grad():
        graph, signature = aot.aot_export_module(torch.fx.GraphModule(torch.nn.Module(), torch.fx.symbolic_trace(write).graph), [mode.from_tensor(torch.ones(2))], trace_joint=False)
    assert aten.add.Tensor in {n.target for n in graph.graph.nodes} and len(signature.user_outputs) == 1
    assert not (signature.buffers_to_mutate or signature.parameters_to_mutate or signature.user_inputs_to_mutate)
    assert isinstance(aot.with_effects, operators.HigherOrderOperator) and isinstance(aot.FunctionalTensor, type) and isinstance(flexible.flex_attention, operators.HigherOrderOperator)


# ---- dynamo.py


def compiled(function, seen, *inputs):
    def backend(module, examples):
        seen.append(module)
        return module

    torch._dynamo.reset()
    return torch.compile(function, backend=backend)(*inputs)


def test_lock():
    seen = []
    with dynamo.lock():
        thread = threading.Thread(target=lambda: seen.append(dynamo.lock().acquire(blocking=False)))
        thread.start()
        thread.join()
        assert dynamo.lock().acquire(blocking=False)  # re-entrant
        dynamo.lock().release()
    assert seen == [False]


def test_renew_lock():
    before = dynamo.lock()
    dynamo.renew_lock()
    assert dynamo.lock() is not before
    compiled(lambda x: x * 2, [], torch.ones(2))  # Dynamo takes the new one


def test_allowing_recurrent_layers():
    layer, seen = torch.nn.GRU(2, 2), []
    with dynamo.allowing_recurrent_layers():
        compiled(lambda x: layer(x)[0], seen, torch.ones(3, 2))
    assert any("gru" in str(n.target).lower() or n.op == "call_module" for module in seen for n in module.graph.nodes)


def inlined(x):
    return x * 2


def of_other_code(x):
    return x * 5


@pytest.fixture
def patches():
    """Puts back what a test patches for the life of the process."""
    from torch._dynamo.symbolic_convert import InliningInstructionTranslator
    from torch._dynamo.variables.builder import VariableBuilder

    before = vars(InliningInstructionTranslator)["build_inline_tracer"], VariableBuilder.wrap_module
    yield
    InliningInstructionTranslator.build_inline_tracer, VariableBuilder.wrap_module = before


def test_inline_by(patches):
    outputs = []

    def code_of(output, function):
        outputs.append(output)
        return of_other_code.__code__ if function.get_code() is inlined.__code__ else None

    dynamo.inline_by(code_of)
    assert compiled(lambda x: inlined(x) + 1, [], torch.ones(1)) == 6 and hasattr(outputs[0], "compiler_fn") and hasattr(outputs[0], "add_cleanup_hook")


def test_broken_code(patches):
    """A graph before the call, one after it, and one of the function, which runs as it is."""
    dynamo.inline_by(lambda output, function: dynamo.broken_code() if function.get_code() is inlined.__code__ else None)
    graphs = []
    assert compiled(lambda x: inlined(x + 1) + 1, graphs, torch.ones(1)) == inlined(torch.full((1,), 2.0)) + 1 and len(graphs) == 3


def test_call_functions_by():
    """In the place of a function that gets an open size; what the other function itself calls stays."""
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    before, seen = TorchInGraphFunctionVariable.call_function, []

    def counted(start, end, steps):
        return torch.arange(steps) * 2.0 + torch.linspace(start, end, 4).sum()

    counted.__code__ = counted.__code__.replace(co_filename="another.py")
    try:
        dynamo.call_functions_by(lambda output, function: counted if function is torch.linspace else None)
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: x + torch.linspace(0, 1, x.shape[0]) + torch.linspace(0, 1, 1), backend=lambda graph, _: seen.append(graph) or graph, dynamic=True)
        assert torch.equal(compiled(torch.zeros(3)), torch.arange(3) * 2.0 + 2) and torch.equal(compiled(torch.zeros(5)), torch.arange(5) * 2.0 + 2)
    finally:
        TorchInGraphFunctionVariable.call_function = before
        torch._dynamo.reset()
    assert len(seen) == 1 and [n.args[2] for n in seen[0].graph.nodes if n.target is torch.linspace] == [4, 1]


def test_wrap_modules_by(patches):
    layer, seen = torch.nn.ReLU(), []
    dynamo.wrap_modules_by(lambda wrap_module: lambda self, value: (seen.append((value, self.tx.output)), wrap_module(self, value))[1])
    compiled(lambda x: layer(x) + 1, [], torch.ones(1))
    assert layer in [value for value, _ in seen]


def test_is_compiled():
    assert dynamo.is_compiled(torch.compile(torch.nn.ReLU())) and not dynamo.is_compiled(torch.nn.ReLU())


def test_register_backend():
    calls = []

    def ingot_internals(module, examples):
        calls.append(module)
        return module

    dynamo.register_backend(ingot_internals, "ingot_internals")
    dynamo.register_backend(None, "ingot_internals")  # the name is taken
    torch._dynamo.reset()
    assert torch.compile(lambda x: x * 2, backend="ingot_internals")(torch.ones(1)) == 2 and calls


def test_place_of_move():
    assert modules.place_of_move("cpu", torch.float16)[:2] == (torch.device("cpu"), torch.float16)
    assert modules.place_of_move(torch.zeros(2, dtype=torch.float64))[:2] == (torch.device("cpu"), torch.float64)
    assert modules.place_of_move(memory_format=torch.channels_last)[3] is torch.channels_last


def test_know_functions():
    """Also where Dynamo first traces inside the patch: graphs with nn.Transformer broke afterwards."""
    done = fresh.run("""
import torch
from ingot.torch_internals.modules import attention_traced_as_in_eager

def asks(x):
    return x + 1 if torch.overrides.has_torch_function((x,)) else x + 2

x = torch.ones(2)
with attention_traced_as_in_eager():
    torch.compile(lambda x: torch.sin(x), backend="eager")(x)
assert torch.equal(torch.compile(asks, backend="eager", fullgraph=True)(x), asks(x))
""")  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
