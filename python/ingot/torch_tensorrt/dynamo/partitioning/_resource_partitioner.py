"""Blocks of a cut graph cut further, so that each is built within a budget of the host's memory: a tool to look at, as the other partitioners are; compile does not ask for it.

A build is taken to need four times the bytes of the block's weights. A block that needs more than there is gives the longest beginning that fits to a part of its own, and so on with the
rest; where not even the first operators fit, the rest stays one part. Operators that belong together (a convolution and what follows it, products and sums, and the patterns of
`register_atomic_subgraph`) are never separated.
"""

from __future__ import annotations

import operator
import os

import torch
from torch.fx.passes.split_module import split_module
from torch.fx.passes.splitter_base import Subgraph
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

from ....errors import InputError
from ....torch_internals.operators import OpOverload, name_of
from ._atomic_subgraphs import ATOMIC_SUBGRAPHS, trace_atomic_graph

_PER_BUILD = 4  # the bytes that a build takes for each byte of weights
_MAX_PARTS = 50
_NORMS = {"_native_batch_norm_legit_no_training", "batch_norm", "native_batch_norm"}
_ACTIVATIONS = {"relu", "sigmoid", "tanh", "gelu", "silu", "leaky_relu", "elu", "hardtanh", "hardswish", "clamp"}
_CONVOLUTIONS = {"convolution", "conv1d", "conv2d", "conv3d"}
_FOLLOWS = {**dict.fromkeys(_CONVOLUTIONS, _NORMS | _ACTIVATIONS), **dict.fromkeys(_NORMS, _ACTIVATIONS), "mul": {"add", "mul"}}


class ResourcePartitioner:
    """How a block is cut. weights: the placeholders that weights come through, in addition to the block's own; cpu_memory_budget: bytes, None for what the host has at hand."""

    def __init__(self, submodule: torch.fx.GraphModule, submodule_name="", cpu_memory_budget=None, weights=()):
        self.submodule, self.submodule_name, self._weights = submodule, submodule_name, set(weights)
        self.budget = at_hand(cpu_memory_budget) / _PER_BUILD
        self.nodes = [n for n in submodule.graph.nodes if n.op.startswith("call_")]

    def parts(self) -> list[list[torch.fx.Node]]:
        """The block's operators, in order, as lists of neighbours. A ValueError where it would take more than 50 of the budget's size."""
        groups, counted = self._groups(), set()
        sizes = [sum(self._new_bytes(node, counted) for node in group) for group in groups]
        if sum(sizes) > self.budget * _MAX_PARTS:
            raise InputError(f"{self.submodule_name or 'the block'} has {sum(sizes)} bytes of weights, more than {_MAX_PARTS} times the {int(self.budget)} that a build has", remedy="give more cpu_memory_budget")
        found: list[list[torch.fx.Node]] = [[]]
        held = 0
        for group, size in zip(groups, sizes):
            if found[-1] and held <= self.budget < held + size:
                found.append([])
                held = 0
            found[-1] += group
            held += size
        return found

    # Steps for scripts that cut a block by hand. Lists of nodes follow one another as in the block.

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """The block as one part."""
        return [Subgraph(is_acc=True, nodes=list(self.nodes))]

    @staticmethod
    def get_leaf_node(nodes):
        """The last node that none of the others reads."""
        return next(node for node in reversed(nodes) if not node.users.keys() & set(nodes))

    def step_if_break_fusion(self, subgraphs: list[Subgraph], leaf_node, first: set, second: set) -> bool:
        """True if the first two parts, with these nodes, separate operators that belong together. Then the cut moves to the group's first operator, or after the group if it begins the part."""
        group = next((g for g in self._groups() if first.intersection(g) and second.intersection(g)), None)
        if group is None:
            return False
        nodes = [node for node in self.nodes if node in first or node in second]
        at = nodes.index(group[0]) or len(group)
        subgraphs[0].nodes, subgraphs[1].nodes = nodes[:at], nodes[at:]
        return True

    def _verify_all_fusion_nodes_in_same_subgraph(self, subgraphs: list[Subgraph]):
        """Raises a ValueError if parts separate operators that belong together."""
        for group in self._groups():
            if sum(bool(set(group).intersection(part.nodes)) for part in subgraphs) > 1:
                raise InputError(f"{group[0].name} and {group[-1].name} belong together, but are in different parts")

    def _new_bytes(self, node, counted) -> int:
        """The bytes of the weights that a node reads first."""
        total = 0
        for source in node.all_input_nodes:
            if source not in counted and (source.op == "get_attr" or source in self._weights):
                counted.add(source)
                value = operator.attrgetter(source.target)(self.submodule) if source.op == "get_attr" else source.meta.get("val")
                total += value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
        return total

    def _groups(self) -> list[list[torch.fx.Node]]:
        """The operators between two places where the block may be cut."""
        last = {node: i for i, node in enumerate(self.nodes)}  # the last place that belongs to what begins at a node
        for together in self._together():
            places = [i for i, node in enumerate(self.nodes) if node in together]
            last[self.nodes[places[0]]] = max(last[self.nodes[places[0]]], places[-1])
        groups, end = [], -1
        for i, node in enumerate(self.nodes):
            groups.append([]) if i > end else None
            groups[-1].append(node)
            end = max(end, last[node])
        return groups

    def _together(self):
        """Sets of operators that are never separated."""
        for node in self.nodes:
            if node.target is operator.getitem:
                yield {node, node.args[0]}
            for user in node.users if len(node.users) == 1 else ():
                through = next(iter(user.users)) if user.target is operator.getitem and len(user.users) == 1 else user
                if _word(through) in _FOLLOWS.get(_word(node), ()):
                    yield {node, user, through}
        for pattern, init_args, is_core_aten in ATOMIC_SUBGRAPHS:
            graph = trace_atomic_graph(pattern, init_args, is_core_aten).graph
            for match in SubgraphMatcher(graph, remove_overlapping_matches=False, ignore_literals=True).match(self.submodule.graph):
                if found := {n for p, n in match.nodes_map.items() if p.op != "placeholder" and n in self.nodes}:
                    yield found


