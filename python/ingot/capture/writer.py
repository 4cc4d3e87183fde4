"""Writes a torch graph for the compiler: the JSON of torch.export's archives, straight from FX.

A graph becomes one string and a table of weights, which are not copied. torch's own serializer writes the same schema at a hundred times the cost, because it
also pickles, copies and re-validates.
"""

from __future__ import annotations

import json
import math
import operator
from dataclasses import dataclass

import sympy
import torch

from ..engine import _values, plain
from ..errors import InputError, UnsupportedError
from ..torch_internals.operators import HigherOrderOperator, OpOverload, schema_of
from ..torch_internals.programs import DTYPES, LAYOUTS, MEMORY_FORMATS, SCHEMA_VERSION, WITH_EFFECTS
from ..torch_internals.sizes import functions
from . import external
from .fixes.read_numbers import READS
from .fixes.size_checks import CONDITION
from .functional import is_view, order_in_memory
from .memory import of_memory
from .reshapes import STRIDED
from .sizes import linear, places
from .strides import corrected

_DTYPE_CODE = {torch.uint32: 34, torch.uint64: 35, **{k: int(v) for k, v in DTYPES.items()}}  # the table of torch 2.11 lacks the first two
_LAYOUT_CODE = {k: int(v) for k, v in LAYOUTS.items()}
_MEMORY_CODE = {k: int(v) for k, v in MEMORY_FORMATS.items()}


@dataclass
class Captured:
    """A graph ready for the compiler."""

    json: bytes
    weights: list[tuple[str, torch.Tensor]]  # by state-dict name; the tensors own the bytes
    input_names: list[str]                   # names of the tensor inputs, in order


def _tensors_behind(node: torch.fx.Node) -> dict[torch.fx.Node, None]:
    """The tensors that a node's torch code reads: its operands, and those from which its numbers are computed. Sizes are found elsewhere."""
    found = {}
    for operand in node.all_input_nodes:
        value = operand.meta.get("val")
        if isinstance(value, torch.Tensor):
            found[operand] = None
        elif isinstance(value, (torch.SymFloat, torch.SymBool)):
            found |= _tensors_behind(operand)
    return found


