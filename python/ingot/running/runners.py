"""The ways in which a model's engines run: by one call, as steps of a torch graph, or not here.

Each has:
    segments: the parts of the model that run in engines.
    run: a function from flat inputs to flat results. plain: a quicker one for plain tensors only, if there is one.
    value, replace: read and replace weights that it holds besides the engines.
    profiled: the engine that `profile` measures.
    must_run: raises an error if the engine cannot run here, as a torch program has to.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Sequence

import torch

from ..base.processes import Gate
from ..capture import autocast
from ..capture.checks import memory_check, size_check
from ..capture.reshapes import check_layout
from ..capture.functional import Slot
from ..engine import _op
from ..engine._engine import Engine
from ..errors import UnsupportedError
from . import module_state


_NOTHING = contextlib.nullcontext()


class OneCall:
    """One call of one engine, which takes the model's tensors and returns its results.

    axes: for each result None, or the axes of the engine's result that it has: engines give results in the order of memory.
    """

    def __init__(self, engine: Engine, axes: Sequence[list[int] | None] = ()):
        self.engine, self.segments, self.runner, self.axes = engine, ["forward"], _op.Runner(engine), list(axes)
        self.run, self.plain = self.runner, self.runner.plain
        if any(self.axes):
            self.run, self.plain = self._viewed(self.run), self._viewed(self.plain)

    def _viewed(self, run):
        if run is None:
            return None
        permuted = [(i, axes) for i, axes in enumerate(self.axes) if axes]

        def call(flat):
            results = list(run(flat))
            for i, axes in permuted:
                results[i] = results[i].permute(axes)
            return results

        return call

    def value(self, name):
        return None

    def replace(self, tensors: dict[str, torch.Tensor]):
        pass

    def profiled(self) -> Engine:
        return self.engine

    def must_run(self):
        pass


class Segment(torch.nn.Module):
    """One function of an engine as a step of a torch graph. It takes and returns a list of tensors."""

    def __init__(self, engine: Engine, function: int):
        super().__init__()
        self.engine, self.function = engine, function
        self._runner = _op.Runner(engine, function)

    def forward(self, *tensors):  # inputs, then states
        return self._runner(list(tensors))

    __call__ = forward  # it has no hooks, so nn.Module's call would only cost time

    def extra_repr(self):
        return f"{self.engine.functions[self.function]}: {len(self.engine.inspect()['functions'][self.function]['programs'][0]['steps'])} steps"


class TorchGraph:
    """A torch graph in which engines' functions are steps. It may have none.

    graph: its `ingot_weights` maps state-dict names to attributes.
    inputs: the slots that a call passes. written: the slots that the model writes.
    followed: see Runnable.

    `forward` runs the graph; runtime.enable_cudagraphs replaces it. `written` are the positions of the inputs that the model writes. `changes` counts replaced tensors.
    """

    plain = None

    def __init__(self, graph: torch.fx.GraphModule, inputs: list[Slot], ranges, written: list[Slot], followed):
        self.graph, self.segments = graph, [m for m in graph.children() if isinstance(m, Segment)]
        self._followed, self.changes = followed, 0
        self.written = [i for i, slot in enumerate(inputs) if any(slot is s for s in written)]
        self._check, self._written = size_check(inputs, ranges), memory_check(inputs, written)
        self._laid = [(i, slot.name, slot.layout) for i, slot in enumerate(inputs) if slot.layout is not None]
        self.forward = autocast.without(graph.forward)
        self.gate = Gate()
        self._checked: set = set()  # kinds of inputs that passed the checks, the last few

    def run(self, flat):
        if self._followed is not None and not torch.compiler.is_compiling():
            self._followed.follow()  # the parts that torch runs have weights too
        try:
            kind = tuple([(t.dtype, t.shape, t.device) if isinstance(t, torch.Tensor) else (type(t), t) for t in flat])
            known = kind in self._checked
        except (RuntimeError, TypeError):  # symbolic sizes, while torch traces
            kind, known = None, False
        if not known:
            self._check(flat)
            if kind is not None:
                if len(self._checked) >= 64:
                    self._checked.clear()
                self._checked.add(kind)
        if self._written is not None and not torch.compiler.is_compiling():  # traced tensors have no memory
            self._written(flat)
        for i, name, layout in self._laid:
            check_layout(name, flat[i], layout)
        try:
            state = module_state.current()
            forward = self.forward if state is None else state.forward(self, self.forward)
            with torch.no_grad() if torch.is_grad_enabled() else _NOTHING:
                if torch.compiler.is_compiling():
                    return forward(*flat)
                with self.gate.running():
                    return forward(*flat)
        except RuntimeError as problem:  # from an engine inside a program that torch runs
            if (ours := _op.translate(problem)) is problem:
                raise
            raise ours from None

    def value(self, name):
        attribute = self.graph.ingot_weights.get(name)
        return None if attribute is None else getattr(self.graph, attribute)

    def replace(self, tensors):
        self.changes += 1
        for name, tensor in tensors.items():
            if (attribute := self.graph.ingot_weights.get(name)) is not None:
                setattr(self.graph, attribute, tensor.detach())

    def profiled(self):
        """The engine, if the graph only hands it the inputs and the buffers."""
        steps = [n for n in self.graph.graph.nodes if n.op not in ("placeholder", "get_attr", "output") and n.target is not operator.getitem]
        if [n.op for n in steps] != ["call_module"] or len(self.segments) != 1:
            raise no_profile()
        inputs = [n for n in self.graph.graph.nodes if n.op == "placeholder"]
        if list(steps[0].args)[: len(inputs)] != inputs or len(self.segments[0].engine.input_names) != len(inputs):
            raise no_profile()
        return self.segments[0].engine

    def must_run(self):
        pass


class Elsewhere:
    """An engine for a GPU elsewhere: the model can only be saved, and loaded there."""

    plain = None

    def __init__(self, engine: Engine):
        self.engine, self.segments = engine, engine.functions
        self._held = {w["name"] for w in engine.inspect()["weights"]}
        self._others: dict[str, torch.Tensor] = {}  # replaced weights that the engine does not have

    def run(self, flat):
        raise self.engine.not_here()

    def value(self, name):
        return self._others.get(name)

    def replace(self, tensors):
        self._others.update({name: tensor for name, tensor in tensors.items() if name not in self._held})

    def profiled(self):
        raise self.engine.not_here()

    def must_run(self):
        raise UnsupportedError(
            f"a torch program runs where its tensors are, on the CPU, and the engine in this one is for {self.engine.targets}",
            remedy='save it with format="ingot", or compile model.cuda() where there is a GPU',
        )


def of_engine(engine: Engine):
    """How an engine that is the whole model runs."""
    return OneCall(engine) if engine.device is not None else Elsewhere(engine)


def no_profile():
    return UnsupportedError("parts of this module run in torch, but a profile measures one engine", remedy="torch.profiler.profile shows the engines' calls among torch's operators")
