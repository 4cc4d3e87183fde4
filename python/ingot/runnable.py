"""What runs a model: engines, the torch graph around them, and the weights in both."""

from __future__ import annotations

import torch

from . import _engine, _op, autocast, module_state, plain
from .checks import memory_check, size_check
from .errors import InputError
from .functional import Slot
from .reshapes import check_layout


class Segment(torch.nn.Module):
    """One function of an engine, as a step of a torch graph: takes and gives a list of tensors."""

    def __init__(self, engine: _engine.Engine, function: int):
        super().__init__()
        self.engine, self.function = engine, function
        self._runner = _op.runner(engine, function)

    def forward(self, *tensors):  # states after inputs
        return self._runner(list(tensors))

    __call__ = forward  # nobody hooks it: the way through nn.Module would only cost time

    def extra_repr(self):
        return f"{self.engine.functions[self.function]}: {len(self.engine.inspect()['functions'][self.function]['programs'][0]['steps'])} steps"


class Runnable:
    """Engines and, unless one engine's call is all there is, the torch graph around them (`ingot_weights`: state-dict name to attribute).

    slots: the placeholders of the model. run: the flat inputs of a call (slots of kind "input" and "number", in order) to the flat results.
    straight: run is one call of the engine, whose outputs are the results. followed: the weights' tensors, where they are the model's own (see follow.py).
    """

    def __init__(self, slots: list[Slot], engines: list["_engine.Engine"], graph, ranges, writes, followed=None):
        self.slots, self.engines, self.graph, self.straight, self.followed = slots, engines, graph, graph is None, followed
        if followed is not None:
            followed.feeds(self)
        if self.straight:
            self.run = _op.runner(engines[0])
        else:
            inputs = [s for s in slots if s.kind in ("input", "number")]
            self._check, self._written = size_check(inputs, ranges), memory_check(inputs, [slot for slot, _ in writes])
            self._laid = [(i, slot.name, slot.lies) for i, slot in enumerate(inputs) if slot.lies is not None]
            self._forward = autocast.without(graph.forward)
            self._checked: set = set()  # kinds of inputs that were found right, the last few
            self.run = self._run

    def _run(self, flat):
        if self.followed is not None and not torch.compiler.is_compiling():
            self.followed.follow()  # what torch runs has weights too
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
        if self._written is not None and not torch.compiler.is_compiling():  # what is traced has no memory
            self._written(flat)
        for i, name, lies in self._laid:
            check_layout(name, flat[i], lies)
        try:
            with torch.no_grad():
                state = module_state.current()
                return (self._forward if state is None else state.forward(self.graph, self._forward))(*flat)
        except RuntimeError as problem:  # of an engine inside a program that torch runs
            if (ours := _op.translate(problem)) is problem:
                raise
            raise ours from None

    def update_weights(self, state_dict, strict):
        """Other values for weights and buffers by state-dict name."""
        self.followed.follow()
        changed = self.checked(state_dict, strict)
        for slot, value in changed:
            if slot.kind == "state":
                slot.tensor.detach().copy_(value)
        weights = {slot.name: value for slot, value in changed if slot.kind == "weight"}
        self.replace({name: self.followed.placed(name, value) for name, value in weights.items()})
        self.followed.taken(weights)

    def checked(self, state_dict, strict) -> list[tuple[Slot, torch.Tensor]]:
        """The slots that a state dict names, with its values, which fit. With strict, a name that is none of theirs is an error."""
        slots = {name: s for s in self.slots if s.kind in ("weight", "state") for name in (*s.tied, s.name)}
        found = []
        for name, value in state_dict.items():
            if name not in slots:
                if strict:
                    raise InputError(f"the engine has no weight {name!r}")
                continue
            try:
                value = torch.as_tensor(value)
            except (TypeError, ValueError, RuntimeError) as problem:
                raise InputError(f"weight {name!r} is given as something that torch makes no tensor of: {problem}") from None
            if why := plain.why_not(value, name):
                raise InputError(f"weight {name!r} {why[0]}", remedy=why[1])
            want = slots[name].tensor
            if (value.dtype, value.shape) != (want.dtype, want.shape):
                short = lambda t: f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}"  # noqa: E731
                raise InputError(f"weight {name!r} is {short(value)}, but the engine was built for {short(want)}")
            found.append((slots[name], value))
        return found

    def value(self, name):
        """The tensor that a weight or buffer is now."""
        if self.graph is not None and name in self.graph.ingot_weights:
            return getattr(self.graph, self.graph.ingot_weights[name]).detach()
        value = next(s.tensor for s in self.slots if s.kind in ("weight", "state") and s.name == name)
        for engine in self.engines:
            value = engine._values.get(name, value)
        return (value if isinstance(value, torch.Tensor) else torch.from_numpy(value)).detach()

    def replace(self, weights: dict[str, torch.Tensor], states=()):
        """Other tensors for weights, in the engines and in what torch runs; and the slots of buffers that have other tensors."""
        for engine in self.engines:
            held = {w["name"] for w in engine.inspect()["weights"]}
            if here := {n: t.detach() for n, t in weights.items() if n in held}:
                engine.replace(here)
        if self.graph is not None:
            for name, tensor in (*weights.items(), *((s.name, s.tensor) for s in states)):
                if (attribute := self.graph.ingot_weights.get(name)) is not None:
                    setattr(self.graph, attribute, tensor.detach())
