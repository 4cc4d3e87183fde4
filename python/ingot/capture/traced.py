"""A captured graph on its way to the compiler: what torch.export or Dynamo traced, while fixes change it."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..errors import UnsupportedError
from ..torch_internals.modules import own_buffers
from ..torch_internals.programs import updated
from ..torch_internals.sizes import PendingUnbackedSymbolNotFound
from ..torch_internals.tensors import FakeTensor
from ..torch_internals.tracing import DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException, UnsupportedOperatorException, make_fx

Node = torch.fx.Node


# What torch's tracer cannot know, and what its exception's text says of it.
_NEEDS_VALUES = {
    DataDependentOutputException: "{} reads a value that is known only when the model runs",
    DynamicOutputShapeException: "the size of the result of {} is known only when the model runs",
    PendingUnbackedSymbolNotFound: "a size inside one of its operators is known only when the model runs",
    UnsupportedOperatorException: "torch does not know the shape of the result of {}",
    UnsupportedFakeTensorException: "{}",
}


def needs_values(problem, reason: str) -> str | None:
    """What a trace of torch cannot know, in the user's terms; None for other exceptions. reason: the exception's text."""
    return next((said.format(reason) for kind, said in _NEEDS_VALUES.items() if isinstance(problem, kind)), None)


class NotFunctional(UnsupportedError):
    """Raised if torch cannot make the graph functional: it runs in torch unchanged."""


@dataclass
class Traced:
    """A graph with what fixes know of it in addition to its nodes.

    module: the graph. Fixes change the one that `editable` returns.
    in_aten: whether its nodes call ATen's operators; Dynamo's own graphs call Python functions.
    inputs, outputs: what each input and result is, of an exported program.
    """

    module: torch.fx.GraphModule
    in_aten: bool = True
    inputs: list | None = None
    outputs: list | None = None
    tokens: tuple = ((), ())                # names of inputs and of results that order effects
    casts: bool = False                     # whether autocast is on, or the graph turns it on
    conditions: tuple | list = ()           # on sizes, which must hold (switches/branches.py)
    names: dict[str, str] = field(default_factory=dict)  # the user's names of inputs, by placeholder
    numbers: dict[int, Any] = field(default_factory=dict)  # inputs that became constants: {place: value}
    random_state: torch.Tensor | None = None  # of a graph whose weights are inputs: the state of its random numbers, its last input
    weights_are_inputs: bool = False
    _program: torch.export.ExportedProgram | None = None
    _copied: bool = False

    @classmethod
    def of_program(cls, program: torch.export.ExportedProgram, **known) -> "Traced":
        signature = program.graph_signature
        tokens = tuple({s.arg.name for s in specs if s.kind.name == "TOKEN"} for specs in (signature.input_specs, signature.output_specs))
        return cls(program.graph_module, inputs=list(signature.input_specs), outputs=list(signature.output_specs), tokens=tokens, _program=program, **known)

    @property
    def graph(self) -> torch.fx.Graph:
        return self.module.graph

    @property
    def constants(self) -> dict[str, torch.Tensor]:
        """The tensors of an exported program, by name."""
        return {**self._program.constants, **self._program.state_dict} if self._program is not None else {}

    @property
    def ranges(self) -> dict:
        """The value ranges of an exported program's symbols."""
        return self._program.range_constraints if self._program is not None else {}

    def editable(self) -> torch.fx.GraphModule:
        """The module, to be changed in place. A program's own graph stays as it is."""
        if self._program is not None and not self._copied:
            self.module, self._copied = self.copy(), True
        return self.module

    def copy(self) -> torch.fx.GraphModule:
        """A copy of the graph with the same names: torch would rename input to input_1."""
        graph = copy.deepcopy(self.graph)
        for node, original in zip(graph.nodes, self.graph.nodes, strict=True):
            node.name = original.name
        return torch.fx.GraphModule(self.module, graph)

    def take(self, module: torch.fx.GraphModule):
        """A copy that was changed takes the module's place."""
        self.module, self._copied = module, True

    def program(self, **tensors: dict) -> torch.export.ExportedProgram:
        """The exported program with this graph; the same one if nothing changed. tensors: others by name (state_dict, constants)."""
        if not self._copied:
            return self._program
        outputs = [_named(spec, value) for spec, value in zip(self.outputs, self.graph.output_node().args[0], strict=True)]
        return updated(self._program, self.module, replace(self._program.graph_signature, input_specs=self.inputs, output_specs=outputs), **tensors)


def _named(spec, value):
    """The entry of an exported program's signature for a result. Another node may give it now."""
    from torch.export.graph_signature import TensorArgument

    if not isinstance(value, Node) or spec.arg.name == value.name:
        return spec
    return replace(spec, arg=TensorArgument(value.name))


def as_aten(module: torch.fx.GraphModule, inputs, decompositions=None) -> torch.fx.GraphModule:
    """A graph in ATen's operators, after these decompositions ({operator: function}). In-place writes and source lines are kept."""
    mode = next((t.fake_mode for t in inputs if isinstance(t, FakeTensor)), None)  # the graph's values are fake like its inputs
    with torch.no_grad(), torch.fx.traceback.preserve_node_meta(), mode or contextlib.nullcontext(), constants_allowed(mode):
        made = make_fx(lambda *given: torch.fx.Interpreter(module).run(*given), decompositions, pre_dispatch=True, _allow_non_fake_inputs=True)(*inputs)
    for name in list(own_buffers(made)):  # constants in the model's code are not inputs of the graph
        setattr(made, name, own_buffers(made).pop(name))
    return made


@contextlib.contextmanager
def constants_allowed(mode):
    """Lets the graph's constants be real tensors."""
    before = mode is not None and mode.allow_non_fake_inputs
    try:
        if mode is not None:
            mode.allow_non_fake_inputs = True
        yield
    finally:
        if mode is not None:
            mode.allow_non_fake_inputs = before
