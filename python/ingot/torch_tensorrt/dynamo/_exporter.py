"""`dynamo.export`: a compiled module as a torch program."""

from __future__ import annotations

import torch

from ...errors import InputError, UnsupportedError
from .._said import once


def export(gm: torch.fx.GraphModule, *, arg_inputs=None, kwarg_inputs=None, dynamic_shapes=None, cross_compile_module=False, use_legacy_exporter=False) -> torch.export.ExportedProgram:
    """The program with each engine as one operator, `ingot::execute`, for torch.export.save. A process that loads it has to `import ingot` first.

    Its inputs and open sizes are those of the compiled module; arguments for them are ignored. Raises UnsupportedError for cross_compile_module, and if torch cannot name the
    module's structure in files.
    """
    if cross_compile_module:
        raise UnsupportedError("a program for Windows cannot be made", remedy="compile on the machine that runs it")
    if dynamic_shapes is not None:
        once("export dynamic_shapes", "the saved program has the sizes that the module was compiled with; dynamic_shapes changes nothing")
    return module_of(gm)._kind.program(empty_lists=True)


def module_of(gm):
    """The ingot.Module behind a compiled module."""
    found = getattr(gm, "ingot_module", None)
    if found is None:
        raise InputError(f"a {type(gm).__name__} was not compiled by torch_tensorrt", remedy="torch_tensorrt.compile it first")
    return found
