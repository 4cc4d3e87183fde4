"""How a call's pytrees map to the flat inputs and results of a graph, in a form that plans keep."""

from __future__ import annotations

import ast
import math

import torch
import torch.utils._pytree as pytree

from .capture import needed_nodes
from .errors import FormatError


def signature_of(program, f):
    """How a call's pytrees map to the flat inputs and results of the graph."""
    outputs, made, needed = [], 0, needed_nodes(f)
    for result in f.results:
        value = result.meta.get("val") if isinstance(result, torch.fx.Node) else result
        if isinstance(value, torch.Tensor):
            outputs.append({"tensor": made})
            made += 1
        elif isinstance(value, torch.SymInt):
            outputs.append(_size_of_inputs(value.node.expr, f))
        else:
            outputs.append({"constant": value})
    return {"in_spec": _dumps(program.call_spec.in_spec), "out_spec": _dumps(program.call_spec.out_spec), "inputs": inputs_of(f.inputs), "outputs": outputs,
            "tied": {name: slot.name for slot in f.slots for name in slot.tied},
            "unused": [slot.name for slot in f.slots if slot.kind == "weight" and slot.node not in needed]}  # fmt: skip


def inputs_of(slots) -> list[dict]:
    """What each flat input of a call is: a tensor, by its place among the tensors, a number that may vary, or a constant."""
    tensors, inputs = 0, []
    for slot in slots:
        meta = slot.node.meta.get("val")
        if slot.kind == "input":
            inputs.append({"tensor": tensors})
            tensors += 1
        elif isinstance(meta, (torch.SymInt, torch.SymFloat)):
            inputs.append({"number": slot.name})  # of the torch graph around the engines; no engine takes it
        else:
            inputs.append({"constant": meta})
    return inputs


def same_constant(given, expected) -> bool:
    """No operator can tell the two apart: one type, one value and one sign. 0.0 is not -0.0, and NaN is itself."""
    if type(given) is not type(expected):
        return False
    if isinstance(given, complex):
        return same_constant(given.real, expected.real) and same_constant(given.imag, expected.imag)
    if isinstance(given, float):
        return math.copysign(1, given) == math.copysign(1, expected) and (given == expected or given != given and expected != expected)
    return given == expected


def shown(constant) -> str:
    """Python writes no sign for NaN."""
    return "-nan" if isinstance(constant, float) and constant != constant and math.copysign(1, constant) < 0 else repr(constant)


def _dumps(spec):
    try:
        return pytree.treespec_dumps(spec)
    except NotImplementedError:
        return None  # a type without a name in files, such as a namedtuple of the user's


def _size_of_inputs(value, f):
    """A size that the model returns, as an expression over axes of the inputs; None when it comes from elsewhere."""
    places = {}
    for i, slot in enumerate(s for s in f.inputs if s.kind == "input"):
        for axis, size in enumerate(slot.node.meta["val"].shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                places.setdefault(str(size.node.expr), [i, axis])
    if any(str(s) not in places for s in value.free_symbols):
        return {"computed": True}
    return {"size": {"text": str(value), "symbols": {str(s): places[str(s)] for s in value.free_symbols}}}


def size_function(size):
    """A function of the inputs that computes a size the model returns. The text may come from a file, so it is walked, never run."""
    operators = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b, ast.Pow: lambda a, b: a**b}
    functions = {"Max": max, "Min": min, "FloorDiv": lambda a, b: a // b, "Mod": lambda a, b: a % b}

    def build(node):
        match node:
            case ast.Constant(value=int(number)):
                return lambda _: number
            case ast.Name(id=name) if name in size["symbols"]:
                position, axis = size["symbols"][name]
                return lambda flat: flat[position].shape[axis]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = build(operand)
                return lambda flat: -inner(flat)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in operators:
                a, b, f = build(left), build(right), operators[type(op)]
                return lambda flat: f(a(flat), b(flat))
            case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in functions:
                inner, f = [build(p) for p in parts], functions[name]
                return lambda flat: f(*(g(flat) for g in inner))
        raise FormatError(f"the plan returns a size as {size['text']!r}, which is not an expression over sizes of its inputs")

    try:
        return build(ast.parse(size["text"], mode="eval").body)
    except SyntaxError:
        raise FormatError(f"the plan returns a size as {size['text']!r}, which is not an expression") from None
