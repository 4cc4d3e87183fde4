"""The weights that adapters are added to: those of an engine from a file, or of a compiled model."""

from __future__ import annotations

import contextlib

import torch

from ..engine._engine import Engine


class OfEngine:
    """An engine that is the whole model, with weights from a file."""

    def __init__(self, engine: Engine):
        self.engines, self._weights = [engine], {w["name"]: w for w in engine.inspect()["weights"]}

    def names(self) -> dict[str, str | None]:
        """State-dict names, each with the engine's name of the weight, or None if nothing reads it."""
        engine = self.engines[0]
        return {**dict.fromkeys(engine.signature.get("unused", ())), **{name: name for name in self._weights}, **engine.tied}

    def base(self, name) -> torch.Tensor:
        """The weight without adapters, on the engine's device."""
        engine = self.engines[0]
        weight = self._weights[name]
        value, order = engine.value(name), weight.get("order")
        if hasattr(value, "shape"):
            return torch.as_tensor(value).detach().to(engine.device)
        dims = weight["dims"] if order is None else [weight["dims"][axis] for axis in order]
        dtype = getattr(torch, weight["dtype"])
        dense = torch.frombuffer(value, dtype=dtype).view(dims) if weight["bytes"] else torch.empty(dims, dtype=dtype, device="cpu")
        return (dense if order is None else dense.permute([order.index(axis) for axis in range(len(order))])).to(engine.device)

    def same(self) -> dict[str, list[str]]:
        """For each weight, itself and all others with the same memory."""
        return {name: [name] for name in self._weights}

    def follow(self):
        self.engines[0].follow()

    def is_in_torch(self, name):
        return False

    def replace_in_torch(self, values):
        pass

    def changing(self):
        return contextlib.nullcontext()


class OfRunnable:
    """A compiled model, whose weights engines and torch may read."""

    def __init__(self, runnable, adapters):
        self._runnable, self.engines = runnable, runnable.engines
        runnable.over = lambda weights: weights if adapters() is None else adapters().over(weights)

    def names(self):
        return {name: slot.name for slot in self._runnable.slots if slot.kind == "weight" for name in (*slot.tied, slot.name)}

    def base(self, name):
        return self._runnable.followed.now(name)

    def same(self):
        groups, found = {}, {}
        for name in (slot.name for slot in self._runnable.slots if slot.kind == "weight"):
            t = self._runnable.followed.held(name)
            found[name] = groups.setdefault((t.data_ptr(), t.shape, t.stride(), t.dtype) if t.numel() else name, [])
            found[name].append(name)
        return found

    def follow(self):
        self._runnable.followed.follow()

    def is_in_torch(self, name):
        return self._runnable.way.value(name) is not None

    def replace_in_torch(self, values):
        self._runnable.way.replace(values)

    def changing(self):
        gate = getattr(self._runnable.way, "gate", None)
        return contextlib.nullcontext() if gate is None else gate.changing()


class Inside:
    """Another target, whose weights are known by the names that they have inside of a submodule."""

    def __init__(self, target, prefix: str):
        self._target, self._prefix = target, prefix

    def names(self):
        return {name.removeprefix(self._prefix): weight for name, weight in self._target.names().items()}

    def __getattr__(self, name):
        return getattr(self._target, name)
