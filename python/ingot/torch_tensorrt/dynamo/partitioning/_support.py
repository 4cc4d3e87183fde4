"""What the partitioners share: which operators engines have, and the cut of a graph."""

from __future__ import annotations

import operator

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.split_module import split_module

from ....torch_internals.codegen import codegen_of
from ....torch_internals.operators import OpOverload, OpOverloadPacket, name_of
from ..._errors import PartialCompilationError
from .._settings import OPEN_SIZES, operator_name
from ..conversion import DYNAMO_CONVERTERS
from ..conversion._ConverterRegistry import native_targets


class TorchTensorRTOperatorSupport(OperatorSupportBase):
    """Whether an engine has a node's operator. supported_operators, unsupported_operators: the operators that were asked about so far, with counts."""

    def __init__(self, torch_executed_ops=()):
        self._kept = {operator_name(op) for op in torch_executed_ops}
        self.supported_operators: dict[str, int] = {}
        self.unsupported_operators: dict[str, int] = {}

    def is_node_supported(self, submodules, node: torch.fx.Node) -> bool:
        if node.op != "call_function":
            return node.op == "get_attr"
        name = operator_name(node.target) if isinstance(node.target, OpOverload) else getattr(node.target, "__name__", str(node.target))
        takes = (node.target in DYNAMO_CONVERTERS or _named(node.target)) and not self._kept & {name, name.rpartition(".")[0]}
        takes = takes and not (getattr(DYNAMO_CONVERTERS.compilation_settings, "fallback_data_dependent_ops", False) and self._requires_output_allocator(node))
        counts = self.supported_operators if takes else self.unsupported_operators
        counts[name] = counts.get(name, 0) + 1
        return takes

    @staticmethod
    def _requires_output_allocator(node: torch.fx.Node) -> bool:
        """Whether the sizes of the node's result come from data."""
        name = operator_name(node.target)
        return any(name.startswith(f"aten.{known}.") or name == f"aten.{known}" for known in OPEN_SIZES)


def _named(target) -> bool:
    """Whether a function of Python's or torch's that a symbolic trace records is an operator of the table by its name."""
    if isinstance(target, (OpOverload, OpOverloadPacket)) or target is operator.getitem:
        return target is operator.getitem
    name = {"truediv": "div", "floordiv": "floor_divide", "mod": "remainder"}.get(getattr(target, "__name__", ""), getattr(target, "__name__", ""))
    return any(name_of(overload) == name for overload in native_targets())


def get_graph_converter_support(graph_module: torch.fx.GraphModule, torch_executed_ops=()) -> tuple[int, int]:
    """The number of a graph's operators that an engine has, and the number of all."""
    support, nodes = TorchTensorRTOperatorSupport(torch_executed_ops), [n for n in graph_module.graph.nodes if n.op == "call_function"]
    return sum(support.is_node_supported({}, n) for n in nodes), len(nodes)


def fast_partition(gm: torch.fx.GraphModule, verbose=False, min_block_size=5, torch_executed_ops=(), require_full_compilation=False, skip_fusion=False):
    """Cuts the graph into submodules, in its own order: `_run_on_acc_i` for operators that engines have and `_run_on_gpu_i` for the rest, numbered together. Runs of fewer operators than
    min_block_size stay with the rest. Returns the graph and the TorchTensorRTOperatorSupport. Raises PartialCompilationError if require_full_compilation asks for one block and there are more."""
    support = TorchTensorRTOperatorSupport(torch_executed_ops)
    return split(gm, lambda node: "" if support.is_node_supported({}, node) else None, min_block_size, require_full_compilation), support


def split(gm: torch.fx.GraphModule, backend_of, min_block_size, require_full_compilation):
    """Cuts the graph into runs of nodes with the same backend (a name; None for torch), in its own order."""
    least, runs = 1 if require_full_compilation else min_block_size, []
    for backend, members in _runs((backend_of(n), n) for n in gm.graph.nodes if n.op in ("call_function", "call_module", "call_method")):
        backend = backend if len(members) >= least else None
        if runs and backend is None and runs[-1][0] is None:
            runs[-1][1].extend(members)
        else:
            runs.append((backend, members))
    if require_full_compilation and (len(runs) != 1 or runs[0][0] is None):
        raise _not_one(len(runs))
    place = {n: i for i, (_, members) in enumerate(runs) for n in members}
    made = split_module(gm, None, lambda n: place.get(n, 0), keep_original_order=True)
    for i, (backend, _) in enumerate(runs):
        _rename(made, f"submod_{i}", f"_run_on_gpu_{i}" if backend is None else f"_run_on_acc_{backend + '_' if backend else ''}{i}")
    _hold_weights(made)
    made.graph.set_codegen(codegen_of(gm.graph))  # the structure of inputs and results
    made.recompile()
    return made


def _hold_weights(module: torch.fx.GraphModule):
    """Moves weights into the module itself, so that its children are only the submodules."""
    for node in module.graph.nodes:
        if node.op == "get_attr" and "." in node.target:
            value = operator.attrgetter(node.target)(module)
            node.target = node.target.replace(".", "_")
            setattr(module, node.target, value) if isinstance(value, torch.nn.Parameter) else module.register_buffer(node.target, value)
    module.delete_all_unused_submodules()


def _runs(pairs) -> list[tuple]:
    """Groups neighbouring pairs with equal first parts."""
    found: list[tuple] = []
    for key, value in pairs:
        if not found or found[-1][0] != key:
            found.append((key, []))
        found[-1][1].append(value)
    return found


def global_partition(gm: torch.fx.GraphModule, verbose=False, min_block_size=5, torch_executed_ops=(), require_full_compilation=False):
    """Cuts the graph into as few submodules `_run_on_acc_i` as its data flow allows; the rest stays inline. Returns the graph and the TorchTensorRTOperatorSupport."""
    support = TorchTensorRTOperatorSupport(torch_executed_ops)
    partitioner = CapabilityBasedPartitioner(gm, support, allows_single_node_partition=True)
    found = partitioner.propose_partitions()
    size = lambda p: sum(n.op == "call_function" and n.target is not operator.getitem for n in p.nodes)  # noqa: E731
    if not require_full_compilation:
        found = [p for p in found if size(p) >= min_block_size]
    if require_full_compilation and (len(found) != 1 or support.unsupported_operators):
        raise _not_one(len(found))
    made = partitioner.fuse_partitions(found)
    for i, name in enumerate([n for n, _ in made.named_children() if n.startswith("fused_")]):
        _rename(made, name, f"_run_on_acc_{i}")
    return made, support


def _not_one(count):
    return PartialCompilationError(f"require_full_compilation asks for one engine, and the graph makes {count} submodules", remedy="leave require_full_compilation out; the rest runs in torch")


def _rename(module, old, new):
    if not hasattr(module, old):
        return
    part = getattr(module, old)
    delattr(module, old)
    module.add_module(new, part)
    for node in module.graph.nodes:
        if node.op == "call_module" and node.target == old:
            node.target = new
    module.recompile()