def resource_partition(gm: torch.fx.GraphModule, cpu_memory_budget=None) -> torch.fx.GraphModule:
    """The graph of `fast_partition` or `global_partition` with its blocks `_run_on_acc_i` cut to fit the budget: parts are `_run_on_acc_i_0`, `_run_on_acc_i_1`, ..."""
    for call in [n for n in gm.graph.nodes if n.op == "call_module" and "_run_on_acc" in n.target]:
        block = getattr(gm, call.target)
        inputs = [n for n in block.graph.nodes if n.op == "placeholder"]
        parts = ResourcePartitioner(block, call.target, cpu_memory_budget, [p for p, a in zip(inputs, call.args) if isinstance(a, torch.fx.Node) and a.op == "get_attr"]).parts()
        if len(parts) > 1:
            _replace(gm, call, block, {node: i for i, nodes in enumerate(parts) for node in nodes})
    gm.delete_all_unused_submodules()
    gm.recompile()
    return gm


def _replace(gm, call, block, part_of):
    """Puts the parts of a block in the place of its call."""
    made, env = split_module(block, None, lambda n: part_of.get(n, 0), keep_original_order=True), {}
    inputs = iter(call.args)
    with gm.graph.inserting_before(call):
        for node in made.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(inputs)
            elif node.op == "output":
                results = torch.fx.node.map_arg(node.args[0], lambda n: env[n])
            else:
                env[node] = gm.graph.node_copy(node, lambda n: env[n])
                if node.op in ("call_module", "get_attr"):
                    env[node].target = f"{call.target}_{node.target.removeprefix('submod_')}".replace(".", "_")
                    value = operator.attrgetter(node.target)(made)
                    gm.add_module(env[node].target, value) if isinstance(value, torch.nn.Module) else setattr(gm, env[node].target, value)
    if isinstance(results, (tuple, list)):
        for user in list(call.users):  # each takes one of the results
            user.replace_all_uses_with(results[user.args[1]])
            gm.graph.erase_node(user)
    else:
        call.replace_all_uses_with(results)
    gm.graph.erase_node(call)


def _word(node) -> str:
    return name_of(node.target) if isinstance(node.target, OpOverload) else ""


def at_hand(budget) -> float:
    """Bytes that builds may still take: the budget without what the process holds already, or what the host has left."""
    try:
        import psutil
    except ImportError:
        held, left = _from_proc()
    else:
        held, left = psutil.Process().memory_info().rss, psutil.virtual_memory().available
    return max(budget - held, 0) if budget is not None else left


def _from_proc():
    """What the process holds and what the host has left, of Linux."""
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return held, os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
