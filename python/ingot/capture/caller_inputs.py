"""The inputs that the caller gives to `ingot.compile`, parsed once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from ..errors import InputError
from ..inputs import Input
from ..torch_internals.trees import pytree


@dataclass(frozen=True)
class Leaf:
    """One flat input. label: its name in messages. value: an `ingot.Input`, a tensor or a constant."""

    label: str
    value: Any

    @property
    def input(self) -> Input | None:
        return self.value if is_input(self.value) else None


@dataclass(frozen=True)
class Given:
    """The caller's inputs. positional, keywords: the model's arguments. leaves: the flat inputs of both, in the order in which torch flattens them."""

    positional: tuple
    keywords: dict[str, Any]
    leaves: list[Leaf]


def is_input(value) -> bool:
    return isinstance(value, Input)


def read(inputs, arg_inputs, kwarg_inputs) -> Given | None:
    """The parsed inputs; None if the caller gave none."""
    if inputs is not None and arg_inputs is not None:
        raise InputError("give either inputs or arg_inputs, not both: they are the same thing")
    positional = arg_inputs if inputs is None else inputs
    if positional is None and not kwarg_inputs:
        return None
    positional, keywords = _positional(positional), _keywords(kwarg_inputs)
    flat, _ = pytree.tree_flatten_with_path((positional, keywords), is_leaf=is_input)
    leaves = [Leaf(_label(path, value), value) for path, value in flat]
    for leaf in leaves:
        if isinstance(leaf.value, numpy.ndarray):
            raise InputError(f"{leaf.label} is an array of NumPy's: a model of torch takes tensors", remedy="give torch.from_numpy(array), or ingot.Input(array.shape, dtype=array.dtype)")
    _check_shared(leaves)
    return Given(positional, keywords, leaves)


def _positional(given) -> tuple:
    """The positional inputs: what a caller has several of, or the one that he gave alone."""
    if given is None:
        return ()
    if is_input(given) or isinstance(given, torch.Tensor):
        return (given,)
    if isinstance(given, Mapping):
        named = ", ".join(map(repr, itertools.islice(given, 3)))
        raise InputError(f"inputs is a {type(given).__name__} with the names {named}: inputs are given in order, as a list", remedy="kwarg_inputs=batch gives the inputs of a model by name")
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"inputs is {given!r}: a list of inputs is needed", remedy="inputs=[ingot.Input((1, 3, 224, 224))]")
    return tuple(given)


def _keywords(given) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"kwarg_inputs is a {type(given).__name__}: inputs by name are needed", remedy='kwarg_inputs={"input_ids": ids}; inputs in order are inputs=[ids]')
    return dict(given or {})


def only_sizes(given: Given) -> InputError | None:
    """The refusal of inputs that are all numbers, if the model does not take them: somebody gave a shape for an input."""
    if not given.leaves or not all(type(leaf.value) is int for leaf in given.leaves):
        return None
    shape = tuple(leaf.value for leaf in given.leaves)
    return InputError(f"the inputs are numbers alone, {shape}: sizes are not an input", remedy=f"inputs=[ingot.Input({shape})]")


def _label(path, value):
    if is_input(value) and value.name:
        return f"input {value.name!r}"
    where, rest = path[0].idx, path[1:]
    text = f"{rest[0].key}" if where else f"inputs[{rest[0].idx}]"
    return (f"keyword input {text!r}" if where else text) + pytree.keystr(rest[1:])


def _check_shared(leaves):
    """Gives a named dimension one range wherever its name occurs."""
    seen: dict[str, tuple[str, int, tuple[int, int, int]]] = {}
    for leaf in leaves:
        for axis, shared in leaf.input.shared_dims.items() if leaf.input is not None else ():
            span = leaf.input.range_of(axis)
            if shared in seen and seen[shared][2] != span:
                other, other_axis, other_span = seen[shared]
                raise InputError(
                    f"dimension {shared!r} has two ranges: axis {other_axis} of {other} is {_span(other_span)}, axis {axis} of {leaf.label} is {_span(span)}",
                    remedy="give both axes the same min, opt and max, or different names",
                )
            seen.setdefault(shared, (leaf.label, axis, span))


def _span(span):
    return f"{span[0]}..{span[1]}..{span[2]}"
