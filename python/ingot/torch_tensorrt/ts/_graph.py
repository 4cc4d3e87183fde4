"""A ScriptModule as a torch.fx module, which is captured like any other: the graph of torch's converter, in which sizes are numbers that stay open.

TorchScript has operators of ATen for arithmetic of numbers, and a trace computes sizes in tensors of one element. torch would take the example's sizes for either; Python's operators keep
them open.
"""

from __future__ import annotations

import math
import operator

import torch

from ...capture.fixes.read_numbers import READS
from ...errors import UnsupportedError
from ...torch_internals.operators import OpOverload, OpOverloadPacket, packet_of, schema_of
from ...torch_internals.saving import script_graph

_aten = torch.ops.aten
_INTEGERS, _CODES = (None, torch.int32, torch.int64), (3, 4)  # types, and TorchScript's numbers of them

# Operators of numbers by the name of ATen's.
_OF_NUMBERS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "floordiv": operator.floordiv, "remainder": operator.mod, "neg": operator.neg, "pow": operator.pow,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "floor": math.floor, "ceil": math.ceil, "sqrt": math.sqrt,
    "Int": torch.sym_int, "Float": torch.sym_float,
}  # fmt: skip
_OF_PYTHON = {max: torch.sym_max, min: torch.sym_min}  # Python's compare, and so fix what they compare

# Integers that a trace computes in tensors of one element.
_OF_TENSORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "rsub": lambda a, b: b - a, "floor_divide": operator.floordiv, "remainder": operator.mod, "neg": operator.neg,
}  # fmt: skip

_QUOTIENTS = {"floor": operator.floordiv, "ceil": lambda a, b: -(-a // b)}  # exact for sizes below 2^24, as float32's quotients are


def graph_module(script: torch.jit.ScriptModule, args: tuple, keywords: dict) -> torch.fx.GraphModule:
    """The module with the script's arguments, parameters and buffers. args, keywords: examples, of which the converter takes only the kinds."""
    arguments = script.forward.schema.arguments[1:]  # without self
    made = script_graph(script, (*args, *(keywords.get(a.name, a.default_value) for a in arguments[len(args) :])))
    if len({a.name for a in arguments}) == len(arguments):  # a trace may give two the same name
        for node, argument in zip(made.graph.find_nodes(op="placeholder"), arguments):
            node.target, node.args = argument.name, (argument.default_value,) if argument.has_default_value() else ()
    for part in made.modules():
        if isinstance(part, torch.fx.GraphModule):  # a branch is one too
            _check(part)
            _numbers_by_python(part)
    return made.train(script.training)


def _check(module: torch.fx.GraphModule):
    if module.graph.find_nodes(op="call_function", target=torch.ops.prim.PythonOp.default):  # torch would crash when it runs
        raise UnsupportedError("the trace calls a torch.autograd.Function, whose code it does not hold")


def _numbers_by_python(module: torch.fx.GraphModule):
    for node in list(module.graph.nodes):
        node.target = _OF_PYTHON.get(node.target, node.target) if node.op == "call_function" else node.target
        if isinstance(node.target, OpOverload) and _is_of_numbers(node.target) and _name(node) in _OF_NUMBERS:
            node.target = _OF_NUMBERS[_name(node)]
        elif node.target in READS:
            with module.graph.inserting_before(node):
                number = _integer(module, node.args[0])
            if number is not None:
                node.replace_all_uses_with(number) if isinstance(number, torch.fx.Node) else _write(node, number)
    module.graph.eliminate_dead_code()
    module.recompile()


def _write(node, number: int):
    """The number in place of the node."""
    for user in list(node.users):
        user.args, user.kwargs = torch.fx.node.map_aggregate((user.args, user.kwargs), lambda value: number if value is node else value)


def _is_of_numbers(operator_: OpOverload) -> bool:
    schema = schema_of(operator_)
    return all(str(part.type) in ("int", "float", "bool", "number", "Scalar") for part in (*schema.arguments, *schema.returns))


def _name(node) -> str | None:
    """The name of an operator of ATen."""
    packet = node.target if isinstance(node.target, OpOverloadPacket) else packet_of(node.target) if isinstance(node.target, OpOverload) else None
    return packet.__name__ if packet is not None else None


def _integer(module, tensor):
    """The integer, or the node that has it, which the tensor was made of. None for other tensors."""
    if isinstance(tensor, int) or tensor is None:
        return tensor
    if tensor.op == "get_attr":  # a number of the model's code
        value = getattr(module, tensor.target, None)
        return int(value) if isinstance(value, torch.Tensor) and tensor.target.startswith("lifted_tensor") and value.dtype in _INTEGERS and value.dim() == 0 else None
    name, args, keywords = _name(tensor), tensor.args, tensor.kwargs
    if name == "scalar_tensor" and keywords.get("dtype") in _INTEGERS and isinstance(args[0], (int, torch.fx.Node)):
        return args[0]
    if name in ("to", "_to_copy"):
        return _integer(module, args[0]) if (keywords.get("dtype") if name == "_to_copy" else args[1]) in _INTEGERS + _CODES else None
    if name in ("floor", "ceil") and _name(args[0]) == "div" and not args[0].kwargs:
        return _call(module, _QUOTIENTS[name], *args[0].args)
    if name == "div" and keywords.get("rounding_mode") == "floor":
        return _call(module, operator.floordiv, *args)
    if name == "clamp" and not keywords:
        low, high = (*args[1:], None, None)[:2]
        raised = _integer(module, args[0]) if low is None else _call(module, torch.sym_max, args[0], low)
        return raised if high is None or raised is None else module.graph.call_function(torch.sym_min, (raised, high))
    factors = [*args[2:], *keywords.values()]  # alpha
    return _call(module, _OF_TENSORS[name], *args[:2]) if name in _OF_TENSORS and all(factor == 1 for factor in factors) else None


def _call(module, function, *tensors):
    """The function of integers that tensors were made of; None if one was made of something else."""
    if not all(isinstance(x, (int, torch.fx.Node)) for x in tensors):
        return None
    operands = [_integer(module, x) for x in tensors]
    return None if None in operands else module.graph.call_function(function, tuple(operands))
