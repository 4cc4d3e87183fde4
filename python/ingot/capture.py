"""Hands a torch graph to the compiler: the JSON of torch.export's archives, written straight from FX.

One string and a table of weights per graph. torch's own serializer writes the same schema at a hundred times the cost,
because it also pickles, copies and re-validates; here tensors stay where they are.
"""

from __future__ import annotations

import json
import operator
import re
from dataclasses import dataclass, field

import sympy
import torch
from torch._export.serde import schema as _schema
from torch._export.serde.serialize import _TORCH_TO_SERIALIZE_DTYPE as _DTYPES
from torch._export.serde.serialize import _TORCH_TO_SERIALIZE_LAYOUT as _LAYOUTS
from torch._export.serde.serialize import _TORCH_TO_SERIALIZE_MEMORY_FORMAT as _MEMORY_FORMATS

from .errors import InputError, UnsupportedError

_DTYPE_CODE = {k: int(v) for k, v in _DTYPES.items()}
_LAYOUT_CODE = {k: int(v) for k, v in _LAYOUTS.items()}
_MEMORY_CODE = {k: int(v) for k, v in _MEMORY_FORMATS.items()}
SCHEMA_VERSION = _schema.SCHEMA_VERSION


@dataclass
class Captured:
    """A graph ready for the compiler."""

    json: bytes
    weights: list[tuple[str, torch.Tensor]]  # by state-dict name; the tensors own the bytes
    input_names: list[str]                   # of the tensor inputs, in order
    output_count: int
    outputs: list = field(default_factory=list)  # per flat output: ("tensor", i) | ("size", sympy expr) | ("constant", v)


