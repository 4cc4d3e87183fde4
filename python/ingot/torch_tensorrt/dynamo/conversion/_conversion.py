"""A GraphModule as one ingot engine, without fallback, under the names of upstream's interpreter of TensorRT networks."""

from __future__ import annotations

import collections
import copy
import math
import operator

import torch

from ....errors import InputError
from ....torch_internals.operators import OpOverload, schema_of
from ....torch_internals.trees import pytree
from ... import _enums
from ..._Device import Device
from ..._Input import Input
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
        from ....engine import _engine
        from .._compiler import convert_exported_program_to_serialized_trt_engine, inputs_of, traced

        module, taken, device = _with_numbers(_without_memory(self.module), self.input_specs), inputs_of(self.input_specs, None, None), Device._from(self.settings.device).to(torch.device)
        if device.type == "cuda":  # upstream's networks have no devices: all of it runs on one GPU
            module = _on(module, device)
            taken.on(device)
        program = traced(module, taken)
        data = convert_exported_program_to_serialized_trt_engine(program, self.input_specs, **vars(self.settings))
        engine = _engine.load_engine(data) if not self.settings.strip_engine_weights else None
        inputs = [b["name"] for b in engine.inputs()] if engine is not None else [n.name for n in program.graph.nodes if n.name in program.graph_signature.user_inputs]
        outputs = [b["name"] for b in engine.outputs()] if engine is not None else list(program.graph_signature.user_outputs)
        return TRTInterpreterResult(_Engine(data), data, inputs, outputs, False, False)


def _resized(x, size, memory_format=None):
    """What `resize_` leaves of a tensor whose elements lie in order: the first of them, and zeros for those that it leaves open."""
    if memory_format not in (None, torch.contiguous_format):
        raise InputError(f"resize_ to {memory_format} has no meaning for a value without memory", remedy="leave memory_format out")
    flat, count = x.reshape(-1), math.prod(size)
    flat = flat[:count] if count <= x.numel() else torch.nn.functional.pad(flat, (0, count - x.numel()))
    return flat.reshape(list(size))


def _strided(x, size, stride, storage_offset=None):
    """What `as_strided` reads of a tensor whose elements lie in order from the start of its memory."""
    places = torch.full([1] * len(size), storage_offset or 0, dtype=torch.int64, device=x.device)
    for axis, (count, step) in enumerate(zip(size, stride)):
        places = places + (torch.arange(count, device=x.device) * step).reshape([-1 if other == axis else 1 for other in range(len(size))])
    return torch.take(x.reshape(-1), places)


def _negated(x):
    """What `not` gives of a tensor of one element: one truth value."""
    return torch.logical_not(x.reshape(()))


def _on(module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """The module with its tensors, and those that its operators make, on a device."""
    made = copy.deepcopy(module).to(device)
    for node in made.graph.nodes if isinstance(made, torch.fx.GraphModule) else ():
        if node.op == "get_attr" and isinstance(value := operator.attrgetter(node.target)(made), torch.Tensor) and value.device != device:
            owner, _, name = node.target.rpartition(".")
            setattr(made.get_submodule(owner), name, value.to(device))
        elif node.op == "call_function" and isinstance(node.target, OpOverload) and any(a.name == "device" and a.kwarg_only for a in schema_of(node.target).arguments):
            if node.kwargs.get("device") is not None or not any("Tensor" in str(a.type) for a in schema_of(node.target).arguments):
                node.kwargs = {**node.kwargs, "device": device}
    if isinstance(made, torch.fx.GraphModule):
        made.recompile()
    return made


_AS_VALUES = {torch.ops.aten.resize_.default: _resized, torch.ops.aten.as_strided.default: _strided, torch.sym_not: _negated}


def _without_memory(module: torch.nn.Module) -> torch.nn.Module:
    """A graph whose values are values, as those of an engine by itself are: it reads inputs row-major, and holds no memory of the caller's. `resize_` gives the resized value there,
    `as_strided` reads the value's elements, and `sym_not` of a tensor is a tensor."""
    if not isinstance(module, torch.fx.GraphModule) or not any(node.target in _AS_VALUES for node in module.graph.nodes if node.op == "call_function"):
        return module
    made = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    before = set()
    for node in made.graph.nodes:
        before.add(node)
        if node.op == "call_function" and node.target in _AS_VALUES:
            resizes = node.target is torch.ops.aten.resize_.default
            node.target = _AS_VALUES[node.target]
            if resizes:
                node.args[0].replace_all_uses_with(node, lambda user: user not in before)
    made.recompile()
    return made


def _with_numbers(module: torch.nn.Module, specs) -> torch.nn.Module:
    """A graph that reads the number in a shape tensor where an operator takes a number, such as `aten.arange(0, end)` of an input `end`. The number is within the input's range."""
    shape_tensors = [isinstance(spec, Input) and spec.is_shape_tensor for spec in specs]
    if not isinstance(module, torch.fx.GraphModule) or not any(shape_tensors):
        return module
    made = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    for node, spec, is_shape in zip(made.graph.find_nodes(op="placeholder"), specs, shape_tensors):
        takers = [user for user in node.users if is_shape and _takes_number(user, node)]
        if takers:
            with made.graph.inserting_after(node):
                number = made.graph.call_function(_number, (node, spec.shape["min_shape"][0], spec.shape["max_shape"][0]) if isinstance(spec.shape, dict) else (node,))
            for user in takers:
                user.replace_input_with(node, number)
    made.recompile()
    return made


def _takes_number(user: torch.fx.Node, value: torch.fx.Node) -> bool:
    """Whether an operator of torch takes the value as a number, and nowhere as a tensor."""
    if not isinstance(user.target, OpOverload):
        return False
    arguments = schema_of(user.target).arguments
    given = [*zip(user.args, arguments), *((v, a) for a in arguments if (v := user.kwargs.get(a.name)) is not None)]
    types = [str(a.type) for v, a in given if v is value]
    return bool(types) and all(t.removeprefix("Optional[").removesuffix("]") in ("number", "int", "SymInt", "float", "bool") for t in types)


def _number(tensor, low=None, high=None):
    found = tensor.item()
    if low is not None:
        torch._check(found >= low)
        torch._check(found <= high)
    return found


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
