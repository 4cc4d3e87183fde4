"""Maps the arguments of a call, by position and by name, to those that the model was compiled with."""

from __future__ import annotations

import inspect

from ..capture.signature import same_constant, shown
from ..engine import _op, plan_signature
from ..errors import InputError

_ABSENT = object()
_KINDS = {inspect.Parameter.POSITIONAL_ONLY: "positional", inspect.Parameter.VAR_POSITIONAL: "rest", inspect.Parameter.KEYWORD_ONLY: "keyword", inspect.Parameter.VAR_KEYWORD: "more"}


def parameters_of(forward) -> list[dict]:
    """The parameters of a model's forward, in order, in a form that files keep: name, kind ("either" by position or by name, "positional", "keyword", "rest" for
    *args, "more" for **kwargs), and the default where it is a constant."""
    found = []
    for name, parameter in inspect.signature(forward).parameters.items():
        entry = {"name": name, "kind": _KINDS.get(parameter.kind, "either")}
        if parameter.default is not parameter.empty:
            entry["optional"] = True
            if plan_signature.is_constant(parameter.default):
                entry["default"] = parameter.default
        found.append(entry)
    return found


def parameters_of_program(program) -> list[dict]:
    """The parameters of an exported program: the arguments that it was exported with, in that order."""
    signature = program.module_call_graph[0].signature if program.module_call_graph else None
    return [{"name": name, "kind": "either"} for name in getattr(signature, "forward_arg_names", None) or ()]


class Arguments:
    """Binds calls as Python binds them to the model's forward.

    parameters: see parameters_of; empty if they are not known.
    count, names: the number of positional arguments that the model was compiled with, and the names of its keyword arguments.
    constant: {place: constant} for the places (a number, or a name) that were compiled as constants.
    """

    def __init__(self, parameters: list[dict], count: int, names: list[str], constants: dict):
        self.count, self.names, self.constants = count, names, constants
        ordered = [p for p in parameters if p["kind"] in ("either", "positional")]
        if not ordered and len(parameters) == 0:
            ordered = [{"name": None, "kind": "positional"}] * count
        # The place of each parameter among the compiled arguments, in the order of positions; None for a parameter that was left to its default.
        self.by_position = [(p, i if i < count else p["name"] if p["name"] in names else None) for i, p in enumerate(ordered)]
        self.by_name = {p["name"]: place for p, place in self.by_position if p["kind"] == "either"}
        self.by_name |= {name: name for name in names}
        self.left_out = {p["name"]: p for p, place in self.by_position if place is None}
        self.left_out |= {p["name"]: p for p in parameters if p["kind"] == "keyword" and p["name"] not in names}
        self.defaults = {self.by_name[p["name"]]: p["default"] for p in parameters if "default" in p and self.by_name.get(p["name"]) is not None}

    def bind(self, args, kwargs):
        """The positional arguments and the keyword arguments, as the model was compiled with them."""
        given = {}
        limit = max(len(self.by_position), self.count)
        for i, value in enumerate(args):
            if i >= limit:
                raise InputError(f"the model takes {_op.count(limit, 'argument')}, but {_op.given(args)}")
            parameter, place = self.by_position[i] if i < len(self.by_position) else (None, i)
            if place is None:
                self._must_be_default(parameter, value)
            else:
                given[place] = value
        for name, value in kwargs.items():
            if name in self.left_out:
                self._must_be_default(self.left_out[name], value)
                continue
            if (place := self.by_name.get(name, _ABSENT)) is _ABSENT:
                raise InputError(f"unexpected keyword argument {name!r}; the model was compiled with {self._told()}")
            if place in given:
                raise InputError(f"argument {name!r} is given twice, by position and by name")
            given[place] = value
        places = [*range(self.count), *self.names]
        for place in places:
            if place not in given:
                given[place] = self._default(place)
        return tuple(given[i] for i in range(self.count)), {name: given[name] for name in self.names}

    def _default(self, place):
        if place in self.defaults and place in self.constants and same_constant(self.constants[place], self.defaults[place]):
            return self.constants[place]
        raise InputError(f"argument {self.name(place)!r} is missing; the model was compiled with {self._told()}")

    def name(self, place):
        if isinstance(place, str):
            return place
        return (self.by_position[place][0]["name"] if place < len(self.by_position) else None) or f"number {place}"

    def _must_be_default(self, parameter, value):
        if "default" in parameter and same_constant(value, parameter["default"]):
            return
        raise InputError(
            f"argument {parameter['name']!r} is given, but the model was compiled without it, for its default{' ' + shown(parameter['default']) if 'default' in parameter else ''}",
            remedy="compile it again with this input",
        )

    def _told(self):
        names = [self.name(place) for place in [*range(self.count), *self.names]]
        return "the arguments " + ", ".join(names) if names else "no arguments"
