"""Numbers that a model's own code reads of its buffers, its parameters and what it makes itself: `if self.initialised:`, `F.pad(x, (int(self.left), 0))`, `assert (torch.linspace(0, 1, 5).diff() > 0).all()`.

torch.export knows no values. Where it could not go on, the model is traced again: what follows from such tensors alone is computed, and the trace goes on with the number. If it follows from a buffer
or a parameter, an assertion in the graph refuses calls once the number is another. What follows from open sizes too, `torch.ceil(x.shape[-1] / self.stride).long()`, is a size (size_values.py), and a
condition on it a branch on sizes."""

from __future__ import annotations

import contextlib
import linecache
import operator
import os
import sys

import torch
from torch.export.graph_signature import InputKind

from ...base import debug
from ...base.log import log
from ...errors import UnsupportedError
from ...torch_internals.operators import OpOverload
from ...torch_internals.tracing import calls_recorded_by, node_of, outside_of_traces
from ...torch_internals.trees import pytree
from ..memory import may_write, of_memory, value_of, written_operands
from . import size_values
from .branches import INGOT, TORCH, Branches
from .equal_tensors import EqualTensors

_aten = torch.ops.aten
READS = (_aten.item.default, _aten._local_scalar_dense.default)


class KnownValues:
    """While torch exports. For one thread at a time (tracing.py)."""

    def __init__(self, module: torch.nn.Module, equal: EqualTensors):
        self._module, self._own, self._equal = module, dict(_tensors(module)), equal
        self._asked: dict[str, str] = {}  # by the model's tensors: the line that asked
        self._wanted = False

    def begin(self) -> bool:
        """The next traces know values. False if the last one did."""
        before, self._wanted = self._wanted, not debug.is_disabled("known_values")
        return self._wanted and not before

    def could_be_known(self, program: torch.export.ExportedProgram) -> bool:
        """Whether the program reads numbers that follow from constants and sizes alone: torch took them for data. The next traces know them then."""
        constants = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.CONSTANT_TENSOR}
        given = lambda node: node.op == "get_attr" or node.name in constants or _is_size(node) or node.op == "call_function" and gives_the_same_again(node)  # noqa: E731
        reads = (node for node in program.graph.nodes if node.target in READS and isinstance(value_of(node), (torch.SymInt, torch.SymFloat)))
        return any(all(map(given, computed_from(read.args[0]))) for read in reads) and self.begin()

    def in_trace(self, branches: Branches) -> KnownValues:
        """The context of the next trace, whose branches on sizes are recorded."""
        self._branches = branches
        return self

    def __enter__(self):
        self._asked = {}
        self._patch = calls_recorded_by(self._recording) if self._wanted else contextlib.nullcontext()
        self._patch.__enter__()

    def __exit__(self, *problem):
        self._patch.__exit__(*problem)

    def refuse_written(self, program: torch.export.ExportedProgram):
        """A number of a buffer that calls write is another in the next call."""
        written = written_memory(program.graph)
        buffers = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs if spec.target in self._asked}
        for node in program.graph.nodes:
            if (name := buffers.get(node.name)) is not None and of_memory(value_of(node)) in written:
                raise UnsupportedError(
                    f"the model's code reads a number from its buffer {name!r}, which it writes in each call",
                    self._asked[name],
                    'write it with tensor operations such as torch.where, or compile just in time: torch.compile(model, backend="ingot"), which leaves this line to Python',
                )

    def _recording(self, record):
        def recorded(mode, asked, pre_dispatch, args, keywords):
            if asked not in READS:
                return record(mode, asked, pre_dispatch, args, keywords)
            call = lambda target, *args: record(mode, target, pre_dispatch, args, {})  # noqa: E731
            line = _line(sys._getframe(1))
            if (found := self._value(mode, args[0])) is None:
                answer = self._equal.assumed(mode, args[0], call, line)
                return record(mode, asked, pre_dispatch, args, keywords) if answer is None else answer
            number, names = found
            if isinstance(number, torch.SymBool):
                number = self._branches.answer(number, sys._getframe(1))
            if names:
                self._asked |= dict.fromkeys(names, line)
                if args[0].device.type != "cpu":
                    log.warning("%s has to stay %s (%s), which is not checked: the host would wait for the GPU", ", ".join(sorted(names)), number, line)
                same = call(_aten.view.default, call(_aten.eq.Scalar, args[0], number), [])
                call(_aten._assert_async.msg, same, f"{', '.join(sorted(names))} changed: the model was compiled for {number} at {line}; compile it again")
            return number

        return recorded

    def _value(self, mode, tensor) -> tuple[bool | int | float | torch.SymInt | torch.SymBool, set[str]] | None:
        """The number in a tensor, and the names of the model's tensors that it follows from; None if it follows from an input, from a random number or from what the model has written."""
        if (asked := node_of(tensor, mode)) is None:
            return None
        nodes = computed_from(asked)
        if any(node.op not in ("placeholder", "get_attr") and not _is_size(node) and not gives_the_same_again(node) for node in nodes):
            return None
        if not written_memory(asked.graph).isdisjoint(of_memory(value_of(node)) for node in nodes if not _is_size(node)):
            return None
        values, names = {}, set()
        now = {node: name for name, traced in _tensors(self._module) if (node := node_of(traced, mode)) is not None and node.op in ("placeholder", "get_attr")}
        for node in asked.graph.nodes:
            if node not in nodes:
                continue
            if _is_size(node):
                values[node] = value_of(node)
            elif any(isinstance(values.get(operand), _OPEN) for operand in node.all_input_nodes):
                values[node] = size_values.computed(node, values)
                if values[node] is None:
                    return None
            elif node.op == "call_function":
                with outside_of_traces():
                    values[node] = node.target(*pytree.tree_map_only(torch.fx.Node, values.get, node.args), **pytree.tree_map_only(torch.fx.Node, values.get, node.kwargs))
            elif node in now:
                values[node] = self._own[now[node]]
                names.add(now[node])
            elif node.op == "get_attr":
                values[node] = getattr(mode.tracer.root, node.target)
            else:
                return None
        found = values[asked]
        if isinstance(found, size_values.Ratio):
            return (found.over, names) if found.under == 1 and not tensor.is_floating_point() else None
        if isinstance(found, torch.Tensor):
            with outside_of_traces():
                return found.item(), names
        return found, names


