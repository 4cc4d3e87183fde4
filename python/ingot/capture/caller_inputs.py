"""The inputs that the caller gives to `ingot.compile`, parsed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
    positional, keywords = tuple(positional or ()), dict(kwarg_inputs or {})
    flat, _ = pytree.tree_flatten_with_path((positional, keywords), is_leaf=is_input)
    leaves = [Leaf(_label(path, value), value) for path, value in flat]
    _check_shared(leaves)
    return Given(positional, keywords, leaves)


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
