"""Compiled modules as TorchScript.

TorchScript is written from the torch program that `save` writes too. Each engine is a call of `ingot::call`, which takes its inputs, its weights and the bytes of its plan, and returns
its results. Weights, buffers and plans are tensors of the script.
"""

from __future__ import annotations

import functools
import keyword
import math
import operator
import re

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from ..capture.tracing import alone
from ..engine import _op
from ..errors import UnsupportedError
from ..module.arguments import parameters_of_program
from ..torch_internals.modules import own_children
from ..torch_internals.operators import OpOverload, schema_of
from ..torch_internals.saving import kept_script_function, untraced
from ..torch_internals.trees import pytree

_BINARY = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//", operator.mod: "%", operator.truediv: "/", operator.pow: "**",
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.and_: "and", operator.or_: "or",
}  # fmt: skip
_CALLED = {
    torch.sym_max: "max", torch.sym_min: "min", torch.sym_float: "float", torch.sym_not: "not ", torch.sym_int: "int", operator.neg: "-", math.trunc: "int", math.floor: "math.floor",
    math.ceil: "math.ceil",
}  # fmt: skip
_METHODS = {"aten::sym_size": "size", "aten::sym_stride": "stride", "aten::sym_numel": "numel", "aten::sym_storage_offset": "storage_offset"}
_NUMBERS = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool", int: "int", float: "float", bool: "bool", str: "str"}
_LIST = re.compile(r"List\[(Tensor|Optional\[Tensor\]|int|float|bool)\]")


class IngotModule(torch.nn.Module):
    """Holds the tensors of a script, under the names of the model's state dict."""


@alone
def script_module(program: torch.export.ExportedProgram) -> torch.jit.ScriptModule:
    """The program as a ScriptModule with its parameters' names, arguments and results. Raises UnsupportedError for what TorchScript cannot say."""
    _op.library()
    text = _Text(program)
    method, script = text.method(), torch.jit.script(_holder(text.tensors))
    _compiled(lambda: script.define(method))
    return script.eval()


def traced(kind, args, kwargs):
    """The call of a compiled module while torch.jit.trace records: one call of a script's function, in which open sizes stay open."""
    with untraced():
        program = kind.program(empty_lists=True)
        function, tensors = _function_of(program)
    flat = pytree.tree_leaves(kind.form.arguments.bind(args, kwargs))
    return pytree.tree_unflatten(function(*flat, *tensors), program.call_spec.out_spec)


@alone
def _function_of(program):
    """The program as a script's function of flat inputs and tensors that returns a list of tensors, and those tensors."""
    _op.library()
    text = _Text(program)
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in program.graph_signature.output_specs):
        raise _unsupported("torch.jit.trace loses what it writes", 'torch_tensorrt.save(module, path, output_format="torchscript")')
    return _compiled(lambda: _function_with(text.function())), [text.tensors[target].detach() for target in text.attributes]


@functools.cache
def _function_with(text):
    return kept_script_function("__torch__.ingot.forward", torch.jit.CompilationUnit(text).forward.graph)


def _compiled(compile):
    try:
        return compile()
    except RuntimeError as problem:  # of TorchScript's compiler
        raise _unsupported(str(problem).strip().splitlines()[0]) from problem


def _unsupported(why, remedy='output_format="exported_program"'):
    return UnsupportedError(f"TorchScript cannot hold this module: {why}", remedy=remedy)


def _holder(tensors):
    root = type("IngotModule", (IngotModule,), {})().eval()  # a class of its own: torch gives modules of one class and the same attributes the same methods
    for target, tensor in tensors.items():
        *path, leaf = target.split(".")
        owner = root
        for name in path:
            if name not in own_children(owner):
                owner.add_module(name, IngotModule().eval())
            owner = own_children(owner)[name]
        if isinstance(tensor, torch.nn.Parameter):
            owner.register_parameter(leaf, tensor)
        else:
            owner.register_buffer(leaf, tensor)
    return root