_OPEN = (torch.SymInt, torch.SymBool, size_values.Ratio, size_values.Line)


def _is_size(node) -> bool:
    return isinstance(value_of(node), torch.SymInt)


def computed_from(asked: torch.fx.Node, through_sizes=False) -> set[torch.fx.Node]:
    """The node and all that it is computed from; of a size nothing, unless asked."""
    found, left = set(), [asked]
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += () if _is_size(node) and not through_sizes else node.all_input_nodes
    return found


def _tensors(module):
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def gives_the_same_again(node) -> bool:
    target = node.target
    return target is operator.getitem or isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded not in target.tags and not _writes(node)


def _writes(node) -> bool:
    return may_write(node) and node.target is not _aten.detach_.default  # which torch.export records for torch.tensor([...])


def written_memory(graph) -> set:
    """The memory that operators of the graph write."""
    return {of_memory(value_of(operand)) for node in graph.nodes if isinstance(node.target, OpOverload) and _writes(node) for operand in written_operands(node)} - {None}


def _line(frame) -> str:
    """The innermost line that is neither torch's nor ingot's."""
    while frame is not None and frame.f_code.co_filename.startswith((TORCH, INGOT, "<")):
        frame = frame.f_back
    if frame is None:
        return ""
    file, line = frame.f_code.co_filename, frame.f_lineno
    return f"{os.path.basename(file)}:{line}: `{linecache.getline(file, line).strip()}`"
