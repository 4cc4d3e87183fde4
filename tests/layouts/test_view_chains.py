"""Random chains of views, with padding, joins and arithmetic between them, through ingot.compile and torch.compile: eager's numbers, exactly.

A model is many chains on one input, so that hundreds are compiled in seconds. The seeds are fixed; a failure names the chain as code.
"""

from __future__ import annotations

import os
import random

import pytest
import torch
import torch.nn.functional as F

import ingot

CHAINS = 30  # of a model
MODELS = 40 if os.environ.get("INGOT_TEST_ALL") == "1" else 5
STATIC = [(2, 8, 1), (1, 6, 2), (4, 1, 3, 1), (12,), (1, 1), (3, 4, 5), (2, 1, 1, 6), (2, 0, 3), (1,), (16, 1)]


class Chain:
    """Steps as code. `open`: for each axis None if its size is fixed, else the multiple of the dynamic size that it is."""

    def __init__(self, seed, x, open_axes=()):
        self.random = random.Random(seed)
        self.open = [1 if axis in open_axes else None for axis in range(x.dim())]
        self.code, self.cut = [], False
        kinds = [self.permute, self.flatten, self.flatten, self.split, self.split, self.reshape, self.reshape, self.slice, self.slice, self.select, self.flip, self.expand,
                 self.unsqueeze, self.squeeze, self.unfold, self.diagonal, self.pad, self.plus, self.plus_flipped, self.join, self.sum, self.roll, self.replace]  # fmt: skip
        steps, tries = self.random.randint(3, 9), 0
        while len(self.code) < steps and tries < 80:
            tries += 1
            found = self.random.choice(kinds)(x)
            if found is None:
                continue
            code, opened = found
            y = eval(code, {"t": x, "F": F, "torch": torch})
            if y.numel() > 500 or y.dim() > 6 or y.numel() and y.abs().max() > 2**20:
                continue
            x, self.open = y, opened
            self.code.append(code)

    def __call__(self, t):
        for code in self.code:
            t = eval(code, {"t": t, "F": F, "torch": torch})
        return t

    def __str__(self):
        return "; ".join(f"t = {code}" for code in self.code)

    def axis(self, fixed=False):
        axes = [a for a, multiple in enumerate(self.open) if not fixed or multiple is None]
        return self.random.choice(axes) if axes else None

    # ---- a step: its code and the axes afterwards, or None

    def permute(self, t):
        order = list(range(t.dim()))
        self.random.shuffle(order)
        return f"t.permute({order})", [self.open[a] for a in order]

    def flatten(self, t):
        if t.dim() < 2:
            return None
        a, b = sorted((self.axis(), self.axis()))
        part, multiple = self.open[a : b + 1], None
        for axis, one in enumerate(part):
            if one is not None:
                if multiple is not None or axis:  # the dynamic size first, so that split finds it again
                    return None
                multiple = one
        if multiple is not None:
            for size in t.shape[a + 1 : b + 1]:
                multiple *= size
        return f"t.flatten({a}, {b})", [*self.open[:a], multiple, *self.open[b + 1 :]]

    def split(self, t):
        axis = self.axis()
        if axis is None:
            return None
        size = t.shape[axis] if self.open[axis] is None else self.open[axis]
        parts = [k for k in range(1, size + 1) if size % k == 0]
        if not parts:
            return None
        inner = self.random.choice(parts)
        if self.open[axis] is None:
            return f"t.unflatten({axis}, ({size // inner}, {inner}))", [*self.open[:axis], None, None, *self.open[axis + 1 :]]
        return f"t.unflatten({axis}, (-1, {inner}))", [*self.open[:axis], size // inner, None, *self.open[axis + 1 :]]

    def reshape(self, t):
        if any(multiple is not None for multiple in self.open) or t.numel() == 0:
            return None
        sizes, left = [], t.numel()
        while left > 1 or self.random.random() < 0.4:
            k = self.random.choice([k for k in range(1, left + 1) if left % k == 0])
            sizes.append(k)
            left //= k
        if len(sizes) > 6:
            return None
        return f"t.reshape({sizes})", [None] * len(sizes)

    def slice(self, t):
        axis = self.axis()
        if axis is None:
            return None
        if self.open[axis] is not None:
            if self.cut or self.open[axis] != 1:
                return None
            self.cut = True
            return f"t.narrow({axis}, 1, t.shape[{axis}] - 1)", self.open
        start, end, step = (self.random.choice(values) for values in ((0, 1, 2, -2), (1, 3, 5, -1, 99), (1, 1, 1, 2, 3)))
        return f"t[{':, ' * axis}{start}:{end}:{step}]", self.open

    def select(self, t):
        axis = self.axis(fixed=True)
        if axis is None or t.shape[axis] == 0:
            return None
        return f"t.select({axis}, {self.random.randrange(-t.shape[axis], t.shape[axis])})", self.open[:axis] + self.open[axis + 1 :]

    def flip(self, t):
        axes = [a for a in range(t.dim()) if self.random.random() < 0.5]
        return f"t.flip({axes})", self.open

    def expand(self, t):
        sizes = [self.random.choice((1, 2, 3)) if size == 1 and multiple is None else -1 for size, multiple in zip(t.shape, self.open)]
        lead = self.random.choice(([], [], [2], [1]))
        return f"t.expand({lead + sizes})" if lead + sizes else "t.expand(2)", [None] * (len(lead) if lead + sizes else 1) + self.open

    def unsqueeze(self, t):
        axis = self.random.randint(0, t.dim())
        return f"t.unsqueeze({axis})", self.open[:axis] + [None] + self.open[axis:]

    def squeeze(self, t):
        axis = self.axis(fixed=True)
        if axis is None or t.shape[axis] != 1:
            return None
        return f"t.squeeze({axis})", self.open[:axis] + self.open[axis + 1 :]

    def unfold(self, t):
        axis = self.axis(fixed=True)
        size, step = self.random.choice((1, 2, 3)), self.random.choice((1, 2))
        if axis is None or t.shape[axis] < size:
            return None
        return f"t.unfold({axis}, {size}, {step})", [*self.open, None]

    def diagonal(self, t):
        a, b = self.axis(fixed=True), self.axis(fixed=True)
        if a is None or a == b:
            return None
        return f"t.diagonal(0, {a}, {b})", [one for axis, one in enumerate(self.open) if axis not in (a, b)] + [None]

    def pad(self, t):
        axis = self.axis(fixed=True)
        if axis is None:
            return None
        amounts = [0, 0] * (t.dim() - 1 - axis) + [self.random.choice((0, 1, 2)), self.random.choice((0, 1))]
        return f"F.pad(t, {amounts}, value={self.random.choice((0.0, 7.0))})", self.open

    def plus(self, t):
        return f"t + {self.random.randint(1, 9)}", self.open

    def plus_flipped(self, t):
        return f"t + t.flip({[a for a in range(t.dim()) if self.random.random() < 0.5]})", self.open

    def join(self, t):
        axis = self.axis(fixed=True)
        if axis is None:
            return None
        return self.random.choice((f"torch.cat([t, t.narrow({axis}, 0, {t.shape[axis] // 2})], {axis})", f"torch.cat([t.flip({axis}), t], {axis})")), self.open

    def sum(self, t):
        axis = self.axis(fixed=True)
        if axis is None:
            return None
        if self.random.random() < 0.5:
            return f"t.sum({axis}, keepdim=True)", self.open
        return f"t.sum({axis})", self.open[:axis] + self.open[axis + 1 :]

    def roll(self, t):
        axis = self.axis(fixed=True)
        return None if axis is None or t.shape[axis] == 0 else (f"t.roll({self.random.randint(-3, 3)}, {axis})", self.open)

    def replace(self, t):
        axis = self.axis(fixed=True)
        if axis is None or t.shape[axis] < 2 or any(multiple is not None for multiple in self.open):  # torch.export guards some dynamic sizes here
            return None
        return f"torch.slice_scatter(t, t.narrow({axis}, 1, 1) + 100, {axis}, 0, 1)", self.open


class Model(torch.nn.Module):
    def __init__(self, chains):
        super().__init__()
        self.chains = chains

    def forward(self, x):
        return [chain(x) * 1 for chain in self.chains]


def numbers(*shape):
    return torch.arange(1.0, torch.Size(shape).numel() + 1).reshape(shape)


def compare(model, run, x):
    with torch.no_grad():
        found, expected = run(x), model(x)
    for chain, a, b in zip(model.chains, found, expected, strict=True):
        assert a.shape == b.shape and torch.equal(a, b), f"x = arange{tuple(x.shape)}; {chain}\neager {b.flatten()[:12].tolist()} ingot {a.flatten()[:12].tolist()}"


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("number", range(MODELS))
def test_fixed_sizes(number, way):
    x = numbers(*STATIC[number % len(STATIC)])
    model = Model([Chain(1000 * number + i, x) for i in range(CHAINS)]).eval()
    torch._dynamo.reset()
    compare(model, ingot.compile(model, inputs=[x], fallback="error") if way == "compile" else torch.compile(model, backend="ingot"), x)


@pytest.mark.parametrize("way", ["compile", "torch.compile"])
@pytest.mark.parametrize("number", range(MODELS))
@pytest.mark.one_in(4)
def test_a_dynamic_size(number, way):
    """Axis `at` has 3 to 7 elements, the others have fixed sizes."""
    at, rest = [(0, (2, 1)), (1, (2, 4)), (2, (1, 6)), (0, (1, 3)), (1, (8, 1))][number % 5]
    shape = lambda n: rest[:at] + (n,) + rest[at:]  # noqa: E731
    model = Model([Chain(1000 * number + i, numbers(*shape(5)), (at,)) for i in range(CHAINS)]).eval()
    torch._dynamo.reset()
    if way == "compile":
        run = ingot.compile(model, inputs=[ingot.Input(min_shape=shape(3), opt_shape=shape(5), max_shape=shape(7))], fallback="error")
    else:
        run = torch.compile(model, backend="ingot", dynamic=True)
    for n in (5, 3, 7, 4):
        compare(model, run, numbers(*shape(n)))
