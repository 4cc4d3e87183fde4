"""Writes a torch graph for the compiler: the JSON of torch.export's archives, straight from FX.

A graph becomes one string and a table of weights, which are not copied. torch's own serializer writes the same schema at a hundred times the cost, because it
also pickles, copies and re-validates.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import torch

from ..engine import _values, plain_tensors
from ..errors import InputError, UnsupportedError
from ..torch_internals.operators import OpOverload, schema_of
from ..torch_internals.programs import SCHEMA_VERSION, WITH_EFFECTS
from .calls import Calls
from .functional import computed_from, is_view, order_in_memory
from .memory import of_memory
from .schema import Values, same_part, torch_only
from .sizes import linear, places


@dataclass
class Captured:
    """A graph ready for the compiler."""

    json: bytes
    weights: list[tuple[str, torch.Tensor]]  # by state-dict name; the tensors own the bytes
    input_names: list[str]                   # names of the tensor inputs, in order


def bound(value):
    """A limit as an int; None if the symbol has no limit."""
    try:
        number = int(value)
    except (OverflowError, TypeError, ValueError, AttributeError):
        return None
    return number if -(2**62) < number < 2**62 else None


def _ranges(symbols, lookup):
    ranges = {}
    for symbol in sorted(symbols, key=str):
        bounds = lookup(symbol)
        if bounds is not None:
            ranges[str(symbol)] = {"min_val": bound(bounds.lower), "max_val": bound(bounds.upper)}
    return ranges


def _document(graph, input_specs, output_specs, ranges):
    return json.dumps(
        {
            "graph_module": {
                "graph": graph,
                "signature": {"input_specs": input_specs, "output_specs": output_specs},
                "module_call_graph": [],
            },
            "opset_version": {"aten": 10},
            "range_constraints": ranges,
            "schema_version": {"major": SCHEMA_VERSION[0], "minor": SCHEMA_VERSION[1]},
            "verifiers": [],
            "torch_version": torch.__version__,
        }
    ).encode()


def write(f, targets=()) -> Captured:
    """The part of a functional graph that computes its wanted values, as the compiler reads it. targets: those of the plan, for which kernels of Triton are compiled."""
    values = Values()
    calls = Calls(targets, values)
    needed = needed_nodes(f)
    calls.unplaced = {of_memory(slot.node.meta["val"]) for slot in f.slots if slot.kind == "input" and "offset" not in (slot.layout or {})}
    inputs, specs, weights, names = [], [], [], []
    numbers = numbers_as_sizes(f)
    for slot in f.slots:
        node, tensor, meta = slot.node, slot.tensor, slot.node.meta.get("val")
        if node in numbers:
            inputs.append({"as_tensor": values.number(f"{node.name}_as_sizes", meta.node.expr, numbers[node], f.device)})
            specs.append({"user_input": {"arg": inputs[-1], "name": slot.name}})
            names.append(slot.name)
            continue
        if slot.kind == "number":
            if isinstance(meta, torch.SymInt):
                inputs.append({"as_sym_int": values.sym_int(node.name, meta)})
                specs.append({"user_input": {"arg": inputs[-1]}})
            continue
        if slot.kind == "weight" and node not in needed:
            continue
        argument = {"as_tensor": values.tensor(node.name, meta)}
        inputs.append(argument)
        if slot.kind == "input":
            specs.append({"user_input": {"arg": argument, "name": slot.name}})
            names.append(slot.name)
            continue
        argument = {"name": node.name}
        if slot.kind == "weight" and slot.source == "parameter":
            specs.append({"parameter": {"arg": argument, "parameter_name": slot.name}})
        elif slot.kind == "state" or slot.source == "buffer":
            specs.append({"buffer": {"arg": argument, "buffer_name": slot.name, "persistent": True}})
        else:
            specs.append({"tensor_constant": {"arg": argument, "tensor_constant_name": slot.name}})
        if torch_only(slot.name, tensor) is not None:
            continue  # its values stay in torch
        tensor = tensor.detach().resolve_conj()
        if why := plain_tensors.why_not(tensor, slot.name):
            raise InputError(f"weight {slot.name!r} {why[0]}", remedy=why[1])
        tensor = _values.in_order(tensor, order_of(tensor) if slot.kind == "weight" else None)
        weights.append((slot.name, _values.held(tensor)))
        values.tensors[node.name]["strides"] = [{"as_int": s} for s in tensor.stride()]
    slots = {s.node for s in f.slots}
    elsewhere = _elsewhere(f)
    for node in f.module.graph.nodes:
        if node.op == "call_function" and node in needed and node not in slots:
            try:
                if node in elsewhere:
                    raise UnsupportedError(f"its result is on {elsewhere[node]}, and the engine runs on {f.device}")
                calls.call(node)
            except UnsupportedError as problem:
                calls.opaque(node, problem.message)
    outputs, arguments = [], []
    for node, wanted in zip(f.wanted, f.called or (None,) * len(f.wanted)):
        name = same_part(node).name
        if order := f.orders.get(node):
            name = calls.permuted(node, order)
        else:
            values.tensor(name, node.meta["val"])
        if wanted not in (None, name):
            name = calls.named(node, name, wanted)
        arguments.append({"as_tensor": {"name": name}})
        outputs.append({"user_output": {"arg": arguments[-1]}})
    for slot, value in f.writes:
        argument = {"name": same_part(value).name}
        values.tensor(argument["name"], value.meta["val"])
        arguments.append({"as_tensor": argument})
        kind, owner = ("user_input_mutation", "user_input_name") if slot.kind == "input" else ("buffer_mutation", "buffer_name")
        outputs.append({kind: {"arg": argument, owner: slot.node.name if slot.kind == "input" else slot.name}})
    document = _document(calls.graph(inputs, arguments), specs, outputs, _ranges(values.symbols, f.ranges))
    return Captured(document, weights, names)


def order_of(tensor: torch.Tensor) -> list[int] | None:
    """The axes from outermost to innermost in memory, if the tensor is dense but not row-major."""
    return None if tensor.is_contiguous() else order_in_memory(tensor.shape, tensor.stride())


def _elsewhere(f) -> dict[torch.fx.Node, torch.device]:
    """Nodes whose results must be on another device than the engine's, and that device. A value made of constants alone, and a view of an input, may be anywhere, unless the caller or
    torch reads it there."""
    given = {*f.wanted, *(value for _, value in f.writes)}
    constants = {s.node for s in f.slots if s.kind == "weight"}
    views = {s.node for s in f.slots if s.kind == "input"}  # of inputs, and these
    found, free = {}, []
    for node in f.module.graph.nodes:
        if node.op != "call_function":
            continue
        there = next((t.device for t in _tensors(node.meta.get("val")) if t.device.type != f.device.type or f.device.index not in (None, t.device.index)), None)
        if there is None:
            continue
        if node not in given and all(operand in constants or not _tensors(operand.meta.get("val")) for operand in node.all_input_nodes):
            constants.add(node)
        elif node not in given and is_view(node.target) and node.all_input_nodes[0] in views:
            views.add(node)
        else:
            found[node] = there
            continue
        free.append((node, there))
    for node, there in reversed(free):
        if any(user in found for user in node.users):
            found[node] = there
    return found


def numbers_as_sizes(f) -> dict[torch.fx.Node, bool]:
    """The numbers given with each call that no tensor has as a size, and whether each may be negative. An engine takes such a number as the sizes of a tensor."""
    known = places((None, size) for s in f.slots if s.kind in ("input", "state") for size in s.node.meta["val"].shape)
    given = {s.node: linear(s.node.meta.get("val")) for s in f.slots if s.kind == "number"}
    return {node: _may_be_negative(f.ranges(n.symbol)) for node, n in given.items() if n is not None and n.plain and n.symbol not in known}


def _may_be_negative(limits) -> bool:
    least = None if limits is None else bound(limits.lower)
    return least is None or least < 0


def _tensors(value) -> list[torch.Tensor]:
    return [t for t in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(t, torch.Tensor)]


def needed_nodes(f) -> set:
    """Nodes that the wanted values depend on, and those with effects of their own."""
    effects = [n for n in f.module.graph.nodes if n.op == "call_function" and has_effects(n)]
    return computed_from([*f.wanted, *(value for _, value in f.writes), *effects])


def is_assertion(node: torch.fx.Node) -> bool:
    return node.target in (torch.ops.aten._assert_async.msg, torch.ops.aten._assert_async.default)


def _is_checked(node) -> bool:
    """Assertions about bools of the CPU are checked. The host would have to wait for a GPU."""
    value = node.args[0].meta.get("val")  # nothing is recorded in the graph around engines, which has only what is checked
    return value is None or value.dtype == torch.bool and value.device.type == "cpu"


def has_effects(node: torch.fx.Node) -> bool:
    """True if the node does something besides making its results: it checks a condition, or prints."""
    target = node.target
    if node.op != "call_function" or target is torch.ops.aten._assert_tensor_metadata.default or is_assertion(node) and not _is_checked(node):
        return False
    if isinstance(target, OpOverload):
        return not schema_of(target).returns or target in WITH_EFFECTS
    return target in WITH_EFFECTS
