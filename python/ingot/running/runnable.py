"""The runnable part of a module made from a model: its engines, the way in which they run, and the weights of both."""

from __future__ import annotations

import torch

from ..capture.functional import Slot
from ..engine import plain_tensors
from ..engine._engine import Engine
from ..errors import InputError
from .runners import Elsewhere, OneCall, TorchGraph


class Runnable:
    """Engines with their weights.

    slots: the placeholders of the model.
    way: how its engines run.
    run: a function from the flat inputs of a call (slots of kind "input" and "number", in order) to the flat results.
    straight: True if one call of the engine is the whole model.
    followed: the weights' tensors, if they are the model's own (see weight_changes.py).
    """

    def __init__(self, slots: list[Slot], engines: list[Engine], way: OneCall | TorchGraph | Elsewhere, straight: bool, followed=None):
        self.slots, self.engines, self.way, self.straight, self.followed = slots, engines, way, straight, followed
        self.first: dict[str, torch.Tensor] = {}  # of caches: the values that a file has
        self.run, self.over = way.run, lambda weights: weights  # adds adapters to weights for the calls: see lora_target.py
        if followed is not None:
            followed.feeds(self)

    def update_weights(self, state_dict, strict):
        """Replaces values of weights and buffers by state-dict name."""
        self.followed.follow()
        changed = self.checked(state_dict, strict)
        for slot, value in changed:
            if slot.kind == "state":
                slot.tensor.detach().copy_(value)
        weights = {slot.name: value for slot, value in changed if slot.kind == "weight"}
        self.replace(weights)
        self.followed.taken(weights)

    def checked(self, state_dict, strict) -> list[tuple[Slot, torch.Tensor]]:
        """The slots that a state dict names, with its values, which are checked to fit. With strict, an unknown name is an error."""
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
                raise InputError(f"the value given for weight {name!r} cannot become a tensor: {problem}") from None
            if why := plain_tensors.why_not(value, name):
                raise InputError(f"weight {name!r} {why[0]}", remedy=why[1])
            want = slots[name].tensor
            if (value.dtype, value.shape) != (want.dtype, want.shape):
                short = lambda t: f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}"  # noqa: E731
                raise InputError(f"weight {name!r} is {short(value)}, but the engine was built for {short(want)}")
            found.append((slots[name], value))
        return found

    def value(self, name):
        """The current tensor of a weight or buffer."""
        value = self.way.value(name)
        if value is None:
            value = next(s.tensor for s in self.slots if s.kind in ("weight", "state") and s.name == name)
            for engine in self.engines:
                value = engine._values.get(name, value)
                value = engine.active.given.get(name, value) if engine.active is not None else value
        return (value if isinstance(value, torch.Tensor) else torch.from_numpy(value)).detach()

    def kept(self, name):
        """The tensor of a weight or buffer as a file has it: see capture/caches.py."""
        value = self.value(name)
        return torch.empty_like(value).copy_(self.first[name]) if name in self.first else value

    def replace(self, weights: dict[str, torch.Tensor], states=()):
        """Replaces tensors of weights, in the engines and in the parts that torch runs. states: slots of buffers that have other tensors now."""
        for engine in self.engines:
            held = {w["name"] for w in engine.inspect()["weights"]}
            if here := {n: t.detach() for n, t in weights.items() if n in held}:
                engine.replace(here)
        if not isinstance(self.way, OneCall):
            placed = weights if self.followed is None else {name: self.followed.placed(name, t) for name, t in weights.items()}
            self.way.replace({**self.over(placed), **{s.name: s.tensor for s in states}})
