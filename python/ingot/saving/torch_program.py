"""Compiled models as torch programs: `.pt2` files of torch.export, and AOTInductor packages made from them.

Each engine segment is a call of `ingot::execute` on the graph's tensors. Weights are the program's own parameters and buffers. A segment's plan, without their values, is a constant of
bytes.
"""

from __future__ import annotations

import contextlib
import copy
import operator

import torch
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

from ..base import size_text
from ..capture.functional import Node
from ..engine import _op
from ..errors import UnsupportedError
from ..running.assemble import Assembled, Shell
from ..torch_internals.saving import verifier
from ..torch_internals.tracing import detect_fake_mode


def exported_program(assembled: Assembled, empty_lists=True) -> torch.export.ExportedProgram:
    """The compiled model as a program that runs wherever the op library is loaded.

    empty_lists: if False, an empty list of tensors gets one tensor without elements, because AOTInductor's executor loses empty lists.
    """
    _op.library()
    return _Program(assembled, empty_lists).program()


class _Program(Shell):
    """The graph of a saved program: parameters, buffers, plans and inputs are placeholders."""

    def __init__(self, assembled: Assembled, empty_lists: bool):
        self.empty_lists = empty_lists
        super().__init__(assembled.functional, assembled.engine, assembled.report)
        self.assembled, self.source = assembled, assembled.functional.program
        plan = self.engine._readable_plan() if self.engine is not None else None
        self.parts = [plan.part(i) for i in range(len(self.segments))] if self.engine is not None else []
        self.plans: list[Node] = []
        self.axes: dict[tuple[Node, int], Node] = {}
        self.by_weight = {s.name: s for s in self.f.slots if s.kind in ("weight", "state")}

    def program(self) -> torch.export.ExportedProgram:
        module = self.build()
        _complete_values(module.graph)
        old = self.source.graph_signature
        state_dict, constants = {}, dict(self.source.constants)
        specs = {spec.arg.name: spec for spec in old.input_specs}
        inputs = []
        for node in module.graph.nodes:
            if node.op != "placeholder":
                continue
            if node in self.plans:
                inputs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), node.name.removeprefix("c_")))
                constants[inputs[-1].target] = node.meta["plan"]
                continue
            spec = copy.copy(specs[node.name])
            inputs.append(spec)
            if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                value = self.assembled.kept(spec.target)
                if spec.kind is InputKind.PARAMETER:
                    state_dict[spec.target] = torch.nn.Parameter(value, requires_grad=False)
                elif spec.target in self.source.state_dict:
                    state_dict[spec.target] = value
                else:
                    constants[spec.target] = value
        for slot in self.f.slots:  # additional names of a parameter have no placeholder
            state_dict.update({name: state_dict[slot.name] for name in slot.tied if slot.name in state_dict and name not in state_dict})
        results = next(n for n in module.graph.nodes if n.op == "output").args[0]
        written = [s for s in old.output_specs if s.kind is not OutputKind.USER_OUTPUT]
        kinds = {s.target: s.kind for s in written}
        outputs = []
        for (slot, _), value in zip(self.f.writes, results):
            target = slot.node.name if slot.kind in ("input", "number") else slot.name
            outputs.append(OutputSpec(kinds[target], TensorArgument(value.name), target))
        for value in results[len(self.f.writes) :]:
            outputs.append(OutputSpec(OutputKind.USER_OUTPUT, _argument(value), None))
        entry = copy.copy(next(e for e in self.source.module_call_graph if e.fqn == ""))
        entry.signature = copy.copy(entry.signature)
        entry.signature.inputs, entry.signature.outputs = [], []
        return torch.export.ExportedProgram(
            root=module,
            graph=module.graph,
            graph_signature=ExportGraphSignature(inputs, outputs),
            state_dict=state_dict,
            range_constraints=self.source.range_constraints,
            module_call_graph=[entry],
            example_inputs=self.source.example_inputs,
            constants=constants,
            verifiers=[verifier()],
        )

    # -- the graph

    def _inputs(self):
        lifted = [s for s in self.f.slots if s.kind in ("weight", "state")]
        for slot in lifted:
            self._placeholder(slot)
        for i, part in enumerate(self.parts):
            node = self.graph.placeholder(f"c_ingot_plan_{i}")
            node.meta["plan"] = torch.frombuffer(bytearray(part.bytes(values=False)), dtype=torch.uint8)
            self.plans.append(node)
        for slot in self.f.inputs:
            self._placeholder(slot)

    def _placeholder(self, slot):
        node = self.env[slot.node] = self.graph.placeholder(slot.node.name)
        node.name = node.target = slot.node.name  # even if Python has another meaning for the name, such as "input"
        node.meta = {"val": slot.node.meta.get("val")}

    def _output(self, results):
        written = [self.env[value] for _, value in self.f.writes]
        self.graph.output((*written, *results))

    def _segment(self, index, inputs):
        if any(self.engine.is_open(index, i) for i in range(len(self.engine.outputs(index)))):
            raise UnsupportedError("sizes of the results are read from data while the model runs, but a torch program allocates its results before the run", remedy='save it with format="ingot"')
        # Sizes of outputs are expressions over the sizes of the engine's inputs.
        places = {name: (inputs[s["input"]], s) for name, s in self.engine.symbols(index).items() if "input" in s}
        outputs = [self._empty(binding, places) for binding in self.engine.outputs(index)]
        states = {s["name"] for s in self.engine.states(index)}
        weights = [self.env[self.by_weight[w["name"]].node] for w in self.parts[index].describe()["weights"] if w["name"] not in states]
        written = [bool(b.get("written")) for b in self.engine.inputs(index)] + [True] * len(states)
        read, state = [n for n, w in zip(inputs, written) if not w], [n for n, w in zip(inputs, written) if w]
        lists = (read, state, outputs, weights)
        if not self.empty_lists:
            lists = tuple(tensors or [self._nothing()] for tensors in lists)
        self.graph.call_function(torch.ops.ingot.execute.default, (*lists, [] if self.empty_lists else [0], self.plans[index], 0))
        return outputs

    def _nothing(self):
        return self.graph.call_function(torch.ops.aten.empty.memory_format, ([0],), {"dtype": torch.uint8, "device": self.f.device, "pin_memory": False})

    def _empty(self, binding, places):
        dims = [self._sized(d, places) for d in binding["dims"]]
        more = {"dtype": getattr(torch, binding["dtype"]), "device": self.f.device, "pin_memory": False}
        return self.graph.call_function(torch.ops.aten.empty.memory_format, (dims,), more)

    def _sized(self, text, places):
        """A size expression of the engine as a node."""
        functions = {"+": operator.add, "-": operator.sub, "*": operator.mul, "negate": operator.neg, "floordiv": operator.floordiv, "mod": operator.mod, "min": torch.sym_min, "max": torch.sym_max}

        def made(name, *parts):
            return self.graph.call_function(functions[name], parts) if any(isinstance(p, Node) for p in parts) else functions[name](*parts)

        def value(name):
            node, symbol = places[name]
            size = self._axis(node, symbol["axis"])
            size = made("-", size, symbol["offset"]) if symbol["offset"] else size
            return made("floordiv", size, symbol["factor"]) if symbol["factor"] != 1 else size

        if isinstance(text, int):
            return text
        return size_text.evaluate(size_text.parse(text, places, "the size of an output"), value, made)

    def _axis(self, node, axis):
        if (node, axis) not in self.axes:
            self.axes[node, axis] = self.graph.call_function(torch.ops.aten.sym_size.int, (node, axis))
        return self.axes[node, axis]


def _argument(value):
    if not isinstance(value, Node):
        return ConstantArgument("", value)
    kinds = {torch.SymInt: SymIntArgument, torch.SymFloat: SymFloatArgument, torch.SymBool: SymBoolArgument}
    return kinds.get(type(value.meta["val"]), TensorArgument)(value.name)


def _complete_values(graph):
    """Records fake values and symbolic sizes for the nodes that were added here. The others have theirs from the original graph."""
    mode = detect_fake_mode([n.meta.get("val") for n in graph.nodes])
    for node in graph.nodes:
        if "plan" in node.meta:
            plan = node.meta["plan"]
            node.meta["val"] = mode.from_tensor(plan, static_shapes=True) if mode is not None else plan.to("meta")
        elif node.op == "call_function" and "val" not in node.meta:
            arguments, keywords = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            if node.target is torch.ops.ingot.execute.default:
                node.meta["val"] = None
                continue
            with mode or contextlib.nullcontext(), torch.no_grad():
                node.meta["val"] = node.target(*arguments, **keywords)
