"""A torch.export program together with the caller's value for each input."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch.export.graph_signature import InputKind

from ..engine import _op
from ..errors import InputError
from ..inputs import Input
from .caller_inputs import Given, Leaf


@dataclass(frozen=True)
class ProgramInput:
    """node: the placeholder. leaf: the caller's value, or None."""

    node: torch.fx.Node
    leaf: Leaf | None

    @property
    def input(self) -> Input | None:
        return self.leaf.input if self.leaf is not None else None

    @property
    def name(self) -> str:
        """The caller's name for the input; otherwise the parameter's."""
        return self.input is not None and self.input.name or self.node.name


@dataclass(frozen=True)
class Program:
    exported: torch.export.ExportedProgram
    inputs: list[ProgramInput]

    def names(self) -> dict[str, str]:
        """{name of the placeholder: name of the input}."""
        for name, count in Counter(i.name for i in self.inputs).items():
            if count > 1:
                raise InputError(f"two inputs are named {name!r}", remedy="give them different names")
        return {i.node.name: i.name for i in self.inputs}


def paired(exported: torch.export.ExportedProgram, given: Given | None) -> Program:
    """Matches the program's inputs with the caller's values."""
    placeholders = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
    nodes = [placeholders[s.arg.name] for s in exported.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    leaves = given.leaves[: len(nodes)] if given is not None else []
    return Program(exported, [ProgramInput(node, leaf) for node, leaf in zip_longest(nodes, leaves)])


def match(exported: torch.export.ExportedProgram, given: Given | None) -> Program:
    """`paired` for a program that the caller exported. Raises an error if the program does not accept the values."""
    program = paired(exported, given)
    if given is None:
        return program
    if len(given.leaves) != len(program.inputs):
        raise InputError(f"the exported program takes {_op.count(len(program.inputs), 'input')}, but {_op.given(given.leaves)}")
    for entry in program.inputs:
        if entry.input is not None:
            _check(entry.leaf.label, entry.input, entry.node.meta.get("val"))
    return program


def _check(label, asked, takes):
    if not isinstance(takes, torch.Tensor):
        raise InputError(f"{label} is an Input, but the exported program takes {takes!r} there")
    if len(takes.shape) != len(asked.opt_shape):
        raise InputError(f"{label} has rank {len(asked.opt_shape)}, but the exported program takes rank {len(takes.shape)} there")
    if str(takes.dtype).removeprefix("torch.") != asked.dtype:
        raise InputError(f"{label} has dtype {asked.dtype}, but the exported program takes {takes.dtype} there")
    if asked.memory_format and not takes.is_contiguous(memory_format=asked.memory_format):
        raise InputError(f"{label} has memory_format {asked.memory_format}, but the program was exported for another one", remedy="export it with an example of this layout")
