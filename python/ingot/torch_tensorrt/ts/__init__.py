"""`torch_tensorrt.ts`: TorchScript modules. torch's own converter makes a program of one, which is compiled like any other. A module that it cannot convert runs uncompiled."""

from __future__ import annotations

import operator

import torch

from ...capture.fixes.read_numbers import READS
from ...capture.tracing import alone
from ...errors import InputError, UnsupportedError
from ...torch_internals.saving import converter
from .. import logging
from .._errors import UnsupportedOperatorException
from .._Input import Given, Input
from .._said import log
from .._symbols import refused_names
from ..dynamo import _compiler
from ..dynamo._settings import ROWS, Settings

__all__ = ["check_method_op_support", "compile", "convert_method_to_trt_engine", "embed_engine_in_new_module", "logging"]
__getattr__ = refused_names(__name__)
_MIN_BLOCK_SIZE = 3  # of this front end


def compile(module, inputs=None, input_signature=None, *, kwarg_inputs=None, method_name="forward", **settings):
    """Compiles a ScriptModule for the sizes of opt_shape, or an nn.Module as `torch_tensorrt.compile` does.

    inputs: Inputs and tensors. input_signature: the same as one nested tuple. settings: as for `torch_tensorrt.compile`. Returns a GraphModule, which torch_tensorrt.save writes. If
    torch's converter does not accept a ScriptModule, it returns the module itself, with a warning that says why.
    """
    if isinstance(module, torch.nn.Module) and not isinstance(module, torch.jit.ScriptModule):
        taken = _compiler.inputs_of(inputs if inputs is not None else input_signature, None, kwarg_inputs)
        return _compiler.compiled(module, taken, Settings({"min_block_size": _MIN_BLOCK_SIZE, **_known(settings)}))
    program = _program(module, _taken(inputs, input_signature), dict(kwarg_inputs or {}), required=False)
    if program is None:
        return module
    return _compiler.compiled(program, Given(), Settings({"min_block_size": _MIN_BLOCK_SIZE, **_known(settings)}))


def convert_method_to_trt_engine(module, method_name="forward", inputs=None, *, input_signature=None, kwarg_inputs=None, **settings) -> bytes:
    """Compiles the module as one engine and returns the bytes of a plan. Raises UnsupportedOperatorException if torch's converter or an engine lacks something."""
    if method_name != "forward":
        raise UnsupportedError(f"method {method_name!r} of a ScriptModule cannot be converted", remedy="convert forward")
    program = _program(module, _taken(inputs, input_signature), dict(kwarg_inputs or {}), required=True)
    return _compiler.convert_exported_program_to_serialized_trt_engine(program, **_known(settings))


def check_method_op_support(module, method_name="forward", inputs=None) -> bool:
    """Whether every operator of the module has an engine. Without inputs, only the operators' names are compared."""
    graph = getattr(module, method_name).inlined_graph if hasattr(getattr(module, method_name), "inlined_graph") else module.graph
    from ..dynamo.conversion import DYNAMO_CONVERTERS

    names = {str(target).split(".")[1] for target in DYNAMO_CONVERTERS.unique_targets() if str(target).startswith("aten.")}
    kinds = {node.kind().removeprefix("aten::") for node in _nodes(graph) if node.kind().startswith("aten::")}
    return kinds <= names


def _nodes(owner):
    for node in owner.nodes():
        yield node
        for block in node.blocks():
            yield from _nodes(block)


def embed_engine_in_new_module(serialized_engine, input_binding_names=None, output_binding_names=None, device=None, **more):
    """A module from the bytes of an engine. It takes and returns tensors."""
    from ..dynamo.runtime import TorchTensorRTModule

    return TorchTensorRTModule(serialized_engine, input_binding_names, output_binding_names)


def _taken(inputs, signature):
    given = inputs if inputs is not None else signature
    if given is None:
        raise _compiler.CallError("no inputs are given", remedy="inputs=[torch_tensorrt.Input((1, 3, 224, 224))], or tensors")
    given = given if isinstance(given, (list, tuple)) else (given,)
    return tuple(_example(v) for v in given)


def _example(value):
    """An example tensor for an input: TorchScript is converted on tensors."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_example, value))
    if not isinstance(value, Input):
        return value
    if value.shape_mode is Input._ShapeMode.STATIC:
        return value.example_tensor()
    log.warning("a TorchScript module is converted for one set of sizes: those of opt_shape %s", value.shape["opt_shape"])
    return value.example_tensor("opt_shape")


@alone
def _program(module, args, kwargs, required):
    if not isinstance(module, (torch.jit.ScriptModule, torch.nn.Module)):
        raise InputError(f"a {type(module).__name__} is not a ScriptModule", remedy="torch.jit.script(model) or torch.jit.trace(model, example)")
    try:
        if not isinstance(module, torch.jit.ScriptModule):
            return torch.export.export(module, args, kwargs, strict=False)
        with torch.no_grad():
            converted = converter()(module, args, kwargs).convert().module()
            _read_directly(converted)
            return torch.export.export(converted, args, kwargs, strict=False)  # the converter leaves sizes open: this has the example's sizes
    except Exception as problem:  # the converter raises all kinds
        why = f"torch's converter of TorchScript does not take the module: {type(problem).__name__}: {str(problem).strip().splitlines()[0] if str(problem).strip() else ''}"
        if required:
            raise UnsupportedOperatorException(why, remedy="compile the nn.Module that the ScriptModule was made of") from problem
        log.warning("%s; it runs as it was. Compile the nn.Module it was made of", why)
        return None


_ARITHMETIC = {torch.ops.aten.add.Tensor: operator.add, torch.ops.aten.sub.Tensor: operator.sub, torch.ops.aten.mul.Tensor: operator.mul}


def _read_directly(module: torch.fx.GraphModule):
    """Integers that the converter writes to tensors of one element, computes with and reads, as TorchScript has sizes: without the tensors."""
    for node in module.graph.nodes:
        if node.target not in READS:
            continue
        with module.graph.inserting_before(node):
            number = _integer(module, node.args[0])
        for user in list(node.users) if number is not None else ():
            user.args, user.kwargs = torch.fx.node.map_aggregate((user.args, user.kwargs), lambda value: number if value is node else value)
    module.graph.eliminate_dead_code()
    module.recompile()


def _integer(module, tensor):
    """The integer, or the node that has it, which the tensor was made of. None for other tensors."""
    aten, integers = torch.ops.aten, (None, torch.int32, torch.int64)
    if tensor.target is aten.scalar_tensor.default and tensor.kwargs.get("dtype") in integers and isinstance(tensor.args[0], (int, torch.fx.Node)):
        return tensor.args[0]
    if tensor.target is aten._to_copy.default and tensor.kwargs.get("dtype") in integers:
        return _integer(module, tensor.args[0])
    if tensor.op == "get_attr" and tensor.target.startswith("lifted_tensor"):  # a number of the model's code
        value = getattr(module, tensor.target)
        return int(value) if value.dtype in integers and value.dim() == 0 else None
    if tensor.target in _ARITHMETIC and not tensor.kwargs and all(isinstance(x, torch.fx.Node) for x in tensor.args):
        operands = [_integer(module, x) for x in tensor.args]
        return None if None in operands else module.graph.call_function(_ARITHMETIC[tensor.target], tuple(operands))
    return None


def _known(settings):
    return {name: value for name, value in settings.items() if name in ROWS or name not in ("truncate_long_and_double", "allow_shape_tensors", "calibrator")}
