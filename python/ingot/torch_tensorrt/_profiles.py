"""The profiles of a module's inputs (`Input(profiles=...)`), and the active one.

One plan serves the sizes of all profiles, so the choice does not change how a call runs. It is stored for scripts that set and read it.
"""

from __future__ import annotations

import torch

from ..torch_internals.trees import pytree


class Profiles:
    """ranges: for each profile, the least and the largest shape of the inputs that have profiles, by their place in a call. active: the profile in use. auto: True if each
    call chooses it by its sizes."""

    def __init__(self, positional, keywords):
        leaves, _ = pytree.tree_flatten_with_path((tuple(positional or ()), dict(keywords or {})))
        inputs = {path: leaf for path, leaf in leaves if getattr(leaf, "profiles", None)}
        counts = {len(leaf.profiles) for leaf in inputs.values()}
        if len(counts) > 1:
            raise ValueError(f"inputs have different numbers of profiles: {sorted(counts)}")
        self.count = counts.pop() if counts else 1
        self.ranges = [{path: (leaf.profiles[i]["min_shape"], leaf.profiles[i]["max_shape"]) for path, leaf in inputs.items()} for i in range(self.count)]
        self.active, self.auto = 0, False

    def choose(self, args, kwargs):
        """Called before a call. With auto, the active profile stays if the inputs fit it; otherwise the first that they fit becomes active."""
        given = {path: tuple(leaf.shape) for path, leaf in pytree.tree_flatten_with_path((args, kwargs))[0] if isinstance(leaf, torch.Tensor)}
        fits = lambda ranges: all(path in given and _within(given[path], *ends) for path, ends in ranges.items())  # noqa: E731
        if not fits(self.ranges[self.active]):
            self.active = next((i for i, ranges in enumerate(self.ranges) if fits(ranges)), self.active)


def _within(shape, low, high):
    return len(shape) == len(low) and all(a <= n <= b for a, n, b in zip(low, shape, high))