class _Writer:
    """Collects nodes and values of one FX graph in the archive's schema."""

    def __init__(self, targets):
        self.targets = targets
        self.tensors: dict[str, dict] = {}
        self.sym_ints: dict[str, dict] = {}
        self.sym_bools: dict[str, dict] = {}
        self.nodes: list[dict] = []
        self.symbols: set[sympy.Symbol] = set()
        self.numbers: dict[sympy.Symbol, sympy.Expr] = {}  # those that may be negative, as the difference of two sizes
        self.unplaced: set = set()  # memories of inputs of which a call may give another part than the example
        self._texts: dict = {}

    # -- values

    def size(self, value):
        if isinstance(value, int):
            return {"as_int": value}
        return {"as_expr": self.expression(value.node.expr)}

    def expression(self, expr):
        text = self._texts.get(expr)
        if text is None:
            made = expr.xreplace(self.numbers).replace(sympy.Abs, lambda e: functions.Max(e, -e))
            self.symbols |= made.free_symbols
            text = self._texts[expr] = {"expr_str": sympy.srepr(made), "hint": None}
        return text

    def tensor(self, name: str, meta: torch.Tensor):
        if name not in self.tensors:
            if (reason := torch_only(name, meta)) is not None:
                self.tensors[name] = {"torch_only": reason}
                return {"name": name}
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

    def number(self, name: str, symbol: sympy.Symbol, negative: bool, device: torch.device):
        """A tensor of no elements whose sizes say what the number is: [n, 0]; [max(n, 0), max(-n, 0), 0] where it may be negative."""
        sizes = [symbol]
        if negative:
            sizes = [sympy.Symbol(f"{symbol}_{sign}", integer=True, nonnegative=True) for sign in ("above", "below")]
            self.numbers[symbol] = sizes[0] - sizes[1]
        self.tensors[name] = {
            "dtype": _DTYPE_CODE[torch.uint8], "sizes": [*({"as_expr": self.expression(s)} for s in sizes), {"as_int": 0}], "requires_grad": False,
            "device": {"type": device.type, "index": device.index}, "strides": [{"as_int": 1}] * (len(sizes) + 1), "storage_offset": {"as_int": 0}, "layout": _LAYOUT_CODE[torch.strided],
        }  # fmt: skip
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
                return {"as_tensor": self.tensor(same_part(value).name, meta)}
            if isinstance(meta, (torch.SymInt, int)) and not isinstance(meta, bool):
                return {"as_sym_int": self.sym_int(value.name, meta)}
            if isinstance(meta, torch.SymBool):
                self.sym_bools[value.name] = {"as_expr": self.expression(value.meta.get(CONDITION, meta.node.expr))}
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
        if isinstance(target, HigherOrderOperator) and target.name() in ("cond", "while_loop"):
            self.nodes.append(self._node(node, f"torch.ops.higher_order.{target.name()}", self._control(node), self._outputs(node, tuple(meta))))
            return
        if (given := external.call_of(node)) is not None:
            self.nodes.append(self._external(node, given))
            return
        if not isinstance(target, OpOverload):
            if isinstance(meta, (torch.SymInt, torch.SymBool, torch.SymFloat, int, float, bool)):
                if isinstance(meta, torch.SymInt):
                    self.sym_int(node.name, meta)
                return  # arithmetic on sizes: the value's expression has it all
            if target is operator.getitem:
                return  # its producer names it
            raise UnsupportedError("it is not a torch operator but a region or a Python function")
        if target in READS and isinstance(meta, torch.SymInt):
            read = [{"name": "self", "arg": self.argument(node.args[0]), "kind": 1}]
            self.nodes.append(self._node(node, f"torch.ops.{target}", read, [{"as_sym_int": self.sym_int(node.name, meta)}]))
            return
        if target is torch.ops.aten.sym_size.int or isinstance(meta, torch.SymInt):
            self.sym_int(node.name, meta)
            return
        arguments = []
        schema = schema_of(target).arguments
        args, kwargs = self._from_first_element(node) if target in STRIDED else (node.args, node.kwargs)
        for spec, value in zip(schema, args):
            arguments.append({"name": spec.name, "arg": self.argument(value), "kind": 1})
        by_name = {a.name for a in schema}
        for name, value in kwargs.items():
            if name in by_name:
                arguments.append({"name": name, "arg": self.argument(value), "kind": 2})
        self.nodes.append(self._node(node, f"torch.ops.{target}", arguments, self._outputs(node, meta)))

    def _from_first_element(self, node: torch.fx.Node):
        """The arguments of as_strided. torch counts from the start of the memory; here each tensor begins with its first element."""
        operand, offset = node.args[0], node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
        meta = operand.meta["val"]
        entry = self.tensors[self.tensor(same_part(operand).name, meta)["name"]]
        if offset is not None and of_memory(meta) in self.unplaced:
            raise UnsupportedError("as_strided counts from the start of the memory of an input, which may begin elsewhere in each call")
        strides = corrected(node.graph).get(operand, meta.stride())
        if (lies := [self.size(s) for s in strides]) != entry.get("strides", lies):
            if operand.op == "placeholder" or any(isinstance(s, torch.SymInt) for s in meta.shape):
                raise UnsupportedError("as_strided reads a tensor that lies otherwise in eager's memory")
            entry["strides"] = lies
        if offset is not None:
            offset = (offset.meta["val"] if isinstance(offset, torch.fx.Node) else offset) - meta.storage_offset()
        return (operand, *node.args[1:3], offset), {}

    def _external(self, node: torch.fx.Node, call: external.Call) -> dict:
        """A call of an operator with a user's kernel: all arguments, and the kernel's data for lower."""
        schema = schema_of(call.kernel.op).arguments
        given = [float(v) if str(a.type) == "float" and isinstance(v, int) else v for a, v in zip(schema, call.given)]
        arguments = [{"name": f"argument_{k}", "arg": self.argument(v), "kind": 1} for k, v in enumerate(given)]
        values = [v.meta["val"] if isinstance(v, torch.fx.Node) else v for v in call.given]
        for name, value in external.captured(call.kernel, values, call.made(node.meta["val"]), self.targets).items():
            texts = isinstance(value, list) and any(isinstance(v, str) for v in value)
            form = {"as_string": value} if isinstance(value, str) else {"as_strings": value} if texts else self.sizes(value)
            arguments.append({"name": name, "arg": form, "kind": 2})
        outputs = self._outputs(node, node.meta["val"])
        if call.results is not None:
            parts = outputs[0]["as_tensors"]
            outputs = [{"as_tensors": [parts[i] for i in call.results]}]
        entry = self._node(node, f"torch.ops.{call.kernel.op}", arguments, outputs)
        entry["metadata"]["kernel"] = "external"
        return entry

    def sizes(self, values) -> dict:
        """A size or a list of sizes: ints and sympy expressions."""
        if isinstance(values, list):
            return {"as_sym_ints": [self.sizes(v)["as_sym_int"] for v in values]}
        if isinstance(values, int):
            return {"as_sym_int": {"as_int": values}}
        name = f"_sym_{len(self.sym_ints)}"
        self.sym_ints[name] = {"as_expr": self.expression(values)}
        return {"as_sym_int": {"as_name": name}}

    def _control(self, node: torch.fx.Node) -> list[dict]:
        """The arguments of torch.cond or while_loop: tensors and graphs. A size that Dynamo hands to the regions is left out: they know it by its expression."""
        arguments = []
        if node.target is torch.ops.higher_order.while_loop and any(isinstance(v, int) or _is_size(v) for v in node.args[2]):
            raise UnsupportedError("a loop that carries a Python integer")
        for value in node.args:
            if isinstance(value, (list, tuple)):
                value = [v for v in value if not _is_size(v)]
            if isinstance(value, torch.fx.Node) and value.op == "get_attr":
                graph = self._inner(getattr(node.graph.owning_module, value.target).graph)
                arguments.append({"name": "", "arg": {"as_graph": {"name": value.target, "graph": graph}}, "kind": 1})
            elif isinstance(value, list) and not value:
                arguments.append({"name": "", "arg": {"as_tensors": []}, "kind": 1})
            else:
                arguments.append({"name": "", "arg": self.argument(value), "kind": 1})
        return arguments

    def _inner(self, graph: torch.fx.Graph) -> dict:
        inner = _Writer(self.targets)
        inner.symbols, inner.numbers, inner._texts = self.symbols, self.numbers, self._texts
        inputs = [inner.argument(n) for n in graph.nodes if n.op == "placeholder" and not _is_size(n)]
        for node in graph.nodes:
            if node.op == "call_function":
                inner.call(node)
            elif node.op == "get_attr" and isinstance(getattr(graph.owning_module, node.target, None), torch.Tensor):
                raise UnsupportedError("a region of control flow holds a tensor of its own")
        results = next(n for n in graph.nodes if n.op == "output").args[0]
        outputs = [inner.argument(r) for r in (results if isinstance(results, (list, tuple)) else [results])]
        return inner.graph(inputs, outputs)

    def opaque(self, node: torch.fx.Node, reason: str):
        """A node whose arguments have no form in the schema: its operands and results, and the reason why only torch runs it."""
        read = []
        for operand in _tensors_behind(node):
            read.append({"name": operand.name, "arg": {"as_tensor": self.tensor(same_part(operand).name, operand.meta["val"])}, "kind": 1})
        made = node.meta.get("val")
        outputs = []
        if isinstance(made, torch.Tensor):
            outputs = [{"as_tensor": self.tensor(node.name, made)}]
        elif isinstance(made, (list, tuple)):
            names = self._names_of_parts(node)
            outputs = [{"as_tensors": [self.tensor(names.get(i, f"{node.name}_unused_{i}"), part) for i, part in enumerate(made) if isinstance(part, torch.Tensor)]}]
        entry = self._node(node, f"torch.ops.{node.target}", read, outputs)
        entry["metadata"]["torch_only"] = reason
        self.nodes.append(entry)

    def permuted(self, node: torch.fx.Node, order: list[int]) -> str:
        """A result whose memory has another order of axes, as a row-major value in that order."""
        name = f"{node.name}_in_memory_order"
        self.tensor(node.name, node.meta["val"])
        self.tensor(name, node.meta["val"].permute(order))
        arguments = [{"name": "self", "arg": {"as_tensor": {"name": node.name}}, "kind": 1}, {"name": "dims", "arg": {"as_ints": order}, "kind": 1}]
        entry = self._node(node, "torch.ops.aten.permute.default", arguments, [{"as_tensor": {"name": name}}])
        entry["name"] = name
        self.nodes.append(entry)
        return name

    def named(self, node: torch.fx.Node, name: str, wanted: str) -> str:
        """A result under the user's name."""
        if wanted in self.tensors:
            raise InputError(f"an output cannot be named {wanted!r}: another value of the graph has this name", remedy="give it another name")
        self.tensors[wanted] = self.tensors[name]
        entry = self._node(node, "torch.ops.aten.alias.default", [{"name": "self", "arg": {"as_tensor": {"name": name}}, "kind": 1}], [{"as_tensor": {"name": wanted}}])
        entry["name"] = wanted
        self.nodes.append(entry)
        return wanted

    def _names_of_parts(self, node):
        names: dict[int, str] = {}
        for user in node.users:
            if user.target is operator.getitem and isinstance(user.args[1], int):
                names.setdefault(user.args[1], user.name)
        return names

    def _outputs(self, node, meta):
        if meta is None:
            return []
        if isinstance(meta, torch.Tensor):
            return [{"as_tensor": self.tensor(node.name, meta)}]
        if isinstance(meta, (list, tuple)):
            names = self._names_of_parts(node)
            parts = []
            for i, part in enumerate(meta):
                name = names.get(i, f"{node.name}_unused_{i}")
                if part is None or isinstance(part, (int, torch.SymInt)):  # a size is written at its readers
                    parts.append(None)
                elif isinstance(part, torch.Tensor):
                    parts.append(self.tensor(name, part))
                else:
                    raise UnsupportedError(f"{node.target} returns a {type(part).__name__}, which is not supported")
            if not isinstance(node.target, OpOverload):
                return [{"as_tensors": parts}]
            if isinstance(meta, list) or str(schema_of(node.target).returns[0].type).startswith("List"):
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

    def graph(self, inputs, outputs):
        return {
            "inputs": inputs,
            "outputs": outputs,
            "nodes": self.nodes,
            "tensor_values": self.tensors,
            "sym_int_values": self.sym_ints,
            "sym_bool_values": self.sym_bools,
            "is_single_tensor_return": False,
            "custom_obj_values": {},
        }

    def document(self, inputs, outputs, input_specs, output_specs, ranges):
        return json.dumps(
            {
                "graph_module": {
                    "graph": self.graph(inputs, outputs),
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


def torch_only(name: str, tensor: torch.Tensor) -> str | None:
    """The reason why a tensor has no form in the schema, so that its readers run in torch; None if it has one."""
    if tensor.layout is not torch.strided:
        return f"{name} has layout {str(tensor.layout).removeprefix('torch.')}; engines take strided tensors"
    if tensor.dtype not in _DTYPE_CODE:
        return f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}, which is not supported"
    return None


def _float(value: float):
    if value != value:
        return "NaN" if math.copysign(1, value) > 0 else "-NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _type_name(kind) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


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


def write(f, targets=()) -> Captured:
    """The part of a functional graph that computes its wanted values, as the compiler reads it. targets: those of the plan, for which kernels of Triton are compiled."""
    writer = _Writer(targets)
    needed = needed_nodes(f)
    writer.unplaced = {of_memory(slot.node.meta["val"]) for slot in f.slots if slot.kind == "input" and "offset" not in (slot.lies or {})}
    inputs, specs, weights, names = [], [], [], []
    numbers = numbers_as_sizes(f)
    for slot in f.slots:
        node, tensor, meta = slot.node, slot.tensor, slot.node.meta.get("val")
        if node in numbers:
            inputs.append({"as_tensor": writer.number(f"{node.name}_as_sizes", meta.node.expr, numbers[node], f.device)})
            specs.append({"user_input": {"arg": inputs[-1], "name": slot.name}})
            names.append(slot.name)
            continue
        if slot.kind == "number":
            if isinstance(meta, torch.SymInt):
                inputs.append({"as_sym_int": writer.sym_int(node.name, meta)})
                specs.append({"user_input": {"arg": inputs[-1]}})
            continue
        if slot.kind == "weight" and node not in needed:
            continue
        argument = {"as_tensor": writer.tensor(node.name, meta)}
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
        if why := plain.why_not(tensor, slot.name):
            raise InputError(f"weight {slot.name!r} {why[0]}", remedy=why[1])
        tensor = _values.in_order(tensor, order_of(tensor) if slot.kind == "weight" else None)
        weights.append((slot.name, _values.held(tensor)))
        writer.tensors[node.name]["strides"] = [{"as_int": s} for s in tensor.stride()]
    slots = {s.node for s in f.slots}
    elsewhere = _elsewhere(f)
    for node in f.module.graph.nodes:
        if node.op == "call_function" and node in needed and node not in slots:
            try:
                if node in elsewhere:
                    raise UnsupportedError(f"its result is on {elsewhere[node]}, and the engine runs on {f.device}")
                writer.call(node)
            except UnsupportedError as problem:
                writer.opaque(node, problem.message)
    outputs, arguments = [], []
    for node, wanted in zip(f.wanted, f.called or (None,) * len(f.wanted)):
        name = same_part(node).name
        if order := f.orders.get(node):
            name = writer.permuted(node, order)
        else:
            writer.tensor(name, node.meta["val"])
        if wanted not in (None, name):
            name = writer.named(node, name, wanted)
        arguments.append({"as_tensor": {"name": name}})
        outputs.append({"user_output": {"arg": arguments[-1]}})
    for slot, value in f.writes:
        argument = {"name": same_part(value).name}
        writer.tensor(argument["name"], value.meta["val"])
        arguments.append({"as_tensor": argument})
        kind, owner = ("user_input_mutation", "user_input_name") if slot.kind == "input" else ("buffer_mutation", "buffer_name")
        outputs.append({kind: {"arg": argument, owner: slot.node.name if slot.kind == "input" else slot.name}})
    document = writer.document(inputs, arguments, specs, outputs, _ranges(writer.symbols, f.ranges))
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


def _is_size(value) -> bool:
    return isinstance(value, torch.fx.Node) and isinstance(value.meta.get("val"), torch.SymInt)


def _tensors(value) -> list[torch.Tensor]:
    return [t for t in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(t, torch.Tensor)]


def same_part(node: torch.fx.Node) -> torch.fx.Node:
    """The first node that takes this part of a list, which names the part."""
    if node.target is not operator.getitem:
        return node
    return next(user for user in node.args[0].users if user.target is operator.getitem and user.args[1] == node.args[1])


def needed_nodes(f) -> set:
    """Nodes that the wanted values depend on, and those with effects of their own."""
    needed, todo = set(), [*f.wanted, *(value for _, value in f.writes)]
    todo += [n for n in f.module.graph.nodes if n.op == "call_function" and has_effects(n)]
    while todo:
        node = todo.pop()
        if node not in needed:
            needed.add(node)
            todo += node.all_input_nodes
    return needed


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
