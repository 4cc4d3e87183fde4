"""`torch_tensorrt.ts`: TorchScript modules. torch's own converter makes a graph of one, which is compiled like any other module. A module that it cannot convert runs uncompiled."""

from __future__ import annotations

import torch

from ...capture.tracing import alone
from ...errors import InputError, UnsupportedError
from .. import logging
from .._errors import UnsupportedOperatorException
from .._Input import Given, Input
from .._said import log
from .._symbols import refused_names
from ..dynamo import _compiler
from ..dynamo._settings import ROWS, Settings
from ._graph import graph_module

__all__ = ["check_method_op_support", "compile", "convert_method_to_trt_engine", "embed_engine_in_new_module", "logging"]
__getattr__ = refused_names(__name__)
_MIN_BLOCK_SIZE = 3  # of this front end


def compile(module, inputs=None, input_signature=None, *, kwarg_inputs=None, method_name="forward", **settings):
    """Compiles a ScriptModule, or an nn.Module as `torch_tensorrt.compile` does. Sizes with a range are open; a trace keeps the sizes that it has as numbers.

    inputs: Inputs and tensors. input_signature: the same as one nested tuple. settings: as for `torch_tensorrt.compile`. Returns a GraphModule, which torch_tensorrt.save writes. If
    torch's converter does not accept a ScriptModule, it returns the module itself, with a warning that says why.
    """
    if isinstance(module, torch.nn.Module) and not isinstance(module, torch.jit.ScriptModule):
        taken = _compiler.inputs_of(inputs if inputs is not None else input_signature, None, kwarg_inputs)
        return _compiler.compiled(module, taken, Settings({"min_block_size": _MIN_BLOCK_SIZE, **_known(settings)}))
    given = _given(inputs, input_signature)
    program = _program(module, given, kwarg_inputs, settings, required=False)
    if program is None:
        return module
    return _compiler.compiled(program, Given(given, None, kwarg_inputs), Settings({"min_block_size": _MIN_BLOCK_SIZE, **_known(settings)}))


def convert_method_to_trt_engine(module, method_name="forward", inputs=None, *, input_signature=None, kwarg_inputs=None, **settings) -> bytes:
    """Compiles the module as one engine and returns the bytes of a plan. Raises UnsupportedOperatorException if torch's converter or an engine lacks something."""
    if method_name != "forward":
        raise UnsupportedError(f"method {method_name!r} of a ScriptModule cannot be converted", remedy="convert forward")
    program = _program(module, _given(inputs, input_signature), kwarg_inputs, settings, required=True)
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


def _given(inputs, signature) -> tuple:
    given = inputs if inputs is not None else signature
    if given is None:
        raise _compiler.CallError("no inputs are given", remedy="inputs=[torch_tensorrt.Input((1, 3, 224, 224))], or tensors")
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)


def _example(value):
    if isinstance(value, (list, tuple)):
        return type(value)(map(_example, value))
    if isinstance(value, dict):
        return {name: _example(part) for name, part in value.items()}
    return value.torch_tensor if isinstance(value, Input) else value


def _program(module, given: tuple, keywords, settings, required):
    """The module as an exported program with the sizes of the inputs. None, with a warning, or UnsupportedOperatorException for one that torch does not convert."""
    if not isinstance(module, (torch.jit.ScriptModule, torch.nn.Module)):
        raise InputError(f"a {type(module).__name__} is not a ScriptModule", remedy="torch.jit.script(model) or torch.jit.trace(model, example)")
    try:
        graph = _converted(module, _example(given), _example(dict(keywords or {}))) if isinstance(module, torch.jit.ScriptModule) else module
        return _compiler.trace(graph, given, kwarg_inputs=keywords, device=settings.get("device"))
    except InputError:
        raise
    except Exception as problem:  # the converter raises all kinds
        why = f"torch's converter of TorchScript does not take the module: {type(problem).__name__}: {str(problem).strip().splitlines()[0] if str(problem).strip() else ''}"
        if required:
            raise UnsupportedOperatorException(why, remedy="compile the nn.Module that the ScriptModule was made of") from problem
        log.warning("%s; it runs as it was. Compile the nn.Module it was made of", why)
        return None


@alone
def _converted(script, args, keywords):
    with torch.no_grad():
        return graph_module(script, args, keywords)


def _known(settings):
    return {name: value for name, value in settings.items() if name in ROWS or name not in ("truncate_long_and_double", "allow_shape_tensors", "calibrator")}
