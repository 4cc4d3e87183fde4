"""`dynamo.partitioning`: cuts a graph into parts that engines can run and parts that they cannot, by ingot's table of operators.

`compile` does not use these: ingot cuts a model in the library, by the estimated gain of each segment (`ingot.explain` shows it).
"""

from __future__ import annotations

from ..._symbols import refused_names
from ._hierarchical_partitioner import hierarchical_adjacency_partition
from ._support import TorchTensorRTOperatorSupport, fast_partition, get_graph_converter_support, global_partition

__all__ = ["TorchTensorRTOperatorSupport", "fast_partition", "get_graph_converter_support", "global_partition", "hierarchical_adjacency_partition"]
__getattr__ = refused_names(__name__)
