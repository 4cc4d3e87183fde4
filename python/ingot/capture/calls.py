"""Calls of torch's operators in the schema of torch.export's archives."""

from __future__ import annotations

import operator

import torch

from ..errors import InputError, UnsupportedError
from ..torch_internals.operators import HigherOrderOperator, OpOverload, schema_of
from . import external
from .fixes.read_numbers import READS
from .memory import of_memory
from .reshapes import STRIDED
from .schema import Values, same_part
from .strides import corrected


def _tensors_read_by(node: torch.fx.Node) -> dict[torch.fx.Node, None]:
    """The tensors that a node's torch code reads: its operands, and those from which its numbers are computed. Sizes are found elsewhere."""
    found = {}
    for operand in node.all_input_nodes:
        value = operand.meta.get("val")
        if isinstance(value, torch.Tensor):
            found[operand] = None
        elif isinstance(value, (torch.SymFloat, torch.SymBool)):
            found |= _tensors_read_by(operand)
    return found


class Calls:
    """The calls of one FX graph, in order. targets: those of the plan, for which kernels of Triton are compiled."""

    def __init__(self, targets, values: Values):
        self.values = values
        self._targets = targets
        self._nodes: list[dict] = []
        self.unplaced: set = set()  # memories of inputs of which a call may give another part than the example

    def call(self, node: torch.fx.Node):
        target = node.target
        meta = node.meta.get("val")
        if isinstance(target, HigherOrderOperator) and target.name() in ("cond", "while_loop"):
            self._nodes.append(self._node(node, f"torch.ops.higher_order.{target.name()}", self._control(node), self._outputs(node, tuple(meta))))
            return
        if (given := external.call_of(node)) is not None:
            self._nodes.append(self._external(node, given))
            return
        if not isinstance(target, OpOverload):
            if isinstance(meta, (torch.SymInt, torch.SymBool, torch.SymFloat, int, float, bool)):
                if isinstance(meta, torch.SymInt):
                    self.values.sym_int(node.name, meta)
                return  # arithmetic on sizes: the value's expression has it all
            if target is operator.getitem:
                return  # its producer names it
            raise UnsupportedError("it is not a torch operator but a region or a Python function")
        if target in READS and isinstance(meta, torch.SymInt):
            read = [{"name": "self", "arg": self.values.argument(node.args[0]), "kind": 1}]
            self._nodes.append(self._node(node, f"torch.ops.{target}", read, [{"as_sym_int": self.values.sym_int(node.name, meta)}]))
            return
        if target is torch.ops.aten.sym_size.int or isinstance(meta, torch.SymInt):
            self.values.sym_int(node.name, meta)
            return
        arguments = []
        schema = schema_of(target).arguments
        args, kwargs = self._from_first_element(node) if target in STRIDED else (node.args, node.kwargs)
        for spec, value in zip(schema, args):
            arguments.append({"name": spec.name, "arg": self.values.argument(value), "kind": 1})
        by_name = {a.name for a in schema}
        for name, value in kwargs.items():
            if name in by_name:
                arguments.append({"name": name, "arg": self.values.argument(value), "kind": 2})
        self._nodes.append(self._node(node, f"torch.ops.{target}", arguments, self._outputs(node, meta)))

    def _from_first_element(self, node: torch.fx.Node):
        """The arguments of as_strided. torch counts from the start of the memory; here each tensor begins with its first element."""
        operand, offset = node.args[0], node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
        meta = operand.meta["val"]
        entry = self.values.tensors[self.values.tensor(same_part(operand).name, meta)["name"]]
        if offset is not None and of_memory(meta) in self.unplaced:
            raise UnsupportedError("as_strided counts from the start of the memory of an input, which may begin elsewhere in each call")
        strides = corrected(node.graph).get(operand, meta.stride())
        if (strides_there := [self.values.size(s) for s in strides]) != entry.get("strides", strides_there):
            if operand.op == "placeholder" or any(isinstance(s, torch.SymInt) for s in meta.shape):
                raise UnsupportedError("as_strided reads a tensor that has other strides in eager's memory")
            entry["strides"] = strides_there
        if offset is not None:
            offset = (offset.meta["val"] if isinstance(offset, torch.fx.Node) else offset) - meta.storage_offset()
        return (operand, *node.args[1:3], offset), {}

    def _external(self, node: torch.fx.Node, call: external.Call) -> dict:
        """A call of an operator with a user's kernel: all arguments, and the kernel's data for lower."""
        schema = schema_of(call.kernel.op).arguments
        given = [float(v) if str(a.type) == "float" and isinstance(v, int) else v for a, v in zip(schema, call.given)]
        arguments = [{"name": f"argument_{k}", "arg": self.values.argument(v), "kind": 1} for k, v in enumerate(given)]
        values = [v.meta["val"] if isinstance(v, torch.fx.Node) else v for v in call.given]
        for name, value in external.captured(call.kernel, values, call.made(node.meta["val"]), self._targets).items():
            texts = isinstance(value, list) and any(isinstance(v, str) for v in value)
            form = {"as_string": value} if isinstance(value, str) else {"as_strings": value} if texts else self.values.sizes(value)
            arguments.append({"name": name, "arg": form, "kind": 2})
        outputs = self._outputs(node, node.meta["val"])
        if call.results is not None:
            parts = outputs[0]["as_tensors"]
            outputs = [{"as_tensors": [parts[i] for i in call.results]}]
        entry = self._node(node, f"torch.ops.{call.kernel.op}", arguments, outputs)
        entry["metadata"]["kernel"] = "external"
        return entry

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
                arguments.append({"name": "", "arg": self.values.argument(value), "kind": 1})
        return arguments

    def _inner(self, graph: torch.fx.Graph) -> dict:
        inner = Calls(self._targets, Values(self.values))
        inputs = [inner.values.argument(n) for n in graph.nodes if n.op == "placeholder" and not _is_size(n)]
        for node in graph.nodes:
            if node.op == "call_function":
                inner.call(node)
            elif node.op == "get_attr" and isinstance(getattr(graph.owning_module, node.target, None), torch.Tensor):
                raise UnsupportedError("a region of control flow holds a tensor of its own")
        results = next(n for n in graph.nodes if n.op == "output").args[0]
        outputs = [inner.values.argument(r) for r in (results if isinstance(results, (list, tuple)) else [results])]
        return inner.graph(inputs, outputs)

    def opaque(self, node: torch.fx.Node, reason: str):
        """A node whose arguments have no form in the schema: its operands and results, and the reason why only torch runs it."""
        read = []
        for operand in _tensors_read_by(node):
            read.append({"name": operand.name, "arg": {"as_tensor": self.values.tensor(same_part(operand).name, operand.meta["val"])}, "kind": 1})
        made = node.meta.get("val")
        outputs = []
        if isinstance(made, torch.Tensor):
            outputs = [{"as_tensor": self.values.tensor(node.name, made)}]
        elif isinstance(made, (list, tuple)):
            names = self._names_of_parts(node)
            outputs = [{"as_tensors": [self.values.tensor(names.get(i, f"{node.name}_unused_{i}"), part) for i, part in enumerate(made) if isinstance(part, torch.Tensor)]}]
        entry = self._node(node, f"torch.ops.{node.target}", read, outputs)
        entry["metadata"]["torch_only"] = reason
        self._nodes.append(entry)

    def permuted(self, node: torch.fx.Node, order: list[int]) -> str:
        """A result whose axes have another order in memory: adds the row-major value with its axes in that order."""
        name = f"{node.name}_in_memory_order"
        self.values.tensor(node.name, node.meta["val"])
        self.values.tensor(name, node.meta["val"].permute(order))
        arguments = [{"name": "self", "arg": {"as_tensor": {"name": node.name}}, "kind": 1}, {"name": "dims", "arg": {"as_ints": order}, "kind": 1}]
        entry = self._node(node, "torch.ops.aten.permute.default", arguments, [{"as_tensor": {"name": name}}])
        entry["name"] = name
        self._nodes.append(entry)
        return name

    def named(self, node: torch.fx.Node, name: str, wanted: str) -> str:
        """A result under the user's name."""
        if wanted in self.values.tensors:
            raise InputError(f"an output cannot be named {wanted!r}: another value of the graph has this name", remedy="give it another name")
        self.values.tensors[wanted] = self.values.tensors[name]
        entry = self._node(node, "torch.ops.aten.alias.default", [{"name": "self", "arg": {"as_tensor": {"name": name}}, "kind": 1}], [{"as_tensor": {"name": wanted}}])
        entry["name"] = wanted
        self._nodes.append(entry)
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
            return [{"as_tensor": self.values.tensor(node.name, meta)}]
        if isinstance(meta, (list, tuple)):
            names = self._names_of_parts(node)
            parts = []
            for i, part in enumerate(meta):
                name = names.get(i, f"{node.name}_unused_{i}")
                if part is None or isinstance(part, (int, torch.SymInt)):  # a size is written at its readers
                    parts.append(None)
                elif isinstance(part, torch.Tensor):
                    parts.append(self.values.tensor(name, part))
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
            "nodes": self._nodes,
            "tensor_values": self.values.tensors,
            "sym_int_values": self.values.sym_ints,
            "sym_bool_values": self.values.sym_bools,
            "is_single_tensor_return": False,
            "custom_obj_values": {},
        }


def _type_name(kind) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def _is_size(value) -> bool:
    return isinstance(value, torch.fx.Node) and isinstance(value.meta.get("val"), torch.SymInt)
