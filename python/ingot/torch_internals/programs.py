"""torch.export's programs: what they keep, and the codes of torch's archives."""

from __future__ import annotations

import contextlib
import warnings

import torch
from torch._export.serde import schema as _schema
from torch._export.serde.serialize import (  # codes of types, layouts and memory formats in archives
    _TORCH_TO_SERIALIZE_DTYPE as DTYPES,
    _TORCH_TO_SERIALIZE_LAYOUT as LAYOUTS,
    _TORCH_TO_SERIALIZE_MEMORY_FORMAT as MEMORY_FORMATS,
)
from torch.fx.node import _side_effectful_functions as WITH_EFFECTS  # what a graph keeps although nobody reads it

SCHEMA_VERSION = _schema.SCHEMA_VERSION  # of torch's archives


def updated(program: torch.export.ExportedProgram, module: torch.fx.GraphModule, signature, **tensors: dict) -> torch.export.ExportedProgram:
    """The program with another graph and signature, and maybe other tensors by name (state_dict, constants). Without it each fix would export again."""
    with without_warnings_of_trees():
        return program._update(module, signature, **tensors)


@contextlib.contextmanager
def without_warnings_of_trees():
    """torch copies its trees in a way of which it warns itself, in code that ingot calls."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`isinstance\\(treespec, LeafSpec\\)` is deprecated", FutureWarning)
        yield


def texts_of_guards(program: torch.export.ExportedProgram) -> list[str]:
    """The conditions on sizes that torch checks in each call, where this torch keeps them. Without them a program that the user exported is not checked for the sizes of a call."""
    return list(getattr(program, "_guards_code", None) or ())


def keep_guards(program: torch.export.ExportedProgram, keep):
    """Takes out those conditions of whose text `keep` is false."""
    if isinstance(getattr(program, "_guards_code", None), list):
        program._guards_code = [text for text in program._guards_code if keep(text)]
