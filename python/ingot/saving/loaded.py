"""A torch program that ingot.save wrote, run like a module that was compiled here: each plan in it becomes an engine, prepared once with the program's weights."""

from __future__ import annotations

import operator

import torch
from torch.export.graph_signature import InputKind, OutputKind

from ..capture import devices
from ..capture.functional import Node, Slot
from ..capture.signature import inputs_of
from ..engine import _engine, _op
from ..errors import UnsupportedError
from ..running.runnable import Runnable
from ..running.runners import OneCall, Segment, TorchGraph
from ..running.weight_changes import Followed

_PLAN = "ingot_plan_"


def holds_plans(program: torch.export.ExportedProgram) -> bool:
    return any(name.startswith(_PLAN) for name in program.constants)


class Loaded(Runnable):
    """A loaded program. engine: its engine, if there is exactly one. Values that loading or update_weights puts into parameters reach the engines before the next call."""

    def __init__(self, program: torch.export.ExportedProgram, trust: str):
        _op.library()
        self.program = program
        signature = program.graph_signature
        nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
        changed = {s.target for s in signature.output_specs if s.kind is not OutputKind.USER_OUTPUT}
        slots = [self._slot(nodes[s.arg.name], s, changed) for s in signature.input_specs if not (s.target or "").startswith(_PLAN)]
        # Buffers that exist only as constants are not part of the state dict.
        self.shown = [s for s in slots if s.name in program.state_dict]
        followed = Followed(slots, [s for s in slots if s.node.users])
        self.device = devices.of_slots(slots)
        graph = _Graph(program, slots, followed, len(signature.output_specs) - len(signature.user_outputs), self.device, trust)
        axes = graph.as_one_call()
        inputs, written = [s for s in slots if s.kind in ("input", "number")], [s for s in slots if s.name in changed]
        way = OneCall(graph.engines[0], axes) if axes is not None else TorchGraph(graph.module(), inputs, program.range_constraints.get, written, followed)
        super().__init__(slots, graph.engines, way, straight=axes is not None, followed=followed)
        self.engine = graph.engines[0] if len(graph.engines) == 1 else None

    def _slot(self, node, spec, changed):
        if spec.kind is InputKind.USER_INPUT:
            return Slot(node, "input" if isinstance(node.meta.get("val"), torch.Tensor) else "number", node.name)
        tensor = self.program.state_dict.get(spec.target, self.program.constants.get(spec.target))
        tied = tuple(n for n, t in self.program.state_dict.items() if t is tensor and n != spec.target)
        return Slot(node, "state" if spec.target in changed else "weight", spec.target, tensor, tied=tied)

    def signature(self) -> dict:
        return {"inputs": inputs_of([s for s in self.slots if s.kind in ("input", "number")]), "outputs": [{"tensor": i} for i in range(len(self.program.graph_signature.user_outputs))]}

    def update_weights(self, state_dict, strict):
        """Writes the values in place: the parameters are the program's own."""
        self.followed.follow()
        for slot, value in self.checked(state_dict, strict):
            slot.tensor.detach().copy_(value)
        self.followed.follow()

    def present(self) -> torch.export.ExportedProgram:
        """The program with the current values of its parameters and buffers."""
        for slot in self.shown:
            old, value = self.program.state_dict[slot.name], self.value(slot.name)
            if value.data_ptr() != old.data_ptr():
                value = torch.nn.Parameter(value, requires_grad=False) if isinstance(old, torch.nn.Parameter) else value
                self.program.state_dict.update(dict.fromkeys((slot.name, *slot.tied), value))
        return self.program


class _Graph:
    """The program's graph with calls of engines instead of calls of plans."""

    def __init__(self, program, slots, followed, written, device, trust):
        self.program, self.slots, self.followed, self.written, self.device, self.trust = program, slots, followed, written, device, trust
        self.by_target = {s.name: s for s in slots if s.kind in ("weight", "state")}
        self.plans = {s.arg.name: program.constants[s.target] for s in program.graph_signature.input_specs if (s.target or "").startswith(_PLAN)}
        self.engines: list[_engine.Engine] = []
        self.calls: list[tuple[Node, list[Node]]] = []  # (tensors that the engine reads, its results)
        for node in program.graph.nodes:
            if node.target is torch.ops.ingot.execute.default:
                self._engine(node)

    def _engine(self, node):
        read, state, outputs, _, _, plan, function = node.args
        values = {n: s.tensor.detach() for n, s in self.by_target.items()}
        engine = _engine.load_engine(self.plans[plan.name].cpu().numpy().tobytes(), weights=values, device=str(self.device), trust=self.trust)
        engine.watch = self.followed
        if function != 0:
            raise UnsupportedError(f"the program calls function {function} of a plan of one function")
        read, state = list(read), list(state)
        tensors = [(state if binding.get("written") else read).pop(0) for binding in engine.inputs()] + state
        self.engines.append(engine)
        self.calls.append((tensors, list(outputs)))

    def _results(self):
        return next(n for n in self.program.graph.nodes if n.op == "output").args[0][self.written :]

    def as_one_call(self) -> list[list[int] | None] | None:
        """The axes of the results of OneCall, if one call of an engine is the whole program."""
        inputs, results = [s.node for s in self.slots if s.kind in ("input", "number")], list(self._results())
        permuted = [isinstance(r, Node) and r.target is torch.ops.aten.permute.default for r in results]
        made = [r.args[0] if moved else r for r, moved in zip(results, permuted)]
        if len(self.calls) != 1 or self.written or self.calls[0] != (inputs, made):
            return None
        return [list(r.args[1]) if moved else None for r, moved in zip(results, permuted)]

    def module(self) -> torch.fx.GraphModule:
        root, graph, env, weights = torch.nn.Module(), torch.fx.Graph(), {}, {}
        for slot in self.slots:
            if slot.kind in ("input", "number"):
                env[slot.node] = graph.placeholder(slot.node.name)
        for slot in self.by_target.values():
            name = weights[slot.name] = f"w_{len(weights)}"
            root.register_buffer(name, slot.tensor.detach(), persistent=False)
            env[slot.node] = graph.get_attr(name)
        calls = iter(zip(self.engines, self.calls))
        for node in self.program.graph.nodes:
            if node.target is torch.ops.ingot.execute.default:
                engine, (tensors, outputs) = next(calls)
                name = f"segment_{sum(1 for _ in root.children())}"
                root.add_module(name, Segment(engine, 0))
                call = graph.call_module(name, tuple(env[t] for t in tensors))
                env.update({made: graph.call_function(operator.getitem, (call, i)) for i, made in enumerate(outputs)})
            elif node.op == "get_attr":
                setattr(root, node.target, getattr(self.program.graph_module, node.target))
                env[node] = graph.get_attr(node.target)
            elif node.op == "call_function":
                env[node] = graph.node_copy(node, lambda n: env[n])
        graph.output(torch.fx.node.map_arg(list(self._results()), lambda n: env[n]))
        effects = {torch.ops.aten.copy_.default}
        graph.eliminate_dead_code(lambda n: n.op in ("placeholder", "output", "call_module") or n.target in effects or n.is_impure())
        module = torch.fx.GraphModule(root, graph, "Ingot")
        module.ingot_weights = weights
        return module
