"""`dynamo.conversion`: users' converters (see _ConverterRegistry.py)."""

from ..._errors import UnsupportedOperatorException
from ..._symbols import refused_names
from .._settings import CompilationSettings
from . import plugins
from ._conversion import TRTInterpreter, TRTInterpreterResult, convert_module, infer_module_output_dtypes, interpret_module_to_result
from ._ConverterRegistry import (
    DYNAMO_ATEN_CONVERTERS,
    DYNAMO_CONVERTERS,
    CallingConvention,
    ConversionContext,
    ConverterPriority,
    ConverterRegistry,
    ConverterSupport,
    dynamo_tensorrt_converter,
    has_dynamic_shapes_in_args,
    has_static_shapes,
    has_static_shapes_in_args,
    node_has_dynamic_shapes,
)

__all__ = [
    "CallingConvention", "CompilationSettings", "ConversionContext", "ConverterPriority", "ConverterRegistry", "ConverterSupport", "DYNAMO_ATEN_CONVERTERS", "DYNAMO_CONVERTERS",
    "TRTInterpreter", "TRTInterpreterResult", "UnsupportedOperatorException", "convert_module", "infer_module_output_dtypes", "interpret_module_to_result", "dynamo_tensorrt_converter", "has_dynamic_shapes_in_args", "has_static_shapes", "has_static_shapes_in_args", "node_has_dynamic_shapes", "plugins",
]  # fmt: skip
__getattr__ = refused_names(__name__)
