"""A program of this suite: a forward, the inputs of each call, the state it starts with, and what it changes and shares.

    @program(lambda r: [r(3, 4)], state=lambda r: dict(count=r.zeros()), mutates="buffer:count")
    def counter(self, x):
        ...

Inputs are fresh for each call; a list is positional, a dict by keyword. `r` draws them and makes state, in float32 or, for the exact
result, in float64. State may be buffers, parameters, modules or plain values.

    mutates          whose values differ after the calls: "input:0", "buffer:count", "parameter:weight" (inputs count flat leaves)
    aliases          who shares storage: "out:0=input:0", "out:1=out:0", "out:0=buffer:cache"
    dynamic          axes that vary as r.n does, "input.axis"
    export_refuses   words of torch.export's refusal of the fixed sizes; dynamic_refuses: of the dynamic ones
    export_misses    why what torch.export makes without complaint is wrong, so that ingot.compile has to refuse
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

SIZES = (4, 7, 1)  # of r.n in three successive calls
ALL: list[Program] = []


class Draw:
    """Values for inputs and state: equal for equal seeds, in the float dtype asked for."""

    def __init__(self, seed, dtype=torch.float32, n=SIZES[0]):
        self.seed, self.dtype, self.n = seed, dtype, n
        self._generator = torch.Generator("cpu").manual_seed(seed)

    def __call__(self, *shape):
        return torch.randn(shape, generator=self._generator, device="cpu").to(torch.get_default_device(), self.dtype)

    def ints(self, high, *shape):
        return torch.randint(high, shape, generator=self._generator, device="cpu").to(torch.get_default_device())

    def bools(self, *shape):
        return self.ints(2, *shape).bool()

    def zeros(self, *shape):
        return torch.zeros(shape, dtype=self.dtype)


@dataclass
class Program:
    name: str
    forward: Callable
    inputs: Callable
    state: Callable
    persistent: bool
    mutates: set[str]
    aliases: set[str]
    dynamic: list[tuple[int, int]]
    export_refuses: str
    dynamic_refuses: str
    export_misses: str

    def model(self, dtype=torch.float32):
        model = type(self.name, (torch.nn.Module,), {"forward": self.forward})()
        for name, value in self.state(Draw(3, dtype)).items():
            if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                model.register_buffer(name, value, persistent=self.persistent)
            else:
                setattr(model, name, value)
        return model

    def arguments(self, call=0, dtype=torch.float32, varying=False):
        """(positional, by keyword) of one call."""
        given = self.inputs(Draw(call, dtype, SIZES[call] if varying else SIZES[0]))
        return ((), given) if isinstance(given, dict) else (tuple(given), {})


def program(inputs, *, state=lambda r: {}, persistent=True, mutates="", aliases="", dynamic="", export_refuses="", dynamic_refuses="", export_misses=""):
    def add(forward):
        axes = [tuple(map(int, axis.split("."))) for axis in dynamic.split()]
        changed, shared = set(mutates.split()), set(aliases.split())
        made = Program(forward.__name__, forward, inputs, state, persistent, changed, shared, axes, export_refuses, dynamic_refuses, export_misses)
        assert made.name not in {p.name for p in ALL}, made.name
        ALL.append(made)
        return made

    return add
