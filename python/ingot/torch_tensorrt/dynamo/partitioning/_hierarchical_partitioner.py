"""`hierarchical_adjacency_partition`: cuts a graph for several backends."""

from __future__ import annotations

import operator

import torch
from torch.fx.passes.operator_support import OperatorSupportBase

from .._settings import operator_name
from ._support import TorchTensorRTOperatorSupport, split


class HierarchicalTorchTensorRTOperatorSupport(OperatorSupportBase):
    """Finds the first backend that has a node's operator. support: {backend: operators, as OpOverloads or names}; a backend that is not in it has ingot's table."""

    def __init__(self, support=None, priority=("tensorrt",), torch_executed_ops=()):
        self._table, self._priority = TorchTensorRTOperatorSupport(torch_executed_ops), tuple(priority)
        self._named = {backend: {operator_name(op) for op in operators} for backend, operators in (support or {}).items()}
        self._found: dict[torch.fx.Node, str | None] = {}
        self.supported_operators, self.unsupported_operators = self._table.supported_operators, self._table.unsupported_operators

    def backend_of(self, node: torch.fx.Node) -> str | None:
        if node.target is operator.getitem and node.args[0].op == "call_function":  # a part of a result stays with the result
            return self.backend_of(node.args[0])
        if node not in self._found:
            takes, name = self._table.is_node_supported({}, node), operator_name(node.target)
            self._found[node] = next((b for b in self._priority if b not in self._named or name in self._named[b]), None) if takes else None
        return self._found[node]

    def is_node_supported(self, submodules, node: torch.fx.Node) -> bool:
        return self.backend_of(node) is not None


def hierarchical_adjacency_partition(gm: torch.fx.GraphModule, verbose=False, min_block_size=5, torch_executed_ops=(), backend_support_map=None, backend_priority=None,
                                     require_full_compilation=False, skip_fusion=False):  # fmt: skip
    """Cuts the graph into submodules, in its own order: `_run_on_acc_<backend>_i` for operators that a backend has and `_run_on_gpu_i` for the rest. Returns the graph and the operator
    support.

    backend_support_map: {backend: its operators, as OpOverloads or names}.
    backend_priority: the backends, first choice first. Default: those of the map, or "tensorrt", which is ingot's table.

    This is for inspection only: `compile` has one backend, ingot.
    """
    priority = tuple(backend_priority or backend_support_map or ("tensorrt",))
    support = HierarchicalTorchTensorRTOperatorSupport(backend_support_map, priority, torch_executed_ops)
    return split(gm, support.backend_of, min_block_size, require_full_compilation), support