class _Text:
    """The text of a program's graph in TorchScript. tensors: {name: tensor} of what it holds; attributes: {name: variable} of those that the graph reads."""

    def __init__(self, program):
        self.program, self.graph = program, program.graph
        self.tensors = {name: t for name, t in {**program.state_dict, **program.constants}.items() if isinstance(t, torch.Tensor)}
        self.attributes: dict[str, str] = {}
        self.env: dict[torch.fx.Node, str] = {}
        self.lines: list[str] = []
        self.inputs: list[tuple[str, str]] = []  # variable and type of each flat input
        self.constants: dict[int, object] = {}   # flat inputs that were compiled as constants
        self.made_by_engines = {n for node in self.graph.nodes if node.target is torch.ops.ingot.execute.default for n in node.args[2]}
        placed = list(zip((n for n in self.graph.nodes if n.op == "placeholder"), program.graph_signature.input_specs))
        for node, spec in placed:
            self._placeholder(node, spec)
        for node in self.graph.nodes:
            if node.op == "get_attr":
                self.env[node] = self._attribute(node.target, getattr(program.graph_module, node.target))
            elif node.op == "call_function" and node not in self.made_by_engines:
                self._call(node)
        results = next(n for n in self.graph.nodes if n.op == "output").args[0]
        outputs = list(zip(program.graph_signature.output_specs, results))
        self.results = [value for spec, value in outputs if spec.kind is OutputKind.USER_OUTPUT]
        places = {spec.target or spec.arg.name: self.env[node] for node, spec in placed}
        for spec, value in outputs:
            if spec.kind is not OutputKind.USER_OUTPUT and places[spec.target] != self.env[value]:
                self.lines.append(f"{places[spec.target]}.copy_({self.env[value]})")

    # -- the two forms

    def method(self) -> str:
        """`forward` of a module with these tensors: the model's arguments, and results in its structure."""
        parameters, unpacked = self._parameters()
        bound = [f"{variable} = {_path(target)}" for target, variable in self.attributes.items()]
        result = self._structured(self.program.call_spec.out_spec, iter(self.results))[0]
        return _function("forward", ["self", *parameters], [*bound, *unpacked, *self.lines, f"return {result}"])

    def function(self) -> str:
        """`forward` as a function of the flat inputs and of the tensors that it reads."""
        if not all(isinstance(r, torch.fx.Node) and isinstance(r.meta["val"], torch.Tensor) for r in self.results):
            raise _unsupported("torch.jit.trace takes only tensors as results", 'torch_tensorrt.save(module, path, output_format="torchscript")')
        parameters = [f"{variable}: {type_}" for variable, type_ in self.inputs] + [f"{variable}: Tensor" for variable in self.attributes.values()]
        return _function("forward", parameters, [*self.lines, f"return [{', '.join(self.env[r] for r in self.results)}]"])

    # -- inputs and results

    def _placeholder(self, node, spec):
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            self.env[node] = self._attribute(spec.target, self.tensors[spec.target])
            return
        if spec.kind is not InputKind.USER_INPUT:
            raise _unsupported(f"it has an input of the kind {spec.kind.name}")
        variable = self.env[node] = f"x{len(self.inputs)}"
        if isinstance(spec.arg, ConstantArgument):
            value = self.constants[len(self.inputs)] = spec.arg.value
            self.inputs.append((variable, "Optional[Tensor]" if value is None else _NUMBERS[type(value)]))
            self._check(f"{variable} is None" if value is None else f"{variable} == {value!r}", f"{node.name} has to be {value!r}, as when the module was compiled")
            return
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            self.inputs.append((variable, _NUMBERS[type(value)]))
            return
        self.inputs.append((variable, "Tensor"))
        self._check(f"{variable}.dim() == {value.dim()}", f"{node.name} has to have {value.dim()} axes")
        for axis, size in enumerate(value.shape):
            self._check_size(f"{variable}.size({axis})", size, f"axis {axis} of {node.name}")

    def _check_size(self, text, size, what):
        if not isinstance(size, torch.SymInt):
            self._check(f"{text} == {size}", f"{what} has to be {size}, as when the module was compiled")
            return
        found = self.program.range_constraints.get(size.node.expr)
        if found is not None:  # engines check the others
            low, high = (int(bound) if bound.is_Integer else None for bound in (found.lower, found.upper))
            if low is not None:
                self._check(f"{text} >= {low}", f"{what} has to be {low} or more")
            if high is not None:
                self._check(f"{text} <= {high}", f"{what} has to be {high} or less")

    def _check(self, condition, message):
        self.lines.append(f"assert {condition}, {message!r}")

    def _parameters(self):
        """The parameters of forward, and the lines that unpack them."""
        positional, keywords = self.program.call_spec.in_spec.children()
        known = [p["name"] for p in parameters_of_program(self.program)]
        names = [known[i] if i < len(known) else f"arg_{i}" for i in range(positional.num_children)] + list(keywords.context)
        flat, unpacked, parameters = iter(self.inputs), [], []
        for name, spec in zip(names, [*positional.children(), *keywords.children()]):
            name = name if name.isidentifier() and not keyword.iskeyword(name) and name not in ("self", "torch", "math") else name + "_"
            default = f" = {self.constants[len(unpacked)]!r}" if spec.is_leaf() and len(unpacked) in self.constants else ""
            parameters.append((f"{name}: {self._unpack(spec, name, flat, unpacked)}", default))
        last = max((i for i, (_, default) in enumerate(parameters) if not default), default=-1)  # those after it may have defaults
        return [text + default if i > last else text for i, (text, default) in enumerate(parameters)], unpacked

    def _unpack(self, spec, text, flat, unpacked):
        """The type of an argument of this structure. Adds lines that set the variables of its leaves."""
        if spec.is_leaf():
            variable, type_ = next(flat)
            unpacked.append(f"{variable} = {text}")
            return type_
        if spec.type in (list, tuple):
            types = [self._unpack(child, f"{text}[{i}]", flat, unpacked) for i, child in enumerate(spec.children())]
            return f"Tuple[{', '.join(types) or '()'}]" if spec.type is tuple else f"List[{_same(types, text)}]"
        if spec.type is dict:
            types = [self._unpack(child, f"{text}[{key!r}]", flat, unpacked) for key, child in zip(spec.context, spec.children())]
            return f"Dict[str, {_same(types, text)}]"
        raise _unsupported(f"an argument is a {spec.type.__name__}", "take tensors, lists, tuples and dictionaries")

    def _structured(self, spec, results):
        """The results in this structure, and their type."""
        if spec.is_leaf():
            value = next(results)
            if isinstance(value, torch.fx.Node):
                made = value.meta["val"]
                return self.env[value], "Tensor" if isinstance(made, torch.Tensor) else _NUMBERS[type(made)]
            return repr(value), "None" if value is None else _NUMBERS[type(value)]
        parts = [self._structured(child, results) for child in spec.children()]
        values, types = [p[0] for p in parts], [p[1] for p in parts]
        if spec.type is tuple or spec.type is pytree.namedtuple or issubclass(spec.type, tuple):
            return f"({''.join(v + ', ' for v in values)})", f"Tuple[{', '.join(types)}]"
        if spec.type is list:
            return (f"[{', '.join(values)}]" if values else "torch.jit.annotate(List[Tensor], [])"), f"List[{_same(types, 'a result')}]"
        if spec.type is dict:
            return "{" + ", ".join(f"{key!r}: {v}" for key, v in zip(spec.context, values)) + "}", f"Dict[str, {_same(types, 'a result')}]"
        raise _unsupported(f"a result is a {spec.type.__name__}", "return tensors, lists, tuples and dictionaries")

    def _attribute(self, target, value):
        if not isinstance(value, torch.Tensor):
            raise _unsupported(f"it holds a {type(value).__name__}")
        self.tensors.setdefault(target, value)
        return self.attributes.setdefault(target, f"t{len(self.attributes)}")

    # -- nodes

    def _call(self, node):
        name, target = f"v{len(self.env)}", node.target
        if target is torch.ops.ingot.execute.default:
            read, state, outputs, weights, _, plan, function = node.args
            self.lines.append(f"{name} = torch.ops.ingot.call({self._list(read)}, {self._list(state)}, {self._list(weights)}, {self.env[plan]}, {function})")
            self.env.update({output: f"{name}[{i}]" for i, output in enumerate(outputs)})
            self.lines += [f"{self.env[place]}.copy_({name}[{len(outputs) + i}])" for i, place in enumerate(state)]
            self.env[node] = name
            return
        self.env[node] = name
        self.lines.append(f"{name} = {self._expression(node)}")

    def _expression(self, node):
        target, values = node.target, [self._value(a) for a in node.args]
        if target is operator.getitem:
            return f"{values[0]}[{values[1]}]"
        if target in _BINARY:
            return f"{values[0]} {_BINARY[target]} {values[1]}"
        if target in _CALLED:
            return f"{_CALLED[target]}({', '.join(values)})"
        if target is torch.sym_ite:
            return f"{values[1]} if {values[0]} else {values[2]}"
        if not isinstance(target, OpOverload):
            raise _unsupported(f"torch runs {getattr(target, '__name__', target)} in it")
        if method := _METHODS.get(schema_of(target).name):
            return f"{values[0]}.{method}({', '.join(values[1:])})"
        formal = {a.name: str(a.type) for a in schema_of(target).arguments}
        given = [self._value(a, type_) for a, type_ in zip(node.args, formal.values())]
        given += [f"{key}={self._value(a, formal.get(key, ''))}" for key, a in node.kwargs.items()]
        return f"torch.ops.{target.namespace}.{schema_of(target).name.split('::')[1]}({', '.join(given)})"

    def _list(self, nodes):
        return self._value(list(nodes), "List[Tensor]")

    def _value(self, value, type_=""):
        if isinstance(value, torch.fx.Node):
            return self.env[value]
        if isinstance(value, (list, tuple)):
            text = f"[{', '.join(self._value(v) for v in value)}]"
            found = _LIST.search(type_)
            return f"torch.jit.annotate({found[0]}, {text})" if found else text
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{value}')"
        if isinstance(value, torch.device):
            return f"torch.device('{value}')"
        if value is None or isinstance(value, (bool, int, float, complex, str, torch.dtype, torch.layout, torch.memory_format)):
            return repr(value)
        raise _unsupported(f"a {type(value).__name__} is a constant in it")


def _function(name, parameters, lines):
    return f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)


def _path(target):
    """The attribute of self with this name; names such as "0" are not identifiers."""
    text = "self"
    for name in target.split("."):
        text = f"{text}.{name}" if name.isidentifier() and not keyword.iskeyword(name) else f"getattr({text}, {name!r})"
    return text


def _same(types, what):
    if len(set(types)) > 1:
        raise _unsupported(f"a list or dictionary in {what} has parts of different types: {', '.join(types)}", "take and return tuples")
    return types[0] if types else "Tensor"
