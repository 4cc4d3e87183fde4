"""A GraphModule as one ingot engine, without fallback, under the names of upstream's interpreter of TensorRT networks."""

from __future__ import annotations

import collections

import torch
import torch.utils._pytree as pytree

from ... import _enums
from .._settings import CompilationSettings

TRTInterpreterResult = collections.namedtuple("TRTInterpreterResult", "engine serialized_engine input_names output_names requires_output_allocator requires_native_multidevice")


class _Engine:
    """An engine that scripts can serialize, as they do with a TensorRT engine before they wrap it."""

    def __init__(self, data: bytes):
        self._data = data

    def serialize(self) -> bytes:
        return self._data


class TRTInterpreter:
    """Compiles a module as one engine. `run()` returns the bytes of a plan and the names of its inputs and results.

    module: an nn.Module or GraphModule of torch's operators.
    input_specs: Inputs, in order.
    output_dtypes: accepted; results have the module's types."""

    def __init__(self, module: torch.nn.Module, input_specs, output_dtypes=None, compilation_settings=None, engine_cache=None, **more):
        self.module, self.input_specs, self.settings = module, list(input_specs), compilation_settings if compilation_settings is not None else CompilationSettings()

    def run(self, strict_type_constraints=False, algorithm_selector=None, **more) -> TRTInterpreterResult:
        """Raises UnsupportedOperatorException for operators without an engine."""
        from .... import _engine
        from .._compiler import convert_exported_program_to_serialized_trt_engine, trace

        program = trace(self.module, self.input_specs)
        data = convert_exported_program_to_serialized_trt_engine(program, self.input_specs, **vars(self.settings))
        engine = _engine.load_engine(data) if not self.settings.strip_engine_weights else None
        inputs = [b["name"] for b in engine.inputs()] if engine is not None else [n.name for n in program.graph.nodes if n.name in program.graph_signature.user_inputs]
        outputs = [b["name"] for b in engine.outputs()] if engine is not None else list(program.graph_signature.user_outputs)
        return TRTInterpreterResult(_Engine(data), data, inputs, outputs, False, False)


def interpret_module_to_result(module, inputs=None, settings=None, arg_inputs=None, kwarg_inputs=None, engine_cache=None) -> TRTInterpreterResult:
    """TRTInterpreter(module, inputs).run()."""
    return TRTInterpreter(module, inputs if inputs is not None else arg_inputs, compilation_settings=settings).run()


def convert_module(module, inputs, settings=None, name=""):
    """The engine of a GraphModule as a TorchTensorRTModule."""
    from ..runtime._TorchTensorRTModule import TorchTensorRTModule

    made = interpret_module_to_result(module, inputs, settings)
    return TorchTensorRTModule(made.serialized_engine, made.input_names, made.output_names, name=name, settings=settings)


def infer_module_output_dtypes(module: torch.fx.GraphModule, truncate_double=False) -> list:
    """The element types of a graph's results, as its metadata says; float32 for float64 with truncate_double."""
    found = []
    for node in pytree.tree_leaves(next(n for n in module.graph.nodes if n.op == "output").args[0]):
        value = node.meta.get("val", node.meta.get("tensor_meta")) if isinstance(node, torch.fx.Node) else node
        kind = getattr(value, "dtype", None) or {bool: torch.bool, int: torch.int64, torch.SymInt: torch.int64}.get(type(value), torch.float32)
        found.append(_enums.dtype._from(torch.float32 if truncate_double and kind is torch.float64 else kind))
    return found