class _Writer:
    """Collects nodes and values of one FX graph in the archive's schema."""

    def __init__(self):
        self.tensors: dict[str, dict] = {}
        self.sym_ints: dict[str, dict] = {}
        self.sym_bools: dict[str, dict] = {}
        self.nodes: list[dict] = []
        self.symbols: set[sympy.Symbol] = set()
        self._expr: dict = {}

    # -- values

    def size(self, value):
        if isinstance(value, int):
            return {"as_int": value}
        return {"as_expr": self.expression(value.node.expr)}

    def expression(self, expr):
        text = self._expr.get(expr)
        if text is None:
            self.symbols |= expr.free_symbols
            text = self._expr[expr] = {"expr_str": sympy.srepr(expr), "hint": None}
        return text

    def tensor(self, name: str, meta: torch.Tensor):
        if name not in self.tensors:
            if meta.layout is not torch.strided:
                raise UnsupportedError(f"tensor {name} has layout {meta.layout}; only strided tensors are supported", remedy="convert it with .to_dense()")
            if meta.dtype not in _DTYPE_CODE:
                raise UnsupportedError(f"tensor {name} has dtype {meta.dtype}, which is not supported", remedy="convert it to a float or integer dtype")
            self.tensors[name] = {
                "dtype": _DTYPE_CODE[meta.dtype],
                "sizes": [self.size(s) for s in meta.shape],
                "requires_grad": False,
                "device": {"type": meta.device.type, "index": meta.device.index},
                "strides": [self.size(s) for s in meta.stride()],
                "storage_offset": {"as_int": 0},
                "layout": _LAYOUT_CODE[meta.layout],
            }
        return {"name": name}

    def sym_int(self, name: str, value):
        if name not in self.sym_ints:
            self.sym_ints[name] = self.size(value)
        return {"as_name": name}

    # -- arguments

    def argument(self, value):
        if value is None:
            return {"as_none": True}
        if isinstance(value, torch.fx.Node):
            meta = value.meta.get("val")
            if isinstance(meta, torch.Tensor):
                return {"as_tensor": self.tensor(value.name, meta)}
            if isinstance(meta, (torch.SymInt, int)) and not isinstance(meta, bool):
                return {"as_sym_int": self.sym_int(value.name, meta)}
            if isinstance(meta, torch.SymBool):
                self.sym_bools[value.name] = {"as_expr": self.expression(meta.node.expr)}
                return {"as_sym_bool": {"as_name": value.name}}
            raise UnsupportedError(f"value {value.name} of type {type(meta).__name__} is not supported as an argument")
        if isinstance(value, bool):
            return {"as_bool": value}
        if isinstance(value, int):
            return {"as_int": value}
        if isinstance(value, float):
            return {"as_float": _float(value)}
        if isinstance(value, complex):
            return {"as_complex": {"real": _float(value.real), "imag": _float(value.imag)}}
        if isinstance(value, str):
            return {"as_string": value}
        if isinstance(value, torch.SymInt):
            name = f"_sym_{len(self.sym_ints)}"
            return {"as_sym_int": self.sym_int(name, value)}
        if isinstance(value, torch.dtype):
            return {"as_scalar_type": _DTYPE_CODE[value]}
        if isinstance(value, torch.device):
            return {"as_device": {"type": value.type, "index": value.index}}
        if isinstance(value, torch.layout):
            return {"as_layout": _LAYOUT_CODE[value]}
        if isinstance(value, torch.memory_format):
            return {"as_memory_format": _MEMORY_CODE[value]}
        if isinstance(value, (list, tuple)):
            return self._list(value)
        raise UnsupportedError(f"an argument of type {type(value).__name__} is not supported: {value!r}")

    def _list(self, values):
        parts = [self.argument(v) for v in values]
        kinds = {next(iter(p)) for p in parts}
        if kinds <= {"as_tensor"} and parts:
            return {"as_tensors": [p["as_tensor"] for p in parts]}
        if kinds <= {"as_tensor", "as_none"} and parts:
            return {"as_optional_tensors": [p if "as_tensor" in p else {"as_none": True} for p in parts]}
        if kinds <= {"as_int"}:
            return {"as_ints": [p["as_int"] for p in parts]}
        if kinds <= {"as_int", "as_sym_int"}:
            return {"as_sym_ints": [p["as_sym_int"] if "as_sym_int" in p else {"as_int": p["as_int"]} for p in parts]}
        if kinds <= {"as_bool"}:
            return {"as_bools": [p["as_bool"] for p in parts]}
        if kinds <= {"as_float", "as_int"}:
            return {"as_floats": [p.get("as_float", p.get("as_int")) for p in parts]}
        if kinds <= {"as_string"}:
            return {"as_strings": [p["as_string"] for p in parts]}
        raise UnsupportedError(f"a list argument of mixed kinds {sorted(kinds)} is not supported")

    # -- nodes

    def call(self, node: torch.fx.Node):
        target = node.target
        meta = node.meta.get("val")
        if not isinstance(target, torch._ops.OpOverload):
            if isinstance(meta, (torch.SymInt, torch.SymBool, torch.SymFloat, int, float, bool)):
                if isinstance(meta, torch.SymInt):
                    self.sym_int(node.name, meta)
                return  # arithmetic on sizes: the expression on the value says it all
            if target is operator.getitem:
                return  # named by its producer
            name = getattr(target, "__qualname__", None) or str(target)
            self.nodes.append(self._node(node, f"{getattr(target, '__module__', 'python')}.{name}", [], []))
            return
        if target is torch.ops.aten.sym_size.int or isinstance(meta, torch.SymInt):
            self.sym_int(node.name, meta)
            return
        arguments = []
        schema = target._schema.arguments
        for spec, value in zip(schema, node.args):
            arguments.append({"name": spec.name, "arg": self.argument(value), "kind": 1})
        by_name = {a.name for a in schema}
        for name, value in node.kwargs.items():
            if name in by_name:
                arguments.append({"name": name, "arg": self.argument(value), "kind": 2})
        self.nodes.append(self._node(node, f"torch.ops.{target}", arguments, self._outputs(node, meta)))

    def _outputs(self, node, meta):
        if meta is None:
            return []
        if isinstance(meta, torch.Tensor):
            return [{"as_tensor": self.tensor(node.name, meta)}]
        if isinstance(meta, (list, tuple)):
            names: dict[int, str] = {}
            for user in node.users:
                if user.target is operator.getitem and isinstance(user.args[1], int):
                    names.setdefault(user.args[1], user.name)
            parts = []
            for i, part in enumerate(meta):
                name = names.get(i, f"{node.name}_unused_{i}")
                if part is None:
                    parts.append(None)
                elif isinstance(part, torch.Tensor):
                    parts.append(self.tensor(name, part))
                else:
                    raise UnsupportedError(f"{node.target} returns a {type(part).__name__}, which is not supported")
            if isinstance(meta, list) or str(node.target._schema.returns[0].type).startswith("List"):
                return [{"as_tensors": parts}]
            return [{"as_none": True} if p is None else {"as_tensor": p} for p in parts]
        if isinstance(meta, (bool, int, float, torch.SymBool, torch.SymFloat)):
            return []
        raise UnsupportedError(f"{node.target} returns a {type(meta).__name__}, which is not supported")

    def _node(self, node, target, inputs, outputs):
        metadata = {}
        trace = node.meta.get("stack_trace")
        if trace:
            metadata["stack_trace"] = trace
        stack = node.meta.get("nn_module_stack")
        if stack:
            metadata["nn_module_stack"] = ";".join(f"{key},{path},{_type_name(kind)}" for key, (path, kind) in stack.items())
        return {"target": target, "inputs": inputs, "outputs": outputs, "metadata": metadata, "name": node.name}

    def document(self, inputs, outputs, input_specs, output_specs, ranges):
        return json.dumps(
            {
                "graph_module": {
                    "graph": {
                        "inputs": inputs,
                        "outputs": outputs,
                        "nodes": self.nodes,
                        "tensor_values": self.tensors,
                        "sym_int_values": self.sym_ints,
                        "sym_bool_values": self.sym_bools,
                        "is_single_tensor_return": False,
                        "custom_obj_values": {},
                    },
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


def _line(node):
    """The user's line of a node: the innermost frame that is no library's."""
    frames = re.findall(r'File "([^"]+)", line (\d+)[^\n]*\n\s*([^\n]*)', node.meta.get("stack_trace") or "")
    frames = [f for f in frames if "site-packages" not in f[0]] or frames
    return "{}:{}: `{}`".format(*frames[-1]) if frames else ""


def _float(value: float):
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _type_name(kind) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def _bound(value):
    """An int, or None where a symbol has no limit."""
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
            ranges[str(symbol)] = {"min_val": _bound(bounds.lower), "max_val": _bound(bounds.upper)}
    return ranges


def _outputs_of(writer: _Writer, graph: torch.fx.Graph, wanted):
    """Splits flat outputs into the engine's tensors and what Python can give back by itself."""
    outputs, specs, tensor_outputs = [], [], 0
    for value in wanted:
        meta = value.meta.get("val") if isinstance(value, torch.fx.Node) else value
        if isinstance(value, torch.fx.Node) and isinstance(meta, torch.Tensor):
            argument = {"as_tensor": writer.tensor(value.name, meta)}
            outputs.append(("tensor", tensor_outputs))
            specs.append({"user_output": {"arg": argument}})
            tensor_outputs += 1
        elif isinstance(meta, torch.SymInt):
            outputs.append(("size", meta.node.expr))
        elif meta is None or isinstance(meta, (bool, int, float, str)):
            outputs.append(("constant", meta))
        else:
            raise UnsupportedError(f"an output of type {type(meta).__name__} is not supported")
    return outputs, specs


def _write(graph, placeholders, wanted, ranges_of):
    """`placeholders`: (node, spec kind, name, weight tensor or None) in order. Returns a Captured."""
    writer = _Writer()
    constants = {node for node, kind, *_ in placeholders if kind == "constant"}
    inputs, specs, weights, names = [], [], [], []
    for node, kind, name, weight in placeholders:
        meta = node.meta.get("val")
        if kind == "skip":
            if isinstance(meta, torch.SymInt):
                writer.sym_int(node.name, meta)
            continue
        argument = {"as_tensor": writer.tensor(node.name, meta)}
        inputs.append(argument)
        if kind == "parameter":
            specs.append({"parameter": {"arg": {"name": node.name}, "parameter_name": name}})
        elif kind == "buffer":
            specs.append({"buffer": {"arg": {"name": node.name}, "buffer_name": name, "persistent": True}})
        elif kind == "constant":
            specs.append({"tensor_constant": {"arg": {"name": node.name}, "tensor_constant_name": name}})
        else:
            specs.append({"user_input": {"arg": argument, "name": name}})
            names.append(name)
        if weight is not None:
            weights.append((name, weight))
    for node in graph.nodes:
        if node.op == "call_function":
            try:
                writer.call(node)
            except UnsupportedError as problem:
                raise UnsupportedError(f"{node.name} ({node.target}): {problem.message}", _line(node), problem.remedy) from None
        elif node.op not in ("placeholder", "output") and node not in constants:
            raise UnsupportedError(f"an FX node of kind {node.op} ({node.name}) is not supported")
    outputs, output_specs = _outputs_of(writer, graph, wanted)
    arguments = [next(iter(s.values()))["arg"] for s in output_specs]
    document = writer.document(inputs, arguments, specs, output_specs, _ranges(writer.symbols, ranges_of))
    return Captured(document, weights, names, len(arguments), outputs)


def from_exported(program: torch.export.ExportedProgram, chosen: dict[str, str] | None = None) -> Captured:
    """The graph of an ExportedProgram; its parameters and buffers by state-dict name, not copied. `chosen`: the user's names of inputs."""
    from torch.export.graph_signature import InputKind, OutputKind

    signature = program.graph_signature
    for spec in signature.output_specs:
        if spec.kind is not OutputKind.USER_OUTPUT:
            raise UnsupportedError(
                f"the model changes {spec.target!r} in forward ({spec.kind.name.lower()}), which is not supported yet",
                remedy="return the new value instead of writing it in place",
            )
    kinds = {
        InputKind.PARAMETER: "parameter",
        InputKind.BUFFER: "buffer",
        InputKind.CONSTANT_TENSOR: "constant",
        InputKind.USER_INPUT: "input",
    }
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    state, constants = program.state_dict, program.constants
    placeholders = []
    for spec in signature.input_specs:
        if spec.kind not in kinds:
            raise UnsupportedError(f"an input of kind {spec.kind.name} ({spec.arg.name}) is not supported")
        node, kind = nodes[spec.arg.name], kinds[spec.kind]
        if kind == "input":
            tensor = isinstance(node.meta.get("val"), torch.Tensor)
            placeholders.append((node, "input" if tensor else "skip", (chosen or {}).get(node.name, node.name), None))
        else:
            weight = state.get(spec.target, constants.get(spec.target))
            placeholders.append((node, kind, spec.target, _dense(spec.target, weight)))
    output = next(n for n in program.graph.nodes if n.op == "output")
    return _write(program.graph, placeholders, output.args[0], program.range_constraints.get)


def _dense(name, tensor):
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise UnsupportedError(f"weight {name} is of type {type(tensor).__name__}, a tensor subclass", remedy="convert it to a plain tensor before compiling")
    if tensor.device.type != "cpu":
        raise InputError(f"weight {name} is on {tensor.device}; target \"cpu\" needs it on the CPU", remedy="module.cpu()")
    return tensor.detach().contiguous()


def from_functional(module: torch.fx.GraphModule, weights: dict[int, tuple[str, torch.Tensor]], names: list[str]) -> Captured:
    """A graph made by AOTAutograd under torch.compile. `weights`: placeholder index -> name and tensor;
    `names`: of all placeholders."""
    placeholders = []
    shape_env = None
    for i, node in enumerate(n for n in module.graph.nodes if n.op == "placeholder"):
        meta = node.meta.get("val")
        if isinstance(meta, torch.SymInt):
            shape_env = meta.node.shape_env
            placeholders.append((node, "skip", names[i], None))
        elif not isinstance(meta, torch.Tensor):
            placeholders.append((node, "skip", names[i], None))
        elif i in weights:
            name, tensor = weights[i]
            placeholders.append((node, "parameter", name, _dense(name, tensor)))
        else:
            local = re.fullmatch(r"L\['(\w+)'\]", names[i])  # Dynamo's word for the variable of that name
            placeholders.append((node, "input", local[1] if local else names[i], None))
            for size in meta.shape:
                if isinstance(size, torch.SymInt):
                    shape_env = size.node.shape_env
    for node in module.graph.nodes:  # tensors that tracing found in the code
        if node.op == "get_attr":
            value = getattr(module, node.target)
            node.meta.setdefault("val", value)
            placeholders.append((node, "constant", node.target, _dense(node.target, value)))
    output = next(n for n in module.graph.nodes if n.op == "output")
    ranges = shape_env.var_to_range.get if shape_env is not None else (lambda symbol: None)
    return _write(module.graph, placeholders, output.args[0], ranges)
