"""Torch-TensorRT's API on ingot: scripts that `import torch_tensorrt` run unchanged, on CPUs and NVIDIA GPUs, without TensorRT.

Use it by `import ingot.torch_tensorrt as torch_tensorrt`, or by the wheel torch-ingot-tensorrt, which gives it the name if NVIDIA's package is not installed. Engines are ingot's.
docs/migration.md lists the differences, name by name and setting by setting.
"""

from . import distributed, dynamo, logging, runtime
from ._compile import compile, convert_method_to_trt_engine, load, save
from ._Device import Device
from ._enums import DeviceType, EngineCapability, Platform, dtype, memory_format
from ._errors import CallError, PartialCompilationError
from ._features import ENABLED_FEATURES
from ._Input import Input
from ._symbols import refused_names
from .dynamo.runtime import MutableTorchTensorRTModule, TorchTensorRTModule
from .runtime import (
    enable_cudagraphs,
    enable_output_allocator,
    enable_pre_allocated_outputs,
    get_cudagraphs_mode,
    get_whole_cudagraphs_mode,
    optimization_profile,
    set_cudagraphs_mode,
    set_multi_device_safe_mode,
    weight_streaming,
)

__version__ = "2.14.0+ingot"  # the version of the API, for scripts that compare it
__all__ = [
    "CallError", "Device", "DeviceType", "ENABLED_FEATURES", "EngineCapability", "Input", "MutableTorchTensorRTModule", "PartialCompilationError", "Platform", "TorchTensorRTModule",
    "compile", "convert_method_to_trt_engine", "distributed", "dtype", "dynamo", "enable_cudagraphs", "enable_output_allocator", "enable_pre_allocated_outputs", "get_cudagraphs_mode",
    "get_whole_cudagraphs_mode", "load", "logging", "memory_format", "optimization_profile", "runtime", "save", "set_cudagraphs_mode", "set_multi_device_safe_mode", "weight_streaming",
]  # fmt: skip
_LAZY = ("executorch", "fx", "kernels", "ts")
_refused = refused_names(__name__)

dynamo.backend.register()


def __getattr__(name):
    if name in _LAZY:
        import importlib

        return importlib.import_module(f".{name}", __name__)
    return _refused(name)
