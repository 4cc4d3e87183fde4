"""`torch_tensorrt.dynamo`: programs of torch.export."""

from __future__ import annotations

import enum

from .._errors import BindingNameMismatchError, UnsupportedOperatorException
from .._symbols import refused_names
from . import backend, conversion, lowering, partitioning, runtime, utils
from ._compiler import compile, convert_exported_program_to_serialized_trt_engine, trace
from ._debugger import Debugger
from ._exporter import export
from ._refit import refit_module_weights
from ._settings import CompilationSettings

__all__ = [
    "BindingNameMismatchError", "CompilationSettings", "Debugger", "SourceIR", "UnsupportedOperatorException", "backend", "compile", "conversion",
    "convert_exported_program_to_serialized_trt_engine", "export", "lowering", "partitioning", "refit_module_weights", "runtime", "trace", "utils",
]  # fmt: skip
__getattr__ = refused_names(__name__)


class SourceIR(enum.Enum):
    """The operator set of a graph."""

    NN = enum.auto()
    ACC = enum.auto()
    ATEN = enum.auto()
    PRIM = enum.auto()
    TORCHTRT_LOWERED = enum.auto()
    UNKNOWN = enum.auto()
